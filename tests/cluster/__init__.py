"""A harness that takes nodes and databases away, and holds all answers against a model."""
