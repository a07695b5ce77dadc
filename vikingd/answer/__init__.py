"""The answers to queries on a snapshot, without wire types."""
