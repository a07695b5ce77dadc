"""Answering queries on a snapshot: engine-neutral, no wire types."""
