"""Tests of the index: bases, tails, compaction, filters and damaged files."""
