"""Abstracts of directories and overviews, made of the texts below them without a model."""
