"""The part of an engine that lets a model write abstracts and overviews in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass

from vikingd.domain import cancellation
from vikingd.domain.errors import StoreDamaged
from vikingd.domain.store_changes import Change, Remove, Upsert
from vikingd.domain.uri import ROOT, parent, subtree_bounds
from vikingd.engine.description_material import Materials
from vikingd.engine.description_worker import DescriptionWorker
from vikingd.models.describe.describer import material_tokens
from vikingd.models.describe.describer_settings import DescriberSettings
from vikingd.models.describe.describer_thread import STOP, DescriberThread
from vikingd.store.reads.description_reads import DirectoryToDescribe, FileToDescribe
from vikingd.store.store_writes import WritableStore
from vikingd.telemetry.metrics import DescriberFigures, Metrics

_PAGE = 500  # contexts


@dataclass(frozen=True, slots=True)
class DescriberState:
    """The state of descriptions by a model, for Stats.

    Attributes:
        model: the name of the model; "" without one.
        backlog: the number of contexts that wait for a description.
        described: the number of contexts that were described since the start.
        refused: the number of contexts without a usable answer since the start.
        tokens_today: the tokens that were used today, by UTC.
        tokens_per_day: their limit; 0: none.
        last_error: why no context is described now: an error or a limit; "": none.
        retry_at: the time of the next attempt in microseconds since 1970-01-01 UTC; None if no
            attempt is planned.
    """

    model: str = ""
    backlog: int = 0
    described: int = 0
    refused: int = 0
    tokens_today: int = 0
    tokens_per_day: int = 0
    last_error: str = ""
    retry_at: int | None = None


class Describing:
    """Describes the contexts of a store in the background; see `DescriptionWorker`.

    Args:
        store: the store.
        thread: the thread that asks the model; other stores may use it, too.
        settings: the limits.
        metrics: shows the counts.
    """

    def __init__(
        self,
        store: WritableStore,
        thread: DescriberThread,
        settings: DescriberSettings,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._thread = thread
        self._limit = settings.tokens_per_day
        self._materials = Materials(store, thread.name, settings.min_characters)
        self._worker = DescriptionWorker(store, thread, self._materials, self._limit)
        self._work: Future[None] | None = None
        self._unfollow = metrics.follow_describer(self._figures)

    def start(self) -> None:
        """Start to describe the waiting contexts."""
        self._work = self._thread.start(self._worker.run())

    def changed(self, changes: Sequence[Change] | None) -> None:
        """Queue the contexts of a commit, on any thread; None: check all contexts again."""
        if changes is None:
            self._thread.call(self._worker.check_all)
            return
        found: list[tuple[str, bool]] = []
        for change in changes:
            if isinstance(change, Upsert) and not self._worker.is_own(change):
                found.append((change.uri, change.is_directory))
            elif isinstance(change, Upsert | Remove) and change.uri != ROOT:
                found.append((parent(change.uri), True))
        if found:
            self._thread.call(self._worker.add, found)

    def describe(self, uri: str, *, again: bool, dry_run: bool) -> tuple[int, int]:
        """Queue the contexts of a subtree without an up-to-date description, also refused ones.

        Args:
            uri: the top of the subtree.
            again: queue contexts with an up-to-date description, too.
            dry_run: only count; queue nothing.

        Returns:
            (number of contexts, approximate tokens of their questions and answers).

        Raises:
            NotFound: the context does not exist.
        """
        top = self._store.get(uri)
        tokens, found = 0, list[tuple[str, bool]]()
        for one, is_directory in [(uri, top.is_directory), *self._below(uri)]:
            cancellation.check()
            with suppress(StoreDamaged):
                subject = self._materials.subject(one)
                if subject is None or subject.material is None:
                    continue
                if again or not subject.is_current:
                    found.append((one, is_directory))
                    tokens += material_tokens(subject.material)
        if found and not dry_run:
            self._thread.call(lambda: self._worker.ask_for(found, again=again))
            self.settle()  # so that Stats shows them
        return len(found), tokens

    def _below(self, uri: str) -> Iterator[tuple[str, bool]]:
        """Yield (URI, True for a directory) of the files and directories below a directory.

        Memories are left out, because no model describes them.
        """
        low, high = subtree_bounds(uri)
        reads: tuple[tuple[Callable[[str, int], Sequence[_Listed]], bool], ...] = (
            (self._store.files_to_describe, False),
            (self._store.directories, True),
        )
        for read, is_directory in reads:
            after = low
            while page := read(after, _PAGE):
                within = [one.uri for one in page if one.uri < high]
                yield from ((one, is_directory) for one in within)
                if len(within) < len(page):
                    break
                after = within[-1]

    @property
    def has_work(self) -> bool:
        """True while contexts wait; False if the model fails or a limit is reached."""
        return bool(len(self._worker.queue)) and not self._worker.waits()[0]

    def settle(self) -> bool:
        """Wait until all earlier calls of `changed` and `describe` have reached the queue.

        Returns:
            True if the queue has all contexts that wait, False while a check of all contexts runs.
        """
        wait_for([self._thread.call(lambda: None)], STOP)
        return self._worker.is_complete

    def state(self) -> DescriberState:
        """Return the state of the descriptions."""
        worker = self._worker
        why, retry_at = worker.waits()
        return DescriberState(
            self._thread.name,
            len(worker.queue),
            worker.described,
            worker.refused,
            worker.tokens_today(),
            self._limit,
            why,
            retry_at,
        )

    def _figures(self) -> DescriberFigures:
        worker = self._worker
        return DescriberFigures(len(worker.queue), worker.described, worker.refused, worker.tokens)

    def stop(self) -> None:
        """Stop within 1.5 s. Open questions to the model are asked again after the next start."""
        self._unfollow()
        if self._work is not None and self._work.cancel():
            self._worker.ended.wait(STOP)


_Listed = FileToDescribe | DirectoryToDescribe
