"""The prompt that tells an agent how to use its memory."""

from __future__ import annotations

import importlib.resources
from typing import Any, Literal

from mcp.server import MCPServer

USAGE = "There is one prompt: memory, with the argument language: en or zh."

_FILES = {"en": "memory.md", "zh": "memory_zh.md"}


def add(server: MCPServer[Any]) -> None:
    """Add the prompt to a server."""

    @server.prompt(title="Use your memory")
    def memory(language: Literal["en", "zh"] = "en") -> str:
        """Tell an agent when to recall, what to remember, and where things go."""
        return importlib.resources.files(__package__).joinpath(_FILES[language]).read_text("utf-8")
