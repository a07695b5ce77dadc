"""Tests of the stores, SQLite and PostgreSQL."""
