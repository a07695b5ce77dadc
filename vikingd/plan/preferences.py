"""Factors for the scores of files, if a find prefers files of some kinds."""

from __future__ import annotations

import numpy as np
from viking_kernels.arrays import F32

from vikingd.domain.find_query import Preference
from vikingd.index.metadata import metadata_filters as filters
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.file_kinds import KEY, FileKind

_LEAST = dict.fromkeys((FileKind.GENERATED, FileKind.VENDORED, FileKind.LICENCE), 0.4)
FACTORS: dict[Preference, dict[FileKind, float]] = {
    Preference.CODE: {
        FileKind.CONFIGURATION: 0.8,
        FileKind.EXAMPLE: 0.8,
        FileKind.DOCUMENTATION: 0.5,
        FileKind.TEST: 0.5,
        FileKind.DATA: 0.5,
        **_LEAST,
    },
    Preference.DOCS: {
        FileKind.EXAMPLE: 0.9,
        FileKind.SOURCE: 0.7,
        FileKind.CONFIGURATION: 0.7,
        FileKind.TEST: 0.6,
        FileKind.DATA: 0.6,
        **_LEAST,
    },
}
"""The factors of the less preferred kinds of files, by preference; all other kinds have 1."""


def factors_of_files(snapshot: Snapshot, preference: Preference) -> F32:
    """Return float32 [files of the snapshot]: the factor of each file's kind, 1 without a kind."""
    count = len(snapshot.file_id)
    factors = np.ones(count, np.float32)
    for kind, factor in FACTORS[preference].items():
        where = filters.parse({KEY: kind.value})
        factors[snapshot.file_columns.mask(where, count, snapshot.revision)] = factor
    return factors
