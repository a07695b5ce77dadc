"""The choice among equal texts: the source before its copies, by kind, then by path.

A build, a vendored tree or an export repeats a text. The reader wants the file to edit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from viking_kernels.arrays import decode_file, is_file

from vikingd.answer.find_hits import FindHits, Hit, best
from vikingd.answer.shown_texts import key_of, texts_of
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
"""(rank of the kind, length of the URI, URI); the least is shown."""


def preferences(snapshot: Snapshot, files: Iterable[int]) -> dict[int, Preference]:
    """Return the preference of each file, by its row. A file without a kind counts as source."""
    wanted = list(files)
    kinds = snapshot.file_columns.values(KEY, wanted, snapshot.revision)
    found = {}
    for file in wanted:
        uri, kind = snapshot.file_uri(file), kinds.get(file)
        rank = _RANK.get(kind, 0) if isinstance(kind, str) else 0
        found[file] = rank, len(uri), uri
    return found


def with_equal_files(found: FindHits) -> FindHits:
    """Return hits where files of equal texts stand together, the preferred one first.

    They stand at the place of the best one and with its score, but for the last bits. The first
    names the second, and the others name the first. Only files among `found` are compared.
    """
    snapshot = found.snapshot
    groups = [group for group in _groups(snapshot, found.hits) if len(group) > 1]
    if not groups:
        return found
    hits, twins = {hit.row: hit for hit in found.hits}, dict(found.twins)
    for group in groups:
        preferred = preferences(snapshot, (decode_file(hit.row) for hit in group))
        score = max(hit.score for hit in group)
        group.sort(key=lambda hit: preferred[decode_file(hit.row)])
        first = group[0].row
        twins |= {hit.row: first for hit in group} | {first: group[1].row}
        for hit in group:
            hits[hit.row] = hit._replace(score=score)
            score = math.nextafter(score, 0.0)  # ties would be in the order of URIs
    return replace(found, hits=best(snapshot, list(hits.values()), len(hits)), twins=twins)


def _groups(snapshot: Snapshot, hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the files among hits in groups of equal texts."""
    size_of = snapshot.contents.texts.size
    alike: dict[tuple[int, ...], list[Hit]] = {}
    for hit in hits:
        if hit.passages and is_file(hit.row):
            text = hit.passages[0][0]
            alike.setdefault((snapshot.text_ordinal.item(text), size_of(text)), []).append(hit)
    groups: dict[tuple[bytes, ...], list[Hit]] = {}
    for similar in alike.values():
        if len(similar) > 1:
            same: dict[bytes, list[Hit]] = {}
            for hit in similar:
                same.setdefault(key_of(snapshot, hit.passages[0][0]), []).append(hit)
            for group in same.values():
                for hit in group if len(group) > 1 else ():
                    texts = tuple(key_of(snapshot, one) for one in texts_of(snapshot, hit.row))
                    groups.setdefault(texts, []).append(hit)
    return list(groups.values())
