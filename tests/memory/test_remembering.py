"""A Remember whose file changes after the comparison."""

from __future__ import annotations

from tests.memory.remember_helpers import series_of
from vikingd.domain.contexts import Entry
from vikingd.memory.memory_file_changes import Remembering
from vikingd.memory.memory_types import MemoryFile, Remembered, StoredEntry

URI = "viking://user/memories/tea.md"


def holding(text: str) -> MemoryFile:
    """Return a file with one entry."""
    content = f"- {text}\n"
    entry = StoredEntry(URI, Entry(7), 1, "", 2, 2 + len(text), text)
    return MemoryFile(URI, text, "", content, "", {}, 1, (entry,))


def test_a_wording_that_is_gone_meanwhile_is_compared_again() -> None:
    """The transaction compares the text with the file as it is then."""
    for now, did in (
        ("likes tea", Remembered.REINFORCED),
        ("Really likes tea.", Remembered.REINFORCED),
        ("Hates tea.", Remembered.ADDED),
    ):
        for before in ("likes tea", "Hates tea."):
            remembering = Remembering(URI, "", "Likes tea.", "", 1, 1)
            remembering.prepare(series_of(holding(before)), {})
            remembering(series_of(holding(now)), lambda: 8)
            assert remembering.outcome is not None
            assert remembering.outcome.did is did


def test_a_file_with_an_abstract_alone_is_compared_too() -> None:
    """The abstract of a file without content is an entry, and a repeat of it stays one."""
    entry = StoredEntry(URI, Entry(7), 0, "", 0, 0, "Likes tea.")
    file = MemoryFile(URI, "Likes tea.", "", "", "", {}, 1, (entry,))
    remembering = Remembering(URI, "", "Really likes tea.", "", 1, 1)
    (change,) = remembering(series_of(file), lambda: 8)
    assert remembering.outcome is not None
    assert (remembering.outcome.did, remembering.outcome.entry.id) == (Remembered.REINFORCED, 7)
    assert change.prepared is not None
    assert "Really likes tea." in change.prepared.draft.content
