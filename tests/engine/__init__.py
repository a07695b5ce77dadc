"""Tests of the engine: random writes, crashes and exact scores."""
