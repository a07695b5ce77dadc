"""A store in one SQLite file, on the disk of one machine."""
