"""Tests of vikingd, in rooms like those of the product; README.md tells of them."""
