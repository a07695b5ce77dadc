"""The calls of the service Memories: recall, remember, extract and forget."""
