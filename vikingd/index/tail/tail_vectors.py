"""The vectors of a tail, and vectors of base rows that arrived after the base was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import F32, I64, Vectors
from viking_kernels.quantize import int4_room, quantize_int4

from vikingd.domain.errors import Corrupt
from vikingd.index.array_growth import gathered, grown
from vikingd.index.segment.segment_arrays import Segment, quantized

_Array = npt.NDArray[Any]


class TailVectors:
    """The vectors of texts, with their codes.

    Attributes:
        waiting: the rows of texts that have no vector yet, by text id.
        filled_in_base: the number of vectors that arrived late, for rows of the base.
    """

    def __init__(self, base: Segment) -> None:
        self.filled_in_base = 0
        self._base = base
        self._dimension = int(base.raw.shape[1])
        # In the order of `arrays.Vectors`.
        self._in_base: list[_Array] = [base.codes, base.scale, base.error, base.raw]
        self._in_tail = [array[:0] for array in self._in_base]
        waiting = np.flatnonzero((base.text_has_vector == 0) & (base.text_embeddable != 0))
        self.waiting: dict[int, int] = dict(
            zip(base.text_id[waiting].tolist(), waiting.tolist(), strict=True)
        )

    def make_room(self, used: int, room: int) -> None:
        """Extend the arrays to `room` text rows, base included; the first `used` rows are kept."""
        used, room = used - len(self._base.raw), room - len(self._base.raw)
        if room > len(self._in_tail[0]):
            self._in_tail = [grown(array[:used], room) for array in self._in_tail]

    def check(self, vector: bytes) -> None:
        """Raise Corrupt if a vector has another dimension than the index.

        Raises:
            Corrupt: it has another dimension.
        """
        if len(vector) != 4 * self._dimension:
            numbers = len(vector) // 4
            raise Corrupt(f"a vector of {numbers} numbers in an index of {self._dimension}")

    def write(self, given: Sequence[tuple[int, bytes]]) -> None:
        """Store (row of a text, vector as float32 bytes) pairs, and compute the vectors' codes."""
        if not given:
            return
        base = self._base
        rows = np.array([row for row, _ in given], np.int64)
        raw = np.frombuffer(b"".join([vector for _, vector in given]), "<f4")
        raw = raw.reshape(len(rows), self._dimension)
        late = rows < len(base.raw)
        at, behind = rows[late], rows[~late] - len(base.raw)
        coded: list[_Array] = [*quantized(raw), raw]
        for in_base, in_tail, new in zip(self._in_base, self._in_tail, coded, strict=True):
            in_base[at], in_tail[behind] = new[late], new[~late]
        if len(at):
            int4 = int4_room(len(at), base.int4_axis)
            quantize_int4(raw[late], int4)
            base.int4_codes[at], base.int4_scale[at] = int4.codes, int4.scale
            base.int4_error[at], base.int4_along[at] = int4.residual, int4.along
            self.filled_in_base += len(at)

    def raw(self, rows: Sequence[int]) -> F32:
        """Return the vectors of text rows, [rows, dim]; undefined for a text without a vector."""
        return gathered(self._base.raw, self._in_tail[-1], np.array(rows, np.int64))

    def views(self, vector_at: I64) -> Vectors:
        """Return the vectors in use, as views, for a snapshot.

        Args:
            vector_at: for each text row, the revision that brought its vector.
        """
        tail = len(vector_at) - len(self._base.raw)
        in_use = [array[:tail] for array in self._in_tail]
        views: list[Any] = [*self._in_base, *in_use, vector_at, self._base.int4]
        return Vectors(*views)
