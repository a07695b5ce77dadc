"""The tail: the mutable segment. It takes commits and returns snapshots."""
