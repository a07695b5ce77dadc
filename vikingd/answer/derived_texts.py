"""Abstracts and overviews for contexts that have none: extracts of the texts below them.

They are made when a context is read, and are stored nowhere. So they are never out of date, and a
caller with a right to read the context may read all that they are made of. The work for a directory
is bounded, however much is in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock

from vikingd.describe.directory_description import directory_abstract, directory_overview
from vikingd.describe.file_overview import Piece, file_overview
from vikingd.describe.topics import Child
from vikingd.domain import cancellation
from vikingd.domain.contexts import EXTRACT, Context
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.uri import join, name
from vikingd.store.reads import Reads

_CHILDREN, _OF_CHILDREN = 16, 192  # that make the abstract of a directory, spread over so many
_INNER_DIRECTORIES = 8  # of a directory, whose own children are read for its abstract
_INNER_CHILDREN, _OF_INNER_CHILDREN = 8, 64  # of each of these
_MOST_LONE = 8  # directories, each alone in the one above, that are passed over
_LISTED = 512  # children that an overview may list; about a hundred have room
_LISTED_DIRECTORIES = 48  # of these, for which an abstract is made


class _Extracts:
    """A thread-safe cache of the last extracts, by a hash of the material they are made of."""

    _MOST = 4096

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[bytes, str] = OrderedDict()

    def of(self, material: object, make: Callable[[], str]) -> str:
        """Return the extract of a material; call `make` for it if it is not in the cache.

        Materials with equal `repr` have the same extract.
        """
        digest = blake2b(repr(material).encode(), digest_size=16).digest()
        with self._lock:
            if (known := self._kept.get(digest)) is not None:
                self._kept.move_to_end(digest)
                return known
        cancellation.check()
        made = make()
        with self._lock:
            self._kept[digest] = made
            if len(self._kept) > self._MOST:
                self._kept.popitem(last=False)
        return made


_extracts = _Extracts()


def _abstract_of(children: Sequence[Child]) -> str:
    return _extracts.of(children, lambda: directory_abstract(children))


def directory_abstracts(store: Reads, uris: Collection[str]) -> dict[str, str]:
    """Return an extracted abstract for each directory, by URI; empty directories are left out.

    An abstract is made of the abstracts of the children. A subdirectory without an abstract gets
    one for this purpose that is made of its own children.
    """
    children = _below_lone(store, uris, _CHILDREN, _OF_CHILDREN)
    bare = {
        join(place, child.name)
        for place, found in children.values()
        for child in [c for c in found if c.is_directory and not c.abstract][:_INNER_DIRECTORIES]
    }
    below = _below_lone(store, bare, _INNER_CHILDREN, _OF_INNER_CHILDREN)
    inner = {uri: _abstract_of(found) for uri, (_, found) in below.items()}
    return {
        uri: _abstract_of(_filled(place, found, inner)) for uri, (place, found) in children.items()
    }


def _below_lone(
    store: Reads, uris: Collection[str], most: int, among: int
) -> dict[str, tuple[str, list[Child]]]:
    """Return for each directory by URI: (the directory that is listed, its children).

    If the only child of a directory is a directory without an abstract, that one is listed instead.
    For /a with /a/b/x.md alone, the result is (/a/b, [x.md]).
    """
    found = _children_of(store, uris, most, among)
    told = {uri: (uri, some) for uri, (some, _) in found.items()}
    for _ in range(_MOST_LONE):
        lone = {
            uri: join(place, some[0].name)
            for uri, (place, some) in told.items()
            if len(some) == 1 and some[0].is_directory and not some[0].abstract
        }
        deeper = _children_of(store, set(lone.values()), most, among)
        if not deeper:
            break
        told |= {uri: (at, deeper[at][0]) for uri, at in lone.items() if at in deeper}
    return told


def described(store: Reads, context: Context) -> Context:
    """Return a context with its missing abstract and overview extracted.

    `abstract_by` and `overview_by` of the result name the maker of each text.
    """
    abstract, overview = context.abstract, context.overview
    if context.is_directory:
        if not overview:
            overview = directory_overviews(store, [context.uri]).get(context.uri, "")
        if not abstract:
            abstract = directory_abstracts(store, [context.uri]).get(context.uri, "")
    elif not overview:
        overview = _of_content(context)
    return replace(
        context,
        abstract=abstract,
        overview=overview,
        abstract_by=context.abstract_by or (EXTRACT if abstract else ""),
        overview_by=context.overview_by or (EXTRACT if overview else ""),
    )


def directory_overviews(store: Reads, uris: Collection[str]) -> dict[str, str]:
    """Return for each directory by URI a list of its children as its overview.

    Empty directories are left out.
    """
    children = _children_of(store, uris, _LISTED)
    overviews: dict[str, str] = {}
    for uri, (found, count) in children.items():
        bare = [join(uri, c.name) for c in found if c.is_directory and not c.abstract]
        inner = directory_abstracts(store, bare[:_LISTED_DIRECTORIES])
        overviews[uri] = directory_overview(_filled(uri, found, inner), count - len(found))
    return overviews


def overview_of_file(store: Reads, uri: str) -> str:
    """Return an extract as the overview of a file; "" if the file is short or missing."""
    pieces = [Piece(*piece) for piece in store.pieces_of(uri)]
    return _extracts.of((name(uri), pieces), lambda: file_overview(pieces, name(uri)))


def _of_content(context: Context) -> str:
    content, named = context.content, name(context.uri)
    cuts = [(passage.section, passage.start, passage.end) for passage in context.passages]

    def make() -> str:
        lines = lines_at(content, (start for _, start, _ in cuts))
        pieces = [
            Piece(section, content[start:end], line)
            for (section, start, end), line in zip(cuts, lines, strict=True)
        ]
        return file_overview(pieces, named)

    return _extracts.of((named, context.content_hash, cuts), make)


def _children_of(
    store: Reads, uris: Collection[str], most: int, among: int = 0
) -> dict[str, tuple[list[Child], int]]:
    if not uris:
        return {}
    found = store.children_of(uris, most, among)
    return {uri: ([Child(*child) for child in some], n) for uri, (some, n) in found.items()}


def _filled(uri: str, children: Sequence[Child], abstracts: Mapping[str, str]) -> list[Child]:
    """Return the children of a directory; those without an abstract get one from `abstracts`.

    `abstracts` is by the URI of the child.
    """

    def fill() -> Iterator[Child]:
        for child in children:
            made = "" if child.abstract else abstracts.get(join(uri, child.name), "")
            yield child._replace(abstract=made) if made else child

    return list(fill())
