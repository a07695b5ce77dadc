"""The contents of a store that scores depend on, read from its SQLite file."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vikingd.domain.checksums import opened
from vikingd.domain.text import SCRIPTS, text_to_index

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StoredText:
    """An abstract or passage of a context; `vector` is None if it has none.

    `ordinal` is 0 for an abstract.
    """

    ordinal: int
    script: int
    text: str
    heading: str
    vector: F64 | None


@dataclass(frozen=True, slots=True)
class StoredContext:
    """A directory or file with its texts; the abstract is the first. `day` is in UTC."""

    uri: str
    is_directory: bool
    title: str
    texts: tuple[StoredText, ...]
    day: date


@dataclass(frozen=True, slots=True)
class Stored:
    """The inputs of all scores; `prior` is [scripts, dim], the model's centroid of each script."""

    contexts: tuple[StoredContext, ...]
    prior: F64


def read_store(path: Path) -> Stored:
    """Read the SQLite file of a store; a daemon may have it open."""
    with closing(sqlite3.connect(f"file:{path / 'store.sqlite3'}?mode=ro", uri=True)) as db:
        return stored_in(db)


def stored_in(db: Any) -> Stored:
    """Read a store through a connection to its database."""
    texts: dict[int, list[StoredText]] = defaultdict(list)
    for context_id, ordinal, script, stored, title, section, piece, raw in db.execute(
        "SELECT c.id, t.ordinal, t.script, t.text, c.title, t.section, "
        "CASE t.ordinal WHEN 0 THEN c.abstract "
        'ELSE substr(c.content, t."start" + 1, t."end" - t."start") END, t.vector '
        "FROM texts t JOIN contexts c ON c.id = t.context_id ORDER BY c.id, t.ordinal"
    ):
        text = text_to_index(title, section, piece) if stored is None else stored
        vector = None if raw is None else np.frombuffer(raw, "<f4").astype(np.float64)
        heading = text[: -len(piece)] if piece and text.endswith(piece) else ""
        texts[context_id].append(StoredText(ordinal, script, text, heading, vector))
    contexts = tuple(
        StoredContext(uri, bool(is_directory), title, tuple(texts[context_id]), _day(time))
        for context_id, uri, is_directory, title, time in db.execute(
            "SELECT id, uri, is_directory, title, time FROM contexts"
        )
    )
    vectors = [t.vector for c in contexts for t in c.texts if t.vector is not None]
    dimension = len(vectors[0]) if vectors else 0
    prior = np.zeros((len(SCRIPTS), dimension))
    for (kept,) in db.execute("SELECT value FROM meta WHERE key LIKE 'prior/%'"):
        raw = opened(kept) or b""  # empty if it was damaged: the daemon computes it again
        prior = np.frombuffer(raw, "<f4").astype(np.float64).reshape(len(SCRIPTS), -1)
    return Stored(contexts, prior)


def _day(time: int) -> date:
    """Return the day of a time in microseconds since the epoch."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).date()
