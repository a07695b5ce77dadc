"""Stores with a known history; damage and power loss are applied to copies of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import model, worlds
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong
from vikingd.client import Method, Mode
from vikingd.client.messages import MessageClient

SMALL = {"VIKINGD_INDEX__COMPACT_MIN": "60", "VIKINGD_INDEX__IVF_ROWS": "20"}
Answer = dict[str, float]
_TOLERANCE = 1e-9
_OPERATIONS = 45  # operations in each part of the history


@dataclass
class Template:
    """A prepared store, with its model.

    Attributes:
        store: the directory of the store after its daemon was stopped or killed.
        older: the directory of a copy some commits before.
        writer: the model of the store.
        history: (revision, state) of each commit.
        base_revision: the revision of the index's base.
        answers: the answers to the queries of the function `answers`.
    """

    store: Path
    older: Path
    writer: model.Writer
    history: list[tuple[int, worlds.World]]
    base_revision: int
    answers: list[Answer]


def make(run: Run, directory: Path, number: int, *, killed: bool) -> Template:
    """Make a store: commits, an older copy, commits, a base, commits that only the log has."""
    directory.mkdir()
    store, older = directory / "store", directory / "older"
    writer = model.Writer(number, f"{run.seed}/template/{number}")
    daemon = Daemon(run.nursery, store, **SMALL)
    _write(writer, daemon)
    daemon.stop()
    shutil.copytree(store, older)
    daemon = Daemon(run.nursery, store, **SMALL)
    _write(writer, daemon)
    with daemon.client() as client:
        client.optimize()
    _write(writer, daemon, _OPERATIONS // 3)
    daemon.kill() if killed else daemon.stop()
    history = list(writer.since)
    tried = directory / "tried"
    shutil.copytree(store, tried)
    daemon = Daemon(run.nursery, tried, **SMALL)
    with daemon.client() as client:
        model.check(client, [writer], random.Random(0))
        found = answers(client)
        base = client.stats().index.base_revision
    daemon.stop()
    return Template(store, older, writer, history, base, found)


def _write(writer: model.Writer, daemon: Daemon, operations: int = _OPERATIONS) -> None:
    """Send operations, and keep the state after each."""
    with daemon.client() as client:
        for _ in range(operations):
            if not writer.step(client):
                raise Wrong(f"a write was not answered: {list(writer.trace)[-2:]}")
        # Read the ids that no reply contains.
        writer.worlds = [writer.read(client)]
        writer.since[-1] = (writer.revision, writer.world)


def answers(client: MessageClient) -> list[Answer]:
    """Return scores by URI for fixed queries; they do not depend on how the index was built."""
    found: list[Answer] = []
    for number in range(4):
        for method in (Method.EXHAUSTIVE, Method.EXACT):
            reply = client.find(
                "the harbour light", vector=worlds.vector(number), limit=1000, method=method
            )
            found.append({match.uri: match.score for match in reply.resources})
        items = client.retrieve(
            "night tide", vector=worlds.vector(number), mode=Mode.HYBRID, top_k=1000
        ).items
        found.append({f"{item.uri}#{item.passage}": item.score for item in items})
    reply = client.find("boats come home", limit=1000)
    found.append({match.uri: match.score for match in reply.resources})
    client.find("", vector=worlds.vector(5), limit=20, method=Method.BEST_FIRST)
    found.append({context.uri: float(context.revision) for context in client.tree("")})
    return found


def difference(found: Answer, right: Answer) -> str:
    """Return the first difference of two answers beyond rounding, or "" without one."""
    for uri in sorted(found.keys() | right.keys()):
        a, b = found.get(uri), right.get(uri)
        if a is None or b is None or abs(a - b) > _TOLERANCE:
            return f"{uri} has {a}, {b} is right"
    return ""


def pair(run: Run) -> Sequence[Template]:
    """Return two templates, the first of which was killed; made once per run."""
    if not run.templates:
        directory = run.directory / "templates"
        directory.mkdir()
        run.templates = [make(run, directory / str(n), n, killed=n == 0) for n in range(2)]
    return run.templates
