"""Descriptions of contexts by a model: an abstract and an overview for each."""
