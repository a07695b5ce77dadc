"""The numbered promises about finds and scores, tested over gRPC.

Promises 2 and 3 are tested in part, because there are no permissions, tags or time ranges.
"""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise
from typing import Any

import grpc
import pytest

from tests.wire.conformance_helpers import (
    ALL,
    METHODS,
    NOW,
    SEARCH,
    TOP,
    matches,
    memories,
    micros,
    numbers,
    refused,
    scores,
    tree,
)
from tests.wire.wire_helpers import floats as vector
from vikingd.client import (
    ContextType,
    Draft,
    Levels,
    Method,
    Mode,
    Passage,
)
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.pb.memories_pb2 import Memory

pytestmark = pytest.mark.stores("both")


def test_02_a_missing_target_is_not_found(client: MessageClient) -> None:
    """A missing target is NOT_FOUND; an existing target without matches gives an empty result."""
    client.put([Draft(TOP, is_directory=True)])
    missing = f"{TOP}/missing"
    for call in (client.find, client.retrieve):
        assert refused(call, "harbour", target_uri=missing)[0] is grpc.StatusCode.NOT_FOUND
    assert client.find("harbour", target_uri=TOP).total == 0
    assert not client.retrieve("harbour", target_uri=TOP).items
    assert refused(lambda: list(client.tree(missing)))[0] is grpc.StatusCode.NOT_FOUND
    assert refused(client.get, missing)[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("where.n.$near", {"where": {"n": {"$near": 1}}}),
        ("where.$and", {"where": {"$and": 3}}),
        ("where.tags.$in", {"where": {"tags": {"$in": "a"}}}),
        ("where.day.$gte", {"where": {"day": {"$gte": [1]}}}),
    ],
)
def test_03_a_bad_filter_is_told_with_its_field(
    client: MessageClient, name: str, fields: dict[str, Any]
) -> None:
    """Find and Retrieve refuse a bad filter with INVALID_ARGUMENT and the name of its field."""
    for call in (client.find, client.retrieve):
        code, at_fault = refused(call, "harbour", **fields)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert at_fault == name


@pytest.mark.deep_after(1)
def test_04_the_threshold_is_strict(client: MessageClient) -> None:
    """Every method and mode excludes a result whose score equals the threshold."""
    tree(client)
    near = vector(1, 1, 0)
    for method in METHODS:
        fields: dict[str, Any] = {
            "vector": near,
            "method": method,
            "levels": Levels.BOTH,
            "limit": ALL,
        }
        for uri, score in scores(client.find("harbour", **fields)).items():
            out = scores(client.find("harbour", score_threshold=score, **fields))
            kept = scores(
                client.find("harbour", score_threshold=math.nextafter(score, 0), **fields)
            )
            assert uri in kept
            assert uri not in out
            assert all(left > score for left in out.values())
    for mode in (Mode.VECTOR, Mode.KEYWORD, Mode.HYBRID):
        best = client.retrieve("harbour", vector=near, mode=mode).items[0].score
        again = client.retrieve("harbour", vector=near, mode=mode, score_threshold=best)
        assert all(item.score > best for item in again.items)


def test_06_a_walk_starts_from_directories_only(client: MessageClient) -> None:
    """The start points of a walk are directories, even if a file matches best."""
    tree(client)
    client.put([Draft(f"{TOP}/z.md", abstract="harbour", vector=vector(1, 0, 0))])
    directories = {context.uri for context in client.tree() if context.is_directory}
    reply = client.find(
        "harbour", vector=vector(1, 0, 0), method=Method.BEST_FIRST, max_directories=3, trace=True
    )
    starts = {directory.uri for directory in reply.trace.directories if directory.start_point}
    assert starts
    assert starts <= directories
    assert matches(reply)[0].uri == f"{TOP}/z.md"


def test_11_alpha_weighs_the_own_score_against_the_parents(client: MessageClient) -> None:
    """Alpha weighs the score of a node against its parent's; a root without text has no share."""
    tree(client)

    def ask(alpha: float) -> tuple[dict[str, float], dict[str, float]]:
        reply = client.find(
            "harbour",
            vector=vector(1, 1, 0),
            target_uri=TOP,
            alpha=alpha,
            limit=ALL,
            trace=True,
            levels=Levels.BOTH,
        )
        return scores(reply), {one.uri: one.parts.final for one in reply.trace.directories}

    def parent(uri: str) -> str:
        return uri.rpartition("/")[0]

    own, half, above = ask(1.0)[0], ask(0.5)[0], ask(0.0)[0]
    for uri in own:
        if parent(uri) == TOP:
            assert half[uri] == pytest.approx(own[uri])
            assert above[uri] == pytest.approx(own[uri])
        else:
            assert half[uri] == pytest.approx((own[uri] + half.get(parent(uri), 0.0)) / 2)
            assert above.get(uri, 0.0) == pytest.approx(above.get(parent(uri), 0.0))
    assert len({parent(uri) for uri in own}) > 3
    client.put([Draft(TOP, is_directory=True, abstract="harbour", vector=vector(1, 1, 0))])
    (own, _), (half, directories) = ask(1.0), ask(0.5)
    for uri in (f"{TOP}/a", f"{TOP}/ab"):
        assert half[uri] == pytest.approx((own[uri] + directories[TOP]) / 2)


def test_12_a_directory_reached_by_two_ways_is_opened_once(client: MessageClient) -> None:
    """A best-first walk opens each directory once, even a start point below another directory."""
    tree(client)
    reply = client.find(
        "harbour",
        vector=vector(1, 1, 0),
        method=Method.BEST_FIRST,
        target_uri=TOP,
        trace=True,
        limit=ALL,
    )
    opened = [directory.uri for directory in reply.trace.directories]
    assert len(opened) == len(set(opened)) == reply.trace.opened
    assert set(opened) == {TOP, *(f"{TOP}/{d}" for d in ("a", "a/b", "a/b/c", "ab", "d", "d/e"))}
    assert reply.trace.scored_texts <= reply.trace.scope_texts


def test_13_one_uri_appears_once_with_its_highest_score(client: MessageClient) -> None:
    """A file with several matching texts is one result with its highest score."""
    words = ("harbour tea", "harbour harbour", "harbour")
    for name in "abc":
        content = "".join(f"{text}\n" for text in words)
        cut, start = [], 0
        for text in words:
            cut.append(Passage("", start, start + len(text)))
            start += len(text) + 1
        client.put([Draft(f"{TOP}/{name}.md", abstract="harbour", content=content, passages=cut)])
    for method in METHODS:
        reply = client.find("harbour", method=method, alpha=1.0, levels=Levels.BOTH)
        uris = [match.uri for match in matches(reply) if match.is_leaf]
        assert sorted(uris) == [f"{TOP}/{name}.md" for name in "abc"]
        for match in matches(reply):
            assert match.score >= max((p.score for p in match.passages), default=0.0)
        assert client.find("harbour", method=method, limit=2).total == 2
        assert client.find("harbour", method=method, limit=3).total == 3
    grouped = client.retrieve("harbour", group_by_context=True, top_k=3)
    assert len({item.uri for item in grouped.items}) == len(grouped.items)


def test_14_leaves_are_never_opened_and_passages_count_for_their_file(
    client: MessageClient,
) -> None:
    """A file has the score of its best passage; passages are no results, and no file is opened."""
    content = "# One\n\ntea and coffee\n\n# Two\n\nharbour at night\n"
    client.put(
        [
            Draft(f"{TOP}/d/file.md", content=content, abstract="drinks"),
            Draft(f"{TOP}/d/other.md", abstract="coffee"),
        ]
    )
    for method in METHODS:
        reply = client.find("harbour", method=method, alpha=1.0, trace=True, levels=Levels.BOTH)
        files = [match for match in matches(reply) if match.is_leaf]
        assert [(match.uri, match.level) for match in files] == [(f"{TOP}/d/file.md", 2)]
        (match,) = files
        assert match.score == pytest.approx(max(p.score for p in match.passages))
        assert "harbour at night" in match.passages[0].text
        opened = {directory.uri for directory in reply.trace.directories}
        assert opened == {context.uri for context in client.tree() if context.is_directory}


def test_14_a_file_that_its_directory_alone_brings_has_no_passage_that_matched(
    client: MessageClient,
) -> None:
    """A file that matches only through its directory has level 0 and no passages."""
    client.put(
        [
            Draft(f"{TOP}/d", is_directory=True, abstract="harbour"),
            Draft(f"{TOP}/d/file.md", content="coffee"),
        ]
    )
    for method in METHODS:
        (match,) = matches(client.find("harbour", method=method, alpha=0.5))
        assert (match.level, list(match.passages)) == (0, [])


def test_15_the_level_filter_changes_no_score(client: MessageClient) -> None:
    """The level filter selects files, directories or both, and leaves their scores unchanged."""
    tree(client)
    for method in METHODS:

        def ask(levels: Levels, method: Method = method) -> dict[str, float]:
            reply = client.find(
                "harbour", vector=vector(1, 1, 0), levels=levels, method=method, limit=ALL
            )
            kinds = {match.is_leaf for match in matches(reply)}
            assert (
                kinds
                == {
                    Levels.FILES: {True},
                    Levels.DIRECTORIES: {False},
                    Levels.BOTH: {True, False},
                }[levels]
            )
            return scores(reply)

        assert ask(Levels.BOTH) == ask(Levels.FILES) | ask(Levels.DIRECTORIES)


def test_16_no_score_is_nan_or_infinite(client: MessageClient) -> None:
    """Scores are finite for tiny, huge, equal, opposite and missing vectors."""
    for i, scale in enumerate((1e-37, 1.0, 1e37)):
        there, back = vector(scale, 0, 0), vector(-scale, 0, scale)
        contexts = (("a", "tea", there), ("b", "tea", there), ("c", "", back), ("d", "the", b""))
        client.put(
            [
                Draft(f"{TOP}/{i}/{name}.md", abstract=abstract, vector=given)
                for name, abstract, given in contexts
            ]
        )
    for query, near in (("tea", vector(1e-37, 0, 0)), ("", vector(-1e37, 0, 0)), ("the", None)):
        for method in METHODS:
            for alpha in (None, 0.0, 1.0):
                reply = client.find(
                    query, vector=near, method=method, alpha=alpha, trace=True, levels=Levels.BOTH
                )
                assert all(map(math.isfinite, numbers(reply)))
                assert all(0 < score <= 1 for score in scores(reply).values())
    for mode in (Mode.VECTOR, Mode.KEYWORD, Mode.HYBRID):
        near = vector(0, 0, 1e37)
        found = client.retrieve("tea", vector=near, mode=mode, trace=True, diversity=0.5)
        assert all(map(math.isfinite, numbers(found)))
    for bad in (math.nan, math.inf):
        assert refused(client.find, vector=vector(1, bad, 0))[1] == "vector"


def test_17_recency_halves_and_accesses_never_lower_a_score(client: MessageClient) -> None:
    """Recency halves with each half-life, and more accesses give a higher score."""
    ages = (0, 30, 60, 36500)
    known = [Entry(time=micros(NOW - timedelta(days=days))) for days in ages]
    client.put([memories("harbour", known)])
    reply = client.recall("harbour", now=NOW, half_life_days=30, no_touch=True, without=SEARCH)
    recency = sorted((memory.parts.recency for memory in reply.results), reverse=True)
    assert recency == pytest.approx([1, 0.5, 0.25, 0], abs=1e-12)
    counted = [Entry(access_count=count, time=micros(NOW)) for count in (0, 1, 2, 9, 9, 100)]
    client.put([memories("harbour", counted)])
    reply = client.recall("harbour", now=NOW, no_touch=True, without=SEARCH)
    by_accesses: list[Memory] = sorted(reply.results, key=lambda memory: memory.access_count)
    assert [memory.access_count for memory in by_accesses] == [0, 1, 2, 9, 9, 100]
    for fewer, more in pairwise(by_accesses):
        assert (more.score > fewer.score) == (more.access_count > fewer.access_count)


def test_18_a_scope_is_a_subtree_not_a_prefix(client: MessageClient) -> None:
    """The scope `/a` includes `/a/e` and `/a/b/c`, but not `/ab`."""
    for path in ("a/e.md", "a/b/c.md", "ab/x.md", "a b/x.md", "a.md", "a-/x.md"):
        client.put([Draft(f"{TOP}/{path}", content="harbour")])
    inside = {f"{TOP}/a/e.md", f"{TOP}/a/b/c.md"}
    for _ in range(2):
        for method in METHODS:
            for target in (f"{TOP}/a", f"{TOP}/a/"):
                reply = client.find("harbour", target_uri=target, method=method)
                assert set(scores(reply)) == inside
        found = client.retrieve("harbour", target_uri=f"{TOP}/a", mode=Mode.KEYWORD)
        assert found.items
        assert {item.uri for item in found.items} <= inside
        client.optimize()
    assert client.delete(f"{TOP}/a").deleted == 4
    assert client.find("harbour").total == 4


def test_19_all_filters_hold_together(client: MessageClient) -> None:
    """Filters together give exactly the unfiltered results that match each of the filters."""
    tree(client)
    kept = {"day": {"$gte": 1, "$lt": 5}, "lang": "en"}
    types = (ContextType.RESOURCE, ContextType.SKILL)
    prefixes = (f"{TOP}/", "viking://agent/skills/")
    for target in ("viking://", f"{TOP}/a"):
        for method in METHODS:
            fields: dict[str, Any] = {
                "vector": vector(1, 1, 0),
                "target_uri": target,
                "limit": ALL,
                "method": method,
                "alpha": 0.7,  # without the second stage, which looks at the best files alone
            }
            everything = scores(client.find("harbour", **fields))
            floor = sorted(everything.values())[len(everything) // 4]
            expected = {
                uri: score
                for uri, score in everything.items()
                if uri.startswith(prefixes) and uri[-4] in "13" and score > floor
            }
            found = client.find(
                "harbour", where=kept, context_types=types, score_threshold=floor, **fields
            )
            assert expected
            assert scores(found) == expected
        for mode in (Mode.VECTOR, Mode.KEYWORD, Mode.HYBRID):
            of = {"vector": vector(1, 1, 0), "target_uri": target, "mode": mode, "top_k": 500}
            whole = client.retrieve("harbour", **of)
            some = client.retrieve("harbour", where=kept, context_types=types, **of)
            wanted = [i for i in whole.items if i.uri.startswith(prefixes) and i.uri[-4] in "13"]
            assert wanted
            assert {item.uri for item in some.items} == {item.uri for item in wanted}
            if mode is not Mode.HYBRID:  # HYBRID scores by rank, and filters shift ranks
                assert [(i.uri, i.score) for i in some.items] == [(i.uri, i.score) for i in wanted]


def test_20_total_is_the_sum_of_the_three_buckets(client: MessageClient) -> None:
    """The total is the sum of the three buckets, and each match is in the bucket of its type."""
    tree(client)
    for limit in (1, 7, ALL):
        reply = client.find("harbour", limit=limit)
        assert reply.total == len(reply.memories) + len(reply.resources) + len(reply.skills)
        assert reply.total == min(limit, 90)
        for bucket, kind in (
            (reply.memories, ContextType.MEMORY),
            (reply.resources, ContextType.RESOURCE),
            (reply.skills, ContextType.SKILL),
        ):
            assert {match.context_type for match in bucket} <= {kind}


@pytest.mark.parametrize("query", ["E4102", "get_user", "deploy.sh", "RFC-7231"])
def test_28_an_exact_identifier_is_found_first(client: MessageClient, query: str) -> None:
    """A file with the exact identifier ranks first, even if all vectors favour other files."""
    near, far = vector(1, 0, 0), vector(-1, 0, 0)
    client.put(
        [Draft(f"{TOP}/{i}.md", abstract=f"tea and errors {i}", vector=near) for i in range(20)]
    )
    wanted = f"{TOP}/wanted.md"
    client.put([Draft(wanted, abstract=f"a long text that says {query} once", vector=far)])
    for method in METHODS:
        assert next(iter(scores(client.find(query, vector=near, method=method)))) == wanted
    for mode in (Mode.KEYWORD, Mode.HYBRID):
        assert client.retrieve(query, vector=near, mode=mode).items[0].uri == wanted
