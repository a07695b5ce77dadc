"""The bundles of arrays that kernels read.

Rows: directories, files and texts are numbered separately. The first `base` rows of each kind form
the base, in depth-first order: a directory's files come before its subdirectories, names in order.
So the base rows of a subtree are one range in each numbering. The rows after the base are the tail,
in order of arrival. A parent always has a lower number than its child.

Versions: a snapshot of revision r has a row if its number is below the length of the snapshot's
arrays and r < tombstoned. It has a text's vector if vector_at <= r. Chains also lead through rows
that a snapshot does not have; readers skip these.

Nodes: one number for directories and files alike; see `encode_file`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

NEVER = np.iinfo(np.int64).max
"""A revision that never comes: the tombstone of a living row, or a vector that is not known yet."""

SCRIPTS = 8
"""The number of scripts that stand for languages. Script 0 is that of a text without letters."""

# Columns of SubtreeStats.counts: sums over the living rows of a subtree, its top included.
FILES, DIRECTORIES, TEXTS, TEXT_LENGTH, DOCUMENT_LENGTH, OWN_LENGTH, OWN_TEXT = range(7)
COUNTS = 7 + SCRIPTS
"""The number of columns. The last ones, from column 7 on, count the texts by script.

OWN_LENGTH is not a sum: it is the length of the directory's own document, which is its abstract,
the texts of its files and the abstracts of its directories. DOCUMENT_LENGTH is the sum of
OWN_LENGTH over the subtree. OWN_TEXT is 1 if the directory has an abstract.
"""

# Columns of the parts of a file's score, in the order of the formulas in `final_scores`.
DENSE, LEXICAL, DENSE_SHARE, NODE, SMOOTHED, PARENT, PARENT_SHARE, TITLE_BONUS = range(8)
# Columns of the second stage, see `second_stage`.
FEEDBACK, COVER, AGREEMENT, REPLY, DATE, KIND = range(8, 14)
FINAL = 14
PARTS = 15

DIRECTORY_FINAL = 4
"""The last row of Scratch.directories; the rows before it are DENSE to NODE."""
DIRECTORY_PARTS = 5

Node: TypeAlias = int
"""A directory or file, see `encode_file`."""

_Rows = TypeVar("_Rows", int, I32, I64)


def encode_file(row: _Rows) -> _Rows:
    """Convert the row of a file (or an array of rows) to its node number: -1 - row.

    The node number of a directory is its row.
    """
    return -1 - row


def decode_file(node: _Rows) -> _Rows:
    """Convert the node number of a file, or an array of them, to its row."""
    return -1 - node


@overload
def is_file(node: Node) -> bool: ...
@overload
def is_file(node: I32) -> npt.NDArray[np.bool_]: ...
def is_file(node: Node | I32) -> bool | npt.NDArray[np.bool_]:
    """Return True for the node number of a file, False for a directory; elementwise."""
    return node < 0


def row_of(node: Node) -> int:
    """Return the row of a node, in the numbering of directories or of files."""
    return -1 - node if node < 0 else node


class Directories(NamedTuple):
    """The directories of a snapshot: D rows, the first Db of them in the base."""

    parent: I32  # [D] -1 for the root
    end: I32  # [Db] one past the last base directory of the subtree
    files: I32  # [Db + 1] base files of base directory d: [d] to [d + 1]
    texts: I32  # [Db + 1] base texts of base directory d (its own first): [d] to [d + 1]
    tombstoned: I64  # [D] the first revision without the row
    first_file: I32  # [D] first file of the chain of its files, -1 none
    newest: I32  # [D] newest tail directory right below it, -1 none
    older: I32  # [D - Db and more] the previous tail directory of the same parent, -1 none
    key: U64  # [D] hash of the URI: the order in which directories are sampled


class Files(NamedTuple):
    """The files of a snapshot: F rows, the first Fb of them in the base."""

    directory: I32  # [F]
    next: I32  # [F and more] next file of the same directory by name, -1 none
    previous: I32  # [F and more] previous file, -1 none
    tombstoned: I64  # [F]
    texts: I32  # [Fb, 2] base texts of base file f: [f, 0] to [f, 1]
    newest: I32  # [F] newest tail text of the file, -1 none


class Texts(NamedTuple):
    """The texts of a snapshot: T rows, the first Tb of them in the base."""

    file: I32  # [T] -1 for a directory's abstract
    directory: I32  # [T] the directory itself for its abstract
    script: U8  # [T]
    length: I32  # [T] in terms
    ordinal: I32  # [T] 0 for an abstract
    turn: I32  # [T] twice the number of the speaker, 0 for none, plus 1 for a question mark
    tombstoned: I64  # [T]
    older: I32  # [T - Tb and more] the file's previous tail text, -1 none


class Tree(NamedTuple):
    """The directories, files and texts of a snapshot."""

    directories: Directories
    files: Files
    texts: Texts


class Int4(NamedTuple):
    """int4 codes of rotated vectors x, without their part along an axis, which is kept in full.

    x is nearly along * axis + scale * (code - 7.5), with code from 0 to 15. The axis is the
    direction of the mean of all vectors: what is left without it is small, so vectors that are
    close together are coded about twice as finely.
    """

    axis: F32  # [rotated dim, see rotation.py] a unit vector, or zeros
    codes: U8  # [n, rotated dim / 2] two components a byte, in the order of `simd.products_int4`
    scale: F32  # [n]
    residual: F32  # [n] length of what the code leaves out
    along: F32  # [n] x . axis


class Vectors(NamedTuple):
    """Unit vectors x of the texts, and their codes: x is nearly scale * code."""

    base_codes: I8  # [Tb, dim padded with zeros to a multiple of simd.LANES]
    scale: F32  # [Tb]
    residual: F32  # [Tb] length of x - scale * code
    base_raw: F32  # [Tb, dim]
    tail_codes: I8  # [T - Tb, padded dim]
    tail_scale: F32  # [T - Tb]
    tail_residual: F32  # [T - Tb]
    tail_raw: F32  # [T - Tb, dim]
    vector_at: I64  # [T] first revision with the vector
    base_int4: Int4  # n = Tb


class SubtreeStats(NamedTuple):
    """Counts and centroids of each directory's subtree. Each write gives a directory a new slot."""

    slot: I32  # [D]
    counts: I64  # [slots, COUNTS]
    centroid_slot: I32  # [slots, SCRIPTS] row of the centroid of a script's vectors, -1 none
    centroid_count: I64  # [centroids] number of its vectors
    base_centroid: F32  # [base centroids, dim]
    base_centroid_codes: I8  # [base centroids, padded dim] centroid / scale, rounded
    base_centroid_scale: F32  # [base centroids]
    base_centroid_square: F32  # [base centroids] |centroid|^2
    tail_centroid: F32  # [centroids - base centroids, dim]


class Scope(NamedTuple):
    """The subtree of a directory at a revision, as ranges [low, high) of base rows."""

    root: int  # the directory; the ranges are empty if it is in the tail
    dir_low: int
    dir_high: int
    file_low: int
    file_high: int
    text_low: int
    text_high: int
    base_dirs: int
    base_files: int
    base_texts: int
    revision: int


class Terms(NamedTuple):
    """The n terms of a query: all postings of the base, and the terms' own postings of the tail.

    The keys 0 to n - 1 are words of texts, and n to 2n - 1 the same words in titles. A posting of a
    title has the first text of its file, and the number of terms of the title in place of the term
    frequency (tf).
    """

    key: U64  # [2n] hashes of the terms
    weight: F32  # [n] number of times that the query has the term
    base_key: U64  # [V] rising hashes of the base's terms
    base_at: I64  # [V + 1] postings of term v: [at[v], at[v + 1])
    base_text: I32  # [postings]
    base_tf: U16  # [postings]
    tail_from: I64  # [2n + 1]
    tail_text: I32  # [tail postings of these terms]
    tail_tf: U16


NO_VECTOR: F32 = np.zeros(0, np.float32)


class Centroids(NamedTuple):
    """The centroid m' of each script's vectors in a scope, and its codes."""

    raw: F32  # [SCRIPTS, dim]
    code: I8  # [SCRIPTS, padded dim] raw / step, rounded
    bias: I64  # [SCRIPTS] excess of products with the code, see dense.products_int8
    step: F64  # [SCRIPTS]
    residual: F64  # [SCRIPTS] length of raw - step * code
    length: F64  # [SCRIPTS] |m'|
    factors: I8  # [SCRIPTS, rotated dim] for products with int4 codes, see int4.code_direction
    against_int4: F64  # [SCRIPTS, 6] columns: see int4.CODED_ALONG


class RawQuery(NamedTuple):
    """A query as the caller gives it, with the centroids of its scope."""

    vector: F32  # [dim] of any length; [0]: there is none
    script: int  # 0: it matches every script
    use_dense: bool
    use_lexical: bool
    centroids: Centroids
    usual: F32 = NO_VECTOR  # [dim] mean of the model's vectors in this script; [0]: it is not known


class PreparedQuery(NamedTuple):
    """A query whose vector is centred (the centroid of its script is subtracted) and coded.

    `dense.prepare` makes it.
    """

    use_dense: bool
    use_lexical: bool
    script: int
    direction: F32  # [dim] (q - m) / |q - m|; zeros if there is none
    code: I8  # [1, padded dim] direction / step, rounded
    bias: int
    step: float
    residual: float  # length of direction - step * code
    centroids: Centroids
    centroid_dot: F64  # [SCRIPTS] direction . m'
    work: F32  # [dim] space for a sum


class Scratch(NamedTuple):
    """Working memory for the scores of one query, by position (see scope.place). Queries reuse it.

    `lexical`, `titles` and `dir_tf` are zeros between queries. The others may hold anything.
    """

    lexical: F32  # [T] of texts
    titles: F32  # [F] of files
    # [T] node scores of the base texts of one directory, from codes, starting at 0; or upper bounds
    # of the scores of all base texts of the scope, see bounds.bound_scores
    code_scores: F32
    code_errors: F32  # [T] error bounds of these node scores; in weighted_search, rows
    products: I32  # [2, n] products of the texts that are scored together
    dir_lexical: F32  # [D]
    dir_tf: F32  # [D]
    touched: I32  # [D + 1] directories with a tf; an entry is written before it is known to be new
    directories: F32  # [DIRECTORY_PARTS, D] DENSE to NODE, then DIRECTORY_FINAL
    dir_errors: F32  # [D] error bounds of scores that are not exact; before, lengths of documents
    is_exact: U8  # [D] whether a directory's scores are exact
    chain: I32  # [n] a directory and its ancestors
    file_scores: F32  # [F] node scores of the files that were scored
    file_errors: F32  # [F] their error bounds
    best: I32  # [F] rows of their best texts, -1 none
    sampled: U8  # [D] whether the files of a directory have node scores
    unchanged: U8  # [D] whether a directory's subtree is as it was when the base was written
    listed: I32  # [F] positions of the files of one directory, starting at 0
    seen: U8  # [D]
    queue: I32  # [D]
    opened: I32  # [D]
    candidates: I32  # [F]
    upper_bounds: F32  # [F] upper bound of each candidate's final score


class Search(NamedTuple):
    """The arguments that most parts of kernels take: query, scope, arrays of the snapshot, scratch.

    The contents of the scratch change.
    """

    tree: Tree
    vectors: Vectors
    stats: SubtreeStats
    query: PreparedQuery
    scope: Scope
    scratch: Scratch
    other_script: float = np.inf  # cap of the texts in another script, see other_script.py


class Weights(NamedTuple):
    """The weights of the parts of a file's final score, see `final_scores`."""

    parent: float  # b
    below_root: float  # b for the children of the scope's root
    neighbours: float  # c
    other_script: float = np.inf  # as in Search
