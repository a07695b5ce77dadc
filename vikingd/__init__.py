"""vikingd keeps an AI agent's context as one tree and answers what belongs into the prompt now."""

__version__ = "0.1.0"
