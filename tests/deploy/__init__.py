"""Tests of the files for deployments."""
