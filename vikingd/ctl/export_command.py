"""vikingctl export: a subtree into files."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from vikingd.client import NotFound
from vikingd.client.interrupts import delayed_interrupts
from vikingd.client.messages import MessageClient
from vikingd.client.replies import context_of
from vikingd.ctl.call_failures import not_written
from vikingd.ctl.command_session import Session
from vikingd.ctl.output import escaped_json
from vikingd.ctl.progress import meter
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Context
from vikingd.domain.errors import InvalidField
from vikingd.ingest.files import file_text
from vikingd.ingest.jsonl import record_of

IN_FLIGHT = 8
_MAX_NAME = 255  # bytes of a file name
_CONFIGURING = frozenset((".git", "git~1", ".gitmodules", ".gitattributes", ".gitconfig", ".hg"))
"""Names, in lower case, by which git and hg find programs to run; git~1 is .git on some disks."""

_IGNORED = frozenset(map(chr, (0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F))))
"""Characters that a disk of macOS may ignore in a name."""

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
    """Export a subtree as files to read and edit, or as JSON lines for a complete restore.

    A directory gets each content in a file of its name. Front matter is added to a Markdown file
    for the title, abstract, metadata and time that its content does not state. JSON lines also hold
    overviews, passages, links within the subtree, and counters and times of memories.
    Vectors are not exported. Existing files are never overwritten.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get

    Example: vikingctl export viking://user/memories --to memories.jsonl
    """
    if to == _STDOUT and session.is_structured:
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
    if session.is_structured:
        session.show_value({"path": str(to), **asdict(summary)})
        return
    session.note(
        f"{summary.files:,} files in {summary.directories:,} directories, {summary.memories:,} "
        f"memories and {summary.links:,} links in {summary.seconds:.1f} s"
    )
    for left_out in summary.left_out:
        why = _why_not_in_files(left_out[len(uris.join(summary.uri, "")) :])
        session.warn(f"left out, because {why}: {left_out}")
    if to == _STDOUT:
        return
    is_lines = to.suffix == ".jsonl"
    if not is_lines:
        session.note(_NOT_IN_FILES)
    session.note(f"`vikingctl import {to if is_lines else f'{to} {summary.uri}'}` imports it")


@dataclass(slots=True)
class Summary:
    """The result of an export.

    Attributes:
        uri: the URI for an import of the directory of files.
        links: the links between two contexts of the subtree; only JSON lines hold them.
        left_out: the contexts that are in no file, because of their names.
    """

    uri: str
    directories: int = 0
    files: int = 0
    memories: int = 0
    links: int = 0
    seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)


class Exporter:
    """One export of a directory's subtree or of a file.

    A write during the export may or may not be in it.

    Raises:
        ClientError: the context does not exist, no daemon answers, or the daemon sends a context
            that is not below the top.
    """

    def __init__(self, client: MessageClient, uri: str) -> None:
        self._client = client
        asked = uri.removesuffix("/") if uri != uris.ROOT else uri
        nodes = [(_checked(node.uri, asked), node.is_directory) for node in client.tree(uri)]
        if not nodes or nodes[0][0] != asked:
            raise not_written(f"the daemon answers without {asked}")
        self.uris = dict.fromkeys(uri for uri, _ in nodes)
        self._top = asked if nodes[0][1] else uris.parent(asked)
        self.summary = Summary(self._top)

    def write_lines(self, out: BinaryIO, advance: Callable[[int], None]) -> None:
        """Write a line for each context."""
        for context in self._read(advance):
            line = json.dumps(record_of(context, self.uris), ensure_ascii=False)
            out.write(escaped_json(line).encode() + b"\n")
        out.flush()

    def write(self, path: Path, advance: Callable[[int], None]) -> None:
        """Write a .jsonl file, else a directory of files; a failed export leaves nothing.

        Args:
            path: a new path, or an empty directory.
            advance: called with the number of contexts that were just written.

        Raises:
            ClientError: `path` exists or cannot be written.
        """
        path = Path(os.path.abspath(path))
        if why := _why_not_in_files(os.path.realpath(path)):
            raise not_written(f"{path}: {why}; choose another directory")
        _check_free(path)
        into = path if path.is_dir() else path.parent
        part = into / f".vikingd-export-{os.getpid()}.part"
        try:
            part.mkdir(0o700)  # Nobody else can put a link into it.
            try:
                if path.suffix == ".jsonl":
                    with (part / path.name).open("wb") as out:
                        self.write_lines(out, advance)
                else:
                    self._write_files(part / path.name, advance)
                whole = part / path.name
                for one in sorted(whole.iterdir()) if into == path else [whole]:
                    _check_free(into / one.name)
                    one.rename(into / one.name)
            finally:
                shutil.rmtree(part)
        except OSError as error:
            raise not_written(f"{path}: {error.strerror or error}") from None

    def _write_files(self, directory: Path, advance: Callable[[int], None]) -> None:
        directory.mkdir()
        for context in self._read(advance):
            below = context.uri[len(uris.join(self._top, "")) :]
            if _why_not_in_files(below):
                self.summary.left_out.append(context.uri)
                continue
            at = directory / below
            try:
                (at if context.is_directory else at.parent).mkdir(parents=True, exist_ok=True)
                if not context.is_directory:
                    with at.open("xb") as file:  # A link there is not followed.
                        file.write(file_text(context, below).encode())
            except OSError as error:
                raise not_written(f"{context.uri}: {error.strerror or error}") from None

    def _read(self, advance: Callable[[int], None]) -> Iterator[Context]:
        """Yield the contexts in order, without those that were deleted during the export."""
        started = time.monotonic()
        ahead: deque[Future[Context | None]] = deque()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            waiting = iter(self.uris)
            while True:
                while len(ahead) < IN_FLIGHT and (uri := next(waiting, None)) is not None:
                    with delayed_interrupts():
                        ahead.append(pool.submit(self._get, uri))
                if not ahead:
                    break
                if context := ahead.popleft().result():
                    self._count(context)
                    yield context
                advance(1)
        self.summary.seconds = time.monotonic() - started

    def _get(self, uri: str) -> Context | None:
        try:
            context = context_of(self._client.get(uri).context)
        except NotFound:
            return None
        if context.uri != uri:
            raise not_written(f"the daemon answers with {context.uri!r} when asked for {uri}")
        return context

    def _count(self, context: Context) -> None:
        summary = self.summary
        summary.directories += context.is_directory
        summary.files += not context.is_directory
        summary.memories += sum(passage.entry is not None for passage in context.passages)
        summary.links += sum(r.uri in self.uris and r.uri > context.uri for r in context.relations)


def _checked(uri: str, top: str) -> str:
    """Return a URI from the daemon, which becomes a file path.

    Raises:
        ClientError: the URI is not valid, or is not below the top.
    """
    try:
        is_below = uris.parse(uri) == uris.canonical(uri) and uris.is_within(uri, top)
    except InvalidField as error:
        raise not_written(f"the daemon names {uri!r}: {error}") from None
    if not is_below:
        raise not_written(f"the daemon names {uri!r}, which is no URI below {top}")
    return uri


def _why_not_in_files(below: str) -> str:
    """Return the reason why no file may be written at a path; "" if it may.

    A file below `.git`, for example: git runs programs that such files name, as the user who enters
    the directory.
    """
    for name in below.split("/"):
        if len(name.encode()) > _MAX_NAME:
            return f"a file name has at most {_MAX_NAME} bytes"
        plain = "".join(c for c in unicodedata.normalize("NFKC", name) if c not in _IGNORED)
        if plain.casefold().rstrip(". ").partition(":")[0] in _CONFIGURING:
            return "git or hg would run what it names"
    return ""


def _check_free(path: Path) -> None:
    if path.is_dir() and path.suffix != ".jsonl":
        if any(path.iterdir()):
            raise not_written(f"{path} exists and is not empty; choose a new path")
    elif os.path.lexists(path):
        raise not_written(f"{path} exists already; choose a new path")
