"""Examples of requests. In this order all of them succeed on an empty daemon without keys."""

from __future__ import annotations

from typing import Any, Final

_TEA = "viking://resources/notes/tea.md"

EXAMPLES: Final[dict[str, Any]] = {
    "put": {
        "contexts": [
            {"uri": _TEA, "content": "Oolong: 90 degrees.", "metadata": {"topic": "tea"}},
            {"uri": "viking://resources/notes/cups.md", "content": "Warm the cups first."},
        ]
    },
    "get": {"uri": _TEA},
    "list": {"uri": "viking://resources/notes", "pageSize": 100},
    "tree": {"uri": "viking://resources", "depth": 2},
    "link": {"uri": _TEA, "otherUri": "viking://resources/notes/cups.md", "reason": "brewing"},
    "unlink": {"uri": _TEA, "otherUri": "viking://resources/notes/cups.md"},
    "find": {
        "query": "how hot for oolong?",
        "targetUri": "viking://resources",
        "limit": 5,
        "where": {"topic": "tea"},
    },
    "batch_find": {"requests": [{"query": "oolong"}, {"query": "cups", "limit": 1}]},
    "search": {
        "query": "Help me with the next pot",
        "mode": "SEARCH_MODE_QUICK",
    },
    "retrieve": {"query": "oolong", "topK": 5},
    "build_context": {"find": {"query": "oolong"}, "maxTokens": 500},
    "remember": {"text": "Prefers oolong to coffee.", "memoryType": "preferences"},
    "extract": {
        "session": {"messages": [{"role": "user", "content": "I moved to Lyon."}]},
        "dryRun": True,
    },
    "recall": {"query": "oolong or coffee?", "topK": 5},
    "move": {"sourceUri": _TEA, "destinationUri": "viking://resources/notes/oolong.md"},
    "delete": {"uris": ["viking://resources/notes"], "allowMissing": True},
    "stats": {},
}

EXAMPLE_OF_CONTEXT: Final[dict[str, Any]] = {"content": "Oolong: 90 degrees.", "title": "Tea"}
"""The body of a PUT of one context."""
