"""Embedding providers behind one protocol, their cache and the background worker."""
