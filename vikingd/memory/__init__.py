"""The domain of memories: their files, the detection of repeats, and routes to known files."""
