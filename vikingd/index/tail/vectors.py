"""The vectors of a tail, and those of its base that arrive late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from viking_kernels.arrays import F32, I8, I64, Vectors
from viking_kernels.quantize import int4_room, quantize_int4, quantize_rows

from vikingd.domain.errors import Corrupt
from vikingd.index.growth import grown
from vikingd.index.segment.arrays import Segment


class TailVectors:
    """The vectors of texts, with their codes.

    Attributes:
        waiting: rows of the texts that lack their vector, by text id.
        filled_in_base: vectors that arrived late, for rows of the base.
    """

    def __init__(self, base: Segment) -> None:
        self.waiting: dict[int, int] = {}
        self.filled_in_base = 0
        self._base = base
        self._base_texts = base.sizes.texts
        self._raw: F32 = np.zeros((0, self.dimension), np.float32)
        self._codes: I8 = np.zeros((0, base.codes.shape[1]), np.int8)
        self._scale: F32 = np.zeros(0, np.float32)
        self._error: F32 = np.zeros(0, np.float32)
        waiting = (base.text_has_vector == 0) & (base.text_embeddable != 0)
        for row in np.flatnonzero(waiting).tolist():
            self.waiting[int(base.text_id[row])] = row

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while it is not known."""
        return int(self._base.raw.shape[1])

    def make_room(self, used: int, room: int) -> None:
        """Make room for the vectors of all text rows; `used` rows are kept."""
        used, room = used - self._base_texts, room - self._base_texts
        if room > len(self._raw):
            self._raw = grown(self._raw[:used], room)
            self._codes = grown(self._codes[:used], room)
            self._scale = grown(self._scale[:used], room)
            self._error = grown(self._error[:used], room)

    def check(self, vector: bytes) -> None:
        """Refuse a vector of another dimension.

        Raises:
            Corrupt: it has another dimension.
        """
        if len(vector) != 4 * self.dimension:
            raise Corrupt(f"a vector of {len(vector) // 4} numbers in an index of {self.dimension}")

    def write(self, given: Sequence[tuple[int, bytes]]) -> None:
        """Write vectors, each with the row of its text, and their codes."""
        if not given:
            return
        base = self._base
        rows = np.array([row for row, _ in given], np.int64)
        raw = np.frombuffer(b"".join([vector for _, vector in given]), "<f4")
        raw = raw.reshape(len(rows), self.dimension)
        codes = np.zeros((len(rows), base.codes.shape[1]), np.int8)
        scale, error = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        quantize_rows(raw, codes, scale, error)
        late = rows < self._base_texts
        if late.any():
            at = rows[late]
            base.raw[at], base.codes[at] = raw[late], codes[late]
            base.scale[at], base.error[at] = scale[late], error[late]
            int4 = int4_room(len(at), base.int4_axis)
            quantize_int4(raw[late], int4)
            base.int4_codes[at], base.int4_scale[at] = int4.codes, int4.scale
            base.int4_error[at], base.int4_along[at] = int4.residual, int4.along
            self.filled_in_base += len(at)
        new = ~late
        at = rows[new] - self._base_texts
        self._raw[at], self._codes[at] = raw[new], codes[new]
        self._scale[at], self._error[at] = scale[new], error[new]

    def raw(self, rows: Sequence[int]) -> F32:
        """Return the vectors [rows, dim] of texts; the entry of a text without one is undefined."""
        at = np.array(rows, np.int64)
        vectors = np.empty((len(at), self.dimension), np.float32)
        of_base = at < self._base_texts
        vectors[of_base] = self._base.raw[at[of_base]]
        vectors[~of_base] = self._raw[at[~of_base] - self._base_texts]
        return vectors

    def views(self, vector_at: I64) -> Vectors:
        """Return views of the vectors in use; `vector_at` has an entry for each text."""
        base, tail = self._base, len(vector_at) - self._base_texts
        return Vectors(
            base.codes,
            base.scale,
            base.error,
            base.raw,
            self._codes[:tail],
            self._scale[:tail],
            self._error[:tail],
            self._raw[:tail],
            vector_at,
            base.int4,
        )
