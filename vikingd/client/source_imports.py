"""The import of a source by its address: fetched into the cache, then imported as a folder is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import grpc
from google.protobuf.json_format import MessageToDict

from vikingd.client.batch_results import Failure
from vikingd.client.client_errors import (
    AlreadyExists,
    ClientError,
    InvalidField,
    NotFetched,
    NotFound,
    Unsendable,
)
from vikingd.client.file_import import Importer, Item
from vikingd.client.import_summary import ImportSummary
from vikingd.client.interrupts import recorded_interrupts
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft
from vikingd.domain.store_changes import Linked
from vikingd.ingest.abstracts import derive_title
from vikingd.ingest.draft_preparation import is_shared
from vikingd.ingest.file_tree import FileTree, normal, printable
from vikingd.ingest.files import read_files
from vikingd.ingest.limits import as_sent
from vikingd.ingest.selected_files import Selection
from vikingd.pb.contexts_pb2 import Context
from vikingd.sources import source_registry
from vikingd.sources.addresses import Address
from vikingd.sources.fetch_result import Fetched, SourceFailed
from vikingd.sources.source_fetches import check_options, fetch, settle
from vikingd.sources.source_registry import Record, SourceOptions

SOURCE, COMMIT = "source", "commit"
"""The keys of metadata that say where a context came from."""

_OF_ADDRESSES = ("ref", "below", "depth", "max_pages")
_SELECTING = ("no_ignore", "max_file_size", "encoding", "with_secrets", "hidden")
_LOOK = 0.1  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """The functions that report the progress of an import by address.

    Attributes:
        fetched: called with the number of objects, pages or members that were just received.
        counted: called after the fetch with an estimate of the number of contexts.
        advance: called with the number of contexts that were just finished.
    """

    fetched: Callable[[int], None] = lambda _: None
    counted: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None


def chosen_options(given: Mapping[str, Any]) -> SourceOptions:
    """Return the options that choose files, by name, in the form of a source's record.

    Raises:
        InvalidField: an option that chooses files is invalid.
    """
    own = {name: given[name] for name in _OF_ADDRESSES}
    lists = {name: _globs(given[name]) for name in ("include", "exclude")}
    rest = {name: given[name] for name in _SELECTING}
    chosen = {name: value for name, value in (lists | rest).items() if value}
    Selection(**chosen)
    return SourceOptions(**own, delete=given["delete"], selection=chosen)


def check_of_addresses(options: SourceOptions) -> None:
    """Raise InvalidField if an option that only addresses take is given for a path."""
    for name in _OF_ADDRESSES:
        if getattr(options, name):
            raise errors.InvalidField(name, "needs an address, such as https:// or git+https://")


def _globs(given: Iterable[str] | str) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def record_of(
    daemon: str, tenant: str, address: Address, uri: str, options: SourceOptions
) -> Record:
    """Return the record of a source to import, with the stored state of its last import.

    Args:
        daemon: the address of the daemon.
        tenant: the tenant that an operator names; "" for none.
        address: the address of the source.
        uri: the URI of the directory for its files.
        options: the options of the import.

    Raises:
        InvalidField: the URI or an option cannot be used.
        NotFetched: the stored record cannot be read.
    """
    if not uri:
        raise errors.InvalidField("uri", "is required: the directory for the files of the source")
    check_options(address, options)
    made = Record(address.whole, uris.parse(uri), daemon, tenant, options)
    try:
        stored = source_registry.known(made)
    except SourceFailed as error:
        raise _not_fetched(error) from None
    if not is_shared(made.uri) and (other := source_registry.other_at(made)):
        raise errors.InvalidField(
            "uri",
            f"{made.uri} has the files of {other.address}: choose another directory, or remove "
            "that source",
        )
    if stored is not None:
        made.state, made.fetched_at, made.result = stored.state, stored.fetched_at, stored.result
    return made


def import_source(
    client: MessageClient,
    address: Address,
    record: Record,
    *,
    dry_run: bool = False,
    only_changed: bool = False,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> ImportSummary:
    """Fetch a source and import its files; after a dry run nothing is registered.

    The state of the source is stored after the daemon has acknowledged all changes. An import that
    ends earlier is done again by the next one.

    Args:
        client: a connection to the daemon.
        address: the address, with its credentials.
        record: the source, as `record_of` returns it.
        dry_run: change nothing but the cache; the summary lists the planned changes.
        only_changed: compare nothing if the source has not changed since its last import.
        progress: functions that are told of the progress.
        cancelled: an event that ends the import.

    Raises:
        NotFetched: the source cannot be fetched.
        ClientError: the daemon cannot be reached.
        OSError: the cache cannot be written.
    """
    cancelled = cancelled or threading.Event()
    progress = progress or Progress()
    with suppress(NotFound):
        client.get(record.uri)  # a daemon that cannot be reached says so before a long fetch
    try:
        with source_registry.locked(record):
            try:
                fetched = _fetch(address, record, progress.fetched, cancelled)
            except (InterruptedError, KeyboardInterrupt):
                return ImportSummary(end="interrupted", dry_run=dry_run)
            if not (record.fetched_at or fetched.origins):
                raise _no_files_error(fetched)
            was_done = record.result.get("end") == "done" and not record.result.get("failed")
            if only_changed and was_done and fetched.is_unchanged:
                summary = ImportSummary(
                    end="done",
                    is_unchanged=True,
                    commit=fetched.state.get(COMMIT, ""),
                    not_taken=list(fetched.not_taken),
                )
            else:
                importing = _Import(client, record, fetched, dry_run, cancelled)
                summary = importing.run(progress)
            if summary.end == "done" and not dry_run:
                record.state = fetched.state
                record.fetched_at = datetime.now(UTC).isoformat(timespec="seconds")
                record.result = _counts(summary)
                source_registry.store(record)
                settle(record)
            return summary
    except SourceFailed as error:
        if record.fetched_at and not dry_run:
            record.result = {"end": "failed", "error": str(error)}
            source_registry.store(record)
        raise _not_fetched(error) from None


def _fetch(
    address: Address,
    record: Record,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Fetch a source on a thread, which ends soon after `cancelled` is set, also by Ctrl-C.

    The main thread wakes up now and then, because another thread may have received the signal.
    """
    with ThreadPoolExecutor(1) as pool, recorded_interrupts(cancelled):
        work = pool.submit(fetch, address, record, advance, cancelled)
        while not work.done():
            wait([work], timeout=_LOOK)
        return work.result()


class _Import:
    """The import of the files of a source, which are in the cache."""

    def __init__(
        self,
        client: MessageClient,
        record: Record,
        fetched: Fetched,
        dry_run: bool,
        cancelled: threading.Event,
    ) -> None:
        self._client = client
        self._record = record
        self._fetched = fetched
        self._dry_run = dry_run
        selection = Selection(**record.options.selection)
        self._tree = FileTree.of_directory(fetched.folder, record.uri, selection, record.folder)
        self._origins = {
            self._tree.uri_of(normal(path)): origin for path, origin in fetched.origins.items()
        }
        self._renamed: dict[str, str] = {}  # of a dry run: the new URIs by the old ones
        self._importer = Importer(
            client,
            record.uri,
            delete=record.options.delete,
            dry_run=dry_run,
            cancelled=cancelled,
            stored=self._stored,
        )

    def run(self, progress: Progress) -> ImportSummary:
        """Import the files.

        Raises:
            ClientError: the daemon cannot be reached, or refuses all.
        """
        summary = self._importer.summary
        summary.not_taken = list(self._fetched.not_taken)
        summary.commit = str(self._fetched.state.get(COMMIT, ""))
        progress.counted(len(self._tree.stamps))
        self._move()
        self._importer.run(self._items(), progress.advance)
        if self._importer.error is not None:
            raise self._importer.error
        if summary.end == "done" and not self._dry_run:
            for failed in summary.not_moved:
                reply = self._client.delete(failed.uri, allow_missing=True)
                summary.deleted += reply.deleted
                summary.revision = max(summary.revision, reply.revision)
        return summary

    def _stored(self) -> Iterator[Context]:
        for context in self._client.tree(self._record.uri):
            context.uri = self._renamed.get(context.uri, context.uri)
            yield context

    def _move(self) -> None:
        """Move the contexts whose files were renamed.

        A move that the daemon refuses is left to the import, which writes the new context; the old
        one is removed after it.
        """
        moves = [
            (self._tree.uri_of(normal(old)), self._tree.uri_of(normal(new)))
            for old, new in self._fetched.moved
            if normal(new) in self._tree.stamps
        ]
        if not moves:
            return
        summary = self._importer.summary
        there: set[str] = set()
        with suppress(NotFound):
            there.update(context.uri for context in self._client.tree(self._record.uri))
        for old, new in _in_order([move for move in moves if move[0] in there], there):
            if self._dry_run:
                self._renamed[old] = new
                summary.planned.append(("move", f"{old} {new}"))
                summary.moved += 1
                continue
            try:
                reply = self._client.move(old, new)
            except NotFound:
                continue
            except (AlreadyExists, InvalidField, Unsendable) as error:
                if old not in self._origins:
                    summary.not_moved.append(Failure(old, f"to {new}: {_reason(error)}"))
            else:
                summary.moved += reply.moved
                summary.revision = max(summary.revision, reply.revision)

    def _items(self) -> Iterator[Item]:
        """Yield the items of the files, and last the directory of the source.

        The directory comes last because it names the commit, whose files must be imported first.
        """
        top: Draft | None = None
        has_files = False
        for item in read_files(self._tree):
            if not isinstance(item, Draft):
                yield self._with_relative_path(item)
            elif item.uri == self._record.uri and item.is_directory:
                top = item
            else:
                has_files = True
                yield self._with_origin(item)
        if is_shared(self._record.uri):
            if top is not None:
                yield top
        elif has_files and (found := self._top(top)):
            yield found

    def _with_relative_path(self, item: T) -> T:
        """Replace the path in the cache in a remark by the path within the source; return it."""
        if isinstance(item, Linked):
            return item
        path: str = item.path  # type: ignore[attr-defined]  # all remarks have one
        below = path.removeprefix(f"{printable(self._fetched.folder)}/")
        return replace(item, path=below)  # type: ignore[type-var]

    def _with_origin(self, draft: Draft) -> Draft:
        """Return a draft with the address of its file in the metadata `source`."""
        origin = self._origins.get(draft.uri)
        if origin is None or uris.context_type(draft.uri) is ContextType.MEMORY:
            return draft
        stated = draft.metadata.get(SOURCE)
        if stated not in (None, origin.address):
            why = f"{SOURCE}: {stated!r} gives way to the address of the file"
            self._importer.summary.as_text.append(Failure(draft.uri, why))
        time, title = draft.time, draft.title
        if time is None and origin.time is not None:
            time = (origin.time - _EPOCH) // (datetime.resolution)
        if origin.title and title == derive_title("", draft.uri):
            title = origin.title
        metadata = {**draft.metadata, SOURCE: origin.address}
        return replace(draft, metadata=metadata, time=time, title=title)

    def _top(self, described: Draft | None) -> Draft | None:
        """Return a draft that adds address and commit of the source to its directory's metadata.

        None if they are stored already.
        """
        said = {SOURCE: self._record.address}
        if commit := self._importer.summary.commit:
            said[COMMIT] = commit
        if described is not None:
            return replace(described, metadata={**described.metadata, **said})
        uri = self._record.uri
        try:
            stored = as_sent(MessageToDict(self._client.get(uri).context.metadata))
        except NotFound:
            return Draft(uri, is_directory=True, metadata=said)
        if stored.items() >= said.items():
            return None
        return Draft(uri, is_directory=True, metadata={**stored, **said}, update_mask=["metadata"])


def _in_order(moves: Iterable[tuple[str, str]], there: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (old, new) moves, each after the move that frees its target.

    Moves whose target stays taken come last.

    Args:
        moves: the moves, in any order.
        there: the URIs that exist before the moves.
    """
    taken, left = set(there), list(moves)
    while left:
        later = []
        for old, new in left:
            if new in taken:
                later.append((old, new))
                continue
            taken.discard(old)
            taken.add(new)
            yield old, new
        if len(later) == len(left):
            yield from later
            return
        left = later


def _reason(error: ClientError | Unsendable) -> str:
    return error.message if isinstance(error, ClientError) else str(error)


def _counts(summary: ImportSummary) -> dict[str, Any]:
    names = ("created", "updated", "unchanged", "moved", "deleted")
    lists: Mapping[str, Any] = {
        "failed": summary.failed,
        "unreadable": summary.unreadable,
        "not_taken": summary.not_taken,
    }
    return {
        "end": summary.end,
        **{name: getattr(summary, name) for name in names},
        **{name: len(found) for name, found in lists.items()},
    }


def _no_files_error(fetched: Fetched) -> SourceFailed:
    """Return the error for a first fetch that found no file."""
    why = [f"{one.address} {one.reason}" for one in fetched.not_taken[:3]]
    return SourceFailed("; ".join(why) or "there is no file to import")


def _not_fetched(error: SourceFailed) -> NotFetched:
    return NotFetched(grpc.StatusCode.FAILED_PRECONDITION, str(error), "NOT_FETCHED")
