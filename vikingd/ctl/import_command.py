"""vikingctl import."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from rich.text import Text

from vikingd.client.client_errors import ClientError, Unreachable
from vikingd.client.importing import Importer, ImportSummary, items_of
from vikingd.client.unreached import unreachable
from vikingd.client.watching import Watched
from vikingd.ctl.command_session import INTERRUPTED, OTHER, Session
from vikingd.ctl.migrations.given_vectors import Choice, Vectors
from vikingd.ctl.migrations.source import Asked, Source
from vikingd.ctl.migrations.source_choice import Program, columns_of, opened
from vikingd.ctl.output import Form, escaped_json
from vikingd.ctl.progress import meter, wait_for_vectors
from vikingd.ctl.render import snippet
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import clean
from vikingd.ingest.jsonl import is_jsonl

_ENDS = {"done": "the text is in after", "interrupted": "stopped after", "failed": "failed after"}
_OPTIONS = {"uri": "URI", "path": "PATH"}  # by field; the others are --FIELD
_SOURCE_KEY = "VIKINGCTL_SOURCE_KEY"
_SHOWN = 500  # characters of a name or a reason, which may come from a file


def import_(
    session: Session,
    path: Annotated[
        str,
        typer.Argument(
            help="A directory of Markdown, text, source code and documents (PDF, HTML, DOCX, PPTX, "
            "XLSX, EPUB, with the extra `files`), one such file, or JSON lines; with --from also "
            "the URL of a server.",
        ),
    ],
    uri: Annotated[
        str, typer.Argument(help="The URI of PATH; JSON lines have URIs of their own.")
    ] = "",
    source: Annotated[
        Program | None,
        typer.Option("--from", help="Import the data of another program from PATH."),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(help="Of chroma: import this collection; repeatable. Default: all."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="FIELD=COLUMN", help="Of parquet: the column of a field; repeatable."
        ),
    ] = None,
    vectors: Annotated[
        Choice,
        typer.Option(help="Use given vectors: if the source names the daemon's model, or always."),
    ] = Choice.AUTO,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Remove contexts below URI that are no longer in PATH, if all lines can be read.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for the vectors.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Then follow PATH, a directory, until Ctrl-C (extra `files`)."
        ),
    ] = False,
) -> None:
    """Import files; unchanged contexts are not written again.

    PDF, HTML, DOCX, PPTX, XLSX and EPUB files become Markdown with headings for pages, slides or
    sheets; a part that cannot be read is listed with the reason.

    JSON lines are a .jsonl file, or a directory with documents.jsonl and optionally
    directories.jsonl. Each line is an object with uri and text, or uri and abstract. A memory with
    unchanged text keeps its counters and times. After Ctrl-C the same command continues.

    With --watch the tree below URI follows the directory until Ctrl-C: changed files are written,
    removed ones are removed, renamed ones are moved with their memories and links. There is a line
    for each batch of changes. Contexts that do not come from the directory stay. While the daemon
    is away, changes wait for it. Ctrl-C ends the command with 130.

    --from reads the directory or server of chroma, the export of mem0, the workspace or server of
    openviking, or parquet. The key of a server is read from VIKINGCTL_SOURCE_KEY.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get, .../Put, .../Delete, .../Link, .../Move;
    viking.retrieval.v1.Admin/Stats

    Example: vikingctl import ./docs viking://resources/docs
    """
    asked = Asked(path, uri, delete, collection or (), key=os.environ.get(_SOURCE_KEY, ""))
    try:
        asked.columns = columns_of(columns or ())
        if watch:
            _check_watch(session, asked.place, source, dry_run=dry_run)
            _check_options(asked, vectors)
            _watch(session, asked)
            return
        if source is None:
            found = _files(asked, vectors)
        else:
            embedder = session.client.stats().embedder
            asked.vectors = Vectors(vectors, embedder.model, embedder.dimension)
            found = opened(source, asked)
    except InvalidField as error:
        raise typer.BadParameter(
            clean(error.description), param_hint=_OPTIONS.get(error.field, f"--{error.field}")
        ) from None
    importer = Importer(session.client, found.top, delete=delete, dry_run=dry_run)
    try:
        with meter(session, "text", found.count) as shown:
            importer.run(found.items, shown.advance)
    finally:
        _report(session, importer.summary, asked.notes.lines())
    if importer.summary.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if not (dry_run or no_wait):
        try:
            wait_for_vectors(session)
        except KeyboardInterrupt:
            session.note("the daemon continues to embed; `vikingctl stats` shows the progress")
    summary = importer.summary
    nothing = not (summary.created or summary.updated or summary.unchanged)
    if summary.failed or (summary.unreadable and nothing):
        raise typer.Exit(OTHER)


def _check_options(asked: Asked, vectors: Choice) -> None:
    """Refuse the options of other programs."""
    for field, is_given in (
        ("collection", asked.collections),
        ("map", asked.columns),
        ("vectors", vectors is not Choice.AUTO),
    ):
        if is_given:
            raise InvalidField(field, "needs --from")
    if not Path(asked.place).exists():
        raise InvalidField("path", f"{asked.place} does not exist; a URL needs --from")


def _files(asked: Asked, vectors: Choice) -> Source:
    """Open the files at a path."""
    _check_options(asked, vectors)
    return Source(*items_of(Path(asked.place), asked.uri, delete=asked.delete))


def _check_watch(session: Session, place: str, source: Program | None, *, dry_run: bool) -> None:
    """Refuse all that cannot be followed."""
    path = Path(place)
    for option, is_given in (
        ("--from", source is not None),
        ("--dry-run", dry_run),
        ("-o yaml", session.form is Form.YAML),
    ):
        if is_given:
            raise InvalidField("watch", f"cannot be used with {option}")
    if path.exists() and (is_jsonl(path) or not path.is_dir()):
        raise InvalidField(
            "watch", f"follows a directory of files; {place} is a file or JSON lines"
        )


def _watch(session: Session, asked: Asked) -> None:
    """Import a directory and follow it until Ctrl-C.

    Raises:
        InvalidField: the arguments do not fit.
    """
    with meter(session, "text", 0) as shown:
        try:
            watched = Watched(
                session.client,
                Path(asked.place),
                asked.uri,
                delete=asked.delete,
                counted=shown.expect,
                advance=shown.advance,
                waiting=partial(_tell_waiting, session),
            )
            batches = iter(watched)
            summary = next(batches)
        except (OSError, ModuleNotFoundError) as error:
            raise _not_watched(error) from None
    if session.is_structured:
        session.show_line(_value(summary))
    else:
        _report(session, summary, ())
    if summary.end == "done":
        session.note(f"following {asked.place}; Ctrl-C ends it")
    try:
        for summary in batches:
            _report_batch(session, summary)
    except OSError as error:
        raise _not_watched(error) from None
    if summary.end != "done":
        raise typer.Exit(INTERRUPTED)


def _not_watched(error: Exception) -> ClientError:
    return ClientError(grpc.StatusCode.FAILED_PRECONDITION, str(error), "NOT_WATCHED")


def _tell_waiting(session: Session, error: ClientError | None) -> None:
    """Tell once that changes wait for the daemon, and that they no longer do."""
    if error is None:
        session.note("the daemon works again")
    elif session.is_structured:
        record = {"code": error.code.name, "reason": error.reason, "message": error.message}
        session.err.file.write(escaped_json(json.dumps(record, ensure_ascii=False)) + "\n")
    else:
        reason = error.message
        if isinstance(error, Unreachable):
            reason, _ = unreachable(error.message, session.client.address)
        session.warn(f"changes wait for the daemon: {reason}")


def _report_batch(session: Session, summary: ImportSummary) -> None:
    if session.is_structured:
        session.show_line(_value(summary))
        return
    counts = ", ".join(
        f"{count:,} {name}"
        for count, name in (
            (summary.created, "created"),
            (summary.updated, "updated"),
            (summary.moved, "moved"),
            (summary.deleted, "deleted"),
        )
        if count
    )
    if counts and not session.quiet:
        session.out.print(f"{counts}: revision {summary.revision}")
    _list_faults(session, summary)


def _value(summary: ImportSummary, notes: Sequence[str] = ()) -> dict[str, Any]:
    return {**asdict(summary), "notes": list(notes)}


def _report(session: Session, summary: ImportSummary, notes: Sequence[str]) -> None:
    if session.is_structured:
        session.show_value(_value(summary, notes))
        return
    for change, uri in summary.planned:
        session.out.print(Text(f"{change} {uri}", overflow="fold"))
    would = "would be " if summary.dry_run else ""
    counts = (
        f"{summary.created:,} {would}created, {summary.updated:,} {would}updated, "
        f"{summary.unchanged:,} unchanged, {summary.deleted:,} {would}deleted"
    ) + (f", {summary.linked:,} links" if summary.linked else "")
    state = "compared in" if summary.dry_run else _ENDS[summary.end]
    revision = f", revision {summary.revision}" if summary.revision else ""
    session.out.print(Text(f"{state} {summary.seconds:.1f} s: {counts}{revision}"))
    _list_faults(session, summary)
    for note in notes:
        session.warn(f"note: {snippet(note, _SHOWN)}")
    if summary.end != "done":
        session.note("the imported contexts stay; the same command continues")


def _list_faults(session: Session, summary: ImportSummary) -> None:
    _list(session, "not imported", [(u.path, u.reason) for u in summary.unreadable], "yellow")
    _list(session, "refused", [(f.uri, f.reason) for f in summary.failed], "red")
    _list(
        session,
        "front matter not as written",
        [(f.uri, f.reason) for f in summary.as_text],
        "yellow",
    )


def _list(session: Session, what: str, faults: list[tuple[str, str]], style: str) -> None:
    if faults:
        session.warn(f"{what}: {len(faults):,}", style)
    for name, reason in faults:
        session.warn(f"  {snippet(name, _SHOWN)}: {snippet(reason, _SHOWN)}", "")
