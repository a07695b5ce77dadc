"""The interface of a store that accepts writes."""

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
"""The most contexts, passages and long texts, counted together, that one call writes."""

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
        """The last commit: the store's id, its epoch and its revision."""

    @abstractmethod
    def why_unusable(self, point: Point) -> str:
        """Return the reason why an index written at this point cannot be used; "" if it can."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """The revision of the last commit."""

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """The number of components of a vector; None until the first one is written."""

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
        done. The next commit may be written at the same time. If `on_commit` raises, the store
        accepts no more writes, and `failure` gives the reason.
        """

    @property
    @abstractmethod
    def history(self) -> History:
        """The history of the store as this process knows it; nothing is read."""

    @abstractmethod
    def read_history(self) -> History:
        """Read the history from the store.

        Raises:
            StoreAway: the database cannot be reached.
        """

    @property
    @abstractmethod
    def origin(self) -> tuple[str, str]:
        """The store id and the epoch of the last commit of this process."""

    def put(
        self, contexts: Sequence[Prepared | Masked | PutRefusal], *, partial: bool = False
    ) -> Future[Committed]:
        """Write contexts, all or none, and make the missing directories above them.

        With `partial`, contexts with one of the first three errors are refused, and the others are
        written. Contexts may also have been refused before the call.

        Fails with:
            InvalidField: a URI names a directory where a file is written, or the reverse; it is
                below a file; or it occurs twice. A vector has another dimension. A draft without a
                mask would empty a file.
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
        """Delete contexts with everything below them; `count` is the number of deleted contexts.

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
        """Delete all directories without fields, links and children, in several commits.

        Returns:
            The number of deleted directories. Other writes may come between the commits.
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
        """Rename a context with everything below it; `count` is the number of renamed contexts.

        Fails with:
            NotFound: the source does not exist.
            AlreadyExists: the destination exists.
            RevisionDiffers: the source has another revision.
            InvalidField: a URI is a root such as viking://resources or above one, or the
                destination is below the source.
            TooLarge: the subtree is too large for one call.
        """
        return self._writer.submit(
            lambda work: move(work, source, destination, expected_revision), size=_MOVE_SIZE
        )

    def link(self, uri: str, other: str, reason: str) -> Future[Committed]:
        """Link two contexts, or replace the reason; fails with NotFound and InvalidField."""
        return self._writer.submit(lambda work: link(work, uri, other, reason))

    def unlink(self, uri: str, other: str) -> Future[Committed]:
        """Remove the link between two contexts; fails with NotFound if there is none."""
        return self._writer.submit(lambda work: unlink(work, uri, other))

    def rewrite(
        self,
        rewrites: Mapping[str, Rewrite] | Sequence[tuple[str, Rewrite]],
        once: Once | None = None,
    ) -> Future[Committed]:
        """Apply each rewrite to the memory files of a series, in order: all or none.

        The URI is that of the first file of the series. `rewrites` may name a series several times;
        a later rewrite sees the changes of earlier ones.

        With `once`, a repeated request changes nothing, and `reply` is the reply to the first one.
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
        """Apply a rewrite to each file that contains one of these memories, if it may be written.

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
        """Add `by` to the reinforcement of memories, given by id, and count an access of each.

        An access of each memory in `used` is counted, too. For `once` see `rewrite`. Fails with
        NotFound and PermissionDenied as `rewrite_holders`; memories in `used` need only be
        readable.
        """
        return self._writer.submit(
            lambda work: run_once(work, once, lambda: reinforce(work, ids, by, caller, used))
        )

    def touch(self, accesses: Mapping[int, int]) -> Future[Committed]:
        """Add counts of accesses, by memory id; `count` is the number of memories found."""
        return self._writer.submit(lambda work: touch(work, accesses), bounded=False)

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
    ) -> Future[Committed]:
        """Write vectors of texts by text id; `count` is the number of vectors written.

        `digests` has a digest for each text whose vector equal texts may reuse. `meta` has values
        for `get_meta`, which are stored in the same commit.
        Fails with InvalidField if a vector has another dimension.
        """
        return self._writer.submit(
            lambda work: fill(work, vectors, digests or {}, meta or {}),
            weight=len(vectors),
            bounded=False,
        )

    def drop_vectors(self, uri: str, after: str = "") -> Future[Committed]:
        """Remove the vectors of one part of a subtree, so that its texts are embedded again.

        The part begins after the URI `after`, or with the first context. `count` is the number of
        vectors; `last` is the `after` for the next part, "" at the end. Fails with NotFound.
        """
        return self._writer.submit(lambda work: drop_vectors(work, uri, after), size=_DROP_SIZE)

    def describe(
        self, descriptions: Sequence[Description], meta: Mapping[str, bytes] | None = None
    ) -> Future[Committed]:
        """Write abstracts and overviews by a model; `count` is the number of contexts written.

        `meta` has values for `get_meta`, which are stored in the same commit.

        A context that was changed or deleted after the model read it is skipped, and so is a
        damaged one. An abstract or overview that a user wrote stays. If the model's text is "", the
        abstract becomes an extract of the content again. Nothing else of the context changes,
        neither its revision nor its hash and times. `text_ids` has the new texts that wait for
        their vector.

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
        """Return the disk space of deleted contexts to the system; return the freed bytes.

        0 for a database server, which does this by itself.

        Raises:
            DiskFull: the disk has no room for a step of it.
            StoreDamaged, StoreFailed: the database cannot be changed.
        """
        return 0

    def drop_damaged(self, text_ids: Sequence[int]) -> Future[Committed]:
        """Remove the damaged vectors of these texts, so that the texts are embedded again."""
        return self._writer.submit(lambda work: drop_damaged(work, text_ids), bounded=False)

    @abstractmethod
    def forget_removals(self, up_to_revision: int) -> None:
        """Delete the records of contexts removed up to this revision.

        `changes_since` cannot start from an earlier revision afterwards.
        """

    def set_meta(self, key: str, value: bytes) -> None:
        """Store a value under a key that does not begin with "store."; adds no revision."""
        self._writer.run(lambda db: db.set_meta({key: value}))

    @abstractmethod
    def close(self) -> None:
        """Finish the submitted writes, then close the store; a second call does nothing."""


def _size(context: Prepared | Masked | PutRefusal) -> int:
    if isinstance(context, PutRefusal):
        return 1
    if isinstance(context, Masked):
        return 1 + len(context.cut or ()) + len(context.draft.content) // CHARACTERS
    return 1 + len(context.texts) + sum(len(text.text) for text in context.texts) // CHARACTERS
