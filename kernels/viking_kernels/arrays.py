"""The arrays that kernels read, bundled so that no kernel takes more than a handful.

Rows: directories, files and texts are three numberings. Of each, the first `base` rows stand in
depth-first order (a directory's files before its subdirectories, names in order), so a subtree of
base rows is one range in each; the rows after them are the tail, in order of arrival. A parent
always has a lower number than its child.

Versions: a row is seen at revision r when its number is below the length of the snapshot's arrays
and r < died. A text's vector is seen when vector_at <= r. Chains lead through rows that are dead
or not yet born; readers skip those.
"""

from __future__ import annotations

from typing import NamedTuple

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
"""A revision that never comes: the death of the living, the vector that isn't there yet."""

SCRIPTS = 8
"""Number of scripts that stand for languages; 0 is that of a text without letters."""

# Columns of Numbers.counts, all over the living rows of a directory's subtree, itself included.
FILES, DIRECTORIES, TEXTS, TEXT_LENGTH, DOCUMENT_LENGTH, OWN_LENGTH, OWN_TEXT = range(7)
COUNTS = 7 + SCRIPTS
"""Then, from column 7 on, the texts by script.

OWN_LENGTH is of the directory alone: the length of its document, which is its abstract, the texts
of its files and the abstracts of its directories. DOCUMENT_LENGTH is the sum of OWN_LENGTH over
the subtree. OWN_TEXT is 1 when the directory has an abstract.
"""


class Directories(NamedTuple):
    """D directories, the first Db of them in the base."""

    parent: I32  # [D] -1 for the root
    end: I32  # [Db] one past the last base directory of the subtree
    files: I32  # [Db + 1] base files of base directory d: [d] to [d + 1]
    texts: I32  # [Db + 1] base texts of base directory d (its own first): [d] to [d + 1]
    died: I64  # [D]
    first_file: I32  # [D] where the chain of its files begins, -1 none
    newest: I32  # [D] newest tail directory right below it, -1 none
    older: I32  # [D - Db and more] the tail directory of the same parent before this one, -1 none
    key: U64  # [D] hash of the URI: the order in which directories are sampled


class Files(NamedTuple):
    """F files, the first Fb of them in the base."""

    directory: I32  # [F]
    next: I32  # [F and more] next file of the same directory by name, -1 none
    previous: I32  # [F and more] the one before, -1 none
    died: I64  # [F]
    texts: I32  # [Fb, 2] base texts of base file f: [f, 0] to [f, 1]
    newest: I32  # [F] newest tail text of the file, -1 none


class Texts(NamedTuple):
    """T texts, the first Tb of them in the base."""

    file: I32  # [T] -1 for a directory's abstract
    directory: I32  # [T] the directory itself for its abstract
    script: U8  # [T]
    length: I32  # [T] in terms
    ordinal: I32  # [T] 0 for an abstract
    died: I64  # [T]
    older: I32  # [T - Tb and more] the file's tail text before this one, -1 none


class Tree(NamedTuple):
    """Who stands below whom."""

    directories: Directories
    files: Files
    texts: Texts


class Int4(NamedTuple):
    """int4 codes of rotated vectors x, less what they have along an axis, which is kept as it is.

    x is nearly along * axis + scale * (code - 7.5), code 0 to 15. Vectors that crowd around
    their mean are coded about twice as finely when it is the axis.
    """

    axis: F32  # [dim rotated, see rotation.py] a unit vector, or zeros
    codes: U8  # [n, dim rotated / 2] two in a byte, in the order of `simd.products_int4`
    scale: F32  # [n]
    error: F32  # [n] length of what is left out
    along: F32  # [n] x . axis


class Vectors(NamedTuple):
    """Unit vectors x of the texts, and codes of them: x is nearly scale * code."""

    base_codes: I8  # [Tb, dim and zeros up to a multiple of simd.LANES]
    scale: F32  # [Tb]
    error: F32  # [Tb] length of x - scale * code
    base_raw: F32  # [Tb, dim]
    tail_codes: I8  # [T - Tb, ...] likewise
    tail_scale: F32  # [T - Tb]
    tail_error: F32  # [T - Tb]
    tail_raw: F32  # [T - Tb, dim]
    vector_at: I64  # [T] revision from which on the vector counts
    base_int4: Int4  # of n = Tb


class Numbers(NamedTuple):
    """What each directory knows of its subtree; a directory's slot changes with each write."""

    slot: I32  # [D]
    counts: I64  # [slots, COUNTS]
    mean_slot: I32  # [slots, SCRIPTS] row of the mean of that script's vectors, -1 none
    mean_count: I64  # [means]
    base_mean: F32  # [base means, dim]
    base_mean_codes: I8  # [base means, dim padded] mean / scale, rounded
    base_mean_scale: F32  # [base means]
    base_mean_square: F32  # [base means] |mean|^2
    tail_mean: F32  # [means - base means, dim]


class Scope(NamedTuple):
    """A directory with all below it, as ranges of base rows and the revision it is seen at."""

    root: int  # the directory; may stand in the tail, then the ranges are empty
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
    """The query's terms, the postings of the base, those of the terms in the tail: by text.

    Terms n and on are the same n as words of a file's title: the postings are of the file's first
    text, with the number of the title's terms in the place of tf.
    """

    key: U64  # [2n] hashes of the terms
    weight: F32  # [n] how often the query has the term
    base_key: U64  # [V] rising hashes of the base's terms
    base_at: I64  # [V + 1] postings of term v: [at[v], at[v + 1])
    base_text: I32  # [postings]
    base_tf: U16  # [postings]
    tail_from: I64  # [2n + 1]
    tail_text: I32  # [tail postings of these terms]
    tail_tf: U16


class Means(NamedTuple):
    """The mean m' of each script's vectors in a scope, ready for the kernels."""

    mean: F32  # [SCRIPTS, dim]
    code: I8  # [SCRIPTS, dim padded like the codes of texts] mean / step, rounded
    bias: I64  # [SCRIPTS] by which products of the code are too large, see dense.products_int8
    step: F64  # [SCRIPTS]
    error: F64  # [SCRIPTS] length of mean - step * code
    length: F64  # [SCRIPTS] |m'|
    factors: I8  # [SCRIPTS, dim rotated] against int4 codes, see int4.code_direction
    against_int4: F64  # [SCRIPTS, 6] the fields of its CodedDirection


class Asked(NamedTuple):
    """What is asked for."""

    vector: F32  # [dim] of any length; [0]: there is none
    script: int  # 0: no script is foreign to it
    use_dense: bool
    use_lexical: bool


class Query(NamedTuple):
    """The query against the means of its scope: see `dense.prepare`."""

    use_dense: bool
    use_lexical: bool
    script: int
    direction: F32  # [dim] (q - m) / |q - m|, zeros when there is none
    code: I8  # [1, dim padded] direction / step, rounded
    bias: int
    step: float
    error: float  # length of direction - step * code
    means: Means
    mean_dot: F64  # [SCRIPTS] direction . m'
    work: F32  # [dim] room for a sum


class Scratch(NamedTuple):
    """Where a query's scores stand, by position (see scope.place): used again by the next query.

    `lexical`, `titles` and `dir_tf` are zeros between queries; the others hold whatever was left in
    them.
    """

    lexical: F32  # [T] of texts
    titles: F32  # [F] of files
    # [2, T] own scores from codes, and how far each can be off, of the base texts of one directory,
    # whichever is looked at, from the front; or [0] has the most that own scores can be of all the
    # scope's, see bounds.bound_scores, and [1] rows, see weighted
    coded: F32
    products: I32  # [2, n] room for those of texts that are scored together
    dir_lexical: F32  # [D]
    dir_tf: F32  # [D]
    touched: I32  # [D + 1]: a place is written before it is known whether it is new
    directories: F32  # [5, D] see hierarchy.directory_scores; [4] final
    # [D] how far those of directories that aren't settled can be off; before, how long they are
    dir_off: F32
    settled: U8  # [D] whether a directory's scores are exact
    chain: I32  # [n] room for a directory and all above it
    own: F32  # [2, F] own scores of the files that were looked at, and how far each can be off
    best: I32  # [F] rows of their best texts, -1 none
    sampled: U8  # [D] whether `own` has the scores of a directory's files already
    unchanged: U8  # [D] whether all in a directory stands in the base, alive and in order
    listed: I32  # [F] positions of the files of one directory, from the front
    seen: U8  # [D]
    queue: I32  # [D]
    opened: I32  # [D]
    candidates: I32  # [F]
    reach: F32  # [F] the most that each candidate's final score can be
