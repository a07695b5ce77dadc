"""Numbers in metadata that a double cannot hold exactly, and imports of such files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.write_helpers import DOCS, TEA
from vikingd.client import (
    Client,
    Draft,
    InvalidField,
    Unsendable,
)

pytestmark = pytest.mark.stores


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**60 + 1, 10**400])
def test_an_integer_that_would_be_rounded_is_not_sent(typed: Client, number: int) -> None:
    """An integer that a double would round is not sent, and the error names its key."""
    for call in (
        lambda: typed.put([Draft(TEA, metadata={"a": {"b": [1, number]}})]),
        lambda: typed.find("x", where={"a": {"b": [1, number]}}),
    ):
        with pytest.raises(Unsendable, match=r"^a\.b\[1\]: .*string"):
            call()


@pytest.mark.parametrize("number", [2.0**53, -(2.0**63), 1e300])
def test_a_number_that_may_be_rounded_is_refused(typed: Client, number: float) -> None:
    """A large double on the wire is refused, because it may be a rounded integer."""
    calls: list[tuple[str, Callable[[], object]]] = [
        ("contexts[0].metadata.a[0]", lambda: typed.put([Draft(TEA, metadata={"a": [number]})])),
        ("where.a", lambda: typed.find("x", where={"a": number})),
        ("where.a.$gte", lambda: typed.retrieve("x", where={"a": {"$gte": number}})),
    ]
    for field, call in calls:
        with pytest.raises(InvalidField, match="string") as caught:
            call()
        assert [v.field for v in caught.value.field_violations] == [field]
    typed.put([Draft(TEA, metadata={"a": 2**53 - 1, "b": 1 - 2**53, "c": 0.1})])
    assert typed.get(TEA).metadata == {"a": 2**53 - 1, "b": 1 - 2**53, "c": 0.1}


def test_an_import_says_which_file_has_such_a_number(typed: Client, tmp_path: Path) -> None:
    """An import names the file or the line with such a number, and takes the others."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"---\nid: {2**60 + 1}\n---\n# A\n")
    (tmp_path / "docs" / "b.md").write_text("---\nid: 7\n---\n# B\n")
    summary = typed.import_path(tmp_path / "docs", DOCS)
    assert [(f.uri, f.reason.partition(":")[0]) for f in summary.as_text] == [
        (f"{DOCS}/a.md", "id")
    ]
    assert typed.get(f"{DOCS}/b.md").metadata == {"id": 7, "kind": "documentation"}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f'{{"uri": "{TEA}", "text": "x", "n": {2**53}}}\n')
    (unread,) = typed.import_path(lines).unreadable
    assert "metadata.n" in unread.reason


def test_an_import_empties_a_file_that_was_emptied(typed: Client, tmp_path: Path) -> None:
    """An import of an emptied file empties its context."""
    (tmp_path / "a.txt").write_text("some text\n")
    typed.import_path(tmp_path, DOCS)
    (tmp_path / "a.txt").write_text("")
    summary = typed.import_path(tmp_path, DOCS)
    assert (summary.updated, summary.failed) == (1, [])
    assert typed.get(f"{DOCS}/a.txt").content == ""


def test_a_link_to_a_uri_with_a_slash_at_its_end_is_imported(typed: Client, tmp_path: Path) -> None:
    """An import ignores the trailing slash of a URI."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        f'{{"uri": "{DOCS}/", "metadata": {{}}, "relations": [{{"to": "{TEA}/"}}]}}\n'
        f'{{"uri": "{TEA}", "metadata": {{}}, "text": "x"}}\n'
    )
    assert typed.import_path(lines).linked == 1
    assert [r.uri for r in typed.get(TEA).relations] == [DOCS]
