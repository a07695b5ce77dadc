"""The daemon: command line, configuration, start, warm-up, stop."""
