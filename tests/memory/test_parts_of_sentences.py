"""Facts in sentences that the grammar understands in part, and what takes them back.

Each case of `parts_of_sentences.jsonl` has the messages of a user on 1 December 2026, and all the
facts that they state.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from vikingd.domain.search_query import SessionMessage
from vikingd.memory.said_dates import SaidAt
from vikingd.memory.statements import read

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("parts_of_sentences.jsonl").read_text("utf-8").splitlines()
]
NOON = SaidAt(round(datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp() * 1e6))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " / ".join(case["said"]))
def test_a_clause_is_taken_if_the_others_cannot_change_it(case: dict[str, Any]) -> None:
    """A fact beside clauses that are not understood is taken alone, or not at all."""
    messages = [SessionMessage("user", text) for text in case["said"]]
    assert [one.text for one in read(messages, 0, NOON).proposals] == case["facts"]
