"""Measurements of a real daemon: how exact, how fast; README.md says how to run them."""
