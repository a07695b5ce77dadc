"""Results as sequences, dicts and tables."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest

from tests.programs import package
from vikingd.client import Client, Document

NOTES = "viking://resources/notes/"


@pytest.fixture
def filled(typed: Client) -> Client:
    """Return a client of a tree with a dozen notes and a memory."""
    typed.put(
        Document(f"{NOTES}{i:02}.md", f"oolong {'green ' * i}tea", metadata={"n": i})
        for i in range(12)
    )
    typed.remember("Drinks oolong.", "preferences")
    return typed


def test_results_are_sequences(filled: Client) -> None:
    """A result is indexed, sliced, counted and iterated, best first."""
    for found in (
        filled.find("oolong", limit=20),
        filled.search("oolong", limit=20),
        filled.retrieve("oolong", limit=20),
        filled.recall("oolong"),
    ):
        hits = list(found)
        assert len(found) == len(hits) > 0
        assert (found[0], found[-1]) == (hits[0], hits[-1])
        assert found[:2] == tuple(hits[:2])
        assert [hit.score for hit in found] == sorted((hit.score for hit in hits), reverse=True)
        with pytest.raises(IndexError):
            found[len(hits)]
    assert not filled.find("zebra")


def test_the_text_of_a_match_is_its_best_passage(filled: Client) -> None:
    """`text` is the best passage, or the abstract where no passage matched."""
    words = "# Cups\n\nOf clay.\n\n# Kettles\n\nOf iron, with a spout like a heron.\n"
    filled.put(Document(f"{NOTES}ware.md", words, abstract="Of ware."))
    best = filled.find("heron")[0]
    assert best.text == best.passages[0].text
    assert "heron" in best.text
    filled.put(Document("viking://resources/cups", is_directory=True, abstract="Cups of clay."))
    found = {match.uri: match for match in filled.find("clay", levels="directory")}
    cups = found["viking://resources/cups"]
    assert (cups.text, cups.passages) == ("Cups of clay.", ())


def test_results_are_dicts_that_json_takes(filled: Client) -> None:
    """Dicts have names for enums, texts for times and lists for vectors."""
    found = filled.find("oolong", limit=2, trace=True).to_dicts()
    assert json.loads(json.dumps(found)) == found
    assert len(found) == 2
    assert {one["context_type"] for one in found} <= {"resource", "memory"}
    assert "oolong" in found[0]["text"]
    assert found[0]["passages"][0]["score"] > 0
    assert found[0]["parts"]
    assert "parts" not in filled.find("oolong").to_dicts()[0]
    [memory] = filled.recall("oolong").to_dicts()
    assert memory["content"] == "Drinks oolong."
    assert abs((datetime.now(UTC) - datetime.fromisoformat(memory["time"])).total_seconds()) < 300
    uri = f"{NOTES}vector.md"
    filled.put(Document(uri, "jasmine", vector=[1.0, 0.0]))
    [item] = filled.retrieve("jasmine", mode="keyword", include=("vector", "text")).to_dicts()
    assert item["vector"] == [1.0, 0.0]
    assert item["text"] == "jasmine"


def test_results_are_tables(filled: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DataFrame has a row for each hit, and times as times; without pandas it says so."""
    package("pandas", "pandas")
    found = filled.find("oolong", limit=3)
    frame = found.to_pandas()
    assert list(frame["uri"]) == [hit.uri for hit in found]
    assert list(frame["score"]) == [hit.score for hit in found]
    recalled = filled.recall("oolong")
    assert recalled[0].time is not None
    assert recalled.to_pandas()["time"][0].to_pydatetime() == recalled[0].time
    assert len(filled.find("zebra").to_pandas()) == 0
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        found.to_pandas()


def test_a_result_is_shown_in_a_few_lines(filled: Client) -> None:
    """The repr has a line for each of the first ten hits, and the number of the others."""
    lines = repr(filled.find("oolong", limit=12, target_uri=NOTES)).splitlines()
    assert lines[0] == "<FindResult: 12 results>"
    assert len(lines) == 12
    assert lines[1].lstrip().startswith("0.")
    assert NOTES in lines[1]
    assert lines[-1] == "  ... 2 more"
    assert max(map(len, lines)) < 140
    assert repr(filled.recall("oolong")).startswith("<RecallResult: 1 result>\n")
    assert repr(filled.find("zebra")) == "<FindResult: 0 results>"
