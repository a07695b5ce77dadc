"""Tests of the lanes of calls."""
