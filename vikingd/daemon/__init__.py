"""The daemon: its command line, its start, warm-up and stop."""
