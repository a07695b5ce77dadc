"""Rerankers: how well each of some documents answers a query, in [0, 1], or why nobody says so."""
