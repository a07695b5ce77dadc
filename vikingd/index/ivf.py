"""FAISS's inverted file over a large base. It proposes texts near a query in a large scope.

A find opens directories by their mean vectors, so it misses a text in a directory that is unlike
the text. The inverted file proposes such texts. They are scored like all others.
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from viking_kernels.arrays import F32, I32, I64

NEAR = 64
"""The number of texts that are proposed to a find."""

FILE = "ivf.faiss"
"""The name of the inverted file in the directory of a base."""

_PROBED = 1 / 32  # the share of lists that a search reads
_TRAINED_WITH = 40  # vectors for each list
_SEED = 1


class InvertedFile:
    """FAISS's inverted file over the vectors of a base.

    Another thread may still open the file. A search waits until the file is open.
    """

    def __init__(self, opened: Future[Any]) -> None:
        self._opened = opened

    @staticmethod
    def build(raw: F32, rows: I64) -> InvertedFile:
        """Build an inverted file of the vectors raw[rows]; `raw` is [T, dim], by text row."""
        faiss, opened = _faiss(), Future[Any]()
        lists = max(1, int(4 * np.sqrt(len(rows))))
        index = faiss.index_factory(raw.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
        # A fixed seed: the same base must give the same answers.
        drawn = np.random.default_rng(_SEED).permutation(len(rows))[: lists * _TRAINED_WITH]
        index.train(raw[rows[np.sort(drawn)]])
        index.add_with_ids(raw[rows], rows)
        index.nprobe = max(1, int(lists * _PROBED))
        opened.set_result(index)
        return InvertedFile(opened)

    def save(self, directory: Path) -> str:
        """Write the inverted file into a base's directory; return the file's name."""
        _faiss().write_index(self._opened.result(), str(directory / FILE))
        return FILE

    def near(self, direction: F32, low: int, high: int, most: int = NEAR) -> I32:
        """Return the text rows in [low, high) with the largest dot products with `direction` [dim].

        Args:
            direction: the centred query, of length 1.
            low, high: the range of text rows.
            most: the largest number of rows.

        Raises:
            Corrupt: the file is damaged.
        """
        faiss, index = _faiss(), self._opened.result()
        parameters = faiss.SearchParametersIVF()
        parameters.sel = within = faiss.IDSelectorRange(low, high)
        parameters.nprobe = index.nprobe
        _, rows = index.search(direction[None, :], most, params=parameters)
        del within  # FAISS holds a bare pointer to it until here
        found: I32 = rows[0][rows[0] >= 0].astype(np.int32)
        return found


def load(path: str) -> Any:
    """Open an inverted file with FAISS as a memory map. Damaged bytes may end the process."""
    faiss = _faiss()
    return faiss.read_index(path, faiss.IO_FLAG_MMAP)


@cache
def _faiss() -> Any:
    """Return the module `faiss`, limited to one thread; it is imported at the first use (70 ms)."""
    import faiss

    # The threads of FAISS would compete with those that answer.
    faiss.omp_set_num_threads(1)
    return faiss
