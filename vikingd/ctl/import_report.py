"""The report of an import: counts, what was left out and by which rule, and what failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from vikingd.client.import_summary import ImportSummary
from vikingd.ctl.command_session import Session
from vikingd.ctl.render import size, snippet
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ingest.import_remarks import LeftOut
from vikingd.ingest.selected_files import (
    EXCLUDED,
    HIDDEN,
    NOT_INCLUDED,
    SECRETS,
    SKIPPED,
    TOO_LARGE,
)

_ENDS = {"done": "the text is in after", "interrupted": "stopped after", "failed": "failed after"}
_SHOWN = 500  # characters of a name or a reason, which may come from a file
_SECRETS = 40  # secrets shown
_NOT_TAKEN = 40  # pages and files of an address shown
_NAMES, _RULES = 3, 12  # names shown of each group, and groups
_REASONS = {
    HIDDEN: "hidden (--hidden takes them)",
    NOT_INCLUDED: "no --include matches",
    SKIPPED: "always left out",
    TOO_LARGE: "larger than --max-file-size",
}


def summary_value(summary: ImportSummary, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return a summary as JSON."""
    return {**asdict(summary), "notes": list(notes)}


def report(session: Session, place: str, summary: ImportSummary, notes: Sequence[str] = ()) -> None:
    """Print the result of an import, or its plan; `place` is the path or the address."""
    if session.is_structured:
        session.show_value(summary_value(summary, notes))
        return
    if summary.planned:
        session.print(Rows(map(Row, summary.planned)))
    would = "would be " if summary.dry_run else ""
    counts = (
        f"{summary.created:,} {would}created, {summary.updated:,} {would}updated, "
        f"{summary.unchanged:,} unchanged, {summary.deleted:,} {would}deleted"
    )
    counts += f", {summary.moved:,} {would}moved" if summary.moved else ""
    counts += f", {summary.linked:,} links" if summary.linked else ""
    state = "compared in" if summary.dry_run else _ENDS[summary.end]
    revision = f", revision {summary.revision}" if summary.revision else ""
    session.out.print(Text(f"{state} {summary.seconds:.1f} s: {counts}{revision}"))
    list_faults(session, place, summary)
    for note in notes:
        session.warn(f"note: {snippet(note, _SHOWN)}")
    if summary.end != "done":
        session.note("the imported contexts stay; the same command continues")


def report_batch(session: Session, place: str, summary: ImportSummary) -> None:
    """Show the result of a batch of changes."""
    if session.is_structured:
        session.show_line(summary_value(summary))
        return
    counts = counts_of(summary)
    if counts and not session.quiet:
        session.out.print(f"{counts}: revision {summary.revision}")
    list_faults(session, place, summary)


def counts_of(summary: ImportSummary) -> str:
    """Return the counts of changes as text, such as "2 created, 1 deleted"; "" for none."""
    return ", ".join(
        f"{count:,} {name}"
        for count, name in (
            (summary.created, "created"),
            (summary.updated, "updated"),
            (summary.moved, "moved"),
            (summary.deleted, "deleted"),
        )
        if count
    )


def list_faults(session: Session, place: str, summary: ImportSummary) -> None:
    """Print the files that were not imported or were changed on import, with the reasons."""
    not_taken = [(one.address, one.reason) for one in summary.not_taken[:_NOT_TAKEN]]
    if more := len(summary.not_taken) - len(not_taken):
        not_taken.append(("and more", f"{more:,}; --json lists all"))
    _list(session, "not taken", not_taken, "yellow")
    moves = [(failed.uri, failed.reason) for failed in summary.not_moved]
    _list(session, "written anew, not moved", moves, "yellow")
    _list(session, "not imported", [(u.path, u.reason) for u in summary.unreadable], "yellow")
    if summary.secrets:
        session.warn(f"secrets left out: {len(summary.secrets):,} (--with-secrets takes them)")
    for one in summary.secrets[:_SECRETS]:
        session.warn(f"  {snippet(_below(place, one.path), _SHOWN)}:{one.line}: {one.kind}", "")
    if len(summary.secrets) > _SECRETS:
        session.warn(f"  and {len(summary.secrets) - _SECRETS:,} more; --json lists all", "")
    _list(session, "refused", [(f.uri, f.reason) for f in summary.failed], "red")
    _list(
        session,
        "front matter not as written",
        [(f.uri, f.reason) for f in summary.as_text],
        "yellow",
    )
    read_as: dict[str, list[str]] = defaultdict(list)
    for read in summary.encodings:
        read_as[f"{read.encoding} ({read.how})"].append(read.path)
    for encoding, paths in read_as.items():
        session.warn(f"read as {encoding}: {_names(place, paths)}")
    for long in summary.many_passages:
        lines = f"{long.lines:,} line{'' if long.lines == 1 else 's'}"
        name = snippet(_below(place, long.path), _SHOWN)
        session.note(f"{name}: {lines} of {size(long.size)}, cut into {long.passages:,} passages")
    if summary.renamed:
        names = _names(place, [item.path for item in summary.renamed])
        session.note(f"renamed to NFC, the form of URIs: {names}")
    _list_left_out(session, place, summary.left_out)
    if summary.kept:
        session.warn(
            "left out now, and still stored (`vikingctl rm -r URI` removes it): "
            f"{_names('', summary.kept)}"
        )


def _list(session: Session, what: str, faults: list[tuple[str, str]], style: str) -> None:
    if faults:
        session.warn(f"{what}: {len(faults):,}", style)
    for name, reason in faults:
        session.warn(f"  {snippet(name, _SHOWN)}: {snippet(reason, _SHOWN)}", "")


def _list_left_out(session: Session, place: str, left_out: Sequence[LeftOut]) -> None:
    """Print each rule with the first names that it leaves out; --json has all."""
    if not left_out:
        return
    groups: dict[str, list[str]] = defaultdict(list)
    for one in left_out:
        shown = f"{one.path} ({size(one.size)})" if one.size else one.path
        groups[_rule(one)].append(shown)
    session.note(f"left out: {len(left_out):,}")
    for rule, paths in list(groups.items())[:_RULES]:
        session.note(f"  {snippet(rule, _SHOWN)}: {_names(place, paths)}")
    if len(groups) > _RULES:
        session.note(f"  and by {len(groups) - _RULES:,} more rules; --json lists all")


def _rule(one: LeftOut) -> str:
    if one.rule == EXCLUDED:
        return f"--exclude {one.pattern}"
    if one.rule == SECRETS:
        return f"secrets ({one.pattern})"
    return _REASONS.get(one.rule) or f"{one.rule} {one.pattern}".rstrip()


def _names(place: str, paths: Sequence[str]) -> str:
    """Return a text with the first of the paths, relative to `place`, and the number of the rest.

    Such as "a.txt, b/c.txt and 12 more".
    """
    names = [snippet(_below(place, path), _SHOWN) for path in paths[:_NAMES]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _below(place: str, path: str) -> str:
    """Return a path relative to a directory."""
    return path.removeprefix(f"{Path(place)}/")
