"""Progress on stderr: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from vikingd.ctl.command_session import Session

_LINE_EVERY = 3.0  # seconds
_POLL = 0.3
_PATIENCE = 5.0  # seconds without a new vector, while the embedder reports an error


class _Figures(ProgressColumn):
    """The column with the figures of a meter."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["figures"], "dim")


class Meter:
    """Shows the progress of a long command, by the number of finished units of its work."""

    def __init__(self, session: Session, what: str, total: int, bar: Progress | None) -> None:
        self.done = 0
        self.total = total
        self._session = session
        self._what = what
        self._bar = bar
        self._task = None if bar is None else bar.add_task(what, total=1.0, figures="")
        self._began = self._said = time.monotonic()

    def expect(self, total: int) -> None:
        """Set the total number of units of work."""
        self.update(self.done, total)

    def advance(self, count: int) -> None:
        """Add `count` to the finished units."""
        self.update(self.done + count)

    def update(
        self,
        done: int,
        total: int | None = None,
        *,
        share: float | None = None,
        left: float | None = None,
    ) -> None:
        """Set the progress.

        Args:
            done: number of finished pieces.
            total: number of all pieces; None: unchanged.
            share: finished share of the work in [0, 1]; None: all pieces take equal work.
            left: seconds until the end; None: estimated by the rate so far.
        """
        self.done, self.total = done, max(done, self.total if total is None else total)
        now = time.monotonic()
        rate = done / (now - self._began) if now > self._began else 0.0
        if left is None and rate:
            left = (self.total - done) / rate
        figures = f"{done:,} of {self.total:,}" + (f", {rate:,.1f}/s" if rate else "")
        if left is not None:
            figures += f", {left:,.0f} s left"
        if self._bar is not None and self._task is not None:
            whole = done / self.total if self.total else 1.0
            self._bar.update(
                self._task, completed=whole if share is None else share, figures=figures
            )
        elif now - self._said >= _LINE_EVERY:
            self._said = now
            self._session.note(f"{self._what}: {figures}")


@contextmanager
def meter(session: Session, what: str, total: int) -> Iterator[Meter]:
    """Show a meter for the context; show nothing if programs read the output, or with --quiet."""
    if session.is_structured or session.quiet or not session.err.is_terminal:
        yield Meter(session, what, total, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), _Figures())
    with Progress(*columns, console=session.err, transient=True) as bar:
        yield Meter(session, what, total, bar)


def time_left(characters: int, characters_per_second: float) -> float | None:
    """Return the seconds until the backlog is empty; None if the rate is unknown."""
    return characters / characters_per_second if characters_per_second else None


def wait_for_vectors(session: Session) -> None:
    """Show the backlog of the embedder until it is empty or the embedder fails.

    Long texts take longer than short ones, so progress and remaining time are measured in
    characters.
    """
    embedder = session.client.stats().embedder
    if not embedder.backlog:
        return
    started = time.monotonic()
    with meter(session, "vectors", embedder.backlog) as shown:
        least, since = embedder.backlog, time.monotonic()
        most, stalled, why = embedder.backlog_characters, "", ""
        while embedder.backlog:
            time.sleep(_POLL)
            embedder = session.client.stats().embedder
            total = max(shown.total, embedder.backlog)
            most = max(most, embedder.backlog_characters)
            shown.update(
                total - embedder.backlog,
                total,
                share=1 - embedder.backlog_characters / max(most, 1),
                left=time_left(embedder.backlog_characters, embedder.characters_per_second),
            )
            if embedder.stalled and not stalled:
                session.warn(embedder.stalled)
            stalled = embedder.stalled
            if embedder.backlog < least:
                least, since = embedder.backlog, time.monotonic()
            why = embedder.last_error
            if embedder.HasField("retry_time"):
                why = why or embedder.stalled  # a limit, until the next day
            if why and time.monotonic() - since > _PATIENCE:
                break
    if not embedder.backlog:
        session.note(f"the vectors are complete after {time.monotonic() - started:.1f} s more")
        return
    reason = f"the embedder fails: {embedder.last_error}" if embedder.last_error else why
    session.warn(f"{embedder.backlog:,} texts have no vector yet, {reason}")
    session.note("the daemon tries again; until then these texts are found by words alone")


def wait_for_descriptions(session: Session) -> None:
    """Show the backlog of the describer until it is empty or the describer fails."""
    describer = session.client.stats().describer
    if not describer.backlog:
        return
    started = time.monotonic()
    with meter(session, "descriptions", describer.backlog) as shown:
        least, since = describer.backlog, time.monotonic()
        while describer.backlog:
            time.sleep(_POLL)
            describer = session.client.stats().describer
            total = max(shown.total, describer.backlog)
            shown.update(total - describer.backlog, total)
            if describer.backlog < least:
                least, since = describer.backlog, time.monotonic()
            if describer.last_error and time.monotonic() - since > _PATIENCE:
                break
    if not describer.backlog:
        session.note(f"all is described after {time.monotonic() - started:.1f} s")
        return
    session.warn(f"{describer.backlog:,} contexts wait for a description: {describer.last_error}")
    session.note("the daemon tries again; until then extracts stand in the place of descriptions")
