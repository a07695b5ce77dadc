"""What a user may rely on, behaviour by behaviour, black box, each by its number.

Of 2 and 3 what applies: there are no permissions, tags or time ranges.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from patience import eventually
from reader_helpers import serving as on_store
from scripted import Reply, Request, ScriptedServer
from test_metrics import vector
from test_search import planned
from test_thinking import FAULTS, broken, told

from vikingd.client import (
    ClientError,
    ContextType,
    Draft,
    Levels,
    Method,
    Mode,
    Passage,
    RecallPath,
    SearchMode,
    SearchSession,
)
from vikingd.client.messages import MessageClient
from vikingd.ctl.demo import serving
from vikingd.domain import uri as uris
from vikingd.domain.model import Entry
from vikingd.pb.memories_pb2 import Memory
from vikingd.pb.retrieval_pb2 import (
    RERANK_STATUS_DONE,
    RERANK_STATUS_FAILED,
    FindResponse,
    MatchedContext,
    SearchResponse,
)
from vikingd.store import Store

TOP = "viking://resources/t"
NOTES = "viking://user/memories/notes.md"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ALL = 1000
METHODS = (Method.EXHAUSTIVE, Method.EXACT, Method.BEST_FIRST)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)


def matches(reply: FindResponse | SearchResponse) -> list[MatchedContext]:
    """All that was found, in one order."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(found, key=lambda match: (-match.score, match.uri))


def scores(reply: FindResponse | SearchResponse) -> dict[str, float]:
    """What was found, in order, with its scores."""
    return {match.uri: match.score for match in matches(reply)}


def answer(client: MessageClient, query: str, **fields: Any) -> bytes:
    """All that is answered but how long it took."""
    reply = client.find(query, limit=ALL, trace=True, levels=Levels.BOTH, **fields)
    reply.ClearField("timings")
    return reply.SerializeToString(deterministic=True)


def refused(call: Callable[..., object], *args: Any, **fields: Any) -> tuple[grpc.StatusCode, str]:
    """(code, first field at fault) of a call that fails."""
    with pytest.raises(ClientError) as caught:
        call(*args, **fields)
    violations = caught.value.field_violations
    return caught.value.code, violations[0].field if violations else ""


def numbers(message: Message) -> Iterator[float]:
    """All floating-point numbers of a message."""
    for of, value in message.ListFields():
        values = value if of.is_repeated else [value]
        if of.cpp_type in (of.CPPTYPE_DOUBLE, of.CPPTYPE_FLOAT):
            yield from values
        elif of.cpp_type == of.CPPTYPE_MESSAGE:
            for one in values:
                yield from numbers(one)


def tree(client: MessageClient) -> None:
    """Three levels of directories, some with abstracts, with files of each type and vectors."""
    client.put(
        [
            Draft(
                f"{TOP}/a", is_directory=True, abstract="harbour and sea", vector=vector(2, 1, 0)
            ),
            Draft(f"{TOP}/a/b", is_directory=True, abstract="ships", vector=vector(1, 2, 1)),
            *(
                Draft(
                    f"{top}/{path}/{i}.md",
                    abstract=f"{'harbour ' * (i % 3)}{'ship ' * (i % 4)}tea {path}",
                    vector=vector(i % 3 + 0.5, i % 5, len(path) % 4),
                    metadata={"day": i, "lang": "en" if i % 2 else "de"},
                )
                for top in (TOP, "viking://user/memories", "viking://agent/skills")
                for path in ("a", "a/b", "a/b/c", "ab", "d/e")
                for i in range(6)
            ),
        ]
    )


@dataclass
class Embedded:
    """A daemon whose embedder is an endpoint that keeps queries about "slow" things waiting."""

    client: MessageClient = field(init=False)
    asked: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> Reply:
        """A vector of three numbers for each text, by its letters."""
        assert request.path.endswith("/embeddings")
        texts = request.json["input"]
        self.asked += texts
        if any("slow" in text for text in texts):
            assert self.go_on.wait(20)
        rows = [
            {"object": "embedding", "index": i, "embedding": [1.0 + text.count(c) for c in "abc"]}
            for i, text in enumerate(texts)
        ]
        return Reply({"object": "list", "model": request.json["model"], "data": rows})


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """With one context, whose vector it has."""
    made = Embedded()
    with (
        ScriptedServer(made.answer) as endpoint,
        on_store(
            tmp_path_factory.mktemp("store"),
            "--provider",
            "openai",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=f"{endpoint.url}/v1",
            VIKINGD_EMBEDDING__OPENAI_MODEL="letters",
            VIKINGD_EMBEDDING__DIMENSION="3",
        ) as daemon,
    ):
        made.client = daemon.client
        made.client.put(
            [Draft(f"{TOP}/a.md", abstract="cab", vector=vector(1, 1, 1), metadata={"n": 1})]
        )
        yield made
        made.go_on.set()


def test_01_an_empty_query_without_a_vector_is_an_error(embedded: Embedded) -> None:
    """And the embedder is never called; Retrieve by KEYWORD with `where` alone is none."""
    client, before = embedded.client, list(embedded.asked)
    for text in ("", " \n\u3000"):
        for call in (client.find, client.retrieve, client.recall, client.build_context):
            assert refused(call, text)[0] is grpc.StatusCode.INVALID_ARGUMENT, call
        for mode in (Mode.VECTOR, Mode.HYBRID):
            fault = refused(client.retrieve, text, mode=mode, where={"n": 1})
            assert fault == (grpc.StatusCode.INVALID_ARGUMENT, "query")
    listed = client.retrieve(mode=Mode.KEYWORD, where={"n": 1})
    assert [item.uri for item in listed.items] == [f"{TOP}/a.md"]
    assert embedded.asked == before


def test_02_a_missing_target_is_not_found(client: MessageClient) -> None:
    """An empty result is that of a target that is there."""
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
        ("context_types[0]", {"context_types": [9]}),
        ("where.n.$near", {"where": {"n": {"$near": 1}}}),
        ("where.$and", {"where": {"$and": 3}}),
        ("where.tags.$in", {"where": {"tags": {"$in": "a"}}}),
        ("where.day.$gte", {"where": {"day": {"$gte": [1]}}}),
    ],
)
def test_03_a_bad_filter_is_told_with_its_field(
    client: MessageClient, name: str, fields: dict[str, Any]
) -> None:
    """INVALID_ARGUMENT from find and retrieve alike."""
    for call in (client.find, client.retrieve):
        code, at_fault = refused(call, "harbour", **fields)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert at_fault == name


def test_04_the_threshold_is_strict(client: MessageClient) -> None:
    """A score equal to it is out, by every method and strategy."""
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


def test_05_a_quick_find_embeds_its_query_once(embedded: Embedded) -> None:
    """And calls nothing else, whatever it has to open; with a vector it calls nothing at all."""
    client = embedded.client
    for i, method in enumerate((Method.AUTO, *METHODS)):
        before = list(embedded.asked)
        assert client.find(f"cab number {i}", method=method, levels=Levels.BOTH).total
        (asked,) = embedded.asked[len(before) :]
        assert asked.endswith(f"cab number {i}")
    before = list(embedded.asked)
    assert client.find("cab", vector=vector(1, 0, 0)).total
    assert embedded.asked == before


def test_06_a_walk_starts_from_directories_only(client: MessageClient) -> None:
    """Never from a leaf, however well it matches."""
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


def test_10_a_slow_model_call_delays_no_other_request(embedded: Embedded) -> None:
    """Those that need the embedder too go past some, those that don't past any number of them."""
    client = embedded.client
    with ThreadPoolExecutor(16) as pool:
        slow = [pool.submit(client.find, f"slow cab {i}") for i in range(3)]
        eventually(lambda: sum("slow" in text for text in embedded.asked) == 3)
        assert not client.find("another cab").degraded
        slow += [pool.submit(client.find, f"slow cab {i}") for i in range(3, 16)]
        eventually(lambda: sum("slow" in text for text in embedded.asked) > 3)
        assert client.find("cab", vector=vector(1, 0, 0)).total == 1
        assert client.retrieve("cab", mode=Mode.KEYWORD).items
        client.put([Draft(f"{TOP}/b.md", abstract="z", vector=vector(0, 0, 1))])
        assert client.get(f"{TOP}/b.md").context.abstract == "z"
        client.delete(f"{TOP}/b.md")
        assert not any(call.done() for call in slow)
        embedded.go_on.set()
        assert all(call.result(20).total == 1 for call in slow)


def test_11_alpha_weighs_the_own_score_against_the_parents(client: MessageClient) -> None:
    """1: the own alone; 0: the parent's alone; below a root without text nothing is blended."""
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
    """As a start point and below its parent."""
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
    """Whichever of its texts match; the limit is filled after that."""
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
    """A file has the score of its best passage, which is no result of its own."""
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
    """Its level says so too."""
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
    """It holds in the results: files, directories, or both, each as they are among both."""
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
    """Whatever the vectors are like: tiny, huge, all alike, opposite, missing."""
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
    """Age 0 gives 1, one half-life .5, the oldest the least."""
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


def micros(moment: datetime) -> int:
    """As in the domain."""
    return round(moment.timestamp() * 1_000_000)


def memories(text: str, known: list[Entry]) -> Draft:
    """A file of memories that differ in a number only."""
    content, cut = "", []
    for i, entry in enumerate(known):
        start = len(content) + 2
        content += f"- {text} {i}\n"
        cut.append(Passage("", start, len(content) - 1, entry=entry))
    return Draft(NOTES, content=content, passages=cut)


def test_18_a_scope_is_a_subtree_not_a_prefix(client: MessageClient) -> None:
    """`/a` has `/a/e` and `/a/b/c` in it, never `/ab`."""
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
    """The answer is the exhaustive one of the scope with the rest filtered out, in every mode."""
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
            if mode is not Mode.HYBRID:  # by rank, where the filter leaves fewer ranks
                assert [(i.uri, i.score) for i in some.items] == [(i.uri, i.score) for i in wanted]


def test_20_total_is_the_sum_of_the_three_buckets(client: MessageClient) -> None:
    """Each match is in the bucket of its type."""
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


@dataclass
class Models:
    """A daemon with a planner and a reranker, who say what a test wants."""

    client: MessageClient
    planner: ScriptedServer
    reranker: ScriptedServer

    def think(self, query: str, **fields: Any) -> tuple[FindResponse, list[list[str]]]:
        """(the answer, what the reranker read, call by call); ask nothing twice."""
        self.reranker.requests.clear()
        reply = self.client.find(query, mode=SearchMode.THINKING, trace=True, **fields)
        return reply, [request.json["documents"] for request in self.reranker.requests]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """On the tree."""
    backend = {"kind": "http", "form": "vllm", "model": "r"}
    with (
        ScriptedServer(planned()) as planner,
        ScriptedServer(told({})) as reranker,
        on_store(
            tmp_path_factory.mktemp("store"),
            VIKINGD_PLANNER__BASE_URL=f"{planner.url}/v1",
            VIKINGD_PLANNER__MODEL="m",
            VIKINGD_RERANK__BACKENDS=json.dumps([backend | {"url": reranker.url}]),
        ) as daemon,
        MessageClient(daemon.address) as client,
    ):
        tree(client)
        client.put([Draft(f"{TOP}/a/blank.md", vector=vector(1, 0, 0))])
        yield Models(client, planner, reranker)


def test_07_the_reranker_sees_start_points_then_the_children_of_each_round(models: Models) -> None:
    """In THINKING the reranker sees the start points first, then each round's children."""
    reply, (starts, *rounds) = models.think("which ship", levels=Levels.BOTH, limit=100)
    abstract = {match.abstract: match.uri for match in matches(reply)}
    opened = {one.uri: one.round for one in reply.trace.directories}
    assert {abstract.get(text, TOP) for text in starts} <= opened.keys()
    assert 1 <= len(rounds) <= 3
    for number, texts in enumerate(rounds, 1):
        assert all(opened[uris.parent(abstract[text])] == number for text in texts)


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("fault", ["nothing", "an error", "one too few"])
def test_08_a_reranker_that_fails_leaves_all_to_meaning_and_words(
    models: Models, fault: str, call: int
) -> None:
    """Nothing, an error or a wrong number, in any round: vector scores, and the reply says so."""
    models.reranker.answer = told({})
    assert models.think(f"well {fault} {call}")[0].rerank.status == RERANK_STATUS_DONE
    models.reranker.answer = broken(call, FAULTS[fault])
    query = f"harbour {fault} {call}"
    reply, calls = models.think(query)
    assert len(calls) == call + 1
    assert reply.rerank.status == RERANK_STATUS_FAILED
    assert reply.degraded
    assert scores(reply) == scores(models.client.find(query))


def test_09_empty_abstracts_are_not_sent(models: Models) -> None:
    """Empty abstracts are not sent to the reranker and keep their vector score."""
    models.reranker.answer = told({}, 0.9)
    reply, calls = models.think("sea", vector=vector(1, 0, 0), alpha=1.0, limit=100)
    assert all(text for call in calls for text in call)
    blank = f"{TOP}/a/blank.md"
    plain = models.client.find("sea", vector=vector(1, 0, 0), alpha=1.0, limit=100)
    assert scores(reply)[blank] == pytest.approx(scores(plain)[blank], abs=1e-3)
    assert {score for uri, score in scores(reply).items() if uri != blank} == {0.9}


def test_21_no_session_and_no_queries(models: Models) -> None:
    """No session: the raw query is searched; a plan of none gives an empty, explained answer."""
    models.planner.requests.clear()
    raw = models.client.search("harbour tea", mode=SearchMode.QUICK, limit=20)
    assert not models.planner.requests
    assert [query.query for query in raw.query_plan.queries] == ["harbour tea"]
    assert scores(raw) == scores(models.client.find("harbour tea", limit=20))
    models.planner.answer = planned(reason="a greeting")
    none = models.client.search("hello to all of you", session=SearchSession("We met."))
    assert none.total == 0
    assert none.query_plan.reason == "a greeting"


def test_22_a_crash_changes_no_answer(tmp_path: Path) -> None:
    """What was acknowledged before a kill -9 is answered after it as it was before."""
    queries = ("harbour", "ship tea", "no such word")
    with on_store(tmp_path) as daemon:
        tree(daemon.client)
        daemon.client.delete(f"{TOP}/d")
        before = [answer(daemon.client, query, vector=vector(1, 1, 0)) for query in queries]
        daemon.kill()
    with on_store(tmp_path) as daemon:
        after = [answer(daemon.client, query, vector=vector(1, 1, 0)) for query in queries]
    assert after == before


def test_23_the_same_query_has_the_same_answer(client: MessageClient) -> None:
    """Byte for byte but for the timings, from any number of threads."""
    tree(client)
    same = [f"{TOP}/same/{name}.md" for name in "hcebadgf"]
    client.put([Draft(uri, abstract="harbour", vector=vector(1, 1, 0)) for uri in same])
    for one, other in pairwise(same):
        client.link(one, other)
    for method in METHODS:

        def ask(_: int, method: Method = method) -> bytes:
            return answer(client, "harbour ship", vector=vector(1, 1, 0), method=method)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(ask, range(24)))) == 1


def test_24_what_was_deleted_is_never_returned(client: MessageClient) -> None:
    """Not right after, not by a passage, not what an overwrite left out."""
    kept = f"{TOP}/keep.md"
    for i in range(5):
        gone = f"{TOP}/d{i}/gone.md"
        client.put(
            [
                Draft(gone, content=f"# A\n\nharbour {i}\n\n# B\n\nship {i}\n"),
                Draft(kept, content=f"harbour\n\nold{i}\n"),
            ]
        )
        client.link(gone, kept)
        assert gone in scores(client.find("ship"))
        client.delete(f"{TOP}/d{i}")
        client.put([Draft(kept, content="harbour")])
        for method in METHODS:
            for query in ("harbour", "ship", f"old{i}"):
                reply = client.find(query, method=method, levels=Levels.BOTH, limit=ALL)
                assert {match.uri for match in matches(reply) if match.is_leaf} <= {kept}
                assert not any(match.relations for match in matches(reply))
        assert client.find(f"old{i}").total == 0
        items = client.retrieve(f"harbour ship old{i}", mode=Mode.KEYWORD).items
        assert {(item.uri, item.text) for item in items} == {(kept, "harbour")}
        assert "ship" not in client.build_context("harbour ship").text


def test_25_what_was_acknowledged_is_found_by_the_next_request(
    client: MessageClient, daemon: str
) -> None:
    """On any connection, whether new, changed or moved."""
    words = ("anchor", "buoy", "canal", "delta", "estuary", "fjord", "gulf", "haven")
    with MessageClient(daemon) as other:
        for i, (new, changed) in enumerate(zip(words[::2], words[1::2], strict=True)):
            uri, moved = f"{TOP}/{i}.md", f"{TOP}/d/{i}.md"
            client.put([Draft(uri, content=f"{new} harbour")])
            assert list(scores(other.find(new))) == [uri]
            client.put([Draft(uri, content=f"{changed} harbour")])
            assert list(scores(other.find(changed))) == [uri]
            assert other.find(new).total == 0
            client.move(uri, moved)
            assert list(scores(other.find(changed))) == [moved]


def test_26_a_moved_subtree_keeps_what_is_known_of_it(client: MessageClient) -> None:
    """Scores, counters and relations, under its new URIs; nothing remains under the old ones."""
    old, new = "viking://user/memories/old", "viking://user/memories/new"
    counted = [Entry(reinforcement=3, access_count=5, time=micros(NOW))]
    notes = memories("harbour at night", counted)
    client.put(
        [
            Draft(f"{old}/sub/notes.md", content=notes.content, passages=notes.passages),
            Draft(f"{old}/tea.md", content="tea in the harbour"),
            Draft(f"{TOP}/ship.md", content="ship"),
        ]
    )
    client.link(f"{old}/tea.md", f"{TOP}/ship.md", "out")
    client.link(f"{old}/tea.md", f"{old}/sub/notes.md", "in")

    def seen(top: str) -> tuple[object, ...]:
        reply = client.find("harbour", limit=ALL, levels=Levels.BOTH)
        (memory,) = client.recall("night", now=NOW, no_touch=True, without=SEARCH).results
        linked = {
            match.uri: [(r.uri, r.reason) for r in match.relations] for match in matches(reply)
        }
        counters = (memory.id, memory.reinforcement, memory.access_count, memory.score)
        told = str((scores(reply), linked, memory.uri)).replace(top, "TOP")
        return told, counters

    before = seen(old)
    assert "('TOP/sub/notes.md', 'in')" in str(before)
    client.move(old, new)
    assert seen(new) == before
    assert old not in str(seen(new))
    assert refused(client.get, old)[0] is grpc.StatusCode.NOT_FOUND
    assert refused(client.find, "harbour", target_uri=old)[0] is grpc.StatusCode.NOT_FOUND
    assert not any(context.uri.startswith(old) for context in client.tree())
    assert [r.uri for r in client.get(f"{TOP}/ship.md").context.relations] == [f"{new}/tea.md"]


def test_27_another_model_or_dimension_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the way out, instead of answers from vectors that can't be compared."""
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_MODEL", "letters")
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("VIKINGD_EMBEDDING__DIMENSION", "3")

    def told(model: str, dimension: int) -> str:
        store = tmp_path / str(dimension)
        Store(store, model=model, dimension=dimension).close()
        with (
            pytest.raises(ClientError) as caught,
            serving("--path", str(store), "--provider", "openai", quiet=True),
        ):
            pass
        return caught.value.message

    stores = ("another", "openai/letters"), (3, 7)
    with ThreadPoolExecutor(2) as pool:
        for model, dimension, message in zip(*stores, pool.map(told, *stores), strict=True):
            assert f"{model} ({dimension} dimensions)" in message
            assert "--reembed" in message


@pytest.mark.parametrize("query", ["E4102", "get_user", "deploy.sh", "RFC-7231"])
def test_28_an_exact_identifier_is_found_first(client: MessageClient, query: str) -> None:
    """Whatever the embedder thinks: all vectors speak for others."""
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
