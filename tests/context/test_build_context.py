"""BuildContext over gRPC from a query, items or URIs, and its refusals."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from vikingd.client import (
    CitationStyle,
    Client,
    ClientError,
    ContextOrder,
    DegradationReason,
    Draft,
    DropReason,
    Mode,
    Passage,
    find_request,
    retrieve_request,
)
from vikingd.client.messages import MessageClient
from vikingd.context.tokenizers import open_tokenizer
from vikingd.pb.retrieval_pb2 import BuildContextResponse

pytestmark = pytest.mark.stores

TOP = "viking://resources/c"


@pytest.fixture
def filled(client: MessageClient) -> MessageClient:
    """Return a client of a daemon with documents about tea and one about coffee."""
    steps = [f"Step {i}: steep the tea for {i} minutes.\n" for i in range(1, 5)]
    ends = list(accumulate(map(len, steps)))
    cut = [Passage("", end - len(step), end) for step, end in zip(steps, ends, strict=True)]
    green = Draft(f"{TOP}/green.md", content="".join(steps), overview="All tea", passages=cut)
    client.put(
        [
            green,
            Draft(f"{TOP}/绿茶.md", content="绿茶用八十度的水。泡两分钟。"),
            Draft(f"{TOP}/black.md", content="Black tea wants boiling water. 🍵 Four minutes."),
            Draft(f"{TOP}/coffee.md", content="Coffee is another matter."),
        ]
    )
    return client


def checked(reply: BuildContextResponse, budget: int, tokenizer: str = "o200k_base") -> list[str]:
    """Check the budget and the citations of a reply, and return the cited names in order."""
    assert reply.used_tokens == open_tokenizer(tokenizer).count(reply.text) <= budget
    assert reply.budget_tokens == budget
    for cited in reply.citations:
        body = reply.text[cited.start : cited.end]
        assert body
        assert not body.startswith("[")
        if cited.marker:
            assert cited.marker in reply.text[: cited.start]
    return [cited.uri.rpartition("/")[2] for cited in reply.citations]


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("tokenizer", ["o200k_base", "cl100k_base", "qwen3", "llama3", "approx"])
def test_a_find_becomes_a_text_within_its_budget(filled: MessageClient, tokenizer: str) -> None:
    """The text of a find fits its budget with each tokenizer, in English and Chinese."""
    for query in ("tea minutes", "绿茶"):
        reply = filled.build_context(query, max_tokens=60, reserve_tokens=20, tokenizer=tokenizer)
        cited = checked(reply, 40, tokenizer)
        assert "coffee.md" not in cited
        assert reply.from_items >= 1
        assert reply.approximate == (tokenizer == "approx")
    assert cited == ["绿茶.md"]


def test_a_find_without_a_limit_has_thirty_files(client: MessageClient) -> None:
    """A context that is asked for by a question alone has more files than a find shows."""
    client.put([Draft(f"{TOP}/{i}.md", content=f"Ferry {i} sails.") for i in range(40)])
    for find, files in ((None, 30), (find_request("ferry", limit=12), 12)):
        source = {"find": find} if find else {"query": "ferry"}
        reply = client.build_context(**source, max_tokens=4000)
        assert len({cited.uri for cited in reply.citations}) == files


def test_a_retrieval_becomes_a_text_with_its_degradation(filled: MessageClient) -> None:
    """A context from Retrieve has the retrieved passages and reports the degradation."""
    reply = filled.build_context(
        retrieve=retrieve_request("coffee", mode=Mode.HYBRID),
        max_tokens=200,
        citation=CitationStyle.URI,
    )
    assert checked(reply, 200) == ["coffee.md"]
    assert reply.text.startswith(f"[{TOP}/coffee.md]")
    assert "words alone" in reply.degraded[0].detail
    assert [timing.stage for timing in reply.timings][-1] == "build"


def test_items_are_taken_by_name_and_passage(filled: MessageClient) -> None:
    """The items of a context are in the order of their scores or of the tree."""
    names = [(f"{TOP}/green.md", 2, 0.2), (f"{TOP}/black.md", 0, 0.9), (f"{TOP}/green.md", 1, 0.1)]
    by_score = filled.build_context(items=names, max_tokens=500)
    assert checked(by_score, 500)[0] == "black.md"
    in_tree = filled.build_context(items=names, max_tokens=500, order=ContextOrder.TREE)
    assert checked(in_tree, 500)[0] == "black.md"
    assert in_tree.text.index("Step 1") < in_tree.text.index("Step 2")
    assert in_tree.from_items == 3


def test_whole_contexts_are_taken_by_uri_best_first(filled: MessageClient) -> None:
    """A context from a URI has the whole content if the content fits the budget."""
    uris = [f"{TOP}/green.md", f"{TOP}/coffee.md"]
    whole = filled.build_context(uris=uris, max_tokens=1000)
    assert checked(whole, 1000) == ["green.md", "coffee.md"]
    assert "Step 4" in whole.text
    small = filled.build_context(uris=uris, max_tokens=40)
    assert "green.md" in checked(small, 40)
    assert "Step 4" not in small.text


def test_what_is_gone_is_dropped_and_said(filled: MessageClient) -> None:
    """Deleted contexts and missing passages are dropped with a reason, best score first."""
    filled.delete(f"{TOP}/black.md")
    items = [
        (f"{TOP}/green.md", 99, 0.9),
        (f"{TOP}/black.md", 1, 1.0),
        (f"{TOP}/coffee.md", 1, 0.7),
        (f"{TOP}/coffee.md", 1, 0.6),
        (f"{TOP}/green.md", 98, 0.5),
    ]
    reply = filled.build_context(items=items, max_tokens=100)
    assert checked(reply, 100) == ["coffee.md"]
    assert [(d.uri, d.reason) for d in reply.dropped] == [
        (f"{TOP}/black.md", DropReason.GONE),
        (f"{TOP}/green.md", DropReason.GONE),
        (f"{TOP}/coffee.md", DropReason.DUPLICATE),
        (f"{TOP}/green.md", DropReason.GONE),
    ]
    assert reply.from_items == 1
    gone = filled.build_context(uris=[f"{TOP}/black.md"], max_tokens=100)
    assert (gone.text, gone.used_tokens, gone.dropped[0].reason) == ("", 0, DropReason.GONE)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, "source"),
        ({"query": "x", "tokenizer": "words"}, "tokenizer"),
        ({"query": "x", "tokenizer": "hf:/dev/zero"}, "tokenizer"),
        ({"query": "x", "tokenizer": "tiktoken:gpt2"}, "tokenizer"),
        ({"query": "x", "max_tokens": 5, "reserve_tokens": 5}, "reserve_tokens"),
        ({"query": "x", "separator": "-" * 65}, "separator"),
        ({"uris": ["nowhere"]}, "uris.uris[0]"),
        ({"items": [(f"{TOP}/../x", 0, 1.0)]}, "items.items[0].uri"),
        ({"items": [(TOP, 0, float("nan"))]}, "items.items[0].score"),
        ({"uris": [TOP] * 1001}, "uris.uris"),
        ({"find": find_request("")}, "find.query"),
        ({"retrieve": retrieve_request("x", mode=Mode.VECTOR)}, "retrieve.vector"),
    ],
)
def test_a_bad_request_names_its_field(
    filled: MessageClient, request_: dict[str, Any], field: str
) -> None:
    """A bad request is refused with the name of its proto field."""
    with pytest.raises(ClientError) as caught:
        filled.build_context(**request_)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_a_context_of_no_results_is_empty(filled: MessageClient) -> None:
    """A context from no items or no URIs is empty and no error."""
    for reply in (filled.build_context(items=[]), filled.build_context(uris=[])):
        assert (reply.text, list(reply.dropped), reply.used_tokens) == ("", [], 0)


def test_a_context_has_one_source(filled: MessageClient) -> None:
    """The client refuses two sources and names both."""
    with pytest.raises(ValueError, match="query and uris are given"):
        filled.build_context("x", uris=[TOP])


def test_the_results_of_a_find_are_items_of_a_context(filled: MessageClient) -> None:
    """The results of Find or Retrieve, given as items, make the same text as their query."""
    with Client(filled.address) as typed:
        _check_items(typed)


def _check_items(typed: Client) -> None:
    found = typed.find("steep the tea", limit=30)
    assert found.contexts[0].passages[0].ordinal
    assert [match.uri for match in found.contexts] == [match.uri for match in found]
    text = typed.build_context("steep the tea", max_tokens=500).text
    assert typed.build_context(items=found, max_tokens=500).text == text
    retrieved = typed.retrieve("tea", mode=Mode.KEYWORD, top_k=2)
    request = retrieve_request("tea", mode=Mode.KEYWORD, limit=2)
    text = typed.build_context(retrieve=request, max_tokens=500).text
    assert typed.build_context(items=retrieved, max_tokens=500).text == text


def test_sources_are_bounded_before_they_are_read(filled: MessageClient) -> None:
    """Whole contexts above a total size are refused, but single passages of them are accepted."""
    words = ("word " * 12 + "\n") * 17_000
    uris = [f"{TOP}/large{i}.txt" for i in range(16)]
    for uri in uris:
        filled.put([Draft(uri, content=words, passages=[Passage("", 0, 60)])])
    with pytest.raises(ClientError, match="14,680,064 bytes") as caught:
        filled.build_context(uris=uris, max_tokens=1000)
    assert (caught.value.code.name, caught.value.reason) == ("FAILED_PRECONDITION", "TOO_LARGE")
    reply = filled.build_context(uris=uris[:3], max_tokens=1000)
    assert reply.citations
    items = [(uri, 1, 1.0) for uri in uris]
    assert filled.build_context(items=items, max_tokens=1000).citations


def test_a_memory_shows_its_day(client: MessageClient) -> None:
    """A memory has the day when it was last said before it; a document has none."""
    client.put([Draft(f"{TOP}/tram.md", content="The tram is blue.")])
    for day, text in ((3, "Rode the tram."), (5, "Missed the tram.")):
        client.remember(text, f"notes{day}", time=f"2026-03-{day:02}T12:00:00Z")
    for source in (
        {"find": find_request("tram", limit=10)},
        {"retrieve": retrieve_request("tram", mode=Mode.KEYWORD)},
    ):
        text = client.build_context(**source, max_tokens=500, reserve_tokens=0).text
        assert "] (2026-03-03) Notes3\nRode the tram." in text
        assert "] (2026-03-05) Notes5\nMissed the tram." in text
        assert "] The tram is blue." in text


def test_an_abstract_stands_below_the_title_or_the_name_of_its_file(client: MessageClient) -> None:
    """A model can tell what an abstract is about, and the heading counts as tokens."""
    text = "Grind the beans fresh, and pour the water slowly. " * 20
    client.put(
        [
            Draft(f"{TOP}/a.md", abstract="All about it.", content=f"1 {text}"),
            Draft(f"{TOP}/b.md", title="Coffee", abstract="How to brew.", content=f"2 {text}"),
            Draft(f"{TOP}/c.md", abstract="When to drink.", content=f"3 {text}"),
            Draft(f"{TOP}/d.md", title="Cups", abstract="Cups of clay.", content=f"4 {text}"),
        ]
    )
    reply = client.build_context(uris=[f"{TOP}/{name}.md" for name in "abcd"], max_tokens=40)
    checked(reply, 40)
    summaries = "[2] Coffee\nHow to brew.\n\n[3] c.md\nWhen to drink.\n\n[4] Cups of clay."
    assert reply.text.endswith(f"\n\n{summaries}")
    assert [cited.section for cited in reply.citations] == ["", "Coffee", "c.md", "Cups"]


@pytest.mark.parametrize("full", [False, True])
def test_a_budget_that_is_too_small_is_told(filled: MessageClient, full: bool) -> None:
    """The note names the smallest budget that shows a piece."""
    uris = [f"{TOP}/coffee.md", f"{TOP}/black.md"]
    empty = filled.build_context(uris=uris, max_tokens=1, full_text_only=full)
    assert (empty.text, len(empty.dropped)) == ("", 2)
    (note,) = empty.degraded
    assert note.reason == DegradationReason.BUDGET
    least = int(note.detail.rpartition(" ")[2])
    assert note.detail == (
        f"nothing fits into 1 tokens: 2 pieces left out, the first needs {least}"
    )
    assert not filled.build_context(uris=uris, max_tokens=least - 1, full_text_only=full).text
    enough = filled.build_context(uris=uris, max_tokens=least, full_text_only=full)
    assert enough.text
    assert not enough.degraded
