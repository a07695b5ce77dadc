"""Imports drafts: sends what changed, removes what is gone. It shows nothing by itself."""

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
from vikingd.domain.model import Draft, Entry, Linked
from vikingd.domain.text import without_layout
from vikingd.ingest.files import Unreadable
from vikingd.ingest.frontmatter import fault
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.masks import ALL
from vikingd.ingest.records import stands
from vikingd.pb.contexts_pb2 import PUT_OUTCOME_UNCHANGED, ContextInput, PutResponse

MAX_COUNT = 100  # the daemon takes more; small ones keep reading and writing side by side
MAX_BYTES = 3 << 20  # below the daemon's limits.max_message_bytes
IN_FLIGHT = 3
_FAULTY = re.compile(r"contexts\[(\d+)\]")

Item: TypeAlias = Draft | Unreadable | Linked


@dataclass(frozen=True, slots=True)
class Failure:
    """A context, and what is wrong with it."""

    uri: str
    reason: str


@dataclass(slots=True)
class ImportSummary:
    """The summary of an import; with `dry_run`, of what it would do.

    Attributes:
        end: "done", "interrupted" or "failed".
        linked: links that hold now, whether they are new or not.
        revision: from which on it is seen; 0 when nothing was sent.
        planned: (change, URI) for each that a dry run would make.
        unreadable: what was not imported.
        failed: what the daemon refused.
        as_text: what was imported, but whose front matter says nothing, as it can't be taken.
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
    """The outcome of a batch."""

    reply: PutResponse | None = None
    contexts: list[ContextInput] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    unreachable: ClientError | None = None


class _Cancelled(Exception):
    """Somebody else ended the import."""


class Importer:
    """One import below one URI.

    Args:
        client: of the daemon.
        top: all drafts lie below it, or are it.
        delete: remove what lies below it and is not among the drafts.
        dry_run: change nothing.
        cancelled: once it is set, nothing more is begun.
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
        """Imports all items; Ctrl-C ends it after the batches that are in flight.

        Args:
            items: what to import.
            advance: told the number of items that were just dealt with.

        Raises:
            ClientError: when the daemon cannot be reached; what it acknowledged is in `summary`.
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
        """Return the drafts that must be sent; count the others."""
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
                    # A file that was emptied is to be empty in the store too.
                    if not draft.content and draft.uri in self._present:
                        draft = replace(draft, update_mask=[ALL])
                    yield context_input(draft)
                    continue
            else:
                self.summary.unreadable.append(item)
            self._advance(1)

    def _with_news(self, draft: Draft) -> Draft:
        """Return the draft of a known file with only those memories that know more than the store.

        What was counted since an export stays counted, and nothing is sent for what is known.
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
            summary.failed.append(Failure(draft.uri, f"does not lie below {self._top}"))
            return False
        self._seen.add(draft.uri)
        if not self._makes_way(draft):
            return False
        present = self._present.get(draft.uri)
        has_news = any(passage.entry for passage in draft.passages or ())
        if present and not has_news and stands(draft, present.content_hash, present.time):
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
        """Return whether files and directories do not collide."""
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
        """Return the contexts that are not among the items, without those below another one.

        What could not be read is not gone.
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
        """Make the links between two of the drafts."""
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
        """Send a batch without the contexts that the daemon refuses.

        A batch that is too much for one request is sent in two.
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
            # A directory that came into being with a file of another batch is new as well.
            if context.uri not in self._present:
                summary.created += 1
            elif outcome == PUT_OUTCOME_UNCHANGED:
                summary.unchanged += 1
            else:
                summary.updated += 1


def _batches(contexts: Iterable[ContextInput]) -> Iterator[list[ContextInput]]:
    """Yield lists of at most MAX_COUNT contexts; two or more have at most MAX_BYTES."""
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
    """Return why the front matter of a Markdown file counts as text; "" if it does not."""
    return fault(draft.content) if kind_of(uris.name(draft.uri)) is Kind.MARKDOWN else ""


def _is_too_much(error: ClientError) -> bool:
    """Return whether the parts of a batch may be accepted one by one."""
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return not error.reason  # gRPC refused the size of the message
    return any(violation.field == "contexts" for violation in error.field_violations)


def _together(*parts: _Sent) -> _Sent:
    """Return the outcome of a batch that was sent in parts."""
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
    """Return the context of a batch that the daemon refuses."""
    for violation in error.field_violations:
        if found := _FAULTY.match(violation.field):
            return int(found[1])
    return None


def _more(given: Entry, known: Entry) -> Entry:
    """Merge two states of a memory: the higher counters and the earlier creation."""
    times = [time for time in (given.time, known.time) if time is not None]
    created = [time for time in (given.created_at, known.created_at) if time is not None]
    return Entry(
        0,
        max(given.reinforcement, known.reinforcement),
        max(given.access_count, known.access_count),
        max(times, default=None),
        min(created, default=None),
    )
