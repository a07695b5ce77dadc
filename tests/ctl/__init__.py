"""Tests of vikingctl."""
