"""The memory of coding agents at their events, with the standard library alone."""
