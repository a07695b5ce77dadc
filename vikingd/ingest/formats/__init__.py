"""PDF, HTML, office, EPUB and EML files as Markdown, read in a child process with limits."""
