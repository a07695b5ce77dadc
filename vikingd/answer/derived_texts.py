"""Abstracts and overviews that nobody gave: extracts of the texts below a context.

They are made when a context is read, and are stored nowhere. So they are never out of date, and a
caller with a right to read the context may read all that they are made of. The work for a directory
is bounded, however much is in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock

from vikingd.describe.directory_description import Child, directory_abstract, directory_overview
from vikingd.describe.file_overview import Piece, file_overview
from vikingd.domain import cancellation
from vikingd.domain.contexts import EXTRACT, Context
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.uri import join, name
from vikingd.store.reads import Reads

_CHILDREN = 24  # that the abstract of a directory is made of, spread by name
_INNER_DIRECTORIES, _INNER_CHILDREN = 8, 8  # that the abstracts of its subdirectories are made of
_LISTED = 512  # children that an overview may list; about a hundred have room
_LISTED_DIRECTORIES = 48  # of these with abstracts that are made


class _Abstracts:
    """The abstracts of the last directories, by the digest of their children; for any thread."""

    _MOST = 4096

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[bytes, str] = OrderedDict()

    def of(self, children: Sequence[Child]) -> str:
        """Return the abstract of a directory with these children."""
        digest = blake2b(repr(children).encode(), digest_size=16).digest()
        with self._lock:
            if (known := self._kept.get(digest)) is not None:
                self._kept.move_to_end(digest)
                return known
        cancellation.check()
        made = directory_abstract(children)
        with self._lock:
            self._kept[digest] = made
            if len(self._kept) > self._MOST:
                self._kept.popitem(last=False)
        return made


_abstracts = _Abstracts()


def directory_abstracts(store: Reads, uris: Collection[str]) -> dict[str, str]:
    """Return the extracts for the abstracts of directories by URI; an empty directory has none.

    A subdirectory without an abstract contributes one that is made of its own children.
    """
    children = _children_of(store, uris, _CHILDREN)
    bare = {
        join(uri, child.name): child.name
        for uri, (found, _) in children.items()
        for child in [c for c in found if c.is_directory and not c.abstract][:_INNER_DIRECTORIES]
    }
    inner = {
        uri: _abstracts.of(found)
        for uri, (found, _) in _children_of(store, bare, _INNER_CHILDREN).items()
    }
    return {uri: _abstracts.of(_filled(uri, found, inner)) for uri, (found, _) in children.items()}


def described(store: Reads, context: Context) -> Context:
    """Return a whole context with an abstract and an overview, and the names of their makers."""
    abstract, overview = context.abstract, context.overview
    if context.is_directory:
        if not overview:
            overview = directory_overviews(store, [context.uri]).get(context.uri, "")
        if not abstract:
            abstract = directory_abstracts(store, [context.uri]).get(context.uri, "")
    elif not overview:
        overview = _overview_of_file(context)
    return replace(
        context,
        abstract=abstract,
        overview=overview,
        abstract_by=context.abstract_by or (EXTRACT if abstract else ""),
        overview_by=context.overview_by or (EXTRACT if overview else ""),
    )


def directory_overviews(store: Reads, uris: Collection[str]) -> dict[str, str]:
    """Return the lists of children for the overviews of directories; an empty one has none."""
    children = _children_of(store, uris, _LISTED)
    overviews: dict[str, str] = {}
    for uri, (found, count) in children.items():
        bare = [join(uri, c.name) for c in found if c.is_directory and not c.abstract]
        inner = directory_abstracts(store, bare[:_LISTED_DIRECTORIES])
        overviews[uri] = directory_overview(_filled(uri, found, inner), count - len(found))
    return overviews


def _overview_of_file(context: Context) -> str:
    content = context.content
    lines = lines_at(content, (passage.start for passage in context.passages))
    pieces = [
        Piece(passage.section, content[passage.start : passage.end], line)
        for passage, line in zip(context.passages, lines, strict=True)
    ]
    return file_overview(pieces, name(context.uri))


def _children_of(
    store: Reads, uris: Collection[str], most: int
) -> dict[str, tuple[list[Child], int]]:
    if not uris:
        return {}
    found = store.children_of(uris, most)
    return {uri: ([Child(*child) for child in some], n) for uri, (some, n) in found.items()}


def _filled(uri: str, children: Sequence[Child], abstracts: Mapping[str, str]) -> list[Child]:
    """Return the children of a directory with the abstracts that were made for some of them."""

    def fill() -> Iterator[Child]:
        for child in children:
            made = "" if child.abstract else abstracts.get(join(uri, child.name), "")
            yield child._replace(abstract=made) if made else child

    return list(fill())
