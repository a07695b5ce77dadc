"""The arrays of a segment. Each is declared once, with its dtype and its shape.

A base segment never changes. A tail appends rows to some of its arrays, and to a few more. The base
stores these growing arrays with unused rows at the end. So a tail maps them, and copies nothing
until these rows are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import (
    COUNTS,
    DIRECTORIES,
    F32,
    I8,
    I32,
    I64,
    NEVER,
    SCRIPTS,
    U8,
    U16,
    U64,
    Int4,
)
from viking_kernels.quantize import quantize_rows
from viking_kernels.rotation import rotated_size
from viking_kernels.simd import padded

from vikingd.domain import uri as uris
from vikingd.index.array_growth import grown
from vikingd.index.lexicon import tokens


class Numbering(Enum):
    """The kind of items that an array has an entry for, such as directories, files or texts."""

    DIRECTORIES = auto()
    FILES = auto()
    TEXTS = auto()
    TERMS = auto()
    POSTINGS = auto()
    MEANS = auto()
    URIS = auto()  # of directories and files
    AXIS = auto()  # components of a rotated vector
    BYTES = auto()  # of UTF-8 strings; their number is free


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an array.

    Attributes:
        numbering: the kind of the items; each has one entry.
        width: the count of numbers in an entry, or a function that computes it from the dimension
            of vectors; None: an entry is one number.
        is_offsets: the array has one entry more. Item i has the slice from entry i to entry i + 1
            of another array.
        checked_late: the checksum of a large file may be compared after the start, because no
            kernel uses the values as indexes, or because `checks` checks their range at the start.
    """

    numbering: Numbering
    width: int | Callable[[int], int] | None = None
    is_offsets: bool = False
    checked_late: bool = False

    def inner(self, dimension: int) -> tuple[int, ...]:
        """Return the shape of one entry, for vectors of this dimension."""
        if self.width is None:
            return ()
        return (self.width,) if isinstance(self.width, int) else (self.width(dimension),)


def _dimension(dimension: int) -> int:
    return dimension


def _int4_bytes(dimension: int) -> int:
    return rotated_size(dimension) // 2


_DIRECTORY = Shape(Numbering.DIRECTORIES)
_DIRECTORY_OFFSETS = Shape(Numbering.DIRECTORIES, is_offsets=True)
_FILE = Shape(Numbering.FILES)
_FILE_OFFSETS = Shape(Numbering.FILES, is_offsets=True)
_TEXT = Shape(Numbering.TEXTS)
_TERM = Shape(Numbering.TERMS)
_POSTING = Shape(Numbering.POSTINGS, checked_late=True)
_MEAN = Shape(Numbering.MEANS)
_URI = Shape(Numbering.URIS)
_BYTES = Shape(Numbering.BYTES)
_LATE_BYTES = Shape(Numbering.BYTES, checked_late=True)


def _late(numbering: Numbering, width: Callable[[int], int]) -> Shape:
    return Shape(numbering, width, checked_late=True)


@dataclass(frozen=True, slots=True)
class CommonArrays:
    """The arrays of a base to which a tail appends rows."""

    dir_parent: Annotated[I32, _DIRECTORY]  # -1 for the root
    dir_key: Annotated[U64, _DIRECTORY]  # hash of the URI
    dir_id: Annotated[I64, _DIRECTORY]  # context ids of the store
    dir_type: Annotated[I8, _DIRECTORY]  # ContextType
    file_dir: Annotated[I32, _FILE]
    file_id: Annotated[I64, _FILE]
    text_file: Annotated[I32, _TEXT]  # -1 for the abstract of a directory
    text_dir: Annotated[I32, _TEXT]
    text_script: Annotated[U8, _TEXT]
    text_length: Annotated[I32, _TEXT]  # in terms
    text_id: Annotated[I64, _TEXT]  # text ids of the store
    text_ordinal: Annotated[I32, _TEXT]
    text_embeddable: Annotated[U8, _TEXT]
    text_turn: Annotated[I32, _TEXT]  # see lexicon/turns.py


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Segment(CommonArrays):
    """The arrays of a base segment; see viking_kernels.arrays for the order of rows.

    A vector that arrives after the base was written is put into its place in memory. The next
    compaction writes it to disk.
    """

    dir_end: Annotated[I32, _DIRECTORY]  # one past the last directory of the subtree
    dir_files: Annotated[I32, _DIRECTORY_OFFSETS]
    dir_texts: Annotated[I32, _DIRECTORY_OFFSETS]
    dir_name_at: Annotated[I64, _DIRECTORY_OFFSETS]
    dir_names: Annotated[U8, _BYTES]
    dir_abstract_at: Annotated[I64, _DIRECTORY_OFFSETS]
    dir_abstracts: Annotated[U8, _LATE_BYTES]
    file_texts: Annotated[I32, Shape(Numbering.FILES, 2)]  # first text, one past the last
    file_name_at: Annotated[I64, _FILE_OFFSETS]
    file_names: Annotated[U8, _BYTES]
    file_abstract_at: Annotated[I64, _FILE_OFFSETS]
    file_abstracts: Annotated[U8, _LATE_BYTES]
    text_has_vector: Annotated[U8, _TEXT]
    text_start: Annotated[I32, _TEXT]  # start of the passage in the content, in code points
    text_line: Annotated[I32, _TEXT]  # the line of its start, from 1; 0 for an abstract
    text_shown_at: Annotated[I64, Shape(Numbering.TEXTS, is_offsets=True)]
    text_shown: Annotated[U8, _LATE_BYTES]  # section, NUL (which no section has), passage
    codes: Annotated[I8, _late(Numbering.TEXTS, padded)]  # vector / scale, rounded
    raw: Annotated[F32, _late(Numbering.TEXTS, _dimension)]
    scale: Annotated[F32, _TEXT]
    error: Annotated[F32, _TEXT]  # length of vector - scale * code
    int4_axis: Annotated[F32, Shape(Numbering.AXIS)]  # see arrays.Int4
    int4_codes: Annotated[U8, _late(Numbering.TEXTS, _int4_bytes)]
    int4_scale: Annotated[F32, _TEXT]
    int4_error: Annotated[F32, _TEXT]
    int4_along: Annotated[F32, _TEXT]
    term_key: Annotated[U64, _TERM]  # hashes of the terms, ascending
    term_at: Annotated[I64, Shape(Numbering.TERMS, is_offsets=True)]  # offsets of postings
    posting_text: Annotated[I32, _POSTING]
    posting_tf: Annotated[U16, _POSTING]
    counts: Annotated[I64, Shape(Numbering.DIRECTORIES, COUNTS)]
    mean_slot: Annotated[I32, Shape(Numbering.DIRECTORIES, SCRIPTS)]  # -1: no vector
    mean_count: Annotated[I64, _MEAN]
    mean_sum: Annotated[I64, _late(Numbering.MEANS, _dimension)]  # fixed point
    mean: Annotated[F32, _late(Numbering.MEANS, _dimension)]
    mean_code: Annotated[I8, _late(Numbering.MEANS, padded)]  # mean / scale, rounded
    mean_scale: Annotated[F32, _MEAN]
    mean_square: Annotated[F32, _MEAN]  # |mean|^2
    uri_key: Annotated[U64, _URI]  # hashes of the URIs, ascending
    uri_row: Annotated[I32, _URI]  # nodes, see viking_kernels.arrays.encode_file

    @property
    def sizes(self) -> Sizes:
        """The number of directories, files and texts."""
        return Sizes(len(self.dir_end), len(self.file_texts), len(self.codes))

    @property
    def int4(self) -> Int4:
        """The int4 codes of the texts' vectors."""
        return Int4(
            self.int4_axis, self.int4_codes, self.int4_scale, self.int4_error, self.int4_along
        )


@dataclass(frozen=True, slots=True)
class GrowingArrays(CommonArrays):
    """All arrays to which a tail appends rows, with unused rows at the end.

    A chain is a linked list of rows, such as the files of a directory. It may lead through rows
    that are newer than a snapshot; the snapshot skips these.
    """

    dir_died: Annotated[I64, _DIRECTORY]
    dir_first: Annotated[I32, _DIRECTORY]  # first file by name, -1 none
    dir_tail: Annotated[I32, _DIRECTORY]  # newest child directory in the tail, -1 none
    dir_text: Annotated[I32, _DIRECTORY]  # living abstract, -1 none
    file_next: Annotated[I32, _FILE]  # next file of the directory by name, -1 none
    file_previous: Annotated[I32, _FILE]
    file_died: Annotated[I64, _FILE]
    file_tail: Annotated[I32, _FILE]  # newest text in the tail, -1 none
    text_died: Annotated[I64, _TEXT]
    vector_at: Annotated[I64, _TEXT]  # the revision that brought the vector

    @property
    def room(self) -> Sizes:
        """The number of directories, files and texts for which the arrays are large enough."""
        return Sizes(len(self.dir_parent), len(self.file_dir), len(self.text_file))

    def grown(self, used: Sizes, room: Sizes) -> GrowingArrays:
        """Return larger copies of the arrays; their first `used` rows are copied, others undefined.

        Args:
            used: the numbers of rows to copy, of directories, files and texts.
            room: the numbers of rows of the new arrays.
        """
        arrays = {
            name: grown(getattr(self, name)[: used.of(field)], room.of(field))
            for name, field in GROWING.items()
        }
        return GrowingArrays(**arrays)


class Sizes(NamedTuple):
    """The numbers of directories, files and texts."""

    directories: int
    files: int
    texts: int

    def of(self, field: ArrayField) -> int:
        """Return the number for an array: that of directories, files or texts, by its numbering."""
        return self[_ROW_NUMBERINGS.index(field.shape.numbering)]


_ROW_NUMBERINGS = Numbering.DIRECTORIES, Numbering.FILES, Numbering.TEXTS


class ArrayField(NamedTuple):
    """The declared dtype and shape of an array."""

    dtype: np.dtype[Any]
    shape: Shape


def _declared(arrays: type[CommonArrays]) -> dict[str, ArrayField]:
    found = {}
    for name, annotation in get_type_hints(arrays, include_extras=True).items():
        array, shape = get_args(annotation)
        _, dtype = get_args(array)
        found[name] = ArrayField(np.dtype(get_args(dtype)[0]), shape)
    return found


FIELDS: Mapping[str, ArrayField] = _declared(Segment)
"""The declarations of a segment's arrays, by name."""

GROWING: Mapping[str, ArrayField] = _declared(GrowingArrays)
"""The declarations of the growing arrays, by name."""


def quantized(raw: F32) -> tuple[I8, F32, F32]:
    """Return (int8 codes, scales, residual norms) of vectors."""
    codes = np.zeros((len(raw), padded(raw.shape[1])), np.int8)
    scale, error = np.empty(len(raw), np.float32), np.empty(len(raw), np.float32)
    quantize_rows(raw, codes, scale, error)
    return codes, scale, error


def empty(dimension: int) -> Segment:
    """Return a segment with the root directory only. The root is row 0 in every segment."""
    lengths = {
        Numbering.DIRECTORIES: 1,
        Numbering.URIS: 1,
        Numbering.AXIS: rotated_size(dimension),
    }
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, (dtype, shape) in FIELDS.items():
        length = lengths.get(shape.numbering, 0) + shape.is_offsets
        arrays[name] = np.zeros((length, *shape.inner(dimension)), dtype)
    arrays["dir_parent"][0] = -1
    arrays["dir_end"][0] = 1
    arrays["dir_id"][0] = -1
    arrays["dir_key"][0] = arrays["uri_key"][0] = tokens.term_hash(uris.ROOT)
    arrays["counts"][0, DIRECTORIES] = 1
    arrays["mean_slot"][0] = -1
    return Segment(**arrays)


def widened(segment: Segment, dimension: int) -> Segment:
    """Return a copy of a segment without vectors whose arrays can hold vectors of a dimension."""
    sized = {
        name: np.zeros((len(segment.codes), *shape.inner(dimension)), dtype)
        for name, (dtype, shape) in FIELDS.items()
        if shape.numbering is Numbering.TEXTS and callable(shape.width)
    }
    like = empty(dimension)
    means = {name: getattr(like, name) for name in ("mean", "mean_sum", "mean_code", "int4_axis")}
    return replace(segment, **sized, **means)


def growing_of(segment: Segment) -> GrowingArrays:
    """Return growing arrays with the rows of a segment, and no unused rows."""
    size = segment.sizes
    # The files of a directory follow one another. Its chain begins at the first of them.
    starts, ends = segment.dir_files[:-1], segment.dir_files[1:]
    has_files = ends > starts
    following = np.arange(1, size.files + 1, dtype=np.int32)
    previous = np.arange(-1, size.files - 1, dtype=np.int32)
    following[ends[has_files] - 1] = -1
    previous[starts[has_files]] = -1
    own = np.full(size.directories, -1, np.int32)
    abstracts = np.flatnonzero(segment.text_file < 0)
    own[segment.text_dir[abstracts]] = abstracts
    common = {spec.name: getattr(segment, spec.name) for spec in fields(CommonArrays)}
    return GrowingArrays(
        **common,
        dir_died=np.full(size.directories, NEVER, np.int64),
        dir_first=np.where(has_files, starts, -1).astype(np.int32),
        dir_tail=np.full(size.directories, -1, np.int32),
        dir_text=own,
        file_next=following,
        file_previous=previous,
        file_died=np.full(size.files, NEVER, np.int64),
        file_tail=np.full(size.files, -1, np.int32),
        text_died=np.full(size.texts, NEVER, np.int64),
        vector_at=np.where(segment.text_has_vector, 0, NEVER),
    )
