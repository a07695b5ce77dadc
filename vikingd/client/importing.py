"""The import of drafts: changed ones are sent, missing ones removed. It shows nothing."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import grpc

from vikingd.client.domain import entry_of, micros
from vikingd.client.errors import ClientError
from vikingd.client.interrupts import held_back
from vikingd.client.messages import MessageClient
from vikingd.client.removing import MAX_DELETES, delete_in_parts
from vikingd.client.requests import context_input
from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Draft, Entry
from vikingd.domain.text import without_layout
from vikingd.ingest.files import Unreadable
from vikingd.ingest.frontmatter import fault
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.masks import ALL
from vikingd.ingest.written import is_written
from vikingd.pb.contexts_pb2 import PUT_OUTCOME_UNCHANGED, ContextInput, PutResponse

MAX_COUNT = 100  # contexts of a batch; small batches let reading and writing overlap
MAX_BYTES = 3 << 20  # below the daemon's limits.max_message_bytes
IN_FLIGHT = 3
_FAULTY = re.compile(r"contexts\[(\d+)\]")

Item: TypeAlias = Draft | Unreadable | Linked


@dataclass(frozen=True, slots=True)
class Failure:
    """A context and its fault."""

    uri: str
    reason: str


@dataclass(slots=True)
class ImportSummary:
    """The result of an import, or with `dry_run` of its plan.

    Attributes:
        end: "done", "interrupted" or "failed".
        linked: number of links that exist now, new or not.
        revision: first revision with all changes; 0 if nothing was sent.
        planned: (change, URI) of each change that a dry run would make.
        unreadable: files and lines that were not imported.
        failed: contexts that the daemon refused.
        as_text: imported files whose front matter is invalid and became text.
    """

    end: str = "failed"
    dry_run: bool = False
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    linked: int = 0
    revision: int = 0
    seconds: float = 0.0
    unreadable: list[Unreadable] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    as_text: list[Failure] = field(default_factory=list)
    planned: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Present:
    is_directory: bool
    content_hash: bytes
    time: int


@dataclass(slots=True)
class _Sent:
    """The result of a batch."""

    reply: PutResponse | None = None
    contexts: list[ContextInput] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    unreachable: ClientError | None = None


class _Cancelled(Exception):
    """Another thread ended the import."""


class Importer:
    """One import below one URI.

    Args:
        client: a client of the daemon.
        top: URI that all drafts are within.
        delete: True to remove stored contexts below `top` that are not among the drafts.
        dry_run: True to change nothing.
        cancelled: an event that ends the import.
    """

    def __init__(
        self,
        client: MessageClient,
        top: str,
        *,
        delete: bool = False,
        dry_run: bool = False,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.summary = ImportSummary(dry_run=dry_run)
        self._client = client
        self._top = top
        self._delete = delete
        self._cancelled = cancelled or threading.Event()
        self._advance: Callable[[int], None]
        self._present: dict[str, _Present] = {}
        self._seen: set[str] = set()
        self._links: list[Linked] = []
        self._pending: set[Future[_Sent]] = set()

    def run(self, items: Iterable[Item], advance: Callable[[int], None]) -> None:
        """Import all items; Ctrl-C ends the import after the batches in flight.

        Args:
            items: drafts, links and faults, in order.
            advance: called with the number of items that were just finished.

        Raises:
            ClientError: the daemon cannot be reached; `summary` has the acknowledged changes.
        """
        self._advance = advance
        started = time.monotonic()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            try:
                self._present = dict(self._read_present())
                for batch in _batches(self._changed(items)):
                    if len(self._pending) == IN_FLIGHT:
                        self._collect(wait(self._pending, return_when=FIRST_COMPLETED).done)
                    with held_back():
                        self._pending.add(pool.submit(self._put, batch))
                self._collect(wait(self._pending).done)
                self._check_cancelled()
                if self._delete:
                    self._remove(self._gone())
                self._link()
                self.summary.end = "done"
            except (KeyboardInterrupt, _Cancelled):
                self.summary.end = "interrupted"
            finally:
                self._collect(wait(self._pending).done)
                self.summary.seconds = time.monotonic() - started

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise _Cancelled

    def _read_present(self) -> Iterator[tuple[str, _Present]]:
        try:
            for context in self._client.tree(self._top):
                yield (
                    context.uri,
                    _Present(context.is_directory, context.content_hash, micros(context.time)),
                )
        except ClientError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise

    def _changed(self, items: Iterable[Item]) -> Iterator[ContextInput]:
        """Yield the contexts to send; other items are finished here."""
        for item in items:
            self._check_cancelled()
            if isinstance(item, Linked):
                self._links.append(item)
                continue
            if isinstance(item, Draft):
                if not item.metadata and (reason := _fault(item)):
                    self.summary.as_text.append(Failure(item.uri, reason))
                draft = self._with_news(item) if item.uri in self._present else item
                if self._must_send(draft):
                    # An emptied file must be empty in the store too.
                    if not draft.content and draft.uri in self._present:
                        draft = replace(draft, update_mask=[ALL])
                    yield context_input(draft)
                    continue
            else:
                self.summary.unreadable.append(item)
            self._advance(1)

    def _with_news(self, draft: Draft) -> Draft:
        """Return the draft with the states of those memories only that exceed the stored ones.

        So counts since an export are kept, and nothing is sent for known states.
        """
        if draft.passages is None or not any(p.entry for p in draft.passages):
            return draft
        try:
            context = self._client.get(draft.uri).context
        except ClientError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            return draft
        known: dict[str, deque[Entry]] = defaultdict(deque)
        for passage in context.passages:
            if passage.HasField("memory"):
                text = context.content[passage.start : passage.end]
                known[without_layout(text)].append(entry_of(passage.memory))
        passages = []
        for one in draft.passages:
            of_text = known[without_layout(draft.content[one.start : one.end])]
            if of_text and (old := of_text.popleft()) and one.entry:
                more = _more(one.entry, old)
                one = replace(one, entry=None if more == replace(old, id=0) else more)
            passages.append(one)
        return replace(draft, passages=tuple(passages))

    def _must_send(self, draft: Draft) -> bool:
        summary = self.summary
        if not uris.is_within(draft.uri, self._top):
            summary.failed.append(Failure(draft.uri, f"is not below {self._top}"))
            return False
        self._seen.add(draft.uri)
        if not self._makes_way(draft):
            return False
        present = self._present.get(draft.uri)
        has_news = any(passage.entry for passage in draft.passages or ())
        if present and not has_news and is_written(draft, present.content_hash, present.time):
            summary.unchanged += 1
            return False
        if not summary.dry_run:
            return True
        summary.planned.append(("update" if present else "create", draft.uri))
        if present:
            summary.updated += 1
        else:
            summary.created += 1
        return False

    def _makes_way(self, draft: Draft) -> bool:
        """Return True if no stored file is in the place of a directory, and vice versa."""
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
        """Return the outermost stored contexts that are not among the items.

        Contexts that could not be read are kept.
        """
        unread = {item.uri for item in self.summary.unreadable if item.uri}
        kept = self._seen | unread | {self._top}
        kept.update(*map(uris.ancestors, self._seen | unread))
        gone: list[str] = []
        for uri in sorted(self._present, key=lambda uri: uri.split("/")):
            if uri in kept or not unread.isdisjoint(uris.ancestors(uri)):
                continue
            if not gone or not uris.is_within(uri, gone[-1]):
                gone.append(uri)
        return gone

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
        """Make the links with both ends among the drafts."""
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

    def _put(self, contexts: list[ContextInput]) -> _Sent:
        """Send a batch; contexts that the daemon refuses are left out, and the others sent again.

        A batch that is too large for one request is sent in two parts.
        """
        sent = _Sent()
        while contexts:
            try:
                sent.reply = self._client.put(contexts)
                sent.contexts = contexts
                break
            except ClientError as error:
                at = _faulty(error)
                if at is not None:
                    sent.failed.append(Failure(contexts[at].uri, error.message))
                    contexts = contexts[:at] + contexts[at + 1 :]
                    continue
                if len(contexts) > 1 and _is_too_much(error):
                    half = len(contexts) // 2
                    return _together(sent, self._put(contexts[:half]), self._put(contexts[half:]))
                sent.failed += [Failure(context.uri, error.message) for context in contexts]
                sent.unreachable = error if error.code is grpc.StatusCode.UNAVAILABLE else None
                break
        return sent

    def _collect(self, done: set[Future[_Sent]]) -> None:
        self._pending -= done
        results = [future.result() for future in done]
        for sent in results:
            self._count(sent)
        for sent in results:
            if sent.unreachable:
                raise sent.unreachable

    def _count(self, sent: _Sent) -> None:
        summary = self.summary
        summary.failed += sent.failed
        self._advance(len(sent.contexts) + len(sent.failed))
        if sent.reply is None:
            return
        summary.revision = max(summary.revision, sent.reply.revision)
        for context, outcome in zip(sent.contexts, sent.reply.outcomes, strict=True):
            # A directory that another batch created implicitly is new as well.
            if context.uri not in self._present:
                summary.created += 1
            elif outcome == PUT_OUTCOME_UNCHANGED:
                summary.unchanged += 1
            else:
                summary.updated += 1


def _batches(contexts: Iterable[ContextInput]) -> Iterator[list[ContextInput]]:
    """Yield batches of at most MAX_COUNT contexts; several have at most MAX_BYTES together."""
    batch: list[ContextInput] = []
    size = 0
    for context in contexts:
        more = context.ByteSize()
        if batch and (len(batch) == MAX_COUNT or size + more > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(context)
        size += more
    if batch:
        yield batch


def _fault(draft: Draft) -> str:
    """Return why the front matter of a Markdown file became text; "" if it did not."""
    return fault(draft.content) if kind_of(uris.name(draft.uri)) is Kind.MARKDOWN else ""


def _is_too_much(error: ClientError) -> bool:
    """Return True if the parts of a batch may succeed."""
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return not error.reason  # gRPC refused the size of the message
    return any(violation.field == "contexts" for violation in error.field_violations)


def _together(*parts: _Sent) -> _Sent:
    """Return the result of a batch that was sent in parts."""
    replies = [part.reply for part in parts if part.reply]
    return _Sent(
        PutResponse(
            revision=max(reply.revision for reply in replies),
            outcomes=[outcome for reply in replies for outcome in reply.outcomes],
        )
        if replies
        else None,
        [context for part in parts for context in part.contexts],
        [failure for part in parts for failure in part.failed],
        next((part.unreachable for part in parts if part.unreachable), None),
    )


def _faulty(error: ClientError) -> int | None:
    """Return the index of the context that the daemon refuses; None if it names none."""
    for violation in error.field_violations:
        if found := _FAULTY.match(violation.field):
            return int(found[1])
    return None


def _more(given: Entry, known: Entry) -> Entry:
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
