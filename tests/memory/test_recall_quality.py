"""Measures of recall quality against examples worked by hand, and their properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recall import (
    METHODS,
    Answer,
    Said,
    is_conversation,
    is_recalled,
    read_conversations,
    row,
    table,
)
from tests.tiers import examples
from vikingd.pb.memories_pb2 import Memory

DAY = "viking://projects/lamp/memories/journal/2026-03-09.md"
TEA = Said(7, DAY, "Ann: I had tea.\nTwo cups.")
PLAIN, SALIENCE, *_ = METHODS

some = examples(100)
answers = st.builds(
    Answer,
    recalled=st.lists(st.booleans(), min_size=1, max_size=4),
    tokens=st.integers(0, 1500),
    results=st.integers(0, 30),
    searched=st.booleans(),
    seconds=st.floats(0.001, 1),
)


def test_a_turn_is_recalled_as_its_entry():
    """An entry with the id of the turn counts as recalled, whatever its text is."""
    assert is_recalled(TEA, [Memory(id=3, content="x"), Memory(id=7, content="I had tea!")])
    assert not is_recalled(TEA, [Memory(id=3, content="x")])
    assert not is_recalled(TEA, [])


def test_a_turn_is_recalled_word_by_word():
    """An entry with another id counts as recalled if its text equals the turn."""
    assert is_recalled(TEA, [Memory(id=3, content="Ann: I had tea. Two cups.")])
    assert not is_recalled(TEA, [Memory(id=3, content="Ann: I had tea. Two cups. And a cake.")])


def test_a_turn_is_recalled_in_its_whole_file():
    """A turn counts if its file was not cut before the turn; another file does not count."""
    content = "# 2026-03-09\n\n- Ann: I had tea.\n  Two cups.\n"
    assert is_recalled(TEA, [Memory(uri=DAY, content=content)])
    assert not is_recalled(TEA, [Memory(uri=DAY, content=content[:-8], truncated=True)])
    assert not is_recalled(TEA, [Memory(uri=DAY.replace("09", "08"), content=content)])


def test_a_question_counts_when_all_its_evidence_is_recalled():
    """A question counts if all its evidence is recalled; the mean share is (1 + 1/4 + 0) / 3."""
    found = [
        Answer([True, True], 100, 4, True, 0.001),
        Answer([True, False, False, False], 200, 5, True, 0.004),
        Answer([False], 600, 1, False, 0.002),
    ]
    plain = [Answer([True], 0, 0, True, 0.0)] * 3
    measured = row("s", SALIENCE, found, plain)
    assert (measured.set, measured.method, measured.fusion) == ("s", "salience", "weighted")
    assert measured.share == pytest.approx(1 / 3)
    assert measured.beside_hybrid == pytest.approx(-2 / 3)
    assert measured.any == pytest.approx(2 / 3)
    assert measured.evidence == pytest.approx(1.25 / 3)
    assert measured.read == pytest.approx(1 / 3)
    assert (measured.tokens, measured.results, measured.questions) == (
        300,
        pytest.approx(10 / 3),
        3,
    )
    assert measured.p50_ms == pytest.approx(2.0)


@some
@given(st.lists(answers, min_size=1))
def test_all_is_at_most_the_mean_and_that_at_most_any(found):
    """The share of complete questions is at most the mean evidence, which is at most `any`."""
    measured = row("s", PLAIN, found, found)
    slack = 1e-12
    assert 0.0 <= measured.share <= measured.evidence + slack
    assert measured.evidence <= measured.any + slack <= 1.0 + 2 * slack
    assert measured.beside_hybrid == 0.0


def test_the_table_has_a_line_for_each_row():
    """The table has a line for each row, and one line for the time of a Remember."""
    found = [Answer([True], 100, 4, True, 0.001)]
    rows = [row("s", method, found, found, 90.0) for method in METHODS]
    lines = table(rows).splitlines()
    assert len(lines) == 1 + len(METHODS) + 1
    assert lines[-1] == "s: a Remember took 90 ms (median)"


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    """Return the directory of two conversations of two turns and of two questions."""
    turns = [("a", 2), ("a", 1), ("b", 1), ("b", 2)]
    documents = [
        {
            "uri": f"viking://user/memories/{c}/{n}",
            "text": f"{c}{n}",
            "time": f"2026-03-0{n}T12:00Z",
        }
        for c, n in turns
    ]
    queries = [{"id": c, "text": f"q {c}", "scope": f"viking://user/memories/{c}"} for c in "ab"]
    for name, records in (("documents", documents), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    judged = "".join(f"{c}\tviking://user/memories/{c}/1\t1\n" for c in "ab")
    (tmp_path / "qrels.tsv").write_text("query\turi\tgrade\n" + judged)
    return tmp_path


def test_conversations_are_what_queries_ask(conversations):
    """Each conversation is a project with its turns in order of time and its own questions."""
    assert is_conversation(conversations)
    first, second = read_conversations(conversations)
    assert (first.project, second.project) == ("a", "b")
    assert [turn.text for turn in first.turns] == ["a1", "a2"]
    assert [query.text for query in second.questions] == ["q b"]


def test_documents_without_a_time_are_no_conversation(conversations):
    """A set with a document without a time is no conversation."""
    with (conversations / "documents.jsonl").open("a") as lines:
        lines.write(json.dumps({"uri": "viking://user/memories/a/3", "text": "a3"}) + "\n")
    assert not is_conversation(conversations)
