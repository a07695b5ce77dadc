"""Imports files: what a path holds, and where it goes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc

from vikingd.client.errors import FieldViolation, InvalidField
from vikingd.client.importing import Importer, ImportSummary, Item
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain import uri as uris
from vikingd.ingest.files import Unreadable, read_tree
from vikingd.ingest.jsonl import is_jsonl, read_jsonl


def import_path(
    client: MessageClient,
    path: str | os.PathLike[str],
    uri: str,
    *,
    delete: bool,
    dry_run: bool,
    progress: Callable[[int], None] | None,
    cancelled: threading.Event | None = None,
) -> ImportSummary:
    """Imports files; see Client.import_path.

    Args:
        cancelled: once it is set, the import ends and the summary says so.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
    """
    Path(path).stat()  # which raises if it is not there
    try:
        top, items = items_of(Path(path), uri, delete=delete)
    except errors.InvalidField as error:
        violation = FieldViolation(error.field, error.description)
        raise InvalidField(
            grpc.StatusCode.INVALID_ARGUMENT, str(error), error.reason, error.metadata, (violation,)
        ) from None
    cancelled = cancelled or threading.Event()
    importer = Importer(client, top, delete=delete, dry_run=dry_run, cancelled=cancelled)
    importer.run(items, progress or (lambda _: None))
    if importer.summary.end == "interrupted" and not cancelled.is_set():
        raise KeyboardInterrupt
    return importer.summary


def items_of(path: Path, uri: str, *, delete: bool) -> tuple[str, Iterator[Item]]:
    """Return the URI at the top of the import, and the items below it.

    Raises:
        InvalidField: naming `uri`, `path` or `delete`.
    """
    lines = is_jsonl(path)
    if not uri and not lines:
        raise errors.InvalidField("uri", "is needed, as these are no JSON lines")
    if delete and (not uri or (path.is_file() and not lines)):
        raise errors.InvalidField("delete", "needs a directory or JSON lines, and a URI")
    top = uris.parse(uri or uris.ROOT)
    if lines:
        return top, _read_lines(path, top)
    try:
        items = read_tree(path, uri)
    except errors.InvalidField as error:
        raise errors.InvalidField("path", str(error)) from None
    if path.is_file():
        only = next(items)
        return only.uri or top, iter([only])  # what else is there need not be read
    return top, items


def _read_lines(path: Path, top: str) -> Iterator[Item]:
    """Read JSON lines; an unreadable line can stand for any context below the top."""
    for item in read_jsonl(path):
        lost = isinstance(item, Unreadable) and not item.uri
        yield replace(item, uri=top) if lost else item
