"""Tests of the abstracts of directories and of overviews, made without a model."""
