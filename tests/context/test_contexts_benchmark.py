"""The benchmark of contexts, over a small set."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import contexts
from benchmarks.contexts import Prompt, is_told, judged, row
from benchmarks.judged import Query
from vikingd.pb.retrieval_pb2 import BuildContextResponse, ContextCitation

SCOPE = "viking://resources/ferry"
DOCUMENTS = {
    "a.md": "The ferry leaves at nine.",
    "b.md": "# Piers\n\nThe ferry has two piers, one in the north and one in the south of the bay."
    "\n\nIn winter it calls at neither, because the ice closes both. The ferry waits upstream, "
    "behind the old bridge of stone, until the harbour master opens the bay in early spring.",
    "c.md": "Trams run all night.",
}
ABSTRACTS = {"b.md": "Piers of the ferry, by the season."}
FIRST, SECOND = "The ferry leaves at nine.", "It waits behind the old bridge."


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """Return a directory with one set: a question about two of three documents."""
    at = tmp_path / "sets" / "ferry"
    at.mkdir(parents=True)
    documents = [
        {"uri": f"{SCOPE}/{name}", "text": text, "abstract": ABSTRACTS.get(name, "")}
        for name, text in DOCUMENTS.items()
    ]
    queries = [{"id": "q", "text": "ferry", "scope": SCOPE}]
    for name, rows in (("documents", documents), ("queries", queries)):
        (at / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (at / "qrels.tsv").write_text(f"query\turi\tgrade\nq\t{SCOPE}/a.md\t1\nq\t{SCOPE}/b.md\t1\n")
    return at.parent


@pytest.mark.deep
def test_a_larger_budget_tells_more(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small budget shows the longer page by its beginning, a larger one has all of it."""
    out, store = tmp_path / "figures.json", tmp_path / "store"
    where = "--datasets", str(sets), "--store", str(store), "--json", str(out)
    contexts.main([*where, "--provider", "none", "--tokens", "32", "200"])
    small, large = json.loads(out.read_text())
    assert (small["budget"], large["budget"]) == (32, 200)
    for one in (small, large):
        assert (one["found"], one["shown"], one["all_shown"]) == (1.0, 1.0, 1.0)
        assert 0 < one["tokens"] <= one["budget"]
    fields = "told", "passages", "all_told", "abstracts", "overviews", "contents"
    assert [small[field] for field in fields] == [0.5, 0.5, 0.0, 0.0, 0.0, 2.0]
    assert [large[field] for field in fields] == [1.0, 1.0, 1.0, 0.0, 0.0, 2.0]
    assert capsys.readouterr().out.splitlines()[1].startswith("ferry      32")


@pytest.mark.parametrize(
    ("passage", "told"),
    [
        (FIRST, True),
        (f"{FIRST} It rains.", True),
        (f"{FIRST} It rains. It snows.", False),
        ("The ferry\nleaves at nine.", True),
        ("The ferry leaves at nine sharp.", False),
        ("[1] The piers.", True),
        ("", False),
    ],
)
def test_half_of_the_sentences_tell_a_passage(passage: str, told: bool) -> None:
    """Of a passage at least half of the sentences are there, of a short one the whole."""
    assert is_told(passage, "(…) The ferry leaves at nine. [1] The piers.") is told


@pytest.mark.parametrize(
    ("levels", "shown", "told"),
    [((0, 0), 2, 0), ((0, 1), 2, 0), ((2, 1), 2, 1), ((2, 2), 2, 2), ((2,), 1, 1), ((), 0, 0)],
)
def test_only_its_own_content_tells_a_document(
    levels: tuple[int, ...], shown: int, told: int
) -> None:
    """A summary with the words of the passage shows a document without telling it.

    So does a better source with the same words. A document that was not found is evidence, too.
    """
    said = {"viking://a": f"{FIRST} {SECOND}", "viking://b": SECOND}
    query = Query("q", "viking://", "", frozenset({*said, "viking://c"}), frozenset())
    text, citations = "", []
    for level, (uri, passage) in zip(levels, said.items(), strict=False):
        start = len(text)
        text += passage
        citations.append(ContextCitation(uri=uri, level=level, start=start, end=len(text)))
    reply = BuildContextResponse(text=text, citations=citations, used_tokens=7)
    prompt = judged(query, {uri: [passage] for uri, passage in said.items()}, reply)
    assert (prompt.evidence, prompt.found, prompt.shown, prompt.told) == (3, 2, shown, told)
    assert (prompt.told_passages, prompt.passages) == (told, 2)
    assert prompt.levels == Counter(levels)
    assert not prompt.is_left_out


def test_a_row_has_shares_of_the_evidence() -> None:
    """Each question counts the same, and evidence that was not found counts as missing."""
    whole = Prompt(2, 2, 2, 2, 3, 4, False, Counter((2, 2)), 100, 0.002)
    part = Prompt(4, 2, 2, 1, 1, 4, False, Counter((2, 1, 0)), 60, 0.004)
    left_out = Prompt(1, 1, 0, 0, 0, 2, True, Counter(), 0, 0.003)
    figures = row("ferry", 200, [whole, part, left_out])
    assert figures.questions == 3
    assert (figures.found, figures.shown, figures.told) == pytest.approx((2.5 / 3, 0.5, 1.25 / 3))
    assert figures.passages == 0.4
    shares = figures.all_shown, figures.all_told, figures.left_out
    assert shares == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    sources = figures.abstracts, figures.overviews, figures.contents
    assert sources == pytest.approx((1 / 3, 1 / 3, 1.0))
    assert (figures.tokens, figures.p50_ms) == pytest.approx((160 / 3, 3.0))
