"""Progress for people: a bar on a terminal, a line every few seconds elsewhere, on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from vikingd.ctl.session import Session

_LINE_EVERY = 3.0  # seconds
_POLL = 0.3
_PATIENCE = 5.0  # seconds without a new vector, while the embedder says that it fails


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.1f}/s" if speed else "", "dim")


class Meter:
    """Shows how far a piece of work is. What is done is set or added to."""

    def __init__(self, session: Session, what: str, total: int, bar: Progress | None) -> None:
        self.done = 0
        self.total = total
        self._session = session
        self._what = what
        self._bar = bar
        self._task = None if bar is None else bar.add_task(what, total=total)
        self._began = self._said = time.monotonic()

    def advance(self, count: int) -> None:
        """Says that so much more is done."""
        self.update(self.done + count)

    def update(self, done: int, total: int | None = None) -> None:
        """Says how much is done, of how much."""
        self.done, self.total = done, max(done, self.total if total is None else total)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=self.total)
        elif (now := time.monotonic()) - self._said >= _LINE_EVERY:
            self._said = now
            rate = done / (now - self._began)
            left = f", {rate:,.1f}/s, {(self.total - done) / rate:,.0f} s left" if rate else ""
            self._session.note(f"{self._what}: {done:,} of {self.total:,}{left}")


@contextmanager
def meter(session: Session, what: str, total: int) -> Iterator[Meter]:
    """A meter that is shown as long as the context lasts; not at all with --json."""
    if session.as_json or not session.err.is_terminal:
        yield Meter(session, what, total, None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=session.err, transient=True) as bar:
        yield Meter(session, what, total, bar)


def wait_for_vectors(session: Session) -> None:
    """Shows the embedder's backlog until it is empty; says so when the embedder fails instead."""
    embedder = session.client.stats().embedder
    if not embedder.backlog:
        return
    started = time.monotonic()
    with meter(session, "vectors", embedder.backlog) as shown:
        least, since = embedder.backlog, time.monotonic()
        while embedder.backlog:
            time.sleep(_POLL)
            embedder = session.client.stats().embedder
            total = max(shown.total, embedder.backlog)
            shown.update(total - embedder.backlog, total)
            if embedder.backlog < least:
                least, since = embedder.backlog, time.monotonic()
            if embedder.last_error and time.monotonic() - since > _PATIENCE:
                break
    if not embedder.backlog:
        session.note(f"the vectors are there after {time.monotonic() - started:.1f} s more")
        return
    session.note(f"{embedder.backlog:,} texts have no vector yet, the embedder fails: "
                 f"{embedder.last_error}", "yellow")  # fmt: skip
    session.note("the daemon tries again by itself; until then these are found by their words")
