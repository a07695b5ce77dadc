"""Subtrees in SQL: their contexts, and how large they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from vikingd.domain.errors import TooLarge
from vikingd.domain.uri import subtree_bounds

# Two searches of the index: with OR between them SQLite would walk through all of it.
SUBTREE = """contexts.id IN (
    SELECT id FROM contexts WHERE tenant = 'default' AND uri = ?
    UNION ALL SELECT id FROM contexts WHERE tenant = 'default' AND uri >= ? AND uri < ?)"""

MAX_MOVE = 20_000
MAX_DELETE = 50_000
"""Size of what one call moves or removes, see `check_size`: all other writers wait about 1 s."""

CHARACTERS = 2000
"""Characters that count as much as a context or a passage."""

_CONTEXTS = f"SELECT count(*) FROM contexts WHERE {SUBTREE}"
# The texts are not all counted: each stands on a page of its own, if it has a long vector.
_TEXTS = f"""
SELECT count(*), total("end" - "start") FROM (
    SELECT "start", "end" FROM contexts JOIN texts ON context_id = contexts.id
    WHERE {SUBTREE} LIMIT ?)
"""
_VECTORS = """
SELECT uri, texts.id, context_id FROM contexts JOIN texts ON context_id = contexts.id
WHERE tenant = 'default' AND uri >= ? AND uri < ? AND embeddable AND vector IS NOT NULL
ORDER BY uri LIMIT ?
"""
_AFTER = "\x01"  # less than any character of a URI
_MOST_VECTORS = 8192  # more than one context has


def bounds(uri: str) -> tuple[str, str, str]:
    """The parameters of `SUBTREE`."""
    return (uri, *subtree_bounds(uri))


def check_size(db: sqlite3.Connection, uris: Sequence[str], what: str, most: int) -> None:
    """Check that subtrees, none within another, are small enough for one call.

    Contexts, passages and each `CHARACTERS` characters count alike. One file is never too large.

    Raises:
        TooLarge: they are not.
    """
    contexts = size = 0
    for uri in uris:
        (count,) = db.execute(_CONTEXTS, bounds(uri)).fetchone()
        contexts, size = contexts + count, size + count
    if contexts > 1 and size <= most:
        for uri in uris:
            texts, characters = db.execute(_TEXTS, (*bounds(uri), most)).fetchone()
            size += texts + int(characters) // CHARACTERS
            if size > most:
                break
    if contexts > 1 and size > most:
        more = (
            f" and {size - contexts:,} or more passages and long texts" if contexts < size else ""
        )
        raise TooLarge(
            f"{uris[0] if len(uris) == 1 else f'{len(uris):,} subtrees'} have {contexts:,} contexts"
            f"{more}, one call {what} at most {most:,} of these together: name their parts, one "
            "call after the other",
            contexts=str(contexts),
            limit=str(most),
        )


def vectors_in(db: sqlite3.Connection, uri: str, after: str) -> tuple[list[tuple[int, int]], str]:
    """Return (text id, context id) of a part of a subtree's vectors that can be made again.

    The part begins behind the context `after`, "": with the first. The URI of its last context
    comes with it, "" at the end of the subtree.
    """
    low, high = subtree_bounds(uri)
    rows = [] if after else db.execute(_VECTORS, (uri, uri + _AFTER, _MOST_VECTORS)).fetchall()
    rows += db.execute(_VECTORS, ((after or low) + _AFTER, high, _MOST_VECTORS)).fetchall()
    last = ""
    if len(rows) >= _MOST_VECTORS:  # the last context may not be whole
        rows = [row for row in rows if row[0] != rows[-1][0]]
        last = rows[-1][0]
    return [(text_id, context_id) for _, text_id, context_id in rows], last
