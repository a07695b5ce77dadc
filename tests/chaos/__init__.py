"""A harness that damages a real daemon and compares it with a model of acknowledged writes."""
