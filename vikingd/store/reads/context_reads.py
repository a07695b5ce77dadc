"""Reads of contexts, their texts and the tree."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Any

from vikingd.domain.answers import ReplyBudget, size_of
from vikingd.domain.contexts import EXTRACT, HAND, Context, Entry, Passage, Relation
from vikingd.domain.description import Described, Slot
from vikingd.domain.errors import InvalidField, NotFound, TooLarge
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.uri import ROOT, subtree_bounds
from vikingd.ingest.abstracts import stated_abstract
from vikingd.ingest.original_draft import as_put
from vikingd.store.connection import Connection, Rows
from vikingd.store.damage import Damage, raise_damage, shown
from vikingd.store.reads.database_reads import DatabaseReads
from vikingd.store.rows import check_context, descriptions, metadata_of

_COLUMNS = """uri, is_directory, abstract, title, metadata, time, created_at, updated_at,
    (SELECT CAST(coalesce(sum(reinforcement), 0) AS BIGINT)
     FROM texts JOIN entries ON text_id = texts.id WHERE context_id = contexts.id),
    (SELECT CAST(coalesce(sum(access_count), 0) AS BIGINT)
     FROM texts JOIN entries ON text_id = texts.id WHERE context_id = contexts.id),
    content_hash, revision"""
_TYPES = (str, int, str, str, str, int, int, int, int, int, bytes, int)
_BY_URI = "FROM contexts WHERE tenant = 'default' AND uri = ?"
_BY_URIS = "FROM contexts WHERE tenant = 'default' AND uri IN (SELECT value FROM each_name(?))"
_PASSAGES = """
SELECT section, "start", "end", entries.id, reinforcement, access_count, time, created_at
FROM texts LEFT JOIN entries ON text_id = texts.id
WHERE context_id = ? AND ordinal > 0 ORDER BY ordinal
"""
_RELATIONS = """
SELECT uri, abstract, reason FROM links JOIN contexts ON contexts.id = b WHERE a = ?1
UNION ALL
SELECT uri, abstract, reason FROM links JOIN contexts ON contexts.id = a WHERE b = ?1
ORDER BY 1
"""
_ANY_DEPTH = 1 << 31
AFTER = "\x01"
"""A character below all others of URIs: no URI sorts between `uri` and `uri + AFTER`."""


class ContextReads(DatabaseReads):
    """Reads of contexts, by URI."""

    def get(self, uri: str) -> Context:
        """Return a context with all its fields; its passages have no vectors.

        Raises:
            NotFound: it does not exist.
            StoreDamaged: a row of it does not match its checksum.
        """
        with self._snapshot() as db:
            (context_id,) = _found(db.execute(f"SELECT id {_BY_URI}", (uri,)), uri)
            check_context(db, context_id)  # before the read, which fails for text that is not UTF-8
            made = next((made for _, made in descriptions(db, raise_damage, [context_id])), None)
            return _with_makers(read_context(db, uri), made)

    def metadata(self, uris: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the metadata of contexts by URI; missing contexts are left out."""
        with self._snapshot() as db:
            rows = db.execute(f"SELECT uri, metadata {_BY_URIS}", (json.dumps(uris),))
            return {uri: metadata_of(metadata, uri) for uri, metadata in rows}

    def texts_of(
        self, uris: Sequence[str], budget: ReplyBudget, *, with_content: bool
    ) -> dict[str, tuple[str, str, str, str]]:
        """Return (title, abstract, overview, content) by URI; missing contexts are left out.

        Raises:
            TooLarge: the texts do not fit into `budget`.
        """
        found: dict[str, tuple[str, str, str, str]] = {}
        content = "content" if with_content else "''"
        with self._snapshot() as db:
            rows = db.execute(
                f"SELECT uri, title, abstract, overview, {content} {_BY_URIS}", (json.dumps(uris),)
            )
            for uri, *texts in rows:
                title, abstract, overview, text = texts
                _take(budget, *texts)
                found[uri] = title, abstract, overview, text
        return found

    def passages_of(
        self, wanted: Mapping[str, Collection[int]], budget: ReplyBudget
    ) -> dict[tuple[str, int], tuple[str, str, int, int, int]]:
        """Return (section, text, start, end, first line) of passages by (URI, ordinal).

        Missing passages are left out. Start and end are in code points of the content.

        Args:
            wanted: the ordinals of the passages, by URI.
            budget: the bytes that the texts may have; they are taken from it.

        Raises:
            TooLarge: the texts do not fit into `budget`.
        """
        found: dict[tuple[str, int], tuple[str, str, int, int, int]] = {}
        with self._snapshot() as db:
            contexts = db.execute(
                f"SELECT id, uri, content {_BY_URIS}", (json.dumps(list(wanted)),)
            )
            for context_id, uri, content in contexts:  # substr() would read it again for each
                rows = db.execute(
                    'SELECT ordinal, section, "start", "end" FROM texts '
                    "WHERE context_id = ? AND ordinal IN (SELECT value FROM each_id(?)) "
                    "ORDER BY ordinal",
                    (context_id, json.dumps(list(wanted[uri]))),
                ).fetchall()
                lines = lines_at(content, (start for _, _, start, _ in rows))
                for (ordinal, section, start, end), line in zip(rows, lines, strict=True):
                    text = content[start:end]
                    _take(budget, section, text)
                    found[uri, ordinal] = (section, text, start, end, line)
        return found

    def files_between(self, low: str, high: str) -> list[tuple[str, int]]:
        """Return (URI, `Context.time`) of files with low <= URI <= high, the greatest URI first."""
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT uri, time FROM contexts WHERE tenant = 'default' AND uri >= ? AND uri <= ? "
                "AND is_directory = 0 ORDER BY uri DESC",
                (low, high),
            )
            return [(uri, time) for uri, time in rows]

    def children(
        self,
        uri: str,
        after: str,
        limit: int,
        fits: Callable[[Context], bool] = lambda _: True,
        parts: Sequence[str] | None = None,
    ) -> list[Context]:
        """Return the direct children of a directory: files, then directories, each by name.

        Args:
            after: "" for the first page, else the `page_token` of the last context of the page
                before.
            limit: the largest number of contexts.
            fits: returns False for a context that exceeds the size of a page; that context is the
                last one of the page.
            parts: the URIs of the subtrees of the directory that the caller may read. The contexts
                at these URIs are returned in place of the children. None, or the directory's URI
                among them: all of it is readable.

        Raises:
            NotFound: the directory does not exist, or none of its parts does.
            InvalidField: it is a file, or `after` is not a page token.
        """
        is_directory, last = _position(after)
        with self._snapshot() as db:
            if parts is None or uri in parts:
                row = db.execute(f"SELECT id, is_directory {_BY_URI}", (uri,))
                context_id, has_children = _found(row, uri)
                if not has_children:
                    raise InvalidField("uri", f"{uri} is a file; name a directory")
                listed, of = "FROM contexts WHERE parent_id = ?", context_id
            else:
                check_any(db, uri, parts)
                listed, of = _BY_URIS, json.dumps(parts)
            rows = db.execute(
                f"SELECT {_COLUMNS} {listed} AND (is_directory, uri) > (?, ?) "
                "ORDER BY is_directory, uri LIMIT ?",
                (of, int(is_directory), last, limit),
            )
            return list(_until(map(_context, rows), fits))

    def tree(
        self,
        uri: str,
        depth: int,
        after: str,
        limit: int,
        fits: Callable[[Context], bool] = lambda _: True,
        parts: Sequence[str] | None = None,
    ) -> list[Context]:
        """Return a context and all contexts below it, in the order of their URIs.

        Args:
            depth: the number of levels below it; 0 for all.
            after: see `children`, also for `limit` and `fits`.
            parts: the subtrees that the caller may read; all others are left out. None: all is
                readable.

        Raises:
            NotFound: the context does not exist, or none of the parts does.
            InvalidField: `after` is not a page token.
        """
        _, last = _position(after)
        parts = (uri,) if parts is None else parts
        slashes = uri.count("/") - (uri == ROOT) + depth if depth else _ANY_DEPTH
        with self._snapshot() as db:
            check_any(db, uri, parts)
            # The order of URIs is not that of subtrees: a-b sorts between a and a/c.
            rows = heapq.merge(
                *(
                    db.execute(
                        f"SELECT {_COLUMNS} FROM contexts WHERE tenant = 'default' "
                        "AND uri >= ? AND uri < ? "
                        "AND length(uri) - length(replace(uri, '/', '')) <= ? ORDER BY uri LIMIT ?",
                        (max(low, f"{last}{AFTER}"), high, slashes, limit),
                    )
                    for part in parts
                    for low, high in ranges(part)
                ),
                key=itemgetter(0),
            )
            return list(_until(map(_context, islice(rows, limit)), fits))


def page_token(context: Context) -> str:
    """Return the token for the page that follows a context; `children` and `tree` take it."""
    return f"{'d' if context.is_directory else 'f'}:{context.uri}"


def read_context(db: Connection, uri: str) -> Context:
    """Return a context with all its fields; its passages have no vectors.

    Checksums are not compared.

    Raises:
        NotFound: it does not exist.
    """
    row = db.execute(f"SELECT id, overview, content, {_COLUMNS} {_BY_URI}", (uri,))
    context_id, overview, content, *columns = _found(row, uri)
    passages = db.execute(_PASSAGES, (context_id,))
    return _context(
        columns,
        overview=overview,
        content=content,
        passages=tuple(
            Passage(
                section,
                start,
                end,
                entry=Entry(entry_id, *rest) if entry_id and entry_id > 0 else None,
                continues=bool(entry_id) and entry_id < 0,
            )
            for section, start, end, entry_id, *rest in passages
        ),
        relations=tuple(Relation(*relation) for relation in db.execute(_RELATIONS, (context_id,))),
    )


def _with_makers(context: Context, made: Described | None) -> Context:
    """Return a context with `abstract_by` and `overview_by` set.

    Args:
        context: the context.
        made: the description that a model made for it; None if there is none.
    """
    abstract_by = overview_by = ""
    if context.abstract:
        if made is not None and Slot.ABSTRACT in made.slots:
            abstract_by = made.maker
        else:
            abstract_by = HAND if _is_stated(context) else EXTRACT
    if context.overview:
        is_made = made is not None and Slot.OVERVIEW in made.slots
        overview_by = made.maker if made is not None and is_made else HAND
    return replace(context, abstract_by=abstract_by, overview_by=overview_by)


def _is_stated(context: Context) -> bool:
    """Return True if a user wrote the abstract, or if the content has one, as in its front matter.

    False means that the abstract is an extract of the content.
    """
    if context.is_directory:
        return True
    name = context.uri.rpartition("/")[2]
    return bool(as_put(context).abstract or stated_abstract(context.content, name))


def _position(token: str) -> tuple[bool, str]:
    """Decode a page token to (is a directory, URI) of the last context before the page.

    Raises:
        InvalidField: it is not a token of `page_token`.
    """
    if not token:
        return False, ""
    kind, _, uri = token.partition(":")
    if kind not in ("d", "f") or not uri.startswith(ROOT):
        raise InvalidField(
            "page_token", "is not a token of an earlier page; use one or leave it out"
        )
    return kind == "d", uri


def _found(rows: Rows, uri: str) -> Sequence[Any]:
    row: Sequence[Any] | None = rows.fetchone()
    if row is None:
        raise NotFound(uri)
    return row


def ranges(top: str) -> Iterator[tuple[str, str]]:
    """Yield two ranges (low, high) with low <= URI < high: of `top`, then of all URIs below it."""
    yield top, f"{top}{AFTER}"
    low, high = subtree_bounds(top)
    yield f"{low}{AFTER}", high


def check_any(db: Connection, uri: str, parts: Sequence[str]) -> None:
    """Raise NotFound if none of the URIs in `parts` exists.

    The error names `uri`, a directory above them. Nothing is checked if `uri` is the root, unless
    `parts` has it.
    """
    if uri != ROOT or uri in parts:
        rows = db.execute(f"SELECT 1 {_BY_URIS} LIMIT 1", (json.dumps(parts),))
        _found(rows, uri)


def _context(row: Sequence[Any], **parts: Any) -> Context:
    """Convert a row of `_COLUMNS` to a context; `parts` are its further fields.

    Raises:
        RowDamaged: a value has a wrong type.
    """
    uri, is_directory, abstract, title, metadata, *rest = row
    if tuple(map(type, row)) != _TYPES:
        raise Damage(shown(uri, "of a listing"), "a value has the wrong type").error()
    return Context(
        uri, bool(is_directory), abstract, title, metadata_of(metadata, uri), *rest, **parts
    )


def _until(contexts: Iterable[Context], fits: Callable[[Context], bool]) -> Iterator[Context]:
    """Yield contexts up to and including the first one for which `fits` returns False."""
    for context in contexts:
        yield context
        if not fits(context):
            return


def _take(budget: ReplyBudget, *texts: str) -> None:
    if not budget.take(sum(map(size_of, texts))):
        raise TooLarge(
            f"these sources have more than {budget.limit:,} bytes of text, the limit of one call: "
            "ask for fewer, or for passages of them",
            limit=str(budget.limit),
        )
