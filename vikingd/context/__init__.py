"""Contexts for prompts: retrieved passages as one cited text within a budget of tokens."""
