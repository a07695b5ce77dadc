"""Reads of the texts that wait for their vector, and of vectors that equal texts have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

from vikingd.domain.store_changes import Backlog, Waiting
from vikingd.domain.text import HAN, HANGUL, KANA
from vikingd.domain.uri import user_of
from vikingd.store.checked_rows import vector_damage
from vikingd.store.connection import Connection
from vikingd.store.reads.store_reads import DatabaseReads, revision_of
from vikingd.store.rows import text_of

_DROPPED = "vectors.dropped"  # counts the calls that invalidated digests
_DIGEST_BYTES = 16

# Models read about four Latin letters, or one or two CJK characters, as a token. The 100 stands
# for the headings of a text and for the fixed work of each text.
_COST = f"""
(100 + ("end" - "start") * CASE WHEN script IN ({HAN}, {KANA}, {HANGUL}) THEN 3 ELSE 1 END)"""

_WAITING = f"""
SELECT texts.id, {_COST}, uri, text, title, section, CASE WHEN ordinal = 0 THEN abstract
    ELSE substr(content, "start" + 1, "end" - "start") END
FROM texts JOIN contexts ON contexts.id = context_id WHERE vector IS NULL AND embeddable = 1
"""
_ASKED = f"""
{_WAITING} AND texts.id IN (SELECT value FROM each_id(?))
ORDER BY ordinal > 0, texts.id DESC LIMIT ?
"""
# Two searches: the index can be read backwards for each kind, but not for both in this order.
_NEWEST = f"{_WAITING} AND (ordinal > 0) = (? > 0) ORDER BY texts.id DESC LIMIT ?"
_ABSTRACTS, _PASSAGES = 0, 1

# One row for each digest, because thousands of texts may be equal.
_MADE = """
WITH wanted (digest) AS (VALUES {})
SELECT id, vector_checksum, vector_revision, digest, vector FROM texts WHERE id IN (
    SELECT (SELECT id FROM texts INDEXED BY texts_digest
        WHERE texts.digest = wanted.digest AND vector IS NOT NULL LIMIT 1)
    FROM wanted)
"""


class BacklogReads(DatabaseReads):
    """Reads of the backlog: the texts that wait for their vector."""

    def backlog(self, limit: int, first: Sequence[int] = ()) -> list[Waiting]:
        """Return up to `limit` texts that wait for their vector, in the order of the work.

        Texts with an id in `first` come first, then abstracts, then passages, each newest first.
        """
        searches: list[tuple[str, object]] = [(_NEWEST, _ABSTRACTS), (_NEWEST, _PASSAGES)]
        if first:
            searches.insert(0, (_ASKED, json.dumps(first)))
        rows: dict[int, Waiting] = {}
        with self._snapshot() as db:
            model = db.get_meta("store.model")["store.model"]
            key = blake2b(f"{_dropped(db)} {model}".encode(), digest_size=_DIGEST_BYTES).digest()
            for sql, value in searches:
                if len(rows) >= limit:
                    break
                for text_id, cost, uri, *row in db.execute(sql, (value, limit)):
                    text = text_of(*row)
                    # Users share no vectors: the time of a write tells nothing of others' texts.
                    user = user_of(uri)
                    digested = f"{user}\0{text}" if user else text
                    digest = blake2b(digested.encode(), digest_size=_DIGEST_BYTES, key=key).digest()
                    rows.setdefault(text_id, Waiting(text_id, text, cost, digest))
        return list(rows.values())[:limit]

    def backlog_size(self) -> Backlog:
        """Return the number of waiting texts, and their work."""
        with self._snapshot() as db:
            return Backlog(
                *db.execute(
                    f"SELECT count(*), CAST(coalesce(sum({_COST}), 0) AS BIGINT) "
                    "FROM texts INDEXED BY texts_waiting WHERE vector IS NULL AND embeddable = 1"
                ).fetchone()
            )

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that the embedder made of texts with these digests.

        A damaged one is left out: its copy would have a checksum of its own, and pass for sound.
        """
        if not digests:
            return {}
        with self._snapshot() as db:
            dimension = db.get_meta("store.dimension").get("store.dimension")
            rows = db.execute(_MADE.format(", ".join(["(?)"] * len(digests))), digests)
            return {
                row[2]: row[3]
                for text_id, *row in rows
                if not vector_damage(text_id, row, dimension)
            }

    def waiting(self, text_ids: Sequence[int]) -> tuple[int, int]:
        """Return (how many of these texts wait for their vector, the revision that was read)."""
        with self._snapshot() as db:
            (count,) = db.execute(
                "SELECT count(*) FROM texts WHERE id IN (SELECT value FROM each_id(?)) "
                "AND vector IS NULL AND embeddable = 1",
                (json.dumps(text_ids),),
            ).fetchone()
            return count, revision_of(db)


def invalidate_digests(db: Connection) -> None:
    """Make all digests differ from earlier ones, within the caller's transaction."""
    db.set_meta({_DROPPED: _dropped(db) + 1})


def _dropped(db: Connection) -> int:
    return int(db.get_meta(_DROPPED).get(_DROPPED, 0))
