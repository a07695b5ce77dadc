"""vikingctl export."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vikingd.ctl.exporting import Exporter, Summary
from vikingd.ctl.progress import meter
from vikingd.ctl.session import Session

_STDOUT = Path("-")
_NOT_IN_FILES = (
    "files do not hold overviews, links, counters of memories, nor titles and abstracts of "
    "directories and of other files than Markdown; --to FILE.jsonl is lossless"
)


def export(
    session: Session,
    uri: Annotated[str, typer.Argument(help="A directory with all below it, or one file.")],
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="PATH",
            help="A directory for files; a file .jsonl for JSON lines; - for JSON lines on stdout.",
        ),
    ],
) -> None:
    """Export a subtree: files to read and edit, or JSON lines that an import restores whole.

    A directory gets each content in a file of its name. Front matter is added to a Markdown file
    for the title, abstract, metadata and time that its content does not state. JSON lines hold all
    else too: overviews, passages, links within the subtree, counters and times of memories.
    Vectors are not exported. Existing files are never overwritten.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get

    Example: vikingctl export viking://user/memories --to memories.jsonl
    """
    if to == _STDOUT and session.as_json:
        raise typer.BadParameter("- and --json would both write to stdout", param_hint="--to")
    exporter = Exporter(session.client, uri)
    try:
        with meter(session, "exported", len(exporter.uris)) as shown:
            if to == _STDOUT:
                exporter.write_lines(sys.stdout.buffer, shown.advance)
            else:
                exporter.write(to, shown.advance)
    except KeyboardInterrupt:
        session.note("stopped" if to == _STDOUT else "stopped; nothing was written")
        raise
    _report(session, to, exporter.summary)


def _report(session: Session, to: Path, summary: Summary) -> None:
    """Show the result of an export."""
    if session.as_json:
        session.show_json(json.dumps({"path": str(to), **asdict(summary)}, ensure_ascii=False))
        return
    session.note(
        f"{summary.files:,} files in {summary.directories:,} directories, {summary.memories:,} "
        f"memories and {summary.links:,} links in {summary.seconds:.1f} s"
    )
    for left_out in summary.left_out:
        session.note(f"left out, as no file can have this name: {left_out}", "yellow")
    if to == _STDOUT:
        return
    is_lines = to.suffix == ".jsonl"
    if not is_lines:
        session.note(_NOT_IN_FILES)
    session.note(f"`vikingctl import {to if is_lines else f'{to} {summary.uri}'}` imports it")
