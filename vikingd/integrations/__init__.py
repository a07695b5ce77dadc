"""Adapters of the Python client to agent frameworks, each with an extra; see README.md."""
