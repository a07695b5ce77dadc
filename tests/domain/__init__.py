"""Tests of the rules of the domain that need no store."""
