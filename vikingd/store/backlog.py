"""The texts that wait for their vector, and the vectors that equal texts have already."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b

from vikingd.domain.changes import Backlog, Waiting
from vikingd.domain.text import HAN, HANGUL, KANA
from vikingd.store.rows import text_of

_DROPPED = "vectors.dropped"  # counts the calls that outdated vectors
_DIGEST_BYTES = 16

# Models read some four Latin letters and one or two CJK characters as a token. A hundred stand for
# the headings of a text, and for the work that each text is, however short.
_COST = f"""
(100 + ("end" - "start") * CASE WHEN script IN ({HAN}, {KANA}, {HANGUL}) THEN 3 ELSE 1 END)"""

_WAITING = f"""
SELECT texts.id, {_COST}, text, title, section, CASE WHEN ordinal = 0 THEN abstract
    ELSE substr(content, "start" + 1, "end" - "start") END
FROM texts JOIN contexts ON contexts.id = context_id WHERE vector IS NULL AND embeddable = 1
"""
_ASKED = f"""
{_WAITING} AND texts.id IN (SELECT value FROM json_each(?))
ORDER BY ordinal > 0, texts.id DESC LIMIT ?
"""
# Two searches: the index leads through each kind backwards, but not through one after the other.
_NEWEST = f"{_WAITING} AND (ordinal > 0) = ? ORDER BY texts.id DESC LIMIT ?"
_ABSTRACTS, _PASSAGES = 0, 1

# One row for each digest: thousands of texts may be equal.
_MADE = """
WITH wanted (digest) AS (VALUES {})
SELECT digest, (
    SELECT vector FROM texts INDEXED BY texts_digest
    WHERE texts.digest = wanted.digest AND vector IS NOT NULL LIMIT 1)
FROM wanted
"""


def waiting_texts(db: sqlite3.Connection, limit: int, first: Sequence[int]) -> list[Waiting]:
    """Return texts that wait, `first` ones first, then abstracts, then passages, newest first."""
    (model,) = db.execute("SELECT value FROM meta WHERE key = 'store.model'").fetchone()
    key = blake2b(f"{_dropped(db)} {model}".encode(), digest_size=_DIGEST_BYTES).digest()
    rows: dict[int, Waiting] = {}
    searches: list[tuple[str, object]] = [(_NEWEST, _ABSTRACTS), (_NEWEST, _PASSAGES)]
    if first:
        searches.insert(0, (_ASKED, json.dumps(first)))
    for sql, value in searches:
        if len(rows) >= limit:
            break
        for text_id, cost, *row in db.execute(sql, (value, limit)):
            text = text_of(*row)
            digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES, key=key).digest()
            rows.setdefault(text_id, Waiting(text_id, text, cost, digest))
    return list(rows.values())[:limit]


def backlog_size(db: sqlite3.Connection) -> Backlog:
    """Return the number of the texts that wait, and their work."""
    return Backlog(
        *db.execute(
            f"SELECT count(*), CAST(total({_COST}) AS INTEGER) FROM texts INDEXED BY texts_waiting "
            "WHERE vector IS NULL AND embeddable = 1"
        ).fetchone()
    )


def made_vectors(db: sqlite3.Connection, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the vectors of texts with these digests."""
    if not digests:
        return {}
    rows = db.execute(_MADE.format(", ".join(["(?)"] * len(digests))), digests)
    return {digest: vector for digest, vector in rows if vector is not None}


def outdate(db: sqlite3.Connection) -> None:
    """Make all digests so far equal to none that comes, within the caller's transaction."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_DROPPED, _dropped(db) + 1))


def _dropped(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (_DROPPED,)).fetchone()
    return int(row[0]) if row else 0
