"""The description of a context by a model: its abstract and its overview."""
