"""Glob: the contexts whose path matches a pattern."""

from __future__ import annotations

from typing import NamedTuple

from vikingd.browse.compiled_patterns import glob_pattern
from vikingd.browse.work_limit import Work
from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, size_of
from vikingd.domain.errors import InvalidField
from vikingd.domain.pattern_queries import GlobEntry, GlobQuery, NodeKind
from vikingd.store.reads import Reads
from vikingd.store.reads.context_reads import AFTER


class GlobPage(NamedTuple):
    """A page of entries; `last` is the URI after which the next page begins, "" for no page."""

    entries: tuple[GlobEntry, ...]
    last: str


def find_paths(
    store: Reads, query: GlobQuery, parts: tuple[str, ...], budget: ReplyBudget
) -> GlobPage:
    """Return the contexts whose path matches a pattern.

    Args:
        parts: the readable subtrees of the target.
        budget: the bytes of the reply.

    Raises:
        NotFound: the target does not exist, or none of its parts does.
        InvalidField: the target is a file, `pattern` is no glob, or it is one for directories where
            the query asks for files.
    """
    glob, target = glob_pattern(query.pattern, "pattern"), query.target_uri
    if glob.is_for_directories and query.kind is NodeKind.FILE:
        raise InvalidField("pattern", "ends with a slash, so that no file matches")
    kind = NodeKind.DIRECTORY if glob.is_for_directories else query.kind
    found: list[GlobEntry] = []
    work, last = Work(), query.after
    with store.walking(target, parts) as walk:
        if walk.is_of_file:
            raise InvalidField("target_uri", f"{target} is a file; name a directory")
        since = f"{last}{AFTER}" if last else ""
        for node in walk.nodes(since, glob.top(target), directories=kind is not NodeKind.FILE):
            cancellation.check()
            if len(found) == query.limit or not work.has_nodes:
                return GlobPage(tuple(found), last)
            work.take_node(len(node.uri), glob.pattern.size)
            if (
                (node.is_directory or kind is not NodeKind.DIRECTORY)
                and node.uri != target
                and glob.matches(node.uri, target)
            ):
                if not budget.take(MESSAGE_BYTES + size_of(node.uri)) and found:
                    return GlobPage(tuple(found), last)
                found.append(GlobEntry(node.uri, uris.context_type(node.uri), node.is_directory))
            last = node.uri
    return GlobPage(tuple(found), "")
