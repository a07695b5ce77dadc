"""Memories of an agent: their files, repeats, and routes to known files."""
