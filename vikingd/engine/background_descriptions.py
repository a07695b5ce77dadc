"""The background work of an engine that lets a model write abstracts and overviews."""

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
    """The state of the describer.

    Attributes:
        model: the name of the model; "" without one.
        backlog: the contexts that wait for a description.
        described: the contexts that were described since the start.
        refused: the contexts without a usable answer since the start.
        tokens_today: the tokens that were used today, by UTC.
        tokens_per_day: their limit; 0: none.
        last_error: the error of the last attempt, or the limit that contexts wait for; "": none.
        retry_at: time of the next attempt in microseconds since the epoch; None: none is planned.
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
        thread: the describer, which other stores may use, too.
        settings: the limits.
        metrics: shows the figures.
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
        """Start to describe the contexts that wait."""
        self._work = self._thread.start(self._worker.run())

    def changed(self, changes: Sequence[Change] | None) -> None:
        """Take the changes of a commit, on any thread; None if they are not known."""
        if changes is None:
            self._thread.call(self._worker.look_at_all)
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
        """Let the contexts of a subtree wait that have no present description.

        Those that the model refused wait, too, and with `again` all.

        Returns:
            (the number of the contexts, the approximate tokens of their questions and answers).
            With `dry_run` that is all.

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
        """Yield the contexts below a directory that may be described, with True for directories."""
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
        """True while contexts are described, not while the model fails or a limit is reached."""
        return bool(len(self._worker.queue)) and not self._worker.waits()[0]

    def settle(self) -> bool:
        """Wait until what was added so far is in the backlog.

        Returns:
            False while the contexts of earlier commits are still looked at.
        """
        wait_for([self._thread.call(lambda: None)], STOP)
        return self._worker.is_complete

    def state(self) -> DescriberState:
        """Return the state in numbers."""
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
        """End the work, within 1.5 s; what was asked is asked again after the next start."""
        self._unfollow()
        if self._work is not None and self._work.cancel():
            self._worker.ended.wait(STOP)


_Listed = FileToDescribe | DirectoryToDescribe
