"""The import of a source by its address on the command line, once or again at an interval."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime

import typer

from vikingd.client.client_errors import ClientError
from vikingd.client.import_summary import ImportSummary
from vikingd.client.source_imports import Progress, import_source
from vikingd.ctl.command_session import Session
from vikingd.ctl.exit_codes import INTERRUPTED, OTHER
from vikingd.ctl.import_report import counts_of, list_faults, report, summary_value
from vikingd.ctl.progress import meter, wait_for_vectors
from vikingd.domain.errors import InvalidField
from vikingd.sources.addresses import Address
from vikingd.sources.source_registry import Record

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SHORTEST = 60  # seconds between two rounds
_FIRST_PAUSE = 60.0  # seconds before a round that failed is tried again

AddressedSource = tuple[Address, Record]
"""A source: its address, with credentials, and its record."""


def interval(text: str) -> int:
    """Parse an interval such as "6h", and return its seconds.

    Raises:
        InvalidField: the text is no interval, or the interval is shorter than a minute.
    """
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if seconds < _SHORTEST:
        raise InvalidField("every", f"is {text!r}: give at least 1m, such as 30m, 6h or 1d")
    return seconds


def import_address(
    session: Session, asked: AddressedSource, *, dry_run: bool, no_wait: bool
) -> None:
    """Import one source, and report it; exit with an error if nothing came in."""
    address, record = asked
    is_new = not record.fetched_at
    with _meters(session) as progress:
        summary = import_source(session.client, address, record, dry_run=dry_run, progress=progress)
    report(session, address.text, summary)
    if summary.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if is_new and not dry_run:
        session.note(f"registered: `vikingctl sources refresh {record.uri}` takes what is new")
    if not (dry_run or no_wait):
        try:
            wait_for_vectors(session)
        except KeyboardInterrupt:
            session.note("the daemon continues to embed; `vikingctl stats` shows the progress")
    nothing = not (summary.created or summary.updated or summary.unchanged or summary.moved)
    if summary.failed or (nothing and (summary.unreadable or summary.not_taken)):
        raise typer.Exit(OTHER)


def refresh(session: Session, asked: AddressedSource) -> None:
    """Import a source if it has changed; print one line about it, and one for each fault.

    Raises:
        ClientError: it cannot be fetched, or the daemon cannot be reached.
    """
    address, record = asked
    with _meters(session) as progress:
        summary = import_source(
            session.client, address, record, only_changed=True, progress=progress
        )
    if session.is_structured:
        session.show_line({"address": record.address, "uri": record.uri, **summary_value(summary)})
    else:
        session.out.print(f"{_now()} {record.address} {_outcome_text(summary)}")
        list_faults(session, address.text, summary)
    if summary.end == "interrupted":
        raise typer.Exit(INTERRUPTED)


def keep_fresh(
    session: Session, sources: Callable[[], Sequence[AddressedSource]], seconds: int
) -> None:
    """Refresh sources at an interval until Ctrl-C; a failure is printed, and tried again.

    Args:
        session: the session.
        sources: a function that returns the sources to refresh, called at each interval.
        seconds: the interval.
    """
    session.note(f"takes what is new every {seconds:,} s; Ctrl-C ends it")
    pause = _FIRST_PAUSE
    while True:
        time.sleep(seconds if pause == _FIRST_PAUSE else min(pause, seconds))
        failed = False
        for asked in sources():
            try:
                refresh(session, asked)
            except (ClientError, OSError) as error:
                failed = True
                print_failure(session, asked[1], error)
        pause = 2 * pause if failed else _FIRST_PAUSE


def print_failure(session: Session, record: Record, error: ClientError | OSError) -> None:
    """Print that a source was not refreshed, and the reason."""
    reason = error.message if isinstance(error, ClientError) else error.strerror or str(error)
    if session.is_structured:
        session.show_line(
            {"address": record.address, "uri": record.uri, "end": "failed", "error": reason}
        )
    else:
        session.warn(f"{_now()} {record.address} failed: {reason}")


def _outcome_text(summary: ImportSummary) -> str:
    """Return the result of a refresh as text, such as "unchanged" or "2 created, 1 deleted"."""
    return "unchanged" if summary.is_unchanged else counts_of(summary) or "nothing to write"


def _now() -> str:
    return f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}"


@contextmanager
def _meters(session: Session) -> Iterator[Progress]:
    """Show a meter of the fetch, then one of the import; yield functions that advance them."""
    with ExitStack() as shown:
        fetched = shown.enter_context(meter(session, "fetched", 0))
        importing = []

        def counted(count: int) -> None:
            shown.close()
            importing.append(shown.enter_context(meter(session, "text", count)))

        yield Progress(fetched.advance, counted, lambda count: importing[-1].advance(count))
