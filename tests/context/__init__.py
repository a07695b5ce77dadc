"""Tests of built contexts."""
