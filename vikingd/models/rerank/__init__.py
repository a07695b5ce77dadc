"""Rerankers: they score documents for a query in [0, 1], or give the reason of a failure."""
