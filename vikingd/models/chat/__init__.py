"""Calls of a chat model that answers in JSON, shared by all that ask it."""
