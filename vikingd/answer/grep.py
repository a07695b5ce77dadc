"""Grep and Glob: walks over the readable subtrees, in pages, with limited work for each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vikingd.answer.lines import LineSearch
from vikingd.answer.patterns import Glob, glob_pattern, line_pattern
from vikingd.domain import pace
from vikingd.domain import uri as uris
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, size_of
from vikingd.domain.errors import InvalidField
from vikingd.domain.patterns import (
    ABSTRACT,
    CONTENT,
    MAX_NODES,
    GlobEntry,
    GlobQuery,
    GrepMatch,
    GrepQuery,
    NodeKind,
    Position,
)
from vikingd.store.reads import Reads
from vikingd.store.reads.walk import Node, Walk

MAX_WORK = 1 << 31
"""Bytes times instructions of the pattern, in one call."""

_LEAST_SIZE = 32  # instructions; a smaller pattern takes no less time
_AT_ONCE = 100  # files whose texts one query reads


class Work:
    """The work that a call has left."""

    def __init__(self) -> None:
        self._left = MAX_WORK
        self._nodes = MAX_NODES

    @property
    def is_done(self) -> bool:
        """True if nothing is left. The first step is always allowed."""
        return self._left <= 0 or self._nodes <= 0

    def node(self, path_bytes: int, glob: Glob | None) -> None:
        """Count a context whose path was looked at."""
        self._nodes -= 1
        if glob is not None:
            self.text(path_bytes, glob.pattern.size)

    def text(self, size: int, instructions: int) -> None:
        """Count a text that was searched."""
        self._left -= size * max(instructions, _LEAST_SIZE)


class GlobPage(NamedTuple):
    """A page of entries; `last` is the URI after which the next page begins, "" for no page."""

    entries: tuple[GlobEntry, ...]
    last: str


class GrepPage(NamedTuple):
    """A page of matches; `last` is the position after which the next page begins, None for no page.

    `files` and `bytes` were searched, at `revision`.
    """

    matches: tuple[GrepMatch, ...]
    last: Position | None
    files: int
    bytes: int
    revision: int


def find_paths(
    store: Reads, query: GlobQuery, parts: tuple[str, ...], budget: ReplyBudget
) -> GlobPage:
    """Return the contexts whose path matches a pattern.

    Args:
        parts: the readable subtrees of the target.

    Raises:
        NotFound: the target does not exist, or none of its parts does.
        InvalidField: it is a file, or `pattern` is no glob.
    """
    glob, target = glob_pattern(query.pattern, "pattern"), query.target_uri
    if glob.is_for_directories and query.kind is NodeKind.FILE:
        raise InvalidField("pattern", "ends with a slash, which only directories match")
    kind = NodeKind.DIRECTORY if glob.is_for_directories else query.kind
    base = uris.join(target, glob.base) if glob.base else target
    below = len(uris.join(target, ""))
    found: list[GlobEntry] = []
    work, last = Work(), ""
    with store.walking(target, parts, is_directory=True) as walk:
        since = f"{query.after}\0" if query.after else ""
        for node in walk.nodes(since, base, directories=kind is not NodeKind.FILE):
            pace.step()
            if work.is_done:
                return GlobPage(tuple(found), last)
            work.node(len(node.uri), glob)
            is_of_kind = kind is not NodeKind.DIRECTORY or node.is_directory
            if is_of_kind and node.uri != target and glob.matches(node.uri[below:]):
                fits = budget.take(MESSAGE_BYTES + size_of(node.uri))
                if len(found) == query.limit or (found and not fits):
                    return GlobPage(tuple(found), last)
                entry = GlobEntry(node.uri, uris.context_type(node.uri), bool(node.is_directory))
                found.append(entry)
            last = node.uri
    return GlobPage(tuple(found), "")


class _Grep:
    """One call of Grep."""

    def __init__(self, query: GrepQuery, budget: ReplyBudget) -> None:
        pattern = line_pattern(
            query.pattern, case_insensitive=query.case_insensitive, literal=query.literal
        )
        self._size = pattern.size
        self._search = LineSearch(pattern)
        self._query = query
        self._budget = budget
        glob = query.glob if "/" in query.glob else f"**/{query.glob}"
        self._glob = glob_pattern(glob, "glob") if query.glob else None
        self._work = Work()
        self._last = query.after
        self._files = self._bytes = 0
        self._matches: list[GrepMatch] = []

    def page(self, walk: Walk) -> GrepPage:
        """Return the next page."""
        is_complete = self._run(walk)
        return GrepPage(
            tuple(self._matches),
            None if is_complete else self._last,
            self._files,
            self._bytes,
            walk.revision,
        )

    def _run(self, walk: Walk) -> bool:
        """Search on; return True at the end of the tree."""
        query = self._query
        target, glob = query.target_uri, self._glob
        base = uris.join(target, glob.base) if glob is not None and glob.base else target
        nodes = walk.nodes(query.after.uri, base, directories=query.with_abstracts)
        while True:
            chosen, looked = self._chosen(nodes)
            texts = walk.texts([node.id for node in chosen])
            for node, (abstract, content) in zip(chosen, texts, strict=True):
                pace.step()
                if self._work.is_done or not self._context(node, abstract, content):
                    return False
            if looked is None:
                return True
            self._last = Position(looked, CONTENT + 1, 0)
            if self._work.is_done:
                return False

    def _chosen(self, nodes: Iterator[Node]) -> tuple[list[Node], str | None]:
        """Return the next nodes to search, and the last one looked at; None: it was the last."""
        chosen: list[Node] = []
        for node in nodes:
            pace.step()
            self._work.node(len(node.uri), self._glob)
            if self._is_wanted(node):
                chosen.append(node)
            if len(chosen) == _AT_ONCE or self._work.is_done:
                return chosen, node.uri
        return chosen, None

    def _is_wanted(self, node: Node) -> bool:
        query, uri = self._query, node.uri
        if query.context_types and uris.context_type(uri) not in query.context_types:
            return False
        if self._glob is None:
            return True
        target = query.target_uri
        path = uris.name(uri) if uri == target else uri[len(uris.join(target, "")) :]
        return self._glob.matches(path)

    def _context(self, node: Node, abstract: bytes, content: bytes) -> bool:
        """Search one context; return False if the page is full."""
        texts = ((ABSTRACT, abstract),) if self._query.with_abstracts else ()
        for level, text in (*texts, (CONTENT, content)):
            after = self._query.after
            done = after.line if (node.uri, level) == after[:2] else 0
            if (node.uri, level) < after[:2]:
                continue
            self._work.text(len(text), self._size)
            self._bytes += len(text)
            for line in self._search.lines(text, done):
                match = GrepMatch(node.uri, level, *line)
                fits = self._budget.take(MESSAGE_BYTES + size_of(node.uri) + size_of(line.text))
                if len(self._matches) == self._query.limit or (self._matches and not fits):
                    return False
                self._matches.append(match)
                self._last = Position(node.uri, level, line.number)
        self._files += not node.is_directory
        self._last = Position(node.uri, CONTENT + 1, 0)
        return True


def find_lines(
    store: Reads, query: GrepQuery, parts: tuple[str, ...], budget: ReplyBudget
) -> GrepPage:
    """Return the lines that match a regular expression.

    Args:
        parts: the readable subtrees of the target.

    Raises:
        NotFound: the target does not exist, or none of its parts does.
        InvalidField: `pattern` is no regular expression, or `glob` is no glob.
    """
    call = _Grep(query, budget)
    with store.walking(query.target_uri, parts) as walk:
        return call.page(walk)
