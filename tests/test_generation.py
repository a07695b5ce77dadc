"""A generation's tail, as it outgrows the room it was given."""

from __future__ import annotations

import numpy as np
from viking_kernels.arrays import DIRECTORIES, FILES, SCRIPTS, TEXTS

from vikingd.index.base import Manifest, Stored, empty
from vikingd.index.columns import Columns
from vikingd.index.generation import Generation
from vikingd.model import IndexedText, Upsert

ROOT = "viking://resources"


def upsert(number: int, uri: str, *, is_directory: bool = False, texts: int = 0) -> Upsert:
    """A context with so many texts."""
    made = tuple(
        IndexedText(number * 100 + i, i + 1, 1, f"word{number}", b"", False) for i in range(texts)
    )
    return Upsert(number, uri, is_directory, {}, made)


def test_rows_stay_as_they_were_when_the_tail_outgrows_its_room() -> None:
    """Directories, files and texts outgrow their room at different times; none is lost."""
    manifest = Manifest(0, 0, 4, "none")
    stored = Stored(empty(4), Columns(), Columns(), manifest, None)
    generation = Generation(stored, np.zeros((SCRIPTS, 4), np.float32), room=2)
    number, revision = 1, 1
    generation.apply([upsert(number, ROOT, is_directory=True)], revision)
    files: list[str] = []
    for directory in range(120):
        above = f"{ROOT}/{directory}"
        changes = [upsert(number + 1, above, is_directory=True)]
        number += 1
        # First many directories, then many files, then many texts of few files.
        for file in range(0 if directory < 60 else 40):
            number += 1
            files.append(f"{above}/{file}.md")
            changes.append(upsert(number, files[-1], texts=1 if directory < 90 else 3))
        revision += 1
        generation.apply(changes, revision)
    snapshot = generation.snapshot
    counts = snapshot.counts(0)
    assert counts[DIRECTORIES] == 122
    assert counts[FILES] == len(files)
    assert counts[TEXTS] == 30 * 40 + 30 * 40 * 3
    rows = [snapshot.find(uri) for uri in files]
    assert [snapshot.file_uri(-1 - row) for row in rows if row is not None] == files
