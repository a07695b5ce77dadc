"""Embedding providers, the cache of query vectors, and the worker that embeds documents."""
