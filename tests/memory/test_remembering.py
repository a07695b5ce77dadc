"""A Remember whose file changes after the comparison."""

from __future__ import annotations

import numpy as np

from tests.memory.remember_helpers import series_of
from vikingd.domain.contexts import Entry
from vikingd.memory.model import MemoryFile, Remembered, StoredEntry
from vikingd.memory.remember import Remembering, SimilarityThreshold

URI = "viking://user/memories/tea.md"
VECTOR = np.array([1, 0], np.float32)


def holding(text: str) -> MemoryFile:
    """Return a file with one entry."""
    content = f"- {text}\n"
    entry = StoredEntry(URI, Entry(7), 1, "", 2, 2 + len(text), text, VECTOR.tobytes())
    return MemoryFile(URI, text, "", content, "", {}, 1, (entry,))


def test_a_wording_that_is_gone_meanwhile_is_compared_by_meaning() -> None:
    """A text whose equal wording is gone is compared by meaning before it is written."""
    remembering = Remembering(URI, "", "Likes tea.", "", 1, 1)
    assert remembering.indexed_text(series_of(holding("likes tea")), {}) is None
    assert remembering(series_of(holding("Enjoys tea.")), lambda: 8) == []
    assert remembering.outcome is None
    text = remembering.indexed_text(series_of(holding("Enjoys tea.")), {})
    assert text is not None
    remembering.compare_by_meaning(text, VECTOR, SimilarityThreshold(0.9, with_words=False))
    remembering(series_of(holding("Enjoys tea.")), lambda: 8)
    assert remembering.outcome is not None
    assert (remembering.outcome.did, remembering.outcome.entry.id) == (Remembered.REINFORCED, 7)


def test_a_wording_that_still_stands_is_reinforced_without_a_vector() -> None:
    """An equal wording is reinforced without an embedding."""
    remembering = Remembering(URI, "", "Likes tea.", "", 1, 1)
    assert remembering.indexed_text(series_of(holding("likes tea")), {}) is None
    remembering(series_of(holding("likes tea")), lambda: 8)
    assert remembering.outcome is not None
    assert remembering.outcome.did is Remembered.REINFORCED
