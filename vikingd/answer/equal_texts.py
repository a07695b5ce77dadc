"""The choice among files with equal texts: the source before its copies, by kind, then by path.

A build, a vendored tree or an export repeats a text. The reader wants the file to edit.
"""

from __future__ import annotations

from collections.abc import Iterable

from vikingd.index.snapshot import Snapshot
from vikingd.ingest.file_kinds import KEY, FileKind

_ORDER = (
    FileKind.SOURCE,
    FileKind.DOCUMENTATION,
    FileKind.EXAMPLE,
    FileKind.CONFIGURATION,
    FileKind.DATA,
    FileKind.TEST,
    FileKind.VENDORED,
    FileKind.GENERATED,
    FileKind.LICENCE,
)
_RANK = {kind.value: rank for rank, kind in enumerate(_ORDER)}

Preference = tuple[int, int, str]
"""The order of files with equal texts: (rank of the kind, length of the URI, URI), least first."""


def preferences(snapshot: Snapshot, files: Iterable[int]) -> dict[int, Preference]:
    """Return (rank of the kind, length of the URI, URI) of each file, by row: least is preferred.

    A file without a kind counts as source.
    """
    wanted = list(files)
    kinds = snapshot.file_columns.values(KEY, wanted, snapshot.revision)
    found = {}
    for file in wanted:
        uri, kind = snapshot.file_uri(file), kinds.get(file)
        rank = _RANK.get(kind, 0) if isinstance(kind, str) else 0
        found[file] = rank, len(uri), uri
    return found
