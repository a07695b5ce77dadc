"""FAISS's inverted file over a large base: near texts of a scope that is too large to be scanned.

The walk opens directories; a text that lies in a directory unlike itself is out of its sight. What
the inverted file returns is only proposed: it is scored like everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
from viking_kernels.arrays import F32, I32, I64

NEAR = 64
"""Texts proposed to a find."""

FILE = "ivf.faiss"
"""Its name in a base's directory."""

_PROBED = 1 / 32  # of the lists
_TRAINED_WITH = 40  # vectors a list
_SEED = 1

# Its threads would spin beside those that answer; see also where searches are asked from.
faiss.omp_set_num_threads(1)


def build(raw: F32, rows: I64) -> Any:
    """An inverted file of 8 bit codes over the vectors raw[rows] ([T, dim]), by text row."""
    lists = max(1, int(4 * np.sqrt(len(rows))))
    index: Any = faiss.index_factory(raw.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    # The same vectors give the same lists, so that the same base gives the same answers.
    drawn = np.random.default_rng(_SEED).permutation(len(rows))[: lists * _TRAINED_WITH]
    index.train(raw[rows[np.sort(drawn)]])
    index.add_with_ids(raw[rows], rows)
    index.nprobe = max(1, int(lists * _PROBED))
    return index


def save(index: Any, directory: Path) -> str:
    """Writes it into a base's directory; returns the file's name."""
    faiss.write_index(index, str(directory / FILE))
    return FILE


def load(directory: Path) -> Any:
    """The inverted file of a base, mapped; damaged bytes may end the process."""
    return faiss.read_index(str(directory / FILE), faiss.IO_FLAG_MMAP)


def near(index: Any, direction: F32, low: int, high: int, most: int = NEAR) -> I32:
    """Text rows in [low, high) whose vectors go most in a direction [dim], at most so many."""
    parameters: Any = faiss.SearchParametersIVF()
    parameters.sel = within = faiss.IDSelectorRange(low, high)
    parameters.nprobe = index.nprobe
    _, rows = index.search(direction[None, :], most, params=parameters)
    del within  # FAISS held a bare pointer to it until here
    found: I32 = rows[0][rows[0] >= 0].astype(np.int32)
    return found
