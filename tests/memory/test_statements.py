"""What is present and what is history after statements of the kinds that people make.

`statements.jsonl` has a case in each line: the messages in `said`, on the `days`, and words that
the present and the earlier memories must or must not have afterwards. `unread` says why the grammar
takes none of the last message, so that what stood there stays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.memory.extract_helpers import session
from tests.nodes.reader_helpers import serving
from vikingd.client import Client
from vikingd.memory.memory_types import is_earlier

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("statements.jsonl").read_text("utf-8").splitlines()
]
QUICK = 1
"""Cases of each kind and language that run on every change."""


def params() -> Iterator[Any]:
    """Yield the cases; all but the first few of each kind are costly."""
    counts: Counter[tuple[str, str]] = Counter()
    for case in CASES:
        kind = case["kind"], case["language"]
        counts[kind] += 1
        marks = [pytest.mark.deep] if counts[kind] > QUICK else []
        yield pytest.param(case, id=f"{'-'.join(kind)}-{counts[kind]}", marks=marks)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield a client of a daemon without an embedder and without episodes."""
    with (
        serving(
            tmp_path_factory.mktemp("store"), "--provider", "none", VIKINGD_RECALL__EPISODES="0"
        ) as daemon,
        Client(daemon.address) as made,
    ):
        yield made


@pytest.mark.parametrize("case", params())
def test_what_is_present_and_what_is_history(client: Client, case: dict[str, Any]) -> None:
    """Facts are whole or not taken; a newer value, a denial or an end moves the older one."""
    for context in list(client.list()):
        client.delete(context.uri)
    days = case.get("days") or [case["today"]] * len(case["said"])
    results = [
        client.extract(session(said), time=datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC))
        for said, day in zip(case["said"], days, strict=True)
    ]
    stored = [memory for memory in client.memories() if memory.kind != "journal"]
    journal = [memory.text for memory in client.memories() if memory.kind == "journal"]
    earlier = [one.text.casefold() for one in stored if is_earlier(one.section)]
    changes = [
        text
        for text in journal
        if "Before:" in text or "Ended:" in text or "已结束" in text or "之前：" in text
    ]
    present = [one.text for one in stored if not is_earlier(one.section)]
    present += [text for text in journal if text not in changes]
    shown = "\n".join(present).casefold()
    if case.get("unread"):
        assert results[-1].not_taken
        return
    if present or not case["may_be_empty"]:
        for words in case["present"]:
            assert any(word.casefold() in shown for word in words), (words, present)
    for word in case["absent"]:
        assert word.casefold() not in shown
    for word in case["earlier"]:
        assert any(word.casefold() in text for text in earlier), (word, earlier)
    if case.get("nothing"):
        assert not present
