"""The choice among equal texts: the source before its copies, by kind, then by path.

A build, a vendored tree or an export repeats a text. The reader wants the file to edit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from viking_kernels.arrays import decode_file, is_file

from vikingd.answer.find_hits import FindHits, Hit, best
from vikingd.answer.shown_texts import texts_of
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
    rows = (decode_file(hit.row) for group in groups for hit in group)
    order, twins = preferences(snapshot, rows), dict(found.twins)
    ranked: dict[int, list[Hit]] = {}  # each group at the first of its hits
    for group in groups:
        score = max(hit.score for hit in group)
        group.sort(key=lambda hit: order[decode_file(hit.row)])
        first = group[0].row
        twins |= {hit.row: first for hit in group} | {first: group[1].row}
        scored = []
        for hit in group:
            scored.append(hit._replace(score=score))
            score = math.nextafter(score, 0.0)  # ties would be in the order of URIs
        ranked |= dict.fromkeys((hit.row for hit in group), scored)
    hits: list[Hit] = []
    for hit in found.hits:
        hits += ranked.get(hit.row, (hit,))
        for one in ranked.get(hit.row, ()):
            ranked[one.row] = []
    return replace(found, hits=best(snapshot, hits, len(hits)), twins=twins)


def _groups(snapshot: Snapshot, hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the files among hits in groups of equal texts."""
    size_of, encoded = snapshot.contents.texts.size, snapshot.contents.texts.encoded
    alike: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.passages and is_file(hit.row):
            alike.setdefault(size_of(hit.passages[0][0]), []).append(hit)
    groups: dict[tuple[bytes, ...], list[Hit]] = {}
    for similar in alike.values():
        firsts = [bytes(encoded(hit.passages[0][0])) for hit in similar] if similar[1:] else []
        for hit, first in zip(similar, firsts, strict=False):  # alone: without texts
            if firsts.count(first) > 1:
                texts = tuple(bytes(encoded(one)) for one in texts_of(snapshot, hit.row))
                groups.setdefault(texts, []).append(hit)
    return list(groups.values())
