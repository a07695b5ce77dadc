"""Rerankers: models that score how well documents answer a query, in [0, 1]."""
