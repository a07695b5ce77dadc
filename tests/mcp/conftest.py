"""A small tree for the tests of the MCP server."""

from __future__ import annotations

import pytest

from tests.mcp.mcp_helpers import TREE_TEA as TEA
from vikingd.client import Client as Daemon
from vikingd.client import Draft


@pytest.fixture
def tree(typed: Daemon) -> Daemon:
    """Return a client of a daemon with a small tree."""
    typed.put(
        [
            Draft(TEA, content="# Tea\n\nOolong is steeped at 90 degrees.\n"),
            Draft("viking://resources/drinks/coffee.md", content="# Coffee\n\nGrind it fine.\n"),
            Draft(
                "viking://agent/skills/brew/SKILL.md",
                content="# Brew\n\nWarm the pot first, then steep oolong.\n",
                abstract="Brews tea.",
            ),
        ]
    )
    return typed
