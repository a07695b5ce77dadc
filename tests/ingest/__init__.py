"""Tests of files read as contexts."""
