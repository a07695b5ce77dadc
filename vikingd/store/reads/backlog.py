"""Reads of the texts that wait for their vector, and of vectors that equal texts have already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

from vikingd.domain.store_changes import Backlog, Waiting
from vikingd.domain.text import HAN, HANGUL, KANA
from vikingd.domain.uri import user_of
from vikingd.store.checked_rows import vector_damage
from vikingd.store.connection import Connection
from vikingd.store.reads.backlog_order import CLASSES, Place, fair_order
from vikingd.store.reads.database_reads import DatabaseReads, revision_of
from vikingd.store.rows import text_of

_DROPPED = "vectors.dropped"  # counts the calls that invalidated digests
_DIGEST_BYTES = 16

# Models read about four Latin letters, or one or two CJK characters, as a token. The 100 stands
# for the headings of a text and for the fixed work of each text.
_COST = f"""
(100 + ("end" - "start") * CASE WHEN script IN ({HAN}, {KANA}, {HANGUL}) THEN 3 ELSE 1 END)"""

# The index can be read in both directions for each class, but not for all of them in one order.
_END = """
SELECT texts.id, uri FROM texts JOIN contexts ON contexts.id = context_id
WHERE vector IS NULL AND embeddable = ? AND (ordinal > 0) = (? > 0) ORDER BY texts.id {} LIMIT ?
"""
_OLDEST, _NEWEST = _END.format("ASC"), _END.format("DESC")

# The plus keeps SQLite from a walk through the whole index of waiting texts.
_AMONG = "vector IS NULL AND +embeddable > 0 AND texts.id IN (SELECT value FROM each_id(?))"
_ASKED = f"SELECT id FROM texts WHERE {_AMONG} ORDER BY ordinal > 0, id DESC LIMIT ?"
_WAITING = f"""
SELECT texts.id, {_COST}, uri, text, title, section, CASE WHEN ordinal = 0 THEN abstract
    ELSE substr(content, "start" + 1, "end" - "start") END
FROM texts JOIN contexts ON contexts.id = context_id WHERE {_AMONG}
"""

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
        """Return up to `limit` texts that wait for their vector, in the order of embedding.

        Texts with an id in `first` come first, abstracts before passages. After them, texts of the
        tree that waits longest alternate with texts of the trees written last, see `fair_order`. So
        a later import does not stop an earlier one, and a small write does not wait for a large
        import. In each tree, abstracts come before passages, and files such as tests and licences
        (`LATE_KINDS`) come last.
        """
        with self._snapshot() as db:
            model = db.get_meta("store.model")["store.model"]
            key = blake2b(f"{_dropped(db)} {model}".encode(), digest_size=_DIGEST_BYTES).digest()
            ids: list[int] = []
            if first:
                ids = [text_id for (text_id,) in db.execute(_ASKED, (json.dumps(first), limit))]
            if len(ids) < limit:
                ids += fair_order(
                    _waiting_by_class(db, _OLDEST, limit), _waiting_by_class(db, _NEWEST, limit)
                )
            ids = list(dict.fromkeys(ids))[:limit]
            rows = {row[0]: row for row in db.execute(_WAITING, (json.dumps(ids),))}
        waiting = []
        for text_id, cost, uri, *parts in map(rows.__getitem__, ids):
            text = text_of(*parts)
            # Users share no vectors: the time of a write tells nothing of others' texts.
            user = user_of(uri)
            digested = f"{user}\0{text}" if user else text
            digest = blake2b(digested.encode(), digest_size=_DIGEST_BYTES, key=key).digest()
            waiting.append(Waiting(text_id, text, cost, digest))
        return waiting

    def backlog_size(self) -> Backlog:
        """Return the number of waiting texts, and the estimated cost of embedding them."""
        with self._snapshot() as db:
            return Backlog(
                *db.execute(
                    f"SELECT count(*), CAST(coalesce(sum({_COST}), 0) AS BIGINT) "
                    "FROM texts INDEXED BY texts_waiting WHERE vector IS NULL AND embeddable > 0"
                ).fetchone()
            )

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return stored vectors by digest, for texts that have one of these digests.

        Damaged vectors are left out. A copy would get a valid checksum, which would hide the
        damage.
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
                "AND vector IS NULL AND embeddable > 0",
                (json.dumps(text_ids),),
            ).fetchone()
            return count, revision_of(db)


def _waiting_by_class(db: Connection, statement: str, limit: int) -> list[list[Place]]:
    """Return up to `limit` waiting texts of each of `CLASSES`, in the order of `statement`.

    Args:
        db: a connection to the store.
        statement: `_OLDEST` or `_NEWEST`, which begin with the oldest or the newest text.
        limit: the largest number of texts of a class.
    """
    return [[Place(*row) for row in db.execute(statement, (*one, limit))] for one in CLASSES]


def invalidate_digests(db: Connection) -> None:
    """Change how digests are computed, so that no stored vector is reused for an equal text."""
    db.set_meta({_DROPPED: _dropped(db) + 1})


def _dropped(db: Connection) -> int:
    return int(db.get_meta(_DROPPED).get(_DROPPED, 0))
