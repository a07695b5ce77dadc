"""The lines of passages, in the tail and in the base of an index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from viking_kernels.arrays import decode_file

from tests.index.test_shown_strings import COMPACTS, REBUILDS, RELOADS, STAYS, Fixture
from vikingd.domain.answers import ReplyBudget
from vikingd.domain.contexts import Passage
from vikingd.index.snapshot import Snapshot

FILE = "viking://resources/a.txt"

CONTENTS = {
    "line feeds": ("one\ntwo\n\nfour\n", {"one": "1-1", "two": "2-2", "four\n": "4-4"}),
    "a line feed at the end": ("one\ntwo\n\nfour", {"one\n": "1-1", "two\n\n": "2-3"}),
    "CRLF": ("one\r\ntwo\r\n\r\nfour\r\n", {"one\r\ntwo": "1-2", "four\r\n": "4-4"}),
    "mixed ends": ("one\r\ntwo\nthree\r\nfour", {"two\nthree": "2-3", "four": "4-4"}),
    "a return alone ends no line": ("one\rtwo\nthree", {"two": "1-1", "three": "2-2"}),
    "no end": ("one\ntwo", {"one\ntwo": "1-2"}),
    "one line": ("one two", {"one": "1-1", "two": "1-1"}),
    "empty lines before": ("\n\n\none", {"one": "4-4"}),
    "a passage that begins with an end": ("one\ntwo", {"\ntwo": "1-2"}),
    "byte order mark": ("\ufeffone\ntwo", {"\ufeffone": "1-1", "two": "2-2"}),
    "Chinese": ("# 茶\n\n乌龙茶。\n绿茶🍵。\n咖啡", {"乌龙茶。\n绿茶🍵": "3-4", "咖啡": "5-5"}),
    "front matter": ("---\ntitle: x\n---\n\n# One\ntwo\n", {"# One\ntwo": "5-6"}),
    "ends of Unicode": (
        "one\u2028two\x0b\x85four\nfive",
        {"four": "1-1", "five": "2-2"},
    ),
    "overlapping": ("one\ntwo\nthree", {"one\ntwo": "1-2", "two\nthree": "2-3"}),
}
"""Contents; for each passage of them its first and its last line."""


@pytest.fixture(scope="module", params=[STAYS, COMPACTS, REBUILDS, RELOADS])
def fixture(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Fixture]:
    """Yield an engine for each way to continue after a write."""
    made = Fixture(tmp_path_factory.mktemp("store"), request.param)
    yield made
    made.engine.close()


def put(made: Fixture, content: str, *passages: str) -> Snapshot:
    """Write the file with these parts of its content as passages."""
    starts = [content.index(passage) for passage in passages]
    cut = tuple(
        Passage("", start, start + len(one)) for start, one in zip(starts, passages, strict=True)
    )
    snapshot: Snapshot = made.put(FILE, "An abstract.", content=content, passages=cut)
    return snapshot


def lines(snapshot: Snapshot) -> dict[str, str]:
    """Return the lines of each living text of the file, by the text."""
    node = snapshot.find(FILE)
    assert node is not None
    texts = snapshot.tree.texts
    alive = (texts.file == decode_file(node)) & (texts.tombstoned > snapshot.revision)
    shown = map(snapshot.contents.passage, np.flatnonzero(alive).tolist())
    return {one.text: f"{one.first_line}-{one.last_line}" for one in shown}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_passage_has_its_lines(fixture: Fixture, content: str) -> None:
    """A passage has its lines in tail and base, and an abstract has none."""
    text, wanted = CONTENTS[content]
    assert lines(put(fixture, text, *wanted)) == {"": "0-0", **wanted}


def test_a_passage_that_stays_has_its_new_lines(fixture: Fixture) -> None:
    """A passage at the same place has other lines when white space before it changes."""
    before = {"one": "1-1", "two": "1-1"}
    assert lines(put(fixture, "one  two", "one", "two")) == {"": "0-0", **before}
    after = {"one": "1-1", "two": "3-3"}
    assert lines(put(fixture, "one\n\ntwo", "one", "two")) == {"": "0-0", **after}


def test_a_short_passage_of_a_reply_has_the_lines_of_the_whole(tmp_path: Path) -> None:
    """A passage that is cut to the reply has all its lines, whether it is in tail or base."""
    for after in (STAYS, COMPACTS):
        made = Fixture(tmp_path / after, after)
        snapshot = put(made, "one\r\ntwo 茶\r\nthree\nfour\r\n\r\n", "two 茶\r\nthree\nfour\r\n")
        [row] = np.flatnonzero(snapshot.text_ordinal == 1).tolist()
        shown = snapshot.contents.passage(row, ReplyBudget(70))
        assert (shown.text, shown.first_line, shown.last_line) == ("two ", 2, 4)
        made.engine.close()
