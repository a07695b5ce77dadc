"""Checksums for the rows of an older schema, which had none."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from vikingd.domain.checksums import (
    ENTRY,
    LINK,
    checksum,
    content_checksum,
    context_checksum,
    text_checksum,
    vector_checksum,
)
from vikingd.domain.contexts import Context, Passage
from vikingd.domain.errors import StoreDamaged
from vikingd.ingest.original_draft import is_as_written
from vikingd.store.checked_rows import Checked, counters_are_possible, read_checked, vector_damage
from vikingd.store.connection import Connection
from vikingd.store.rows import CHUNK, metadata_of

_SHOWN = 20_000  # contexts between two lines in the log
_IDS = "SELECT id FROM contexts WHERE id > ? ORDER BY id LIMIT ?"
_ENTRIES = f"SELECT {ENTRY} FROM entries WHERE text_id > ? ORDER BY text_id LIMIT ?"
_LINKS = f"SELECT {LINK} FROM links WHERE (a, b) > (?, ?) ORDER BY a, b LIMIT ?"
_ROWS = 1000  # in memory at a time

_log = logging.getLogger(__name__)


def add_checksums(db: Connection) -> None:
    """Compute and store the checksums of all rows, within the caller's open transaction.

    A row that is already damaged gets no checksum, so that later checks still report it.
    """
    (count,) = db.execute("SELECT count(*) FROM contexts").fetchone()
    began = time.monotonic()
    if count > _SHOWN:
        _log.info("the checksums of %d contexts are computed, once", count)
    dimension = db.get_meta("store.dimension").get("store.dimension")
    done, last = 0, 0
    while ids := [row[0] for row in db.execute(_IDS, (last, CHUNK))]:
        _add_to_contexts(db, ids, dimension)
        done, last = done + len(ids), ids[-1]
        if done % _SHOWN < len(ids):
            _log.info("checksums: %d of %d contexts", done, count)
    _add_to_entries(db)
    _add_to_links(db)
    if count > _SHOWN:
        _log.info("all checksums were computed in %.1f s", time.monotonic() - began)


def _add_to_contexts(db: Connection, ids: Sequence[int], dimension: int | None) -> None:
    contexts, texts = [], []
    for context in read_checked(db, ids):
        row = context.row
        if _is_as_written(context):
            content = content_checksum(row.id, len(context.texts), *row.content_columns)
            contexts.append((context_checksum(*row.place), content, row.id))
        for text in context.texts:
            vector = (text.vector_revision, text.digest, text.vector)
            made = vector_checksum(text.id, *vector)
            if vector_damage(text.id, (made, *vector), dimension):
                made = None
            texts.append((text_checksum(*text.columns), made, text.id))
    db.executemany("UPDATE contexts SET checksum = ?, content_checksum = ? WHERE id = ?", contexts)
    db.executemany("UPDATE texts SET checksum = ?, vector_checksum = ? WHERE id = ?", texts)


def _is_as_written(context: Checked) -> bool:
    """Return True if the content of a context matches its stored hash; False if unreadable."""
    row = context.row
    passages = tuple(Passage(t.section, t.start, t.end) for t in context.texts if t.ordinal)
    try:
        "".join((row.uri, *row.content_columns, *(t.text or "" for t in context.texts))).encode()
        stored = Context(
            row.uri,
            bool(row.is_directory),
            row.abstract,
            row.title,
            metadata_of(row.metadata, row.uri),
            row.time,
            row.created_at,
            row.updated_at,
            0,
            0,
            row.content_hash,
            row.revision,
            row.overview,
            row.content,
            passages,
        )
        return is_as_written(stored)
    except (StoreDamaged, TypeError, ValueError):
        return False


def _add_to_entries(db: Connection) -> None:
    last = 0
    while rows := db.execute(_ENTRIES, (last, _ROWS)).fetchall():
        made = [(checksum(*row), row[0]) for row in rows if counters_are_possible(*row[2:4])]
        db.executemany("UPDATE entries SET checksum = ? WHERE text_id = ?", made)
        last = rows[-1][0]


def _add_to_links(db: Connection) -> None:
    last = (0, 0)
    while rows := db.execute(_LINKS, (*last, _ROWS)).fetchall():
        made = [(checksum(*row), *row[:2]) for row in rows]
        db.executemany("UPDATE links SET checksum = ? WHERE a = ? AND b = ?", made)
        last = rows[-1][:2]
