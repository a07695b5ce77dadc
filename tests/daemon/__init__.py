"""Tests of the daemon: its start, addresses, metrics and platform."""
