"""The tail: growth beyond its room, removals and the postings of its texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from viking_kernels.arrays import DIRECTORIES, FILES, I64, SCRIPTS, TEXTS, U64, decode_file

from vikingd.domain.store_changes import IndexedText, Remove, Upsert
from vikingd.index.compaction import compacted
from vikingd.index.lexicon import tail_postings as postings
from vikingd.index.lexicon.vocabulary import Vocabulary
from vikingd.index.metadata.columns import Columns
from vikingd.index.segment.disk import Base, load, save
from vikingd.index.segment.manifest import Manifest
from vikingd.index.segment.segment_arrays import GROWING, empty
from vikingd.index.tail.tail import Tail

ROOT = "viking://resources"


def upsert(number: int, uri: str, *, is_directory: bool = False, texts: int = 0) -> Upsert:
    """Return a context with some texts."""
    made = tuple(
        IndexedText(number * 100 + i, i + 1, 1, f"word{number}", b"", False) for i in range(texts)
    )
    return Upsert(number, uri, is_directory, "", "", {}, made)


def tail_of(base: Base, room: int) -> Tail:
    """Return a tail behind a base."""
    return Tail(base, np.zeros((SCRIPTS, 4), np.float32), room, Vocabulary())


def empty_tail(room: int) -> Tail:
    """Return a tail behind the root alone."""
    return tail_of(Base(empty(4), Columns(), Columns(), Manifest(0, 0, 4, "none")), room)


def test_rows_stay_as_they_were_when_the_tail_outgrows_its_room() -> None:
    """No row is lost when directories, files and texts outgrow their room at different times."""
    tail = empty_tail(room=2)
    directories = [f"{ROOT}/{i}" for i in range(3000)]
    made = [upsert(i, uri, is_directory=True) for i, uri in enumerate([ROOT, *directories], 1)]
    tail.apply(made, 1)
    # The directories brought room for as many files, so the next commit grows the texts alone.
    tail.apply([upsert(4000, f"{directories[0]}/long.md", texts=1500)], 2)
    files = [f"{directories[i % 7]}/{i}.md" for i in range(5000)]
    for first in range(0, len(files), 500):
        some = enumerate(files[first : first + 500], 5000 + first)
        tail.apply([upsert(i, uri, texts=1) for i, uri in some], 3 + first)
    snapshot = tail.snapshot
    counts = snapshot.counts(0)
    assert counts[DIRECTORIES] == 1 + 1 + len(directories)
    assert counts[FILES] == 1 + len(files)
    assert counts[TEXTS] == 1500 + len(files)
    rows = [snapshot.find(uri) for uri in files]
    assert [snapshot.file_uri(decode_file(row)) for row in rows if row is not None] == files


@pytest.mark.parametrize("kept", [600, 40])
def test_a_base_on_disk_is_mapped_with_room_for_its_tail(tmp_path: Path, kept: int) -> None:
    """A mapped base is not copied until its room is used up, and old snapshots stay the same."""
    first = empty_tail(room=2)
    made = [upsert(i, f"{ROOT}/{i}", texts=2) for i in range(2, 700)]
    first.apply([upsert(1, ROOT, is_directory=True), *made], 1)
    base, dirs, files = compacted(first.snapshot)
    path = save(tmp_path, Base(base, dirs, files, Manifest(1, 1, 4, "none")), kept)
    loaded = load(tmp_path)
    assert loaded is not None
    growing = loaded.growing
    assert growing is not None
    tail = tail_of(loaded, room=kept)
    on_disk = np.memmap(path / "text_id.bin", np.int64, "r")
    assert len(on_disk) == len(base.text_id) + kept
    for name in GROWING:
        assert np.shares_memory(getattr(tail.rows.arrays, name), getattr(growing, name))
    before, shown = tail.snapshot, []
    for commit in range(2, 12):
        uri = f"{ROOT}/{commit}"  # one URI of the base, which is removed, and new ones
        new = [upsert(commit * 1000 + i, f"{uri}-{i}", texts=1) for i in range(10)]
        shown.append((tail.apply([Remove(uri), *new], commit), 698 + 9 * (commit - 1)))
    shares = np.shares_memory(tail.rows.arrays.text_id, growing.text_id)
    assert shares == (kept == 600)
    assert (on_disk[len(base.text_id) :] == 0).all()  # the tail is written in memory only
    for snapshot, count in [(before, 698), *shown]:
        assert snapshot.counts(0)[FILES] == count
        texts = snapshot.tree.texts
        assert (texts.tombstoned > snapshot.revision).sum() == snapshot.counts(0)[TEXTS]
        assert sorted(compacted(snapshot)[0].file_id) == sorted(
            snapshot.file_id[snapshot.tree.files.tombstoned > snapshot.revision]
        )


def test_a_directory_made_anew_within_a_commit_takes_what_follows() -> None:
    """A context that is put after a removal belongs to the new row of its directory."""
    tail = empty_tail(room=8)
    top, inside = f"{ROOT}/a", f"{ROOT}/a/b"
    tail.apply(
        [
            upsert(1, ROOT, is_directory=True),
            upsert(2, top, is_directory=True),
            upsert(3, inside, texts=1),
            Remove(top),
            upsert(4, top, is_directory=True),
            upsert(5, inside, texts=2),
        ],
        1,
    )
    snapshot = tail.snapshot
    row = snapshot.find(top)
    assert row is not None
    assert snapshot.counts(row)[[FILES, TEXTS]].tolist() == [1, 2]
    assert snapshot.counts(0)[[FILES, TEXTS]].tolist() == [1, 2]


SAID = [
    ["tea from Assam", "oolong, tea"],  # a commit reaches the limit within a file
    ["green"],
    [],
    ["fifteen letters"],  # the limit is reached exactly
    ["", "E4102"],
    ["a text that is longer than the limit, with tea in it", "tea"],
    ["茶 and 茶叶", "left"],  # the rest stays below the limit
]


def said(number: int, texts: list[str]) -> Upsert:
    """Return a file with a title and these texts."""
    made = tuple(
        IndexedText(number * 100 + i, i, 1, text, b"", False, "heading" if i else "")
        for i, text in enumerate(texts)
    )
    return Upsert(number, f"{ROOT}/{number}.md", False, f"On tea {number}", "", {}, made)


def test_the_words_of_a_large_commit_are_posted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text's words are posted once, under its own row, in any number of parts."""
    parts: list[list[int]] = []
    hashes = Vocabulary.hashes

    def counted(known: Vocabulary, texts: Sequence[Sequence[str]]) -> tuple[U64, I64]:
        parts[-1].append(len(texts))
        return hashes(known, texts)

    monkeypatch.setattr(Vocabulary, "hashes", counted)

    def shown(limit: int) -> list[object]:
        """Return counts, lengths and postings after each of three commits."""
        monkeypatch.setattr(postings, "_MANY_CHARACTERS", limit)
        tail = empty_tail(room=8)
        tail.apply([upsert(1, ROOT, is_directory=True)], 1)
        parts.clear()
        found: list[object] = []
        for revision, texts in enumerate((SAID, SAID[::-1], [["tea"]]), 2):
            files = [said(100 * revision + i, some) for i, some in enumerate(texts)]
            parts.append([])
            snapshot = tail.apply(files, revision)
            found.append(snapshot.counts(0).tolist())
            found.append(snapshot.tree.texts.length.tolist())
            found += [array.tolist() for array in postings.as_one(snapshot.tail_postings)]
        return found

    whole = shown(1 << 22)
    assert parts == [[10], [10], [1]]
    assert shown(20) == whole
    assert parts == [[2, 2, 3, 3], [3, 4, 3], [1]]
