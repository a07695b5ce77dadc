"""vikingctl import."""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

import grpc
import typer

from vikingd.client.client_errors import ClientError, Unreachable
from vikingd.client.file_import import Importer, items_of
from vikingd.client.interrupts import recorded_interrupts
from vikingd.client.source_imports import check_of_addresses, chosen_options, record_of
from vikingd.client.unreachable_daemon import unreachable
from vikingd.client.watching import Watched
from vikingd.ctl.address_import import import_address, interval, keep_fresh
from vikingd.ctl.command_session import Session
from vikingd.ctl.exit_codes import INTERRUPTED, OTHER
from vikingd.ctl.import_report import report, report_batch, summary_value
from vikingd.ctl.migrations.given_vectors import Choice, Vectors
from vikingd.ctl.migrations.source import Asked, Source
from vikingd.ctl.migrations.source_choice import Program, columns_of, opened
from vikingd.ctl.output import Form, escaped_json
from vikingd.ctl.progress import meter, wait_for_vectors
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import clean
from vikingd.ingest.jsonl import is_jsonl
from vikingd.ingest.selected_files import HIDDEN, Selection
from vikingd.sources.addresses import address_of

_OPTIONS = {"uri": "URI", "path": "PATH"}  # by field; the others are --FIELD
_SOURCE_KEY = "VIKINGCTL_SOURCE_KEY"


def import_(
    session: Session,
    path: Annotated[
        str,
        typer.Argument(help="A directory, a file, JSON lines, an archive or an address."),
    ],
    uri: Annotated[str, typer.Argument(help="The URI of PATH; JSON lines have their own.")] = "",
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Take these files; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Leave these out; repeatable."),
    ] = None,
    no_ignore: Annotated[
        bool, typer.Option("--no-ignore", help="Take what is ignored or no reading.")
    ] = False,
    max_file_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Leave out larger files: 10MB.")
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="LABEL", help="Of text that is not UTF-8: big5.")
    ] = "",
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Take secrets, too.")
    ] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Take hidden files, too.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what PATH has no more.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, make none.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for the vectors.")
    ] = False,
    ref: Annotated[
        str, typer.Option(metavar="NAME", help="Of git+...: a branch, a tag or a commit.")
    ] = "",
    below: Annotated[
        str, typer.Option(metavar="PREFIX", help="Of https://: the site below this prefix.")
    ] = "",
    depth: Annotated[
        int | None, typer.Option(metavar="N", help="Of a site: at most N links away.")
    ] = None,
    max_pages: Annotated[
        int | None, typer.Option(metavar="N", help="Of a site: at most N pages.")
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Take what is new until Ctrl-C: 30m, 6h, 1d.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Then follow PATH until Ctrl-C.")] = False,
    source: Annotated[
        Program | None,
        typer.Option("--from", metavar="PROGRAM", help="Import the data of PROGRAM."),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of chroma: these; repeatable."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="Of parquet: fields; repeatable."),
    ] = None,
    vectors: Annotated[
        Choice,
        typer.Option(help="Of --from: use its vectors."),
    ] = Choice.AUTO,
) -> None:
    """Import files or a source by address; unchanged contexts are not written again.

    `vikingctl help files` tells what is left out, and `vikingctl help addresses` which
    addresses and programs there are.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get, .../Put, .../Delete,
    .../Link, .../Move; viking.retrieval.v1.Admin/Stats

    Example: vikingctl import ./docs viking://resources/docs --exclude drafts/
    """
    if not path:  # an unset variable of a shell would import the working directory
        raise typer.BadParameter("is empty; . is the working directory", param_hint="PATH")
    asked = Asked(path, uri, delete, collection or (), key=os.environ.get(_SOURCE_KEY, ""))
    try:
        asked.columns = columns_of(columns or ())
        selection = Selection(
            include or (), exclude or (), no_ignore, max_file_size, encoding, with_secrets, hidden
        )
        if source is not None and selection != Selection():
            raise InvalidField("from", "reads no files: --include and the like need a directory")
        given = {
            "include": include or (),
            "exclude": exclude or (),
            "no_ignore": no_ignore,
            "max_file_size": max_file_size,
            "encoding": encoding,
            "with_secrets": with_secrets,
            "hidden": hidden,
            "delete": delete,
            "ref": ref,
            "below": below,
            "depth": depth,
            "max_pages": max_pages,
        }
        options, address = chosen_options(given), None
        if source is None or path.startswith("git+"):
            address = address_of(path)
        if address is None:
            check_of_addresses(options)
            if every:
                raise InvalidField("every", "needs an address; --watch follows a directory")
        else:
            _check_of_programs(asked, vectors)
            _check_address(source, is_watch=watch, dry_run=dry_run and bool(every))
            seconds = interval(every) if every else None
            asked_ = (
                address,
                record_of(session.client.address, session.client.tenant, address, uri, options),
            )
            import_address(session, asked_, dry_run=dry_run, no_wait=no_wait)
            if seconds is not None:
                keep_fresh(session, lambda: [asked_], seconds)
            return
        if watch:
            _check_watch(session, asked.place, source, dry_run=dry_run)
            _check_path(asked, vectors)
            _watch(session, asked, selection)
            return
        if source is None:
            found = _files(asked, selection, vectors)
        else:
            embedder = session.client.stats().embedder
            asked.vectors = Vectors(vectors, embedder.model, embedder.dimension)
            found = opened(source, asked)
    except InvalidField as error:
        raise typer.BadParameter(
            clean(error.description),
            param_hint=_OPTIONS.get(error.field, f"--{error.field.replace('_', '-')}"),
        ) from None
    importer = Importer(session.client, found.top, delete=delete, dry_run=dry_run)
    try:
        with meter(session, "text", found.count) as shown:
            importer.run(found.items, shown.advance)
    finally:
        report(session, path, importer.summary, asked.notes.lines())
    if importer.summary.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    summary = importer.summary
    nothing = not (summary.created or summary.updated or summary.unchanged)
    if not (dry_run or no_wait or nothing):
        try:
            wait_for_vectors(session)
        except KeyboardInterrupt:
            session.note("the daemon continues to embed; `vikingctl stats` shows the progress")
    lost = summary.unreadable or any(one.rule != HIDDEN for one in summary.left_out)
    if summary.failed or (lost and nothing):
        raise typer.Exit(OTHER)


def _check_address(source: Program | None, *, is_watch: bool, dry_run: bool) -> None:
    """Raise InvalidField for an option that an import by address does not take."""
    if is_watch:
        raise InvalidField("watch", "follows a directory; --every keeps an address fresh")
    if source is not None:
        raise InvalidField("from", "reads the data of a program, and no address of git")
    if dry_run:
        raise InvalidField("every", "cannot be used with --dry-run")


def _check_of_programs(asked: Asked, vectors: Choice) -> None:
    """Raise InvalidField for an option that needs --from, such as --vectors."""
    for field, is_given in (
        ("collection", asked.collections),
        ("map", asked.columns),
        ("vectors", vectors is not Choice.AUTO),
    ):
        if is_given:
            raise InvalidField(field, "needs --from")


def _check_path(asked: Asked, vectors: Choice) -> None:
    """Raise InvalidField if the path does not exist, or for an option that needs --from."""
    _check_of_programs(asked, vectors)
    if not Path(asked.place).exists():
        raise InvalidField(
            "path", f"{asked.place} does not exist; an address begins with https:// or git+"
        )


def _files(asked: Asked, selection: Selection, vectors: Choice) -> Source:
    """Return the files at a path as items of an import."""
    _check_path(asked, vectors)
    return Source(*items_of(Path(asked.place), asked.uri, selection, delete=asked.delete))


def _check_watch(session: Session, place: str, source: Program | None, *, dry_run: bool) -> None:
    """Raise InvalidField if the source is no directory, or for an option that --watch excludes."""
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


def _watch(session: Session, asked: Asked, selection: Selection) -> None:
    """Import a directory and each later change of it until Ctrl-C.

    Raises:
        InvalidField: the arguments do not fit.
    """
    stopped = threading.Event()
    with meter(session, "text", 0) as shown:
        try:
            watched = Watched(
                session.client,
                Path(asked.place),
                asked.uri,
                delete=asked.delete,
                selection=selection,
                counted=shown.expect,
                advance=shown.advance,
                waiting=partial(_tell_waiting, session),
                cancelled=stopped,
            )
            batches = iter(watched)
            summary = next(batches)
        except (OSError, ModuleNotFoundError) as error:
            raise _not_watched(error) from None
    if session.is_structured:
        session.show_line(summary_value(summary))
    else:
        report(session, asked.place, summary)
    if summary.end == "done":
        session.note(f"following {asked.place}; Ctrl-C ends it")
    try:
        with recorded_interrupts(stopped):
            for summary in batches:
                report_batch(session, asked.place, summary)
    except OSError as error:
        raise _not_watched(error) from None
    if stopped.is_set() or summary.end != "done":
        raise typer.Exit(INTERRUPTED)


def _not_watched(error: Exception) -> ClientError:
    return ClientError(grpc.StatusCode.FAILED_PRECONDITION, str(error), "NOT_WATCHED")


def _tell_waiting(session: Session, error: ClientError | None) -> None:
    """Print that changes wait for the daemon, with the error; None: that it works again."""
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
