"""A new base out of a snapshot: the living rows in depth-first order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels import changes, compact
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    FILES,
    I32,
    I64,
    OWN_LENGTH,
    OWN_TEXT,
    SCRIPTS,
    U8,
    U64,
    decode_file,
    encode_file,
)
from viking_kernels.quantize import int4_axis, int4_room, quantize_int4, quantize_rows
from viking_kernels.simd import padded

from vikingd.index import tokens
from vikingd.index.base import Base, int4_arrays
from vikingd.index.columns import Columns
from vikingd.index.postings import as_one
from vikingd.index.snapshot import Snapshot


def compacted(snapshot: Snapshot) -> tuple[Base, Columns, Columns]:
    """The base that holds just what a snapshot shows, with its metadata columns.

    Runs beside the writer: it reads nothing that a later commit changes.
    """
    tree, base, revision = snapshot.tree, snapshot.base, snapshot.revision
    dirs, parents, ends = _order_directories(snapshot)
    files, dir_files = compact.order_files(tree, revision, dirs)
    texts, dir_texts, file_texts = compact.order_texts(
        tree, revision, _abstracts(snapshot)[dirs], files, dir_files, len(base.text_dir)
    )
    new_dir = _renamed(len(tree.directories.parent), dirs)
    new_file = _renamed(len(tree.files.directory), files)
    new_text = _renamed(len(tree.texts.directory), texts)
    has_vector = (snapshot.vectors.vector_at[texts] <= revision).astype(np.uint8)
    raw = _rows(snapshot.vectors.base_raw, snapshot.vectors.tail_raw, texts)
    raw[has_vector == 0] = 0
    codes = np.zeros((len(raw), padded(raw.shape[1])), np.int8)
    scale, error = np.empty(len(raw), np.float32), np.empty(len(raw), np.float32)
    quantize_rows(raw, codes, scale, error)
    int4 = int4_room(len(raw), int4_axis(raw))
    quantize_int4(raw, int4)
    text_dir, text_script = new_dir[tree.texts.directory[texts]], tree.texts.script[texts]
    text_file = np.append(new_file, np.int32(-1))[tree.texts.file[texts]]  # -1 stays -1
    text_length = tree.texts.length[texts]
    counts = compact.own_counts(text_dir, text_file, text_length, text_script, parents)
    counts = _subtree_counts(counts, parents, np.diff(dir_files))
    mean_slot, mean_count = _mean_slots(parents, text_dir, text_script, has_vector)
    sums = compact.sum_vectors(
        parents, mean_slot, len(mean_count), text_dir, text_script, has_vector, raw
    )
    mean = np.empty(sums.shape, np.float32)
    changes.divide_sums(sums, mean_count, mean)
    mean_code = np.zeros((len(mean), padded(mean.shape[1])), np.int8)
    mean_scale, mean_error = np.empty(len(mean), np.float32), np.empty(len(mean), np.float32)
    quantize_rows(mean, mean_code, mean_scale, mean_error)
    term_key, term_at, posting_text, posting_tf = _postings(snapshot, new_text)
    names, contents = snapshot.names, snapshot.contents
    dir_name_at, dir_names = names.directories.gather(dirs)
    file_name_at, file_names = names.files.gather(files)
    dir_abstract_at, dir_abstracts = contents.directories.gather(dirs, revision)
    file_abstract_at, file_abstracts = contents.files.gather(files, revision)
    text_shown_at, text_shown = contents.texts.gather(texts)
    uri_key, uri_row = _uris(snapshot, dirs, files)
    new = Base(
        dir_parent=parents,
        dir_end=ends,
        dir_files=dir_files,
        dir_texts=dir_texts,
        dir_key=tree.directories.key[dirs],
        dir_type=snapshot.dir_type[dirs],
        dir_id=snapshot.dir_id[dirs],
        dir_name_at=dir_name_at,
        dir_names=dir_names,
        dir_abstract_at=dir_abstract_at,
        dir_abstracts=dir_abstracts,
        file_dir=new_dir[tree.files.directory[files]],
        file_texts=file_texts,
        file_id=snapshot.file_id[files],
        file_name_at=file_name_at,
        file_names=file_names,
        file_abstract_at=file_abstract_at,
        file_abstracts=file_abstracts,
        text_file=text_file,
        text_dir=text_dir,
        text_script=text_script,
        text_length=text_length,
        text_id=snapshot.text_id[texts],
        text_ordinal=snapshot.text_ordinal[texts],
        text_has_vector=has_vector,
        text_embeddable=snapshot.text_embeddable[texts],
        text_start=contents.starts(texts),
        text_shown_at=text_shown_at,
        text_shown=text_shown,
        codes=codes,
        raw=raw,
        scale=scale,
        error=error,
        **int4_arrays(int4),
        term_key=term_key,
        term_at=term_at,
        posting_text=posting_text,
        posting_tf=posting_tf,
        counts=counts,
        mean_slot=mean_slot,
        mean_count=mean_count,
        mean_sum=sums,
        mean=mean,
        mean_code=mean_code,
        mean_scale=mean_scale,
        mean_square=np.einsum("ij,ij->i", mean, mean),
        uri_key=uri_key,
        uri_row=uri_row,
    )
    return (
        new,
        snapshot.dir_columns.copy_for(new_dir, revision),
        snapshot.file_columns.copy_for(new_file, revision),
    )


def _renamed(size: int, rows: I32) -> I32:
    new = np.full(size, -1, np.int32)
    new[rows] = np.arange(len(rows), dtype=np.int32)
    return new


def _order_directories(snapshot: Snapshot) -> tuple[I32, I32, I32]:
    """(old rows in depth-first order, their parents as new rows, ends of their subtrees)."""
    tree, names = snapshot.tree, snapshot.names
    base = len(tree.directories.end)
    alive = (tree.directories.tombstoned > snapshot.revision).tolist()
    parent_of, base_ends = tree.directories.parent.tolist(), tree.directories.end.tolist()
    added: dict[int, list[int]] = {}
    for row in range(base, len(alive)):
        if alive[row]:
            added.setdefault(parent_of[row], []).append(row)
    order: list[int] = []
    parents: list[int] = []
    ends: list[int] = []
    stack: list[tuple[int, int]] = [(0, -1)]
    while stack:
        row, parent = stack.pop()
        if row < 0:  # all below directory -1 - row has been placed
            ends[-1 - row] = len(order)
            continue
        new = len(order)
        order.append(row)
        parents.append(parent)
        ends.append(0)
        stack.append((-1 - new, 0))
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
    """[D] the living abstract of each directory, -1 none."""
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


def _postings(snapshot: Snapshot, renamed: I32) -> tuple[U64, I64, I32, npt.NDArray[np.uint16]]:
    base, added = snapshot.base, as_one(snapshot.tail_postings)
    tail_key, tail = np.repeat(added.keys, np.diff(added.at)), added.packed
    rows = renamed[(tail >> np.uint64(16)).astype(np.int64)]
    alive = rows >= 0
    tail_key, tail, rows = tail_key[alive], tail[alive], rows[alive]
    order = np.lexsort((rows, tail_key))
    tail_key, rows, tf = tail_key[order], rows[order], tail[order].astype(np.uint16)
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
    return terms[kept], np.append(bounds[:-1][kept], bounds[-1]), texts, tfs


def _uris(snapshot: Snapshot, dirs: I32, files: I32) -> tuple[U64, I32]:
    base = snapshot.base
    size = len(base.file_dir)
    file_key = np.zeros(len(snapshot.tree.files.directory), np.uint64)
    of_files = base.uri_row < 0
    file_key[decode_file(base.uri_row[of_files])] = base.uri_key[of_files]
    for row in files[files >= size].tolist():
        file_key[row] = tokens.term_hash(snapshot.file_uri(row))
    keys = np.concatenate([snapshot.tree.directories.key[dirs], file_key[files]])
    rows = np.concatenate([np.arange(len(dirs)), encode_file(np.arange(len(files)))]).astype(
        np.int32
    )
    order = np.argsort(keys, kind="stable")
    return keys[order], rows[order]
