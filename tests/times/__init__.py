"""Tests of the phrases of time."""
