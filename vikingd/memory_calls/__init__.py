"""The calls of Memories: recall, remember, extract and forget."""
