"""Source code: its parts by syntax, its definitions and its outline."""
