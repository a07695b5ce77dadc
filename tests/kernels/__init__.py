"""Tests of the kernels, beside their plain twins."""
