"""Tests of the project itself: documents, packages and platforms."""
