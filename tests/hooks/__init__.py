"""Tests of the hooks of coding agents."""
