"""The extraction of memories from a conversation by a model."""
