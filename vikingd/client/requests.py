"""The requests of the clients: one function for each RPC of Retrieval, Contexts and Admin."""

from __future__ import annotations

from vikingd.client.admin_requests import backup, optimize, reembed, stats, verify
from vikingd.client.context_requests import (
    delete,
    get,
    glob,
    grep,
    link,
    list_,
    move,
    put,
    tree,
    unlink,
)
from vikingd.client.retrieval_requests import batch_find, build_context, find, retrieve, search

__all__ = [
    "backup",
    "batch_find",
    "build_context",
    "delete",
    "find",
    "get",
    "glob",
    "grep",
    "link",
    "list_",
    "move",
    "optimize",
    "put",
    "reembed",
    "retrieve",
    "search",
    "stats",
    "tree",
    "unlink",
    "verify",
]
