"""vikingctl export."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vikingd.ctl.exporting import Exporter
from vikingd.ctl.progress import meter
from vikingd.ctl.session import Session

_STDOUT = Path("-")


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
    """Export a subtree, so that an import brings all of it back.

    A directory gets each content as it is, in a file of its name, and a hidden .vikingd.jsonl with
    all else: titles, abstracts, overviews, metadata, times, what is known of each memory, links
    within the subtree. Edit the files as you like: an import takes the record of what is
    unchanged. Vectors are not exported. What is there already is never overwritten.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get

    Example: vikingctl export viking://user/memories --to ./memories
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
    summary = exporter.summary
    if session.as_json:
        session.show_json(json.dumps({"path": str(to), **asdict(summary)}, ensure_ascii=False))
        return
    session.note(
        f"{summary.files:,} files in {summary.directories:,} directories, {summary.memories:,} "
        f"memories and {summary.links:,} links in {summary.seconds:.1f} s"
    )
    if to != _STDOUT:
        back = str(to) if to.suffix == ".jsonl" else f"{to} {summary.uri}"
        session.note(f"`vikingctl import {back}` brings it back")
