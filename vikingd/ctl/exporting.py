"""Exports a subtree: reads it and writes it into files. It shows nothing by itself."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import grpc

from vikingd.client import ClientError
from vikingd.client.domain import context_of
from vikingd.client.interrupts import held_back
from vikingd.client.messages import MessageClient
from vikingd.ctl.terminal import escaped_json
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Context
from vikingd.domain.errors import InvalidField
from vikingd.ingest.records import SIDECAR, has_file, line_of, sidecar_line_of

IN_FLIGHT = 8


@dataclass(slots=True)
class Summary:
    """What was exported.

    Attributes:
        uri: what the directory of files is to be imported as.
        links: those between two contexts that were exported.
    """

    uri: str
    directories: int = 0
    files: int = 0
    memories: int = 0
    links: int = 0
    seconds: float = 0.0


class Exporter:
    """One export of one subtree; what is written to that meanwhile may be in it or not.

    Args:
        client: of the daemon.
        uri: the top, a directory or a file.

    Raises:
        ClientError: there is no such context, or no daemon, or the daemon names what does not lie
            below the top.
    """

    def __init__(self, client: MessageClient, uri: str) -> None:
        self._client = client
        asked = uri.removesuffix("/") if uri != uris.ROOT else uri
        nodes = [(_checked(node.uri, asked), node.is_directory) for node in client.tree(uri)]
        if not nodes or nodes[0][0] != asked:
            raise _not_written(f"the daemon answers without {asked}")
        self.uris = dict.fromkeys(uri for uri, _ in nodes)
        self._top = asked if nodes[0][1] else uris.parent(asked)
        self.summary = Summary(self._top)

    def write_lines(self, out: BinaryIO, advance: Callable[[int], None]) -> None:
        """Writes a line for each context."""
        for context in self._read(advance):
            _write_line(out, line_of(context, self.uris))
        out.flush()

    def write(self, path: Path, advance: Callable[[int], None]) -> None:
        """Writes a .jsonl file, else a directory; it is there once it is whole, or not at all.

        Args:
            path: nothing, or an empty directory.
            advance: told the number of contexts that were just written.

        Raises:
            ClientError: `path` is in use or cannot be written.
        """
        path = Path(os.path.abspath(path))
        _check_free(path)
        into = path if path.is_dir() else path.parent
        part = into / f".vikingd-export-{os.getpid()}.part"
        try:
            part.mkdir(0o700)  # so that nobody puts a link into it
            try:
                if path.suffix == ".jsonl":
                    with (part / path.name).open("wb") as out:
                        self.write_lines(out, advance)
                    _check_free(path)
                    (part / path.name).rename(path)
                else:
                    self._write_files(part / path.name, advance)
                    if into == path:
                        # The records last: files without them are no export.
                        made = sorted((part / path.name).iterdir(), key=_is_sidecar)
                    else:
                        made = [part / path.name]
                    for one in made:
                        _check_free(into / one.name)
                        one.rename(into / one.name)
            finally:
                shutil.rmtree(part)
        except OSError as error:
            raise _not_written(f"{path}: {error.strerror or error}") from None

    def _write_files(self, directory: Path, advance: Callable[[int], None]) -> None:
        directory.mkdir()
        with (directory / SIDECAR).open("wb") as out:
            for context in self._read(advance):
                line = sidecar_line_of(context, self._top, self.uris)
                if has_file(line["path"]):
                    try:
                        _write_file(directory / line["path"], context)
                    except OSError as error:
                        raise _not_written(f"{context.uri}: {error.strerror or error}") from None
                _write_line(out, line)

    def _read(self, advance: Callable[[int], None]) -> Iterator[Context]:
        """The contexts in order, those that are gone by now left out."""
        started = time.monotonic()
        ahead: deque[Future[Context | None]] = deque()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            waiting = iter(self.uris)
            while True:
                while len(ahead) < IN_FLIGHT and (uri := next(waiting, None)) is not None:
                    with held_back():
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
        except ClientError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            return None
        if context.uri != uri:
            raise _not_written(f"the daemon answers with {context.uri!r} when asked for {uri}")
        return context

    def _count(self, context: Context) -> None:
        summary = self.summary
        summary.directories += context.is_directory
        summary.files += not context.is_directory
        summary.memories += sum(passage.entry is not None for passage in context.passages)
        summary.links += sum(r.uri in self.uris and r.uri > context.uri for r in context.relations)


def _checked(uri: str, top: str) -> str:
    """The URI, which a daemon gave: it becomes a path."""
    try:
        is_below = uris.parse(uri) == uri and uris.is_within(uri, top)
    except InvalidField as error:
        raise _not_written(f"the daemon names {uri!r}: {error}") from None
    if not is_below:
        raise _not_written(f"the daemon names {uri!r}, which is no URI below {top}")
    return uri


def _write_file(at: Path, context: Context) -> None:
    """Writes a context where nothing is yet; a link there is not followed."""
    (at if context.is_directory else at.parent).mkdir(parents=True, exist_ok=True)
    if not context.is_directory:
        with at.open("xb") as file:
            file.write(context.content.encode())


def _check_free(path: Path) -> None:
    if path.is_dir() and path.suffix != ".jsonl":
        if any(path.iterdir()):
            raise _not_written(f"{path} is there, with something in it")
    elif os.path.lexists(path):
        raise _not_written(f"{path} is there already")


def _not_written(message: str) -> ClientError:
    return ClientError(grpc.StatusCode.FAILED_PRECONDITION, message, "NOT_WRITTEN")


def _is_sidecar(path: Path) -> bool:
    return path.name == SIDECAR


def _write_line(out: BinaryIO, record: dict[str, Any]) -> None:
    out.write(escaped_json(json.dumps(record, ensure_ascii=False)).encode() + b"\n")
