"""A watched folder: its import, and then each change of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from vikingd.client.client_errors import (
    AlreadyExists,
    ClientError,
    InvalidField,
    NotFound,
    PermissionDenied,
    TooLarge,
    Unauthenticated,
    Unsendable,
)
from vikingd.client.file_import import Importer, Item
from vikingd.client.import_summary import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.ingest.file_tree import Stamp, uri_of_a_context
from vikingd.ingest.files import FileItem, Read, Unchanged, read_directory, read_file, remarks
from vikingd.ingest.folder_changes import Difference, Folder, has_vanished, remembered
from vikingd.ingest.formats.document_reader import Documents
from vikingd.ingest.import_remarks import LeftOut, SecretLeftOut, Unreadable
from vikingd.ingest.jsonl import is_jsonl
from vikingd.ingest.selected_files import Selection
from vikingd.pb.contexts_pb2 import Context
from vikingd.system.install_command import install_command

_TICK = 500  # milliseconds between looks at the clock
_QUIET, _LONGEST_BATCH = 50, 400  # milliseconds without a change that end a batch; its duration
_SOON, _SWEEP = 1.0, 10.0  # seconds until all is compared: after a new directory; at least
_SHARE = 100  # a comparison of all takes at most one part in so many of the time
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0  # seconds before a batch that failed is tried again
_DEADLINE = 60.0  # seconds of each call, for a client that has none: a call must not wait forever
_FINAL = (Unauthenticated, PermissionDenied)
_REFUSALS = (AlreadyExists, InvalidField, NotFound)


class Watched:
    """A folder whose changes are imported until Ctrl-C.

        for summary in Watched(client, Path("docs"), "viking://resources/docs"):
            print(summary.revision)

    The first summary is that of the import, the others are those of the changes. The tree below
    `uri` follows the folder: a removed file is removed, a renamed file or directory is moved.
    Contexts that do not come from the folder stay.

    The system may lose events. So the sizes and times of all files are also compared at intervals,
    and soon after a new directory appears.

    Args:
        client: a connection to the daemon.
        path: a directory.
        uri: the URI of the directory.
        delete: the first import removes the contexts below `uri` without a file.
        selection: the choice of the files; None: that of a plain import.
        counted: called before the first import with about the number of its contexts.
        advance: called during the first import with the number of contexts just finished.
        waiting: called with the error when the daemon fails, and with None when it works again.
        cancelled: an event that ends the watching.

    Raises:
        InvalidField: `path` is no directory of files, or `uri` is invalid.
        OSError: the directory cannot be watched, or is removed (`Replaced`).
        ClientError: the first import fails, or the key is refused.
        ModuleNotFoundError: the package watchfiles is not installed.
    """

    def __init__(
        self,
        client: MessageClient,
        path: Path,
        uri: str,
        *,
        delete: bool = False,
        selection: Selection | None = None,
        counted: Callable[[int], None] = lambda _: None,
        advance: Callable[[int], None] = lambda _: None,
        waiting: Callable[[ClientError | None], None] = lambda _: None,
        cancelled: threading.Event | None = None,
    ) -> None:
        try:
            import watchfiles
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"a watched folder needs {install_command('files')} (No module named watchfiles)"
            ) from None
        if not uri:
            raise errors.InvalidField("uri", "is required")
        if not path.is_dir() or is_jsonl(path):
            raise errors.InvalidField(
                "path", "must be a directory of files, not one file or JSON lines"
            )
        self._watch = watchfiles.watch
        self._client = client if client.timeout else client.with_timeout(_DEADLINE)
        self._folder = Folder(path, uris.parse(uri), selection or Selection())
        self._delete = delete
        self._counted = counted
        self._advance = advance
        self._waiting = waiting
        self._cancelled = cancelled or threading.Event()
        self._told: dict[tuple[str, str], Stamp | None] = {}
        self._remarks: set[Item] = set()
        self._sweep_at = 0.0

    def __iter__(self) -> Iterator[ImportSummary]:
        summary = self._step((), is_first=True)
        assert summary is not None
        yield summary
        if summary.end == "done":
            yield from self._follow()

    def _follow(self) -> Iterator[ImportSummary]:
        while not self._cancelled.is_set():
            self._sweep_at = 0.0  # changes before this point gave no event
            is_first = True
            for named in self._events():
                is_due = time.monotonic() >= self._sweep_at
                if not (named or is_due):
                    continue
                summary = self._import(named)
                if summary is not None:
                    yield summary
                    if summary.end != "done":
                        return
                    if not (named or is_first):
                        break  # the watcher missed a change, and perhaps a whole directory
                is_first = False

    def _events(self) -> Iterator[set[str]]:
        """Yield the set of changed paths after each change, and an empty set from time to time.

        The iterator ends if the watcher fails later than at its start.
        """
        has_begun = False
        try:
            for changes in self._watch(
                self._folder.path.resolve(),
                watch_filter=None,
                debounce=_LONGEST_BATCH,
                step=_QUIET,
                rust_timeout=_TICK,
                yield_on_timeout=True,
                stop_event=self._cancelled,
                ignore_permission_denied=True,
            ):
                has_begun = True
                yield self._folder.wanted(path for _, path in changes)
        except (OSError, RuntimeError) as error:
            if not has_begun:
                raise OSError(f"{self._folder.path} cannot be watched: {error}") from None

    def _import(self, named: Collection[str]) -> ImportSummary | None:
        """Import a change, waiting for the daemon as long as needed.

        Return None if nothing changed.
        """
        pause = _FIRST_PAUSE
        failed = False
        while True:
            try:
                summary = self._step(named)
            except _FINAL:
                raise
            except ClientError as error:
                if not failed:
                    self._waiting(error)
                failed = True
                if self._cancelled.wait(error.retry_after or pause):
                    return None
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if failed:
                    self._waiting(None)
                return summary

    def _step(self, named: Collection[str], *, is_first: bool = False) -> ImportSummary | None:
        folder, started = self._folder, time.monotonic()
        at = time.time_ns()
        with Documents() as documents:
            read = partial(self._read, documents)
            found = folder.compare(named, read)
            took = time.monotonic() - started
            self._sweep_at = started + (_SOON if found.created else max(_SWEEP, took * _SHARE))
            if is_first:
                self._counted(len(found.now))
            elif not found:
                return None
            moved, revision = self._move(found)
            importer = Importer(
                self._client,
                folder.uri,
                delete=self._delete or not is_first,
                cancelled=self._cancelled,
                stored=None if is_first else partial(self._stored, found),
                may_remove=None if is_first else partial(folder.is_gone, found),
            )
            importer.run(self._items(found, read, is_first), self._advance)
        summary = importer.summary
        summary.moved = moved
        summary.revision = max(summary.revision, revision)
        if summary.end != "done":
            return summary
        if importer.error is not None:
            raise importer.error
        folder.settle(found, at, importer.remaining)
        summary.unreadable = self._not_reported_yet(summary.unreadable, found)
        changes = summary.created, summary.updated, summary.moved, summary.deleted
        has_news = any(changes) or summary.unreadable or summary.failed or summary.secrets
        return summary if has_news or is_first else None

    def _read(self, documents: Documents, path: str) -> list[FileItem]:
        return list(read_file(self._folder.tree, path, documents))

    def _move(self, found: Difference) -> tuple[int, int]:
        """Move renamed contexts; return the number of moved contexts, and the revision.

        If the daemon refuses a move, the import removes the old context and creates the new one.
        """
        moved = revision = 0
        moves = deque(found.moved)
        while moves:
            old, new = moves.popleft()
            try:
                reply = self._client.move(self._folder.uri_of(old), self._folder.uri_of(new))
            except TooLarge:
                moves.extendleft(reversed(found.children_of_moved(old, new)))
            except (Unsendable, *_REFUSALS):
                continue
            else:
                moved += reply.moved
                revision = max(revision, reply.revision)
        return moved, revision

    def _items(
        self,
        found: Difference,
        read: Callable[[str], list[FileItem]],
        is_first: bool,
    ) -> Iterator[Item]:
        """Yield the drafts of changed files and directories, in the order of a plain import."""
        folder = self._folder

        def file(path: str) -> Iterable[Read]:
            entry = found.now[path]
            if path not in found.files:
                return entry.items
            items = found.ready.pop(path, None) or read(path)
            remembered(entry, items)
            if any(isinstance(item, Draft) for item in items):
                folder.take_in(path)
            return items

        for remark in remarks(found.tree):
            if is_first or remark not in self._remarks:
                yield remark
            self._remarks.add(remark)
        for directory in found.directories:
            uri = folder.uri_of(directory)
            if folder.is_no_longer_described(found, directory):
                yield Draft(uri, is_directory=True)
            for item in read_directory(found.tree, directory, file):
                if isinstance(item, Unchanged):
                    continue
                if isinstance(item, (LeftOut, SecretLeftOut)):
                    if item not in self._remarks:
                        self._remarks.add(item)
                        yield item
                    continue
                if isinstance(item, Draft) and item.uri == uri:
                    folder.take_in(directory)
                if not has_vanished(item):  # else the next comparison removes its contexts
                    yield item
                elif item.uri == uri:
                    found.now[directory].is_unsure = True

    def _stored(self, found: Difference) -> Iterator[Context]:
        """Yield the stored contexts of all changed files and directories, for the comparison."""
        folder = self._folder
        read: set[str] = set()
        for path in sorted({*found.whole, *found.gone, *found.files, *found.directories}):
            uri = folder.uri_of(path)
            if not uri_of_a_context(uri) or not read.isdisjoint(uris.ancestors(uri)):
                continue
            with suppress(NotFound):
                if path in found.whole:
                    read.add(uri)
                    yield from self._client.tree(uri)
                else:
                    yield self._client.get(uri).context

    def _not_reported_yet(
        self, unreadable: list[Unreadable], found: Difference
    ) -> list[Unreadable]:
        """Return the unreadable files that were not reported yet in their present state."""
        news = []
        for item in unreadable:
            entry = found.now.get(self._folder.path_of(item.uri)) if item.uri else None
            state = entry.stamp if entry else None
            fault = item.path, item.reason
            if self._told.get(fault, ()) != state:
                self._told[fault] = state
                news.append(item)
        return news
