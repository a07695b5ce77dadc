"""A set of requests whose replies are kept, and compared byte by byte after a change of the code.

Chance is masked: clock times, durations, ids of stores, ids and secrets of keys, sizes on disk.
"""
