"""Benchmarks of exactness, quality and speed; README.md explains how to run them."""
