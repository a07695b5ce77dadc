"""The base segment: immutable arrays in depth-first order, and their form on disk."""
