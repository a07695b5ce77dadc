"""The writes of a store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from vikingd.domain.contexts import Prepared
from vikingd.domain.description import Description
from vikingd.domain.errors import TooLarge
from vikingd.domain.rights import LOCAL, Caller
from vikingd.domain.store_changes import Committed, Once, PutRefusal
from vikingd.ingest.masks import Masked
from vikingd.memory.memory_file_series import Rewrite
from vikingd.store.history import History, Point
from vikingd.store.reads import Reads
from vikingd.store.writer import OnCommit, Writer
from vikingd.store.writes.context_writes import link, put, unlink
from vikingd.store.writes.description_writes import describe
from vikingd.store.writes.memory_writes import reinforce, rewrite, rewrite_holders, run_once, touch
from vikingd.store.writes.subtrees import CHARACTERS, delete, move, remove_empty
from vikingd.store.writes.vector_writes import drop_damaged, drop_vectors, fill

MAX_PUT = 65_536
"""Contexts, passages and long texts that one call writes, see CHARACTERS."""

_MAX_EMPTY = 1000  # directories that one commit removes

# Sizes of writes whose real size is unknown before they run; see Writer.submit.
_DELETE_SIZE, _MOVE_SIZE, _DROP_SIZE = 512, 2048, 2048


class WritableStore(Reads):
    """A store of contexts, texts, vectors and links, for any number of threads.

    A write returns a future. It is done when the commit is durable and `on_commit` has returned.
    It fails with the fault of the request, or with Overloaded if too many writes wait; then
    nothing of it is written.
    """

    _writer: Writer

    @property
    @abstractmethod
    def place(self) -> str:
        """The directory or the URL of the store, for messages."""

    @property
    @abstractmethod
    def point(self) -> Point:
        """The last commit: its revision, its epoch and the id of the store."""

    @abstractmethod
    def why_not(self, point: Point) -> str:
        """Return why an index that was written at a point does not belong here; "" if it does."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """The revision of the last commit."""

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """Numbers in a vector; None until it is known."""

    @property
    def failure(self) -> str:
        """The reason why writes are refused; "" while they are accepted."""
        return self._writer.failure

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only deletes are accepted."""
        return False

    @abstractmethod
    def start(self, on_commit: OnCommit) -> None:
        """Start to write; `on_commit` gets the changes of each commit and its revision.

        One thread calls it for one commit after the other, before the futures of the commit are
        done. The next commit may be written at the same time. If it raises, the store accepts no
        more writes, and `failure` gives the reason.
        """

    @property
    @abstractmethod
    def history(self) -> History:
        """The history as this process knows it, without a read of the store."""

    @abstractmethod
    def read_history(self) -> History:
        """Return the history as the store has it now.

        Raises:
            StoreAway: the database cannot be reached.
        """

    @property
    @abstractmethod
    def origin(self) -> tuple[str, str]:
        """The store and the epoch of the last commit of this process."""

    def put(
        self, contexts: Sequence[Prepared | Masked | PutRefusal], *, partial: bool = False
    ) -> Future[Committed]:
        """Write contexts, all or none, and make the missing directories above them.

        With `partial`, some may be refused already, and those with one of the first three errors
        are refused too; the others are written.

        Fails with:
            InvalidField: a URI belongs to the other kind of node, is below a file or occurs twice;
                a vector has another dimension; or a draft without a mask would empty a file.
            NotFound: the context of a masked draft does not exist.
            RevisionDiffers: a context has another revision than its draft expects.
            TooLarge: the contexts are too many for one call.
        """
        uris = [one.draft.uri for one in contexts if not isinstance(one, PutRefusal)]
        size = sum(map(_size, contexts))
        if size > MAX_PUT and len(contexts) > 1:
            refused: Future[Committed] = Future()
            refused.set_exception(
                TooLarge(
                    f"{len(contexts):,} contexts with {size - len(contexts):,} passages and long "
                    f"texts, one call writes at most {MAX_PUT:,} of these together: send fewer "
                    "contexts at a time",
                    contexts=str(len(contexts)),
                    limit=str(MAX_PUT),
                )
            )
            return refused
        return self._writer.submit(
            lambda work: put(work, contexts, partial=partial),
            weight=len(contexts),
            uris=uris,
            size=size,
        )

    def delete(
        self,
        uris: Sequence[str],
        expected_revision: int | None = None,
        *,
        allow_missing: bool = False,
    ) -> Future[Committed]:
        """Remove contexts with their subtrees; `count` is the number of removed contexts.

        Fails with:
            NotFound: a context is missing, and `allow_missing` is not set.
            RevisionDiffers: a context has another revision.
            InvalidField: the root is among them.
            TooLarge: the subtrees are too large for one call.
        """
        return self._writer.submit(
            lambda work: delete(work, uris, expected_revision, allow_missing=allow_missing),
            size=_DELETE_SIZE,
            frees=True,
        )

    def remove_empty_directories(self) -> int:
        """Remove all directories that are empty and have no field and no link of their own.

        Returns:
            The number of removed directories. Other writes have their turn between the parts.
        """
        removed = 0
        # Each pass may leave directories above it empty.
        while uris := self.empty_directories(_MAX_EMPTY):
            found = self._writer.submit(
                partial(remove_empty, uris=uris), size=_DELETE_SIZE, frees=True
            )
            if not (count := found.result().count):
                break  # others filled or removed them
            removed += count
        return removed

    def move(
        self, source: str, destination: str, expected_revision: int | None = None
    ) -> Future[Committed]:
        """Rename a subtree; `count` is the number of its contexts.

        Fails with:
            NotFound: the source does not exist.
            AlreadyExists: the destination exists.
            RevisionDiffers: the source has another revision.
            InvalidField: one of the URIs is not possible.
            TooLarge: the subtree is too large for one call.
        """
        return self._writer.submit(
            lambda work: move(work, source, destination, expected_revision), size=_MOVE_SIZE
        )

    def link(self, uri: str, other: str, reason: str) -> Future[Committed]:
        """Link two contexts, or replace the reason; fails with NotFound and InvalidField."""
        return self._writer.submit(lambda work: link(work, uri, other, reason))

    def unlink(self, uri: str, other: str) -> Future[Committed]:
        """Remove a link; fails with NotFound."""
        return self._writer.submit(lambda work: unlink(work, uri, other))

    def rewrite(
        self,
        rewrites: Mapping[str, Rewrite] | Sequence[tuple[str, Rewrite]],
        once: Once | None = None,
    ) -> Future[Committed]:
        """Apply each rewrite to the current state of its memory files, by URI: all or none.

        The URI is that of the first file of a series. A sequence may name one several times; a
        later rewrite sees the earlier ones.

        With `once`, a repeated request changes nothing, and `reply` is the reply of the first one.
        Fails with the errors of the rewrites and of `put`, and with InvalidField if a different
        request had the same id.
        """
        pairs = list(rewrites.items()) if isinstance(rewrites, Mapping) else rewrites
        return self._writer.submit(
            lambda work: run_once(work, once, lambda: rewrite(work, pairs)),
            uris=[uri for uri, _ in pairs],
        )

    def rewrite_holders(
        self, ids: Sequence[int], change: Rewrite, *, require_all: bool, caller: Caller = LOCAL
    ) -> Future[Committed]:
        """Apply a rewrite to each file that holds one of these memories and may be written.

        Fails as `rewrite`. If `require_all` is set, it fails with NotFound if a memory is missing
        or may not be read, and with PermissionDenied if one may be read, but not written.
        """
        return self._writer.submit(
            lambda work: rewrite_holders(work, ids, change, require_all=require_all, caller=caller)
        )

    def reinforce(
        self,
        ids: Sequence[int],
        by: int,
        once: Once | None = None,
        caller: Caller = LOCAL,
        used: Sequence[int] = (),
    ) -> Future[Committed]:
        """Raise the reinforcement of memories by their ids, and count the accesses of used ones.

        For `once` see `rewrite`. Fails with NotFound and PermissionDenied as `rewrite_holders`; of
        used memories the right to read is enough.
        """
        return self._writer.submit(
            lambda work: run_once(work, once, lambda: reinforce(work, ids, by, caller, used))
        )

    def touch(self, accesses: Mapping[int, int]) -> Future[Committed]:
        """Add accesses to memories by their ids; `count` is the number of those that exist."""
        return self._writer.submit(lambda work: touch(work, accesses), bounded=False)

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
    ) -> Future[Committed]:
        """Write the vectors of texts by text id; `count` is the number of those that waited.

        `digests` has the digests of those texts, by id, whose vectors equal texts may take. `meta`
        has values for `get_meta`, which are stored in the same commit.
        Fails with InvalidField if a vector has another dimension.
        """
        return self._writer.submit(
            lambda work: fill(work, vectors, digests or {}, meta or {}),
            weight=len(vectors),
            bounded=False,
        )

    def drop_vectors(self, uri: str, after: str = "") -> Future[Committed]:
        """Remove the vectors of one part of a subtree, so that its texts wait for new ones.

        The part begins after the URI `after`, or with the first context. `count` is the number of
        vectors; `last` is `after` of the next part, "" at the end. Fails with NotFound.
        """
        return self._writer.submit(lambda work: drop_vectors(work, uri, after), size=_DROP_SIZE)

    def describe(
        self, descriptions: Sequence[Description], meta: Mapping[str, bytes] | None = None
    ) -> Future[Committed]:
        """Write what a model says of contexts; `count` is the number of those that were written.

        `meta` has values for `get_meta`, which are stored in the same commit.

        A context that is gone or was changed since its material was read is left out, and so is a
        damaged one. An abstract and an overview that a person wrote stay; a text that is "" gives
        way to the derived one. Of the context nothing else changes, neither its revision nor its
        hash and times. `text_ids` has the new texts that wait for their vector.

        Fails with:
            InvalidField: a text is too long, or a URI is that of a file of memories.
        """
        return self._writer.submit(
            lambda work: describe(work, descriptions, meta or {}),
            weight=len(descriptions),
            uris=[description.uri for description in descriptions],
            size=2 * len(descriptions),
            bounded=False,
        )

    def give_back(self) -> int:
        """Give the space of deleted contexts back to the disk, and return the freed bytes.

        A database server does so by itself.

        Raises:
            DiskFull: the disk has no room for a step of it.
            StoreDamaged, StoreFailed: the database cannot be changed.
        """
        return 0

    def drop_damaged(self, text_ids: Sequence[int]) -> Future[Committed]:
        """Remove the damaged ones of these texts' vectors, so that they wait for new ones."""
        return self._writer.submit(lambda work: drop_damaged(work, text_ids), bounded=False)

    @abstractmethod
    def forget_removals(self, up_to_revision: int) -> None:
        """Drop the removals up to this revision, which `changes_since` then cannot give."""

    def set_meta(self, key: str, value: bytes) -> None:
        """Store a value under a key that does not begin with "store."; makes no revision."""
        self._writer.run(lambda db: db.set_meta({key: value}))

    @abstractmethod
    def close(self) -> None:
        """Finish the submitted writes, then release the store; a second call does nothing."""


def _size(context: Prepared | Masked | PutRefusal) -> int:
    if isinstance(context, PutRefusal):
        return 1
    if isinstance(context, Masked):
        return 1 + len(context.cut or ()) + len(context.draft.content) // CHARACTERS
    return 1 + len(context.texts) + sum(len(text.text) for text in context.texts) // CHARACTERS
