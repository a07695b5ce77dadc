"""Kernels of vikingd: pure functions on arrays, compiled by numba."""
