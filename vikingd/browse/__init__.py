"""Browsing: the paths and lines of the tree that match a pattern."""
