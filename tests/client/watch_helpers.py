"""Watched folders in a thread, and their comparison with a fresh import."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.patience import eventually
from vikingd.client import ClientError, NotFound
from vikingd.client.file_import import Importer
from vikingd.client.import_summary import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.client.watching import Watched
from vikingd.domain import uri as uris
from vikingd.ingest.files import read_tree

TOP = "viking://resources/docs"
_numbers = itertools.count()


class Run:
    """A watched folder: its summaries, and what was told while the daemon was away."""

    def __init__(self) -> None:
        self.summaries: list[ImportSummary] = []
        self.told: list[ClientError | None] = []
        self.error: BaseException | None = None

    @property
    def moved(self) -> int:
        """Return the number of moved contexts so far."""
        return sum(summary.moved for summary in self.summaries)


@contextmanager
def watching(address: str, path: Path, top: str = TOP, **options: Any) -> Iterator[Run]:
    """Watch a folder during the context, which begins after the import."""
    run, stop = Run(), threading.Event()

    def follow() -> None:
        try:
            with MessageClient(address) as client:
                watched = Watched(
                    client, path, top, cancelled=stop, waiting=run.told.append, **options
                )
                for summary in watched:
                    run.summaries.append(summary)
        except BaseException as error:  # the test tells of it
            run.error = error

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        eventually(lambda: run.summaries or run.error)
        yield run
    finally:
        stop.set()
        thread.join()


def state(client: MessageClient, top: str) -> dict[str, tuple[bool, str, str, bytes]]:
    """Return kind, title, abstract and hash of all contexts below a URI, by their paths.

    The title of source code at the top has the name of the top, so that it and the hash are left
    out; the hash of the content is there instead.
    """
    try:
        contexts = list(client.tree(top))
    except NotFound:
        return {}
    found = {}
    for c in contexts:
        title, digest = c.title, c.content_hash
        if title.startswith(f"{uris.name(top)}/"):
            try:
                content = client.get(c.uri).context.content
            except NotFound:  # it is gone since it was listed
                continue
            title, digest = "", sha256(content.encode()).digest()
        found[c.uri[len(top) :]] = c.is_directory, title, c.abstract, digest
    return found


def fresh_import(client: MessageClient, path: Path) -> dict[str, tuple[bool, str, str, bytes]]:
    """Import a folder to a new URI, remove it again, and return its state."""
    top = f"viking://resources/fresh-{next(_numbers)}"
    Importer(client, top).run(read_tree(path, top), lambda _: None)
    imported = state(client, top)
    client.delete(top, allow_missing=True)
    return imported


def without_unreadable(
    found: dict[str, tuple[bool, str, str, bytes]], unreadable: set[str], drafts: set[str]
) -> dict[str, tuple[bool, str, str, bytes]]:
    """Leave out what an import keeps although it cannot be read now.

    That are older versions of files that can no longer be read, with their directories, and the
    top.
    """
    return {
        path: value
        for path, value in found.items()
        if unreadable.isdisjoint({TOP + path, *uris.ancestors(TOP + path)})
        and (path in drafts or not any(uris.is_within(uri, TOP + path) for uri in unreadable))
        and (path in drafts or path)
    }
