"""Memories under the rights of random callers."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.memory.users_helpers import AGENT, ANA, BOB, LAMP, NOW, USER, opened, vector
from tests.tiers import seeds
from vikingd.domain import uri as uris
from vikingd.domain.errors import NotFound, PermissionDenied, VikingError
from vikingd.domain.rights import Caller, Grant, Right
from vikingd.memory.memory_types import MemoryScope
from vikingd.pb import memories_pb2 as pb

_SEARCH = (pb.RECALL_PATH_FAST, pb.RECALL_PATH_TIMELINE)
_WORDS = ["tea", "rain", "harbour", "lantern", "knot", "oolong", "winter", "boat", "salt", "letter"]
_ROOTS = (USER, AGENT, ANA, BOB, LAMP)
_NAMES = (
    "notes.md",
    "preferences.md",
    "decisions.md",
    "sub/a.md",
    "sub/deep/b.md",
    "journal/2026-03-03.md",
    "journal/2026-03-04.md",
)
_FILES = [f"{root}/{name}" for root in _ROOTS for name in _NAMES]
_PREFIXES = (
    *_ROOTS,
    "viking://",
    "viking://user",
    "viking://users",
    "viking://users/ana",
    f"{USER}/sub",
    f"{USER}/journal",
    f"{BOB}/sub/deep",
    f"{LAMP}/preferences.md",
    f"{USER}/preferences.md",
    f"{AGENT}/journal/2026-03-04.md",
    "viking://resources",
)
_QUERIES = (
    "my preferences, please",
    "which decisions were made?",
    "what happened in the past 3 days?",
    "what was yesterday",
    "tea in the harbour",
    "lantern knot oolong",
    "winter",
)


def some_caller(of: random.Random) -> Caller:
    """Return a caller with up to four random grants, seldom on all."""
    prefixes = of.sample(_PREFIXES, of.randint(1, 4))
    grants = [Grant(Right(of.randint(1, 3)), prefix) for prefix in prefixes]
    return Caller("k", "default", of.choice(["", "ana", "bob"]), grants)


def some_entries(of: random.Random) -> list[str]:
    """Return one to four different texts."""
    return [
        f"{' '.join(of.choices(_WORDS, k=4))} {of.random():.9f}" for _ in range(of.randint(1, 4))
    ]


def shown(reply: pb.RecallResponse) -> tuple[Any, ...]:
    """Return all of a reply but ids, revision and timings."""
    return (
        reply.path,
        reply.reason,
        reply.total_tokens,
        reply.budget_remaining,
        reply.candidates,
        [(note.reason, note.detail) for note in reply.degraded],
        [
            (
                found.uri,
                found.content,
                found.memory_type,
                found.section,
                found.reinforcement,
                found.access_count,
                found.time.seconds,
                found.truncated,
                round(found.score, 5),
                round(found.parts.semantic, 5),
                round(found.parts.reinforcement, 5),
                round(found.parts.access, 5),
            )
            for found in reply.results
        ],
    )


def some_recall(of: random.Random) -> dict[str, Any]:
    """Return the fields of a random recall."""
    fields: dict[str, Any] = {
        "query": of.choice(_QUERIES),
        "vector": vector(of),
        "now": {"seconds": NOW},
        "top_k": of.choice([0, 2, 50]),
        "max_tokens": of.choice([0, 30, 5000]),
        "scope": of.choice([{}, {"project": "lamp"}, {"project": "lamp", "with_global": True}]),
        "without": of.choice([(), _SEARCH, _SEARCH]),
    }
    fusion = of.choice(["default", "rrf", "weighted"])
    if fusion == "rrf":
        fields["rrf"] = {}
    if fusion == "weighted":
        fields["weighted"] = {"vector_weight": 0.8, "keyword_weight": 0.2}
    return fields


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_what_may_not_be_read_changes_no_recall(tmp_path: Path, seed: int) -> None:
    """Two stores that differ only in what the caller may not read give the same answers."""
    of = random.Random(seed)
    who = some_caller(of)
    known = {uri: of.random() for uri in of.sample(_FILES, 25) if who.may(Right.READ, uri)}
    paths = set()
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        for number, world in enumerate((one, two)):
            apart = random.Random(f"{seed} {number}")
            hidden = [uri for uri in _FILES if not who.may(Right.READ, uri)]
            hidden = hidden * number  # the first store has none of these
            chosen = sorted(
                sorted({*known, *hidden}), key=lambda uri: known.get(uri, apart.random())
            )
            for uri in chosen:
                same = random.Random(f"{seed} {uri}") if uri in known else apart
                world.put(uri, *some_entries(same), of=same, time=same.randint(0, NOW) * 10**6)
        if seed % 2:
            # Both, since rows decide between equal scores, and they change.
            one.engine.optimize()
            two.engine.optimize()
        for _ in range(30):
            fields = some_recall(of)
            first, second = (world.recall(who, **fields) for world in (one, two))
            assert shown(first) == shown(second), (fields, who)
            assert all(who.may(Right.READ, found.uri) for found in first.results)
            paths.add(first.path if first.results else 0)
    roots = MemoryScope(True, "lamp", who).roots()
    reached = [uri for uri in known if any(uris.is_within(uri, root) for root in roots)]
    assert len(reached) < 5 or paths - {0}


@pytest.mark.parametrize("seed", seeds(1, 16))
def test_what_may_not_be_written_stays(tmp_path: Path, seed: int) -> None:
    """Random writes of random callers change only what these may write, and fail as they must."""
    of = random.Random(seed)
    with opened(tmp_path) as world:
        for uri in _FILES:
            world.put(uri, *some_entries(of), of=of, time=1)
        for _ in range(75):
            who, before = some_caller(of), world.entries()
            ids = of.sample([*before, 10_001, 10_002], of.randint(1, 3))
            rpc = of.choice(["remember", "file", "reinforce", "forget", "criteria"])
            expected, error = _expected(who, [before.get(one, ("",))[0] for one in ids]), None
            try:
                if rpc == "remember":
                    kind = of.choice(["preferences", "decisions", "journal", "notes"])
                    project = of.choice([{}, {"project": "lamp"}])
                    reply = world.remember(who, of.choice(_WORDS), memory_type=kind, scope=project)
                    assert who.may(Right.WRITE, reply.uri)
                elif rpc == "file":
                    uri = of.choice(_FILES)
                    expected = None if who.may(Right.WRITE, uri) else PermissionDenied
                    world.remember(who, of.choice(_WORDS), uri=uri)
                elif rpc == "reinforce":
                    world.reinforce(who, *ids)
                elif rpc == "forget":
                    world.forget(who, *ids)
                elif of.random() < 0.3:
                    world.forget(who, older_than={"seconds": NOW}, scope={"project": "lamp"})
            except VikingError as raised:
                error = type(raised)
            if rpc in ("file", "reinforce", "forget"):
                assert error is expected, (rpc, ids)
            else:
                assert error in (None, PermissionDenied)
            after = world.entries()
            for one in chain(before.keys() - after.keys(), after.keys()):
                if before.get(one) != after.get(one):
                    uri = (after.get(one) or before[one])[0]
                    assert who.may(Right.WRITE, uri), (rpc, uri)
        assert world.engine.verify().ok


def _expected(who: Caller, holders: list[str]) -> type[VikingError] | None:
    """Return the error of a change of memories in these files; "" for a missing one."""
    for uri in holders:
        if not uri or not who.may(Right.READ, uri):
            return NotFound
        if not who.may(Right.WRITE, uri):
            return PermissionDenied
    return None
