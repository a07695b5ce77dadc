"""Grep: the lines that match a regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vikingd.browse.compiled_patterns import glob_pattern, line_pattern
from vikingd.browse.matching_lines import LineSearch
from vikingd.browse.work_limit import Work
from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, size_of
from vikingd.domain.pattern_queries import ABSTRACT, CONTENT, GrepMatch, GrepQuery, Position
from vikingd.store.reads import Reads
from vikingd.store.reads.context_reads import AFTER
from vikingd.store.reads.tree_walk import Node, Walk

_AT_ONCE = 100  # files whose texts one query reads


class GrepPage(NamedTuple):
    """A page of matches.

    Attributes:
        matches: at most as many as the query allows.
        last: the position after which the next page begins; None: there is no next page.
        files: the number of files that were read.
        bytes: the number of bytes that were read.
        revision: the revision of the store.
    """

    matches: tuple[GrepMatch, ...]
    last: Position | None
    files: int
    bytes: int
    revision: int


def find_lines(
    store: Reads, query: GrepQuery, parts: tuple[str, ...], budget: ReplyBudget
) -> GrepPage:
    """Return the lines that match a regular expression.

    Args:
        parts: the readable subtrees of the target.
        budget: the bytes of the reply.

    Raises:
        NotFound: the target does not exist, or none of its parts does.
        InvalidField: `pattern` is no regular expression, or `glob` is no glob.
    """
    call = _Grep(query, budget)
    with store.walking(query.target_uri, parts) as walk:
        is_complete = call.run(walk)
        last = None if is_complete else call.last
        return GrepPage(tuple(call.matches), last, call.files, call.bytes, walk.revision)


class _Grep:
    """The state of one call of Grep.

    Attributes:
        matches, files, bytes: as in GrepPage.
        last: all lines up to this position were searched.
    """

    def __init__(self, query: GrepQuery, budget: ReplyBudget) -> None:
        self.matches: list[GrepMatch] = []
        self.last = query.after
        self.files = self.bytes = 0
        self._query = query
        self._budget = budget
        self._work = Work()
        pattern = line_pattern(
            query.pattern, case_insensitive=query.case_insensitive, literal=query.literal
        )
        self._search = LineSearch(pattern, self._work)
        glob = query.glob if "/" in query.glob else f"**/{query.glob}"
        self._glob = glob_pattern(glob, "glob") if query.glob else None

    def run(self, walk: Walk) -> bool:
        """Search from the beginning of the page; return True if the end of the tree is reached."""
        query = self._query
        if walk.is_of_file:
            self._glob = None
        top = self._glob.top(query.target_uri) if self._glob else query.target_uri
        uri, level, _ = query.after
        since = uri if level <= CONTENT else f"{uri}{AFTER}"
        nodes = walk.nodes(since, top, directories=query.with_abstracts)
        while True:
            wanted, looked_at = self._wanted(nodes)
            texts = walk.texts([node.id for node in wanted])
            for node, (abstract, content) in zip(wanted, texts, strict=True):
                if not self._context(node, abstract, content):
                    return False
            if looked_at is None:
                return True
            self.last = _end_of(looked_at)
            if not self._work.has_nodes:
                return False

    def _wanted(self, nodes: Iterator[Node]) -> tuple[list[Node], str | None]:
        """Return the next contexts to search, and the URI to continue after; None at the end."""
        wanted: list[Node] = []
        size = self._glob.pattern.size if self._glob else 0
        for node in nodes:
            cancellation.check()
            self._work.take_node(len(node.uri), size)
            if self._is_wanted(node.uri):
                wanted.append(node)
            if len(wanted) == _AT_ONCE or not self._work.has_nodes:
                return wanted, node.uri
        return wanted, None

    def _is_wanted(self, uri: str) -> bool:
        types, target = self._query.context_types, self._query.target_uri
        if types and uris.context_type(uri) not in types:
            return False
        return self._glob is None or self._glob.matches(uri, target)

    def _context(self, node: Node, abstract: bytes, content: bytes) -> bool:
        """Search one context; return False if the page is full."""
        self.files += not node.is_directory
        if self._query.with_abstracts and not self._text(node.uri, ABSTRACT, abstract):
            return False
        if not self._text(node.uri, CONTENT, content):
            return False
        self.last = _end_of(node.uri)
        return self._work.has_texts

    def _text(self, uri: str, level: int, text: bytes) -> bool:
        """Search one text; return False if the page is full."""
        after = self._query.after
        if (uri, level) < (after.uri, after.level):
            return True
        self.bytes += len(text)
        done = after.line if (uri, level) == (after.uri, after.level) else 0
        for line in self._search.lines(text, done):
            if isinstance(line, int):
                self.last = Position(uri, level, line)
                return False
            size = MESSAGE_BYTES + size_of(uri) + size_of(line.text)
            if not self._budget.take(size) and self.matches:
                return False
            self.matches.append(GrepMatch(uri, level, *line))
            self.last = Position(uri, level, line.number)
            if len(self.matches) == self._query.limit:
                return False
        return True


def _end_of(uri: str) -> Position:
    return Position(uri, CONTENT + 1, 0)
