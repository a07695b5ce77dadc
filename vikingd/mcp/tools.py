"""The list of the tools, and what each of them changes."""

from __future__ import annotations

from mcp_types import ToolAnnotations

from vikingd.mcp.browsing import list_, read
from vikingd.mcp.pattern_tools import glob, grep
from vikingd.mcp.retrieval_tools import build_context, find, recalling, search
from vikingd.mcp.tool import ClientOf, ClientTool
from vikingd.mcp.write_tools import forget, remember, write

WRITING = ("remember", "write", "forget")
"""The names of the tools that write."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_REPLACES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


def tools(client_of: ClientOf, *, read_only: bool) -> list[ClientTool]:
    """Return the tools; with `read_only` only those that change nothing."""
    recall = recalling(counted=not read_only)
    made = [
        ClientTool.made(function, client_of, _READS)
        for function in (recall, find, search, build_context, read, list_, grep, glob)
    ]
    if not read_only:
        made += [
            ClientTool.made(function, client_of, hints)
            for function, hints in ((remember, _ADDS), (write, _REPLACES), (forget, _REPLACES))
        ]
    return made
