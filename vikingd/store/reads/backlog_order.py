"""The order in which waiting texts get their vectors. It is fair between trees (imports).

A tree is a topmost named directory, such as viking://resources/NAME.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from vikingd.domain.uri import ROOT
from vikingd.ingest.file_kinds import KEY, FileKind

LATE_KINDS = (FileKind.TEST, FileKind.GENERATED, FileKind.VENDORED, FileKind.LICENCE)
"""The kinds of files (metadata `kind`) that are embedded after the other files of their tree."""

CLASSES = ((1, 0), (1, 1), (2, 0), (2, 1))
"""The classes of waiting texts in the order of embedding: (`rank_of`, 0 abstract or 1 passage)."""


class Place(NamedTuple):
    """The id and the URI of a waiting text. A greater id was written later."""

    text_id: int
    uri: str


def fair_order(oldest: Sequence[Sequence[Place]], newest: Sequence[Sequence[Place]]) -> list[int]:
    """Return the ids of waiting texts in the order in which to embed them.

    Texts of the tree that waits longest alternate with texts of the trees written last.

    Args:
        oldest: the oldest texts of each of `CLASSES`, the oldest first.
        newest: the newest texts of each class, the newest first.
    """
    turns = chain.from_iterable(zip_longest(_newest_in_turn(newest), _longest_waiting(oldest)))
    return list(dict.fromkeys(text_id for text_id in turns if text_id is not None))


def _longest_waiting(classes: Sequence[Sequence[Place]]) -> list[int]:
    """Return text ids: first those of the tree with the oldest text, then all others."""
    places = list(chain.from_iterable(classes))
    if not places:
        return []
    tree = tree_of(min(places).uri)
    return [p.text_id for p in sorted(places, key=lambda place: tree_of(place.uri) != tree)]


def _newest_in_turn(classes: Sequence[Sequence[Place]]) -> Iterator[int]:
    """Yield one text id of each tree in turn; the tree with the newest text begins."""
    trees: dict[str, list[int]] = {}
    for place in chain.from_iterable(classes):
        trees.setdefault(tree_of(place.uri), []).append(place.text_id)
    in_order = sorted(trees.values(), key=max, reverse=True)
    turns = chain.from_iterable(zip_longest(*in_order))
    return (text_id for text_id in turns if text_id is not None)


def rank_of(metadata: Mapping[str, Any]) -> int:
    """Return 2 for files that are embedded last, such as tests and licences, 1 for all others.

    The rank is stored in the column `embeddable` of the file's texts.
    """
    return 2 if metadata.get(KEY) in LATE_KINDS else 1


def tree_of(uri: str) -> str:
    """Return the topmost named directory of a URI, such as viking://resources/NAME.

    For a URI below viking://users/USER it is viking://users/USER/resources/NAME.
    """
    segments = uri[len(ROOT) :].split("/", 4)
    return "/".join(segments[: 4 if segments[0] == "users" else 2])
