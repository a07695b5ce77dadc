"""Compaction: a new base is made from a snapshot, with its living rows in depth-first order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from viking_kernels import compact, statistics_updates
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    F32,
    FILES,
    I32,
    I64,
    OWN_LENGTH,
    OWN_TEXT,
    SCRIPTS,
    decode_file,
    encode_file,
    is_file,
)
from viking_kernels.quantize import int4_axis, int4_room, quantize_int4

from vikingd.index.array_growth import gathered
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.tail_postings import as_one
from vikingd.index.metadata.columns import Columns
from vikingd.index.segment.segment_arrays import Segment, quantized
from vikingd.index.snapshot import Snapshot

_Arrays = dict[str, npt.NDArray[Any]]


class _Order(NamedTuple):
    """The rows of a new base: the old row of each new row, the new tree, new rows by old row."""

    directories: I32
    parents: I32
    ends: I32
    files: I32
    dir_files: I32
    texts: I32
    dir_texts: I32
    file_texts: I32
    new_dir: I32  # [old rows] new rows, -1 for a dead one
    new_file: I32
    new_text: I32


def compacted(snapshot: Snapshot) -> tuple[Segment, Columns, Columns]:
    """Return (a new base, metadata of its directories, metadata of its files) for a snapshot.

    The base has everything that the snapshot shows. Commits may be applied meanwhile, because they
    change nothing that is read here.
    """
    order = _order(snapshot)
    rows = _row_arrays(snapshot, order)
    vectors = _vector_arrays(snapshot, order)
    segment = Segment(
        **rows,
        **_shown_arrays(snapshot, order),
        **vectors,
        counts=_counts(order, rows),
        **_mean_arrays(order.parents, rows, vectors["raw"]),
        **_term_arrays(snapshot, order.new_text),
        **_uri_arrays(snapshot, order),
    )
    return (
        segment,
        snapshot.dir_columns.copy_for(order.new_dir, snapshot.revision),
        snapshot.file_columns.copy_for(order.new_file, snapshot.revision),
    )


def _order(snapshot: Snapshot) -> _Order:
    tree, revision = snapshot.tree, snapshot.revision
    directories, parents, ends = _order_directories(snapshot)
    files, dir_files = compact.order_files(tree, revision, directories)
    abstracts = np.full(len(tree.directories.parent), -1, np.int32)  # -1: none
    living = np.flatnonzero((tree.texts.file < 0) & (tree.texts.tombstoned > revision))
    abstracts[tree.texts.directory[living]] = living
    texts, dir_texts, file_texts = compact.order_texts(
        tree, revision, abstracts[directories], files, dir_files, len(snapshot.base.text_dir)
    )
    new_dir = _renamed(len(tree.directories.parent), directories)
    new_file = _renamed(len(tree.files.directory), files)
    new_text = _renamed(len(tree.texts.directory), texts)
    ordered = directories, parents, ends, files, dir_files, texts, dir_texts, file_texts
    return _Order(*ordered, new_dir, new_file, new_text)


def _renamed(size: int, rows: I32) -> I32:
    new = np.full(size, -1, np.int32)
    new[rows] = np.arange(len(rows), dtype=np.int32)
    return new


def _row_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    tree, dirs, files, texts = snapshot.tree, order.directories, order.files, order.texts
    has_vector = snapshot.vectors.vector_at[texts] <= snapshot.revision
    return {
        "dir_parent": order.parents,
        "dir_end": order.ends,
        "dir_files": order.dir_files,
        "dir_texts": order.dir_texts,
        "dir_key": tree.directories.key[dirs],
        "dir_type": snapshot.dir_type[dirs],
        "dir_id": snapshot.dir_id[dirs],
        "file_dir": order.new_dir[tree.files.directory[files]],
        "file_texts": order.file_texts,
        "file_id": snapshot.file_id[files],
        "text_file": np.append(order.new_file, np.int32(-1))[tree.texts.file[texts]],  # -1: none
        "text_dir": order.new_dir[tree.texts.directory[texts]],
        "text_script": tree.texts.script[texts],
        "text_length": tree.texts.length[texts],
        "text_id": snapshot.text_id[texts],
        "text_ordinal": snapshot.text_ordinal[texts],
        "text_has_vector": has_vector.astype(np.uint8),
        "text_embeddable": snapshot.text_embeddable[texts],
        "text_turn": tree.texts.turn[texts],
    }


def _shown_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    """Return the arrays of names, abstracts and passages, which replies show."""
    names, contents, revision = snapshot.names, snapshot.contents, snapshot.revision
    dirs, files = order.directories, order.files
    starts, lines = contents.starts(order.texts)
    arrays: _Arrays = {"text_start": starts, "text_line": lines}
    arrays["dir_name_at"], arrays["dir_names"] = names.directories.gather(dirs)
    arrays["file_name_at"], arrays["file_names"] = names.files.gather(files)
    arrays["dir_abstract_at"], arrays["dir_abstracts"] = contents.directories.gather(dirs, revision)
    arrays["file_abstract_at"], arrays["file_abstracts"] = contents.files.gather(files, revision)
    arrays["text_shown_at"], arrays["text_shown"] = contents.texts.gather(order.texts)
    return arrays


def _vector_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    vectors, texts = snapshot.vectors, order.texts
    raw = gathered(vectors.base_raw, vectors.tail_raw, texts)
    raw[vectors.vector_at[texts] > snapshot.revision] = 0
    codes, scale, error = quantized(raw)
    int4 = int4_room(len(raw), int4_axis(raw))
    quantize_int4(raw, int4)
    return {
        "raw": raw,
        "codes": codes,
        "scale": scale,
        "error": error,
        "int4_axis": int4.axis,
        "int4_codes": int4.codes,
        "int4_scale": int4.scale,
        "int4_error": int4.residual,
        "int4_along": int4.along,
    }


def _counts(order: _Order, rows: _Arrays) -> I64:
    """Return the counts of each directory's subtree, [D, COUNTS]."""
    counts = compact.own_counts(
        rows["text_dir"], rows["text_file"], rows["text_length"], rows["text_script"], order.parents
    )
    counts[:, FILES] = np.diff(order.dir_files)
    counts[:, DIRECTORIES] = 1
    counts[:, DOCUMENT_LENGTH] = counts[:, OWN_LENGTH]
    own = counts[:, [OWN_LENGTH, OWN_TEXT]].copy()
    compact.sum_up(order.parents, counts)
    counts[:, [OWN_LENGTH, OWN_TEXT]] = own
    return counts


def _mean_arrays(parents: I32, rows: _Arrays, raw: F32) -> _Arrays:
    """Return the arrays of the mean vector of each subtree and script (writing system)."""
    text_dir, script, has_vector = rows["text_dir"], rows["text_script"], rows["text_has_vector"]
    counts = np.zeros((len(parents), SCRIPTS), np.int64)
    with_vector = has_vector.astype(bool)
    np.add.at(counts, (text_dir[with_vector], script[with_vector]), 1)
    compact.sum_up(parents, counts)
    present = counts > 0
    slots = np.full(counts.shape, -1, np.int32)
    slots[present] = np.arange(np.count_nonzero(present), dtype=np.int32)
    count = counts[present]
    sums = compact.sum_vectors(parents, slots, len(count), text_dir, script, has_vector, raw)
    mean = np.empty(sums.shape, np.float32)
    statistics_updates.divide_sums(sums, count, mean)
    code, scale, _ = quantized(mean)
    return {
        "mean_slot": slots,
        "mean_count": count,
        "mean_sum": sums,
        "mean": mean,
        "mean_code": code,
        "mean_scale": scale,
        "mean_square": np.einsum("ij,ij->i", mean, mean),
    }


def _order_directories(snapshot: Snapshot) -> tuple[I32, I32, I32]:
    """Return three arrays by new row: the old row, the new row of the parent, the subtree's end.

    New rows are in depth-first order. The end is one past the last directory row of the subtree.
    """
    tree, names = snapshot.tree, snapshot.names
    base = len(tree.directories.end)
    alive = (tree.directories.tombstoned > snapshot.revision).tolist()
    parent_of, base_ends = tree.directories.parent.tolist(), tree.directories.end.tolist()
    added: dict[int, list[int]] = {}
    for new in range(base, len(alive)):
        if alive[new]:
            added.setdefault(parent_of[new], []).append(new)
    order: list[int] = []
    parents: list[int] = []
    ends: list[int] = []
    stack: list[tuple[int | None, int]] = [(0, -1)]  # old row, new row of its parent
    while stack:
        row, parent = stack.pop()
        if row is None:  # all directories below `parent` are in the order
            ends[parent] = len(order)
            continue
        new = len(order)
        order.append(row)
        parents.append(parent)
        ends.append(0)
        stack.append((None, new))
        children: list[int] = []
        if row < base:
            child = row + 1
            while child < base_ends[row]:
                if alive[child]:
                    children.append(child)
                child = base_ends[child]
        if row in added:
            children = sorted(children + added[row], key=names.directories.__getitem__)
        stack.extend((child, new) for child in reversed(children))
    return np.array(order, np.int32), np.array(parents, np.int32), np.array(ends, np.int32)


def _term_arrays(snapshot: Snapshot, renamed: I32) -> _Arrays:
    """Return the arrays of terms and postings of the living texts.

    Args:
        snapshot: the snapshot.
        renamed: the new row of each old text row, -1 for a dead one.
    """
    base, added = snapshot.base, as_one(snapshot.tail_postings)
    tail_key, tail = np.repeat(added.keys, np.diff(added.at)), added.packed
    rows = renamed[(tail >> np.uint64(16)).astype(np.int64)]
    alive = rows >= 0
    tail_key, tail, rows = tail_key[alive], tail[alive], rows[alive]
    ascending = np.lexsort((rows, tail_key))
    tail_key, rows = tail_key[ascending], rows[ascending]
    tf = tail[ascending].astype(np.uint16)
    terms = np.union1d(base.term_key, tail_key)
    starts, ends = (
        np.column_stack(
            [
                base.term_at[np.searchsorted(base.term_key, terms, side)],
                np.searchsorted(tail_key, terms, side),
            ]
        )
        for side in ("left", "right")
    )
    bounds, texts, tfs = compact.merge_postings(
        starts, ends, base.posting_text, base.posting_tf, rows, tf, renamed
    )
    kept = np.diff(bounds) > 0
    return {
        "term_key": terms[kept],
        "term_at": np.append(bounds[:-1][kept], bounds[-1]),
        "posting_text": texts,
        "posting_tf": tfs,
    }


def _uri_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    base, dirs, files = snapshot.base, order.directories, order.files
    file_key = np.zeros(len(snapshot.tree.files.directory), np.uint64)
    of_files = is_file(base.uri_row)
    file_key[decode_file(base.uri_row[of_files])] = base.uri_key[of_files]
    for row in files[files >= base.sizes.files].tolist():
        file_key[row] = tokens.term_hash(snapshot.file_uri(row))
    keys = np.concatenate([snapshot.tree.directories.key[dirs], file_key[files]])
    rows = np.concatenate([np.arange(len(dirs)), encode_file(np.arange(len(files)))]).astype(
        np.int32
    )
    ascending = np.argsort(keys, kind="stable")
    return {"uri_key": keys[ascending], "uri_row": rows[ascending]}
