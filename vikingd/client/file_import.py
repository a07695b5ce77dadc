"""The import of files: it sends changed contexts and removes missing ones. It prints nothing."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import grpc

from vikingd.client.batch_results import BatchResult, Failure
from vikingd.client.batches import batches, encoded, put_in_parts
from vikingd.client.client_errors import ClientError, NotFound
from vikingd.client.import_summary import ImportSummary
from vikingd.client.interrupts import delayed_interrupts
from vikingd.client.messages import MessageClient
from vikingd.client.multi_call_steps import run
from vikingd.client.replies import entry_of, micros
from vikingd.client.subtree_removal import MAX_DELETES, delete_in_parts, outermost
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Entry
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Linked
from vikingd.domain.text import without_layout
from vikingd.ingest.file_kind_names import DESCRIBING
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.ingest.file_tree import uri_of_a_context
from vikingd.ingest.files import find_files, read_files
from vikingd.ingest.frontmatter import faults
from vikingd.ingest.import_remarks import (
    Remark,
    Unreadable,
)
from vikingd.ingest.jsonl import count_lines, is_jsonl, read_jsonl
from vikingd.ingest.masks import ALL
from vikingd.ingest.original_draft import is_written
from vikingd.ingest.selected_files import NOT_INCLUDED, Selection
from vikingd.pb.contexts_pb2 import PUT_OUTCOME_UNCHANGED, ContextInput
from vikingd.pb.contexts_pb2 import Context as StoredContext

IN_FLIGHT = 3

Item: TypeAlias = Draft | Unreadable | Linked | Remark


@dataclass(frozen=True, slots=True)
class _Present:
    is_directory: bool
    content_hash: bytes
    time: int


class Importer:
    """One import below one URI: the import writes drafts, and then links between them.

    A draft is a context to write. A link says why one context leads to another (see `Linked`).

    Args:
        client: a connection to the daemon.
        top: a URI; all drafts must be at it or below it.
        delete: remove the stored contexts below `top` that are not among the drafts.
        dry_run: change nothing.
        cancelled: an event that ends the import.
        stored: returns the stored contexts to compare with; None: all of `top`.
        may_remove: returns True for a URI that `delete` may remove; None: any URI below `top`.

    Attributes:
        summary: the result so far.
        error: the first failure that is not due to a context.
    """

    def __init__(
        self,
        client: MessageClient,
        top: str,
        *,
        delete: bool = False,
        dry_run: bool = False,
        cancelled: threading.Event | None = None,
        stored: Callable[[], Iterable[StoredContext]] | None = None,
        may_remove: Callable[[str], bool] | None = None,
    ) -> None:
        self.error: ClientError | None = None
        self.summary = ImportSummary(dry_run=dry_run)
        self._client = client
        self._top = top
        self._delete = delete
        self._cancelled = cancelled or threading.Event()
        self._stored = stored or (lambda: client.tree(top))
        self._may_remove = may_remove or (lambda _: True)
        self._advance: Callable[[int], None]
        self._present: dict[str, _Present] = {}
        self._seen: set[str] = set()
        self._links: list[Linked] = []
        self._pending: set[Future[BatchResult]] = set()

    def run(self, items: Iterable[Item], advance: Callable[[int], None]) -> None:
        """Import all items; Ctrl-C ends the import after the batches in flight.

        Args:
            items: drafts, links and unreadable files, in order.
            advance: called with the number of items that were just finished.

        Raises:
            ClientError: the daemon cannot be reached; `summary` has the acknowledged changes.
        """
        self._advance = advance
        started = time.monotonic()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            try:
                self._read_present()
                for batch in batches(self._changed(items)):
                    if len(self._pending) == IN_FLIGHT:
                        self._collect(wait(self._pending, return_when=FIRST_COMPLETED).done)
                    with delayed_interrupts():
                        self._pending.add(pool.submit(run, self._client, put_in_parts(batch)))
                self._collect(wait(self._pending).done)
                self._check_cancelled()
                self.summary.kept = self._stored_but_left_out()
                if self._delete:
                    gone = self._gone()
                    self._no_longer_described(gone)
                    self._remove(gone)
                self._link()
                self.summary.end = "done"
            except (KeyboardInterrupt, CancelledError):
                self.summary.end = "interrupted"
            finally:
                self._collect(wait(self._pending).done)
                self.summary.seconds = time.monotonic() - started

    @property
    def remaining(self) -> Collection[str]:
        """The URIs of the stored contexts that this import has listed and has not removed."""
        return self._present.keys()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():  # another thread sets it
            raise CancelledError

    def _read_present(self) -> None:
        with suppress(NotFound):
            for context in self._stored():
                self._present[context.uri] = _Present(
                    context.is_directory, context.content_hash, micros(context.time)
                )

    def _changed(self, items: Iterable[Item]) -> Iterator[ContextInput]:
        """Yield the contexts to send, and count or list all other items."""
        for item in items:
            self._check_cancelled()
            if isinstance(item, Linked):
                self._links.append(item)
                continue
            if isinstance(item, Remark):
                self.summary.tell(item)
                continue
            message = None
            if isinstance(item, Draft):
                message = self._compared(item)
            else:
                self.summary.unreadable.append(item)
            if message is None:
                self._advance(1)
            else:
                yield message

    def _compared(self, draft: Draft) -> ContextInput | None:
        """Return the message to send for a draft; None if the store has it already."""
        summary = self.summary
        if syntax_of(uris.name(draft.uri)) is Syntax.MARKDOWN:
            summary.as_text += (Failure(draft.uri, why) for why in faults(draft.content))
        if not uris.is_within(draft.uri, self._top):
            summary.failed.append(Failure(draft.uri, f"is not below {self._top}"))
            return None
        self._seen.add(draft.uri)
        if not self._place_is_free(draft):
            return None
        present = self._present.get(draft.uri)
        if present:
            draft = self._without_stored_states(draft)
            has_news = any(passage.entry for passage in draft.passages or ())
            if not has_news and is_written(draft, present.content_hash, present.time):
                summary.unchanged += 1
                return None
        if summary.dry_run:
            summary.planned.append(("update" if present else "create", draft.uri))
            summary.updated += present is not None
            summary.created += present is None
            return None
        if present and not draft.content:
            # A file that has become empty must be empty in the store too.
            draft = replace(draft, update_mask=[ALL])
        return encoded(draft, summary.failed)

    def _without_stored_states(self, draft: Draft) -> Draft:
        """Drop the counters and times of memories that the store has already; return the draft.

        Other counters and times are merged with the stored ones: the higher counters, the later
        time and the earlier creation time are kept.
        """
        if draft.passages is None or not any(p.entry for p in draft.passages):
            return draft
        try:
            context = self._client.get(draft.uri).context
        except NotFound:
            return draft
        known: dict[str, deque[Entry]] = defaultdict(deque)
        for passage in context.passages:
            if entry := entry_of(passage):
                text = context.content[passage.start : passage.end]
                known[without_layout(text)].append(entry)
        passages = []
        for one in draft.passages:
            of_text = known[without_layout(draft.content[one.start : one.end])]
            if of_text and (old := of_text.popleft()) and one.entry:
                more = _merged_states(one.entry, old)
                one = replace(one, entry=None if more == replace(old, id=0) else more)
            passages.append(one)
        return replace(draft, passages=tuple(passages))

    def _place_is_free(self, draft: Draft) -> bool:
        """Return True unless a stored file is in the place of a needed directory, or the reverse.

        With `delete` such a context is removed; otherwise the draft is listed as failed.
        """
        for uri in (*uris.ancestors(draft.uri), draft.uri):
            present = self._present.get(uri)
            if present and present.is_directory != (uri != draft.uri or draft.is_directory):
                if not self._delete:
                    kind = "directory" if present.is_directory else "file"
                    reason = f"{uri} is a {kind} in the store; --delete replaces it"
                    self.summary.failed.append(Failure(draft.uri, reason))
                    return False
                self._remove([uri])
        return True

    def _gone(self) -> list[str]:
        """Return the topmost stored contexts that are not among the items.

        Contexts whose files could not be read or are left out are kept, and so are the directories
        of kept contexts.
        """
        unread = {item.uri for item in self.summary.unreadable if item.uri}
        unread.update(self.summary.kept)
        kept = self._seen | unread | {self._top}
        kept.update(uri for uri in self._present if not self._may_remove(uri))
        kept.update(*map(uris.ancestors, list(kept)))
        return outermost(
            uri
            for uri in self._present
            if uri not in kept and unread.isdisjoint(uris.ancestors(uri))
        )

    def _no_longer_described(self, gone: Collection[str]) -> None:
        """Clear the abstracts of directories whose describing file, such as a README, is removed.

        An abstract that differs from that of the file stays, since somebody else wrote it.
        """
        drafts = []
        for uri in gone:
            directory = uris.parent(uri)
            if uris.name(uri) not in DESCRIBING or directory not in self._present:
                continue
            if directory in self._seen:
                continue
            said, described = (self._client.get(one).context for one in (uri, directory))
            if described.abstract and described.abstract == said.abstract:
                drafts.append(Draft(directory, is_directory=True))
        messages = filter(None, map(self._compared, drafts))
        for batch in batches(messages):
            self._count(run(self._client, put_in_parts(batch)))

    def _stored_but_left_out(self) -> list[str]:
        """Return the topmost stored contexts whose files still exist but are now left out.

        A file that `include` does not match may belong to another import; it counts only with
        `delete`.
        """
        out = {
            item.uri
            for item in self.summary.left_out
            if item.uri and (self._delete or item.rule != NOT_INCLUDED)
        } - self._seen
        return outermost(
            uri
            for uri in self._present
            if uri not in self._seen and not out.isdisjoint((uri, *uris.ancestors(uri)))
        )

    def _remove(self, gone: list[str]) -> None:
        for start in range(0, len(gone), MAX_DELETES):
            some = gone[start : start + MAX_DELETES]
            removed = set(some)
            below = [u for u in self._present if not removed.isdisjoint((u, *uris.ancestors(u)))]
            if self.summary.dry_run:
                self.summary.planned += [("delete", uri) for uri in below]
                self.summary.deleted += len(below)
            else:
                for reply in delete_in_parts(self._client, some, allow_missing=True):
                    self.summary.deleted += reply.deleted
                    self.summary.revision = max(self.summary.revision, reply.revision)
            for uri in below:
                del self._present[uri]

    def _link(self) -> None:
        """Create the links between contexts whose drafts were among the items of the import.

        A link with an end outside of them is left out. One that the daemon refuses is in
        `summary.failed`.

        Raises:
            ClientError: the daemon cannot be reached.
        """
        for link in self._links:
            if self.summary.dry_run or not {link.uri, link.other} <= self._seen:
                continue
            try:
                reply = self._client.link(link.uri, link.other, link.reason)
            except ClientError as error:
                if error.code is grpc.StatusCode.UNAVAILABLE:
                    raise
                self.summary.failed.append(Failure(link.uri, error.message))
            else:
                self.summary.linked += 1
                self.summary.revision = max(self.summary.revision, reply.revision)

    def _collect(self, done: set[Future[BatchResult]]) -> None:
        self._pending -= done
        results = [future.result() for future in done]
        for sent in results:
            self._count(sent)
        for sent in results:
            self.error = self.error or sent.error
            if sent.error and sent.error.code is grpc.StatusCode.UNAVAILABLE:
                raise sent.error

    def _count(self, sent: BatchResult) -> None:
        summary = self.summary
        summary.failed += sent.failed
        self._advance(len(sent.written) + len(sent.failed))
        summary.revision = max(summary.revision, sent.revision)
        for uri, outcome in sent.written:
            # A directory is new too if another batch created it implicitly.
            if uri not in self._present:
                summary.created += 1
            elif outcome == PUT_OUTCOME_UNCHANGED:
                summary.unchanged += 1
            else:
                summary.updated += 1


def items_of(
    path: Path, uri: str, selection: Selection, *, delete: bool
) -> tuple[str, Iterator[Item], int]:
    """Return the top URI, the items and an estimate of their number, for an import to `uri`.

    Raises:
        InvalidField: `uri`, `path`, `delete` or a part of `selection` is invalid; the error names
            it.
    """
    lines = is_jsonl(path)
    if not uri and not lines:
        raise InvalidField("uri", "is required, since PATH has no JSON lines")
    if delete and (not uri or (path.is_file() and not lines)):
        raise InvalidField("delete", "needs a directory or JSON lines, and a URI")
    top = uris.parse(uri or uris.ROOT)
    selection.check_for(is_directory=not lines and path.is_dir(), is_of_files=not lines)
    if lines:
        return top, _read_lines(path, top), count_lines(path)
    tree = find_files(path, uri, selection)
    if path.is_file():
        top = uri_of_a_context(tree.uri) or top  # no other context is compared
    return top, read_files(tree), len(tree.stamps)


def _read_lines(path: Path, top: str) -> Iterator[Item]:
    """Yield the items of JSON lines; an unreadable line without a URI gets the URI `top`."""
    for item in read_jsonl(path):
        lost = isinstance(item, Unreadable) and not item.uri
        yield replace(item, uri=top) if lost else item


def _merged_states(given: Entry, known: Entry) -> Entry:
    """Merge two states of a memory: the higher counters, the later time, the earlier creation."""
    times = [time for time in (given.time, known.time) if time is not None]
    created = [time for time in (given.created_at, known.created_at) if time is not None]
    return Entry(
        0,
        max(given.reinforcement, known.reinforcement),
        max(given.access_count, known.access_count),
        max(times, default=None),
        min(created, default=None),
    )
