"""Tests of memories: recall, remember, forget and extract."""
