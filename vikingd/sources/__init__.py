"""Sources by address: pages, repositories and archives, fetched into folders of files."""
