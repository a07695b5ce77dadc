"""Retrieve over the wire: strategies, fusion, filters and the reasons for an empty answer."""

from __future__ import annotations

from array import array

import pytest

from tests.daemons import serving
from vikingd.client import (
    Boost,
    ClientError,
    ContextType,
    Draft,
    Include,
    Mode,
    Passage,
    Rrf,
    WeightedSum,
)
from vikingd.client.messages import MessageClient
from vikingd.pb.retrieval_pb2 import (
    OUTCOME_BELOW_THRESHOLD,
    OUTCOME_FOUND,
    OUTCOME_NO_MATCH,
    RetrieveResponse,
)

pytestmark = pytest.mark.stores

TOP = "viking://resources/r"


def vector(*numbers: float) -> bytes:
    """Return a vector as on the wire."""
    return array("f", numbers).tobytes()


def names(reply: RetrieveResponse) -> list[str]:
    """Return the last part of each item's URI."""
    return [item.uri.rpartition("/")[2] for item in reply.items]


@pytest.fixture
def filled(client: MessageClient) -> MessageClient:
    """Write four documents: by the vector 1, 0, 0 the order is A, B, C; by "tea" it is B, D, A."""
    client.put(
        [
            Draft(
                f"{TOP}/A",
                content="tea among many other words of this long text",
                vector=vector(1, 0.1, 0),
                metadata={"year": 2024, "lang": "en"},
            ),
            Draft(
                f"{TOP}/B", content="tea tea tea", vector=vector(1, 0.4, 0), metadata={"year": 2020}
            ),
            Draft(
                f"{TOP}/C",
                content="nothing of it",
                vector=vector(1, 0.6, 0),
                metadata={"year": 2024},
            ),
            Draft(f"{TOP}/D", content="some tea here", vector=vector(-1, 0, 1)),
        ]
    )
    return client


def test_the_three_modes_are_words_meaning_and_both_by_rank(filled: MessageClient) -> None:
    """Hybrid mode fuses the ranks by meaning (A, B, C) and by words (B, D, A) to B, A, D, C."""
    near = vector(1, 0, 0)
    by_meaning = filled.retrieve("tea", vector=near, mode=Mode.VECTOR)
    by_words = filled.retrieve("tea", vector=near, mode=Mode.KEYWORD)
    assert names(by_meaning) == ["A", "B", "C"]
    assert names(by_words) == ["B", "D", "A"]
    both = filled.retrieve("tea", vector=near, trace=True)
    assert names(both) == ["B", "A", "D", "C"]
    assert [item.score for item in both.items] == pytest.approx(
        [1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62, 1 / 63]
    )
    first, *_, last = (item.trace for item in both.items)
    assert (first.vector_rank, first.keyword_rank) == (1, 0)
    assert (last.vector_rank, last.HasField("keyword_rank")) == (2, False)
    assert first.lexical == pytest.approx(by_words.items[0].score)
    assert first.dense == pytest.approx(by_meaning.items[1].score)
    assert both.outcome == OUTCOME_FOUND
    assert [timing.stage for timing in both.timings] == [
        "embed",
        "plan",
        "vector",
        "keyword",
        "fuse",
        "reply",
    ]


def test_fusion_weighs_the_lists_or_the_scores(filled: MessageClient) -> None:
    """A list of weight 0 does not count; a sum of scores is the sum of both modes' scores."""
    near = vector(1, 0, 0)
    by_rank = filled.retrieve("tea", vector=near, fusion=Rrf(k=1, vector_weight=0))
    assert names(by_rank) == ["B", "D", "A"]
    assert [item.score for item in by_rank.items] == pytest.approx([1 / 2, 1 / 3, 1 / 4])
    dense = {i.uri: i.score for i in filled.retrieve(vector=near, mode=Mode.VECTOR).items}
    words = {i.uri: i.score for i in filled.retrieve("tea", mode=Mode.KEYWORD).items}
    summed = filled.retrieve("tea", vector=near, fusion=WeightedSum(0.25, 2))
    assert {item.uri: item.score for item in summed.items} == pytest.approx(
        {uri: 0.25 * dense.get(uri, 0) + 2 * words.get(uri, 0) for uri in dense | words}, abs=1e-5
    )


def test_an_identifier_is_found_by_words_alone(filled: MessageClient) -> None:
    """An error code is found by its words, although another text is nearer by vector (28)."""
    filled.put([Draft(f"{TOP}/E", content="E4102 is raised", vector=vector(0, 0, 1))])
    found = filled.retrieve("E4102", vector=vector(1, 0, 0))
    assert names(found) == ["E"]


def test_filters_hold_together_in_every_mode(filled: MessageClient) -> None:
    """Scope, type and metadata filter together in every mode (19)."""
    filled.put(
        [
            Draft(
                "viking://user/memories/m",
                content="tea",
                vector=vector(1, 0, 0),
                metadata={"year": 2024},
            )
        ]
    )
    for mode in Mode:
        whole = filled.retrieve("tea", vector=vector(1, 0, 0), mode=mode, target_uri=TOP)
        found = filled.retrieve(
            "tea",
            vector=vector(1, 0, 0),
            mode=mode,
            target_uri=TOP,
            where={"year": 2024},
            context_types=[ContextType.RESOURCE],
        )
        assert set(names(found)) <= {"A", "C"}
        assert "A" in names(found)
        if mode is not Mode.HYBRID:  # hybrid scores are by rank among the filtered
            kept = [item for item in whole.items if item.uri[-1] in "AC"]
            assert list(found.items) == kept
        memories = filled.retrieve(
            "tea", vector=vector(1, 0, 0), mode=mode, context_types=[ContextType.MEMORY]
        )
        assert names(memories) == ["m"]


def test_an_empty_answer_says_why(filled: MessageClient) -> None:
    """An empty reply is NO_MATCH, or BELOW_THRESHOLD if no score is above the threshold (4)."""
    assert filled.retrieve("zebra", mode=Mode.KEYWORD).outcome == OUTCOME_NO_MATCH
    best = filled.retrieve("tea", mode=Mode.KEYWORD).items[0].score
    below = filled.retrieve("tea", mode=Mode.KEYWORD, score_threshold=best)
    assert (list(below.items), below.outcome) == ([], OUTCOME_BELOW_THRESHOLD)
    above = filled.retrieve("tea", mode=Mode.KEYWORD, score_threshold=best - 1e-6)
    assert names(above) == ["B"]


def test_optional_clauses_are_dropped_once_when_nothing_is_found(filled: MessageClient) -> None:
    """A filter without results drops its optional clauses once, and the reply names them."""
    where = {"year": 1999, "lang": "en"}
    asked = {"mode": Mode.KEYWORD, "where": where}
    assert not filled.retrieve("tea", **asked).items
    found = filled.retrieve("tea", **asked, optional_clauses=["year", "year"])
    assert (names(found), list(found.relaxed_clauses)) == (["A"], ["year"])
    still = filled.retrieve("tea", **asked, optional_clauses=["lang"])
    assert (names(still), list(still.relaxed_clauses)) == ([], ["lang"])
    enough = filled.retrieve(
        "tea", mode=Mode.KEYWORD, where={"lang": "en"}, optional_clauses=["lang"]
    )
    assert (names(enough), list(enough.relaxed_clauses)) == (["A"], [])


def test_a_filter_alone_lists_what_it_lets_through_in_pages(filled: MessageClient) -> None:
    """A filter without a query lists each living context once, by URI and in pages (24)."""
    filled.put([Draft(f"{TOP}/a{i}/x", content="x", metadata={"n": i}) for i in range(7)])
    filled.delete(f"{TOP}/a3")
    seen: list[str] = []
    token = ""
    while True:
        page = filled.retrieve(
            mode=Mode.KEYWORD,
            where={"n": {"$gte": 1}},
            top_k=2,
            page_token=token,
            target_uri=f"{TOP}/",
        )
        assert all(item.score == 1 for item in page.items)
        seen += [item.uri for item in page.items]
        token = page.next_page_token
        if not token:
            break
    assert seen == [f"{TOP}/a{i}/x" for i in (1, 2, 4, 5, 6)]


def test_a_text_is_returned_once_and_a_context_too_where_asked(client: MessageClient) -> None:
    """Equal texts are returned once, as is a context on request, and the limit is filled (13)."""
    said = "the same words about tea"
    pieces = ("tea one", "tea two", "tea three")
    content = "\n".join(pieces)
    starts = [content.index(piece) for piece in pieces]
    cut = [Passage("", at, at + len(p)) for at, p in zip(starts, pieces, strict=True)]
    client.put([Draft(f"{TOP}/copy{i:03}", content=said) for i in range(250)])
    client.put(
        [
            Draft(f"{TOP}/pieces", content=content, passages=cut),
            Draft(f"{TOP}/other", content="tea and much that is not about it"),
        ]
    )
    found = client.retrieve("tea words", mode=Mode.KEYWORD, top_k=5)
    assert names(found).count("copy000") == 1
    assert len(found.items) == 5
    assert len({item.text for item in found.items}) == 5
    grouped = client.retrieve("tea words", mode=Mode.KEYWORD, top_k=5, group_by_context=True)
    assert sorted(names(grouped)) == ["copy000", "other", "pieces"]


def test_diversity_prefers_what_is_unlike_what_is_there(client: MessageClient) -> None:
    """Diversity replaces the second of two similar texts by a different one."""
    client.put(
        [
            Draft(f"{TOP}/a", content="tea", vector=vector(1, 0, 0.1)),
            Draft(f"{TOP}/b", content="tea!", vector=vector(1, 0, 0.11)),
            Draft(f"{TOP}/c", content="tea?", vector=vector(0.8, 0.6, 0)),
            Draft(f"{TOP}/d", content="no", vector=vector(-1, -0.5, 0)),
        ]
    )
    asked = {"vector": vector(1, 0.2, 0), "mode": Mode.VECTOR, "top_k": 2}
    plain, diverse = client.retrieve(**asked), client.retrieve(**asked, diversity=0.5)
    assert names(plain)[0] == names(diverse)[0]
    assert {names(plain)[1], names(diverse)[1]} & {"c"}
    assert names(plain) != names(diverse)


def test_boosts_multiply_scores_and_are_told(filled: MessageClient) -> None:
    """A boost multiplies scores below a URI or with matching metadata, and the trace has it."""
    boosts = [Boost(3, uri_prefix=f"{TOP}/D"), Boost(2, where={"year": 2024})]
    plain = {i.uri[-1]: i.score for i in filled.retrieve("tea", mode=Mode.KEYWORD).items}
    found = filled.retrieve("tea", mode=Mode.KEYWORD, boosts=boosts, trace=True)
    factors = {"A": 2, "B": 1, "D": 3}
    assert {i.uri[-1]: i.trace.boost for i in found.items} == factors
    for item in found.items:
        assert item.trace.fused == pytest.approx(plain[item.uri[-1]])
        assert item.score == pytest.approx(plain[item.uri[-1]] * factors[item.uri[-1]])
    assert [i.score for i in found.items] == sorted((i.score for i in found.items), reverse=True)


@pytest.mark.parametrize(
    ("boosts", "first"),
    [
        ([Boost(100, uri_prefix=f"{TOP}/199")], ["199", "000"]),
        ([Boost(0.01, where={"i": {"$lt": 150}})], ["150", "151"]),
    ],
)
def test_boosts_bring_up_what_is_far_down(
    client: MessageClient, boosts: list[Boost], first: list[str]
) -> None:
    """A boost changes the best results also when a text is far down the list."""
    client.put(
        [
            Draft(f"{TOP}/{i:03}", content=f"tea {i}" + " leaves" * (i // 4), metadata={"i": i})
            for i in range(200)
        ]
    )
    found = client.retrieve("tea", mode=Mode.KEYWORD, boosts=boosts, top_k=2)
    assert names(found) == first


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    "more",
    [
        {"mode": Mode.KEYWORD},
        {"mode": Mode.VECTOR},
        {"fusion": Rrf()},
        {"fusion": Rrf(5, 3, 2)},
        {"fusion": WeightedSum(0.5, 0.5)},
        {"mode": Mode.KEYWORD, "diversity": 0.5},
        {"mode": Mode.KEYWORD, "trace": False},
        {"mode": Mode.VECTOR, "trace": False},
    ],
)
def test_ties_are_by_uri_however_many_there_are(
    client: MessageClient, more: dict[str, object]
) -> None:
    """Ties are ordered by URI, whatever the order of writes, also after a compaction."""
    same = vector(1, 0, 1)
    client.put([Draft(f"{TOP}/other", content="coffee", vector=vector(0, 1, 1))])
    for low in (150, 0):
        numbers = range(low, low + 150)
        client.put([Draft(f"{TOP}/{i:03}", content=f"tea {i:03}", vector=same) for i in numbers])
    query = {"query": "tea", "top_k": 2, "trace": True, **more}
    if more.get("mode") is not Mode.KEYWORD:
        query["vector"] = same
    found = client.retrieve(**query)
    assert names(found) == ["000", "001"]
    assert (found.items[0].score == found.items[1].score) == ("Rrf" not in repr(more))
    client.optimize()
    assert client.retrieve(**query).items == found.items


def test_items_bring_what_is_asked_for(filled: MessageClient) -> None:
    """An item has its text by default, or exactly the requested fields."""
    (plain,) = filled.retrieve("tea", mode=Mode.KEYWORD, top_k=1).items
    assert (plain.text, plain.passage, plain.end) == ("tea tea tea", 1, 11)
    assert not plain.vector
    assert not plain.HasField("metadata")
    (rich,) = filled.retrieve(
        "tea", mode=Mode.KEYWORD, top_k=1, include=[Include.METADATA, Include.VECTOR]
    ).items
    assert not rich.text
    assert dict(rich.metadata) == {"year": 2020}
    brought = array("f", rich.vector)
    assert brought[1] / brought[0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, "query"),
        ({"vector": vector(1, 0, 0), "mode": Mode.KEYWORD}, "query"),
        ({"query": "x", "mode": Mode.VECTOR}, "vector"),
        ({"query": "x", "top_k": 1001}, "top_k"),
        ({"query": "x", "diversity": 1.5}, "diversity"),
        ({"query": "x", "score_threshold": float("nan")}, "score_threshold"),
        ({"query": "x", "fusion": Rrf(vector_weight=-1)}, "rrf.vector_weight"),
        ({"query": "x", "fusion": Rrf(keyword_weight=101)}, "rrf.keyword_weight"),
        ({"query": "x", "fusion": WeightedSum(100.1, 0)}, "weighted.vector_weight"),
        ({"query": "x", "fusion": Rrf(vector_weight=0, keyword_weight=0)}, "rrf"),
        ({"query": "x", "fusion": WeightedSum(0, 0)}, "weighted"),
        ({"query": "x", "boosts": [Boost(0, uri_prefix=TOP)]}, "boosts[0].factor"),
        ({"query": "x", "boosts": [Boost(2)]}, "boosts[0]"),
        ({"query": "x", "boosts": [Boost(2, where={"a": {"$no": 1}})]}, "boosts[0].where.a.$no"),
        ({"query": "x", "where": {"a": {"$gt": True}}}, "where.a.$gt"),
        ({"query": "x", "optional_clauses": ["a"]}, "optional_clauses[0]"),
        ({"query": "x", "page_token": "x"}, "page_token"),
        ({"mode": Mode.KEYWORD, "where": {"a": 1}, "page_token": "?"}, "page_token"),
        ({"query": "x", "target_uri": "viking://resources/../x"}, "target_uri"),
    ],
)
def test_a_bad_request_names_its_field(filled: MessageClient, request_: dict, field: str) -> None:
    """A bad request is refused with the name of its field in the proto (3)."""
    with pytest.raises(ClientError) as caught:
        filled.retrieve(**request_)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_without_an_embedder_words_answer_and_the_reply_says_so(filled: MessageClient) -> None:
    """A query without a vector is answered by words, and the reply is degraded."""
    found = filled.retrieve("tea")
    assert names(found) == ["B", "D", "A"]
    assert "no embedder" in found.degraded[0].detail
    assert not filled.retrieve("tea", vector=vector(1, 0, 0)).degraded
    assert not filled.retrieve("tea", mode=Mode.KEYWORD).degraded


def test_what_a_request_leaves_open_is_the_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration gives limit, threshold, budget and reserve where a request does not."""
    for name, value in {
        "RETRIEVAL__TOP_K": "2",
        "RETRIEVAL__SCORE_THRESHOLD": "0.25",
        "CONTEXT__MAX_TOKENS": "30",
        "CONTEXT__RESERVE_TOKENS": "10",
    }.items():
        monkeypatch.setenv(f"VIKINGD_{name}", value)
    with serving("--provider", "none") as where, MessageClient(where) as own:
        own.put([Draft(f"{TOP}/{i}", content="tea " * i + "and more") for i in range(1, 6)])
        asked = {"query": "tea", "mode": Mode.KEYWORD}
        assert len(own.retrieve(**asked, score_threshold=0).items) == 2
        assert len(own.retrieve(**asked, score_threshold=0, top_k=9).items) == 5
        assert own.retrieve("tea water", mode=Mode.KEYWORD).outcome == OUTCOME_BELOW_THRESHOLD
        assert own.build_context("tea").budget_tokens == 20
        assert own.build_context("tea", max_tokens=25).budget_tokens == 25
        assert own.build_context("tea", reserve_tokens=0).budget_tokens == 30
