"""A new base from a snapshot: the living rows in depth-first order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from viking_kernels import changes, compact
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    F32,
    FILES,
    I8,
    I32,
    I64,
    OWN_LENGTH,
    OWN_TEXT,
    SCRIPTS,
    U8,
    decode_file,
    encode_file,
    is_file,
)
from viking_kernels.quantize import int4_axis, int4_room, quantize_int4, quantize_rows
from viking_kernels.simd import padded

from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.postings import as_one
from vikingd.index.metadata.columns import Columns
from vikingd.index.segment.arrays import Segment, int4_arrays
from vikingd.index.snapshot import Snapshot

_Array = npt.NDArray[Any]
_Arrays = dict[str, _Array]


class _Order(NamedTuple):
    """The rows of a new base: old row numbers in new order, and the tree of the new rows."""

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
    """Return a base of all that a snapshot shows, with the metadata of directories and files.

    This may run beside the writer. It reads nothing that a later commit changes.
    """
    order = _order(snapshot)
    rows = _row_arrays(snapshot, order)
    vectors = _vector_arrays(snapshot, order)
    segment = Segment(
        **rows,
        **_shown_arrays(snapshot, order),
        **vectors,
        **_subtree_arrays(order, {**rows, **vectors}),
        **_term_arrays(snapshot, order),
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
    abstracts = _abstracts(snapshot)[directories]
    texts, dir_texts, file_texts = compact.order_texts(
        tree, revision, abstracts, files, dir_files, len(snapshot.base.text_dir)
    )
    return _Order(
        directories=directories,
        parents=parents,
        ends=ends,
        files=files,
        dir_files=dir_files,
        texts=texts,
        dir_texts=dir_texts,
        file_texts=file_texts,
        new_dir=_renamed(len(tree.directories.parent), directories),
        new_file=_renamed(len(tree.files.directory), files),
        new_text=_renamed(len(tree.texts.directory), texts),
    )


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
    }


def _shown_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    """Return names, abstracts and passages."""
    names, contents, revision = snapshot.names, snapshot.contents, snapshot.revision
    arrays: _Arrays = {"text_start": contents.starts(order.texts)}
    arrays["dir_name_at"], arrays["dir_names"] = names.directories.gather(order.directories)
    arrays["file_name_at"], arrays["file_names"] = names.files.gather(order.files)
    arrays["dir_abstract_at"], arrays["dir_abstracts"] = contents.directories.gather(
        order.directories, revision
    )
    arrays["file_abstract_at"], arrays["file_abstracts"] = contents.files.gather(
        order.files, revision
    )
    arrays["text_shown_at"], arrays["text_shown"] = contents.texts.gather(order.texts)
    return arrays


def _vector_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    vectors, texts = snapshot.vectors, order.texts
    raw = _rows(vectors.base_raw, vectors.tail_raw, texts)
    raw[vectors.vector_at[texts] > snapshot.revision] = 0
    codes, scale, error = _quantized(raw)
    int4 = int4_room(len(raw), int4_axis(raw))
    quantize_int4(raw, int4)
    return {"raw": raw, "codes": codes, "scale": scale, "error": error, **int4_arrays(int4)}


def _quantized(raw: F32) -> tuple[I8, F32, F32]:
    """Return the int8 codes of vectors, their scales and the lengths of what they leave out."""
    codes = np.zeros((len(raw), padded(raw.shape[1])), np.int8)
    scale, error = np.empty(len(raw), np.float32), np.empty(len(raw), np.float32)
    quantize_rows(raw, codes, scale, error)
    return codes, scale, error


def _subtree_arrays(order: _Order, arrays: Mapping[str, _Array]) -> _Arrays:
    """Return the counts of the directories' subtrees and the means of their vectors."""
    parents, raw, has_vector = order.parents, arrays["raw"], arrays["text_has_vector"]
    text_dir, text_script = arrays["text_dir"], arrays["text_script"]
    counts = compact.own_counts(
        text_dir, arrays["text_file"], arrays["text_length"], text_script, parents
    )
    counts = _subtree_counts(counts, parents, np.diff(order.dir_files))
    mean_slot, mean_count = _mean_slots(parents, text_dir, text_script, has_vector)
    sums = compact.sum_vectors(
        parents, mean_slot, len(mean_count), text_dir, text_script, has_vector, raw
    )
    mean = np.empty(sums.shape, np.float32)
    changes.divide_sums(sums, mean_count, mean)
    mean_code, mean_scale, _ = _quantized(mean)
    return {
        "counts": counts,
        "mean_slot": mean_slot,
        "mean_count": mean_count,
        "mean_sum": sums,
        "mean": mean,
        "mean_code": mean_code,
        "mean_scale": mean_scale,
        "mean_square": np.einsum("ij,ij->i", mean, mean),
    }


def _renamed(size: int, rows: I32) -> I32:
    new = np.full(size, -1, np.int32)
    new[rows] = np.arange(len(rows), dtype=np.int32)
    return new


def _order_directories(snapshot: Snapshot) -> tuple[I32, I32, I32]:
    """Return old rows in depth-first order, their parents as new rows, and subtree ends."""
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


def _abstracts(snapshot: Snapshot) -> I32:
    """Return the row of each directory's living abstract, [D], -1 none."""
    tree = snapshot.tree
    found = np.full(len(tree.directories.parent), -1, np.int32)
    rows = np.flatnonzero((tree.texts.file < 0) & (tree.texts.tombstoned > snapshot.revision))
    found[tree.texts.directory[rows]] = rows
    return found


def _rows(base: npt.NDArray[Any], tail: npt.NDArray[Any], rows: I32) -> npt.NDArray[Any]:
    out = np.empty((len(rows), base.shape[1]), base.dtype)
    of_base = rows < len(base)
    out[of_base] = base[rows[of_base]]
    out[~of_base] = tail[rows[~of_base] - len(base)]
    return out


def _subtree_counts(counts: I64, parents: I32, files: I32) -> I64:
    counts[:, FILES] = files
    counts[:, DIRECTORIES] = 1
    counts[:, DOCUMENT_LENGTH] = counts[:, OWN_LENGTH]
    own = counts[:, [OWN_LENGTH, OWN_TEXT]].copy()
    compact.sum_up(parents, counts)
    counts[:, [OWN_LENGTH, OWN_TEXT]] = own
    return counts


def _mean_slots(parents: I32, text_dir: I32, text_script: U8, has_vector: U8) -> tuple[I32, I64]:
    counts = np.zeros((len(parents), SCRIPTS), np.int64)
    rows = has_vector.astype(bool)
    np.add.at(counts, (text_dir[rows], text_script[rows]), 1)
    compact.sum_up(parents, counts)
    slots = np.full(counts.shape, -1, np.int32)
    present = counts > 0
    slots[present] = np.arange(int(present.sum()), dtype=np.int32)
    return slots, counts[present]


def _term_arrays(snapshot: Snapshot, order: _Order) -> _Arrays:
    """Return the postings of the living texts, from base and tail."""
    renamed = order.new_text
    base, added = snapshot.base, as_one(snapshot.tail_postings)
    tail_key, tail = np.repeat(added.keys, np.diff(added.at)), added.packed
    rows = renamed[(tail >> np.uint64(16)).astype(np.int64)]
    alive = rows >= 0
    tail_key, tail, rows = tail_key[alive], tail[alive], rows[alive]
    ascending = np.lexsort((rows, tail_key))
    tail_key, rows = tail_key[ascending], rows[ascending]
    tf = tail[ascending].astype(np.uint16)
    terms = np.union1d(base.term_key, tail_key)
    in_base = np.searchsorted(base.term_key, terms)
    known = np.zeros(len(terms), bool)
    known[np.searchsorted(terms, base.term_key)] = True
    starts = np.zeros((len(terms), 2), np.int64)
    ends = np.zeros((len(terms), 2), np.int64)
    starts[known, 0] = base.term_at[in_base[known]]
    ends[known, 0] = base.term_at[in_base[known] + 1]
    starts[:, 1] = np.searchsorted(tail_key, terms, "left")
    ends[:, 1] = np.searchsorted(tail_key, terms, "right")
    bounds, texts, tfs = compact.merge_postings(
        starts, ends, base.posting_text, base.posting_tf, rows.astype(np.int32), tf, renamed
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
