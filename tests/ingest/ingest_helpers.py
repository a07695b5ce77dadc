"""Helpers of the ingest tests."""

from __future__ import annotations

from vikingd.ingest.passages import split

FILE = "viking://resources/notes/a.md"
SENTENCE = "The quick brown fox jumps over the lazy dog beside the river. "
LONG = SENTENCE * 4  # about 60 tokens


def pieces(content: str, name: str = "a.md", *, entries: bool = False) -> list[tuple[str, str]]:
    """Return section and text of each passage."""
    passages = split(content, name, entries=entries)
    return [(p.section, content[p.start : p.end]) for p in passages]
