"""Tests of several processes over one store: readers, nodes and sessions."""
