"""The questions of a request: a table in two languages, and the limits of the rules."""

from __future__ import annotations

import json
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vikingd.domain.find_query import FindQuery
from vikingd.plan.query_text import MOST, _questions_of, finds_of, questions_of

TABLE = Path(__file__).with_name("question_parts.jsonl")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
TWO = "Who repairs the boiler? Also, when is the rent due?"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_a_request_is_split_as_the_table_says(row: dict[str, Any]) -> None:
    """Several questions are parts; one question is itself, with all that is said around it."""
    assert questions_of(row["text"]) == tuple(row.get("parts", [row["text"]]))


def test_the_table_has_both_kinds_in_both_languages() -> None:
    """The table holds what the rules must not split as well as what they must."""
    split = [row for row in ROWS if "parts" in row]
    whole = [row for row in ROWS if "parts" not in row]
    for rows in (split, whole):
        chinese = [row for row in rows if not row["text"].isascii()]
        assert len(rows) >= 25
        assert len(rows) - len(chinese) >= 8
        assert len(chinese) >= 8


def test_the_last_part_holds_all_further_questions() -> None:
    """Of six questions the fourth part has the last three."""
    topics = "lease", "boiler", "garden", "bicycle", "projector", "museum"
    parts = questions_of(" ".join(f"Also, who has the {one} key?" for one in topics))
    assert len(parts) == MOST
    assert [one in parts[-1] for one in topics] == [False, False, False, True, True, True]


def test_a_query_with_a_vector_is_one_question() -> None:
    """The vector of a caller is that of the whole text."""
    assert [one.text for one in finds_of(FindQuery(TWO))] == list(questions_of(TWO))
    asked = FindQuery(TWO, vector=np.ones(4, np.float32))
    assert finds_of(asked) == (asked,)


@pytest.mark.parametrize(
    "piece", ["? ", "Also, a? ", "？另外，", "( ", "\n1. ", "什么", "a? and also "]
)
def test_a_request_of_many_parts_is_cheap(piece: str) -> None:
    """The work grows with the length of a request, not with its square."""
    text = piece * (4000 // len(piece))
    took = min(timeit.repeat(lambda: _questions_of.__wrapped__(text), number=1, repeat=3))
    assert took < 0.5
    assert len(questions_of(text)) <= MOST


def test_a_document_is_one_question() -> None:
    """A text of many pages with questions in it is not taken apart."""
    assert questions_of(TWO * 100) == (TWO * 100,)
