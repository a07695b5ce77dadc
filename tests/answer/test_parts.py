"""Queries of callers that may read only parts of a tree."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import tiers
from tests.answer.parts_helpers import AREAS, ONE_FILE, REQUESTS, Asker, Store, fill, reader
from tests.index.find_helpers import find
from tests.wire.wire_helpers import to_struct
from vikingd.domain.find_query import FindQuery
from vikingd.domain.rights import LOCAL, Caller
from vikingd.pb import retrieval_pb2 as pb

CASES = 60 if tiers.is_deep else 8  # of each pair of stores and RPC


@pytest.mark.parametrize("seed", tiers.seeds(1, 15))
def test_an_answer_depends_on_readable_contexts_alone(tmp_path: Path, seed: int) -> None:
    """Two stores that are equal where the caller may read give the same replies and errors."""
    exhaustive_texts = 20 if seed % 2 else 10_000
    stores = [Store(tmp_path / str(i), exhaustive_texts) for i in range(2)]
    try:
        uris, _ = (fill(store, seed, i) for i, store in enumerate(stores))
        asker = Asker(seed, uris)
        for rpc in REQUESTS:
            answered = 0
            for _ in range(CASES):
                caller, request = asker.caller(), asker.request(rpc)
                one, other = (store.ask(caller, rpc, request) for store in stores)
                assert one == other, (rpc, request)
                if isinstance(one, tuple):
                    assert one[0] == "InvalidField" or _targets(request), (one, request)
                answered += "viking://" in str(one) and not isinstance(one, tuple)
            assert answered > CASES // 6
    finally:
        for store in stores:
            store.close()


def _targets(request: Any) -> bool:
    """Return whether a request has a target."""
    return 'target_uri: "' in str(request)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with all areas, and more around them."""
    store = Store(tmp_path_factory.mktemp("parts"))
    fill(store, 11, 0)
    yield store
    store.close()


@pytest.fixture
def asker() -> Asker:
    """Return a maker of requests."""
    return Asker(3, [ONE_FILE])


TWO = AREAS[2], AREAS[5]


def matches(reply: Any) -> list[Any]:
    """Return all results of a find, by falling score, ties by URI."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(found, key=lambda match: (-match.score, match.uri))


def test_a_find_over_parts_is_the_merge_of_finds_below_each(store: Store, asker: Asker) -> None:
    """The best of the answers to each part, by score, then by URI."""
    several = 0
    for _ in range(150):
        request = asker.request("Find")
        request.target_uri, request.trace = "", False
        caller = reader(*AREAS)
        answer = store.ask(caller, "Find", request)
        parts = [_below(store, caller, "Find", request, area) for area in AREAS]
        if isinstance(answer, tuple):
            assert answer in parts
            continue
        best = sorted(
            (match for part in parts for match in matches(part)),
            key=lambda match: (-match.score, match.uri),
        )
        assert matches(answer) == best[: request.limit or 10]
        several += len({part.total > 0 for part in parts} & {True}) and answer.total > 1
    assert several > 50


@pytest.mark.deep
def test_a_retrieval_over_parts_is_the_merge_of_those_below_each(
    store: Store, asker: Asker
) -> None:
    """The best items of each part, by score, then by URI and passage, each text once."""
    several = 0
    for _ in range(150):
        request = asker.request("Retrieve")
        request.target_uri, request.diversity = "", 0
        request.ClearField("optional_clauses")
        request.ClearField("include")
        caller = reader(*AREAS)
        answer = store.ask(caller, "Retrieve", request)
        parts = [_below(store, caller, "Retrieve", request, area) for area in AREAS]
        if isinstance(answer, tuple):
            assert answer in parts
            continue
        items = [item for part in parts for item in part.items]
        items.sort(key=lambda item: (-item.score, item.uri, item.passage))
        listing = not request.query and not request.vector
        kept: list[Any] = []
        for item in items:
            if listing or item.text not in {other.text for other in kept}:
                kept.append(item)
        # Any of the files with a text may be shown, see test_equal_texts.
        merged = sorted((item.score, item.text) for item in kept[: request.top_k or 30])
        assert sorted((item.score, item.text) for item in answer.items) == merged
        known = {(item.uri, item.passage): item.text for item in items}
        assert all(known[item.uri, item.passage] == item.text for item in answer.items)
        several += len({item.uri.split("/")[2] for item in answer.items}) > 1
    assert several > 30


def _below(store: Store, caller: Caller, rpc: str, request: Any, target: str) -> Any:
    one = type(request)()
    one.CopyFrom(request)
    one.target_uri = target
    return store.ask(caller, rpc, one)


@pytest.mark.parametrize("rpc", ["Find", "Retrieve", "Search"])
def test_one_part_below_the_target_answers_as_the_target(
    store: Store, asker: Asker, rpc: str
) -> None:
    """A caller with one part gets for every directory above what it gets for the part."""
    for _ in range(40):
        request = asker.request(rpc)
        caller = reader(AREAS[4], AREAS[0])
        below = _below(store, caller, rpc, request, AREAS[4])
        for target in ("viking://resources", "viking://resources/b"):
            assert _below(store, caller, rpc, request, target) == below


@pytest.mark.parametrize("rpc", ["Find", "BatchFind", "Retrieve", "Search", "BuildContext"])
def test_a_caller_that_reads_all_gets_the_answer_of_a_local_one(
    store: Store, asker: Asker, rpc: str
) -> None:
    """Rights on the root change nothing."""
    for _ in range(40):
        request = asker.request(rpc)
        assert store.ask(reader("viking://"), rpc, request) == store.ask(LOCAL, rpc, request)


NOTHING = reader("viking://resources/no")


@pytest.mark.parametrize("rpc", ["Find", "Retrieve", "Search"])
def test_what_is_unreadable_does_not_exist(store: Store, rpc: str) -> None:
    """An unreadable target is told as a missing one, and the root has nothing below it."""
    for caller in (NOTHING, reader(), reader("viking://agent/memories/none")):
        for target in ("viking://resources/q", "viking://resources", ONE_FILE, AREAS[2]):
            said = _below(store, caller, rpc, REQUESTS[rpc](query="harbour"), target)
            told = f"{target} does not exist"
            assert said == ("NotFound", told, {"uri": target})
        reply = store.ask(caller, rpc, REQUESTS[rpc](query="harbour"))
        assert "viking://" not in str(reply)
        bad = REQUESTS[rpc](query="harbour", where=to_struct({"a": {"$bad": 1}}))
        assert store.ask(caller, rpc, bad)[0] == "InvalidField"


def test_an_empty_answer_has_its_revision(store: Store) -> None:
    """A caller without a part that exists is told the revision, in every mode."""
    find = store.ask_whole(NOTHING, "Find", pb.FindRequest(query="harbour"))
    assert find.revision == store.engine.snapshot.revision
    thinking = pb.FindRequest(query="harbour", mode=pb.SEARCH_MODE_THINKING)
    think = store.ask_whole(NOTHING, "Find", thinking)
    assert think.revision == find.revision
    assert think.rerank.status == pb.RERANK_STATUS_OFF
    retrieve = store.ask_whole(NOTHING, "Retrieve", pb.RetrieveRequest(query="harbour"))
    assert (retrieve.revision, retrieve.outcome) == (find.revision, pb.OUTCOME_NO_MATCH)


def test_a_part_that_is_a_file_has_nothing_to_find(store: Store) -> None:
    """The directory above exists for its reader, and a find there is empty."""
    caller = reader(ONE_FILE)
    for target in ("viking://", "viking://resources", "viking://resources/b"):
        reply = _below(store, caller, "Find", pb.FindRequest(query="harbour"), target)
        assert reply.total == 0
    said = _below(store, caller, "Find", pb.FindRequest(query="harbour"), ONE_FILE)
    assert said[0] == "InvalidField"


def test_a_listing_goes_over_all_parts_by_uri(store: Store) -> None:
    """The pages have each file once; names that begin alike do not break the order."""
    caller = reader(*AREAS)
    request = pb.RetrieveRequest(
        mode=pb.MODE_KEYWORD, where=to_struct({"year": {"$gte": 2020}}), top_k=3
    )
    found, token = list[str](), ""
    while True:
        request.page_token = token
        reply = store.ask(caller, "Retrieve", request)
        found += [item.uri for item in reply.items]
        token = reply.next_page_token
        if not token:
            break
        assert base64.urlsafe_b64decode(token).decode() == found[-1]
    assert found == sorted(set(found))
    readable = [uri for uri in _files(store) if any(uri.startswith(f"{a}/") for a in AREAS)]
    assert found == readable
    assert {uri.split("/")[3] for uri in found} >= {"a", "a-b", "b"}


def _files(store: Store) -> Sequence[str]:
    request = pb.RetrieveRequest(
        mode=pb.MODE_KEYWORD, where=to_struct({"year": {"$gte": 2020}}), top_k=1000
    )
    return [item.uri for item in store.ask(LOCAL, "Retrieve", request).items]


def test_unreadable_items_of_a_context_are_gone_as_missing_ones(store: Store) -> None:
    """A context of named items says the same of an unreadable one as of a missing one."""
    unreadable, missing = _files(store)[0], "viking://agent/memories/d/none.md"
    assert not unreadable.startswith(AREAS[2])
    readable = next(uri for uri in _files(store) if uri.startswith(f"{AREAS[2]}/"))

    def told(uri: str, passage: int) -> str:
        items = [pb.ContextItem(uri=one, passage=passage) for one in (readable, uri)]
        named = pb.BuildContextRequest(items=pb.ContextItems(items=items))
        reply = store.ask(reader(AREAS[2]), "BuildContext", named)
        assert len(reply.citations) == 1 or passage
        return str(reply).replace(uri, "URI")

    for passage in (0, 1):
        assert told(unreadable, passage) == told(missing, passage)
        assert "DROP_REASON_GONE" in told(unreadable, passage)


def test_few_vectors_have_the_centroid_of_what_is_readable_above(store: Store) -> None:
    """A small target is scored with the centroid of the outermost readable directory."""
    request = pb.FindRequest(query="harbour", target_uri=f"{AREAS[2]}/d/e", trace=True)
    for caller, above in (
        (reader(AREAS[2]), AREAS[2]),
        (reader(f"{AREAS[2]}/d"), f"{AREAS[2]}/d"),
        (reader(request.target_uri), request.target_uri),
    ):
        means = store.ask(caller, "Find", request).trace.means
        assert {mean.uri for mean in means} == {above}


@pytest.mark.parametrize("mode", [pb.SEARCH_MODE_QUICK, pb.SEARCH_MODE_THINKING])
def test_a_trace_of_parts_names_nothing_outside(store: Store, mode: pb.SearchMode) -> None:
    """Its directories and centroids are those of the parts, and its counts their sums."""
    caller = reader(*TWO)
    request = pb.FindRequest(query="harbour 世界", trace=True, limit=5, mode=mode, levels=3)
    trace = store.ask(caller, "Find", request).trace
    parts = [_below(store, caller, "Find", request, part).trace for part in TWO]
    assert trace.scope_texts == sum(part.scope_texts for part in parts)
    assert trace.scope_files == sum(part.scope_files for part in parts)
    uris = [one.uri for one in (*trace.directories, *trace.means)]
    assert sorted(uris) == sorted(
        one.uri for part in parts for one in (*part.directories, *part.means)
    )
    assert all(uri.startswith(TWO) for uri in uris)
    finals = [one.parts.final for one in trace.directories]
    assert finals == sorted(finals, reverse=True)


def test_the_room_of_a_reply_is_for_the_best_of_all_parts(store: Store) -> None:
    """What does not fit is counted over all parts."""
    query, caller = FindQuery("harbour status", limit=100), reader(*AREAS)
    whole = find(store.engine, query, None, caller=caller)
    cut = find(store.engine, query, None, most_bytes=3000, caller=caller)
    assert 0 < len(cut.matches) < len(whole.matches)
    assert [one.uri for one in cut.matches] == [
        one.uri for one in whole.matches[: len(cut.matches)]
    ]
    assert cut.left_out == len(whole.matches) - len(cut.matches)
