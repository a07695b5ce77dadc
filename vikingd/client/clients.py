"""The clients whose methods return dataclasses, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from vikingd.client import document_writes
from vikingd.client.calls import checked
from vikingd.client.committing import Commit
from vikingd.client.connection import AsyncConnection, Connection
from vikingd.client.contexts import AddResult, PutResult
from vikingd.client.document_writes import Progress, PutSummary
from vikingd.client.documents import Given
from vikingd.client.errors import FieldViolation, InvalidField
from vikingd.client.extracted import ExtractResult
from vikingd.client.importing import Importer, ImportSummary, items_of
from vikingd.client.memories import AsyncMemories, Memories
from vikingd.client.messages import MessageClient
from vikingd.client.methods import AwaitedResults, BlockingResults
from vikingd.client.session import Session
from vikingd.client.steps import arun, run
from vikingd.client.values import When
from vikingd.domain import errors

if TYPE_CHECKING:
    from vikingd.client.values import Vector


class Client(Connection, BlockingResults):
    """A connection to a daemon; usable from any thread, and as a context manager.

    It connects with the first call. Methods return dataclasses (see vikingd.client.results) and
    raise ClientError or one of its subclasses in vikingd.client.errors.

    Args:
        address: of the daemon: HOST:PORT, unix:PATH, or vikings://HOST:PORT for TLS; several IP
            addresses with commas between them; None: VIKINGD_ADDRESS in the environment, else
            127.0.0.1:7716.
        timeout: deadline of each call in seconds, retries included; None: no deadline.
        retries: send a call again when the daemon is unavailable, up to three times within about
            a second, if the method's documentation allows it. False: raise the error at once.
        key: sent with each call. A key is never sent in plain text to another machine.
        tenant: the tenant that the key of an operator works in.
        ca: PEM file of the authorities that may sign the daemon's certificate. Without one those
            of gRPC count.
        certificate, private_key: PEM files of the client's certificate, if the daemon wants one.
        trust_network: send the key in plain text too.
        consistent: each call sees what this client wrote and read before, whichever process
            answers it.

    Key, tenant and files come from the environment if they are None: VIKINGD_KEY or
    VIKINGD_KEY_FILE, VIKINGD_TENANT, VIKINGD_CA, VIKINGD_CERT and VIKINGD_CERT_KEY.

    Raises:
        ValueError: the address, the key or a file cannot be used, or the key would cross the
            network in plain text.

    Attributes:
        address, timeout, retries, consistent: the arguments.
    """

    _converts = True

    @checked
    def add(
        self,
        text: str,
        at: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        time: When | None = None,
        wait_for_vectors: bool = False,
    ) -> AddResult:
        """Writes one text; the result has its URI.

        Args:
            text: the text.
            at: the URI of the file, or of a directory with a slash at its end. In a directory the
                file is named by the first words of the title or the text, and by a hash of the
                text, so that the same text is written once. An existing file is replaced.
            title: the title; "": none.
            metadata: a JSON object for `where` filters.
            time: the time of the described event; None: now.
            wait_for_vectors: wait until the text is found by meaning too, not by its words alone.

        Raises:
            TypeError: an argument has a wrong type.
            ClientError: the daemon refuses the text.
        """
        return run(self, document_writes.add(text, at, title, metadata, time, wait_for_vectors))

    @checked
    def put_many(self, documents: Iterable[Given], *, progress: Progress = False) -> PutSummary:
        """Writes any number of documents, in batches.

        The daemon writes each batch at once. A document that cannot be sent or is refused is in
        `failed` of the summary, and the others are written. After an error the earlier batches
        stay; a repetition of the call leaves them unchanged.

        Args:
            documents: Documents, or dicts with their fields, each URI once.
            progress: True shows a bar on stderr; a function is called with the number of documents
                just finished.

        Raises:
            TypeError: something is no document.
            ClientError: the daemon cannot be reached, or refuses the calls.
        """
        document_writes.check_documents(documents)
        with document_writes.advancing(progress, documents) as advance:
            return run(self, document_writes.put_many(documents, PutSummary(), advance))

    @checked
    def update(
        self,
        uri: str,
        *,
        content: str | None = None,
        title: str | None = None,
        abstract: str | None = None,
        overview: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        time: When | None = None,
        vector: Vector | None = None,
        expected_revision: int | None = None,
    ) -> PutResult:
        """Changes the given fields of a context; the others stay.

        Args:
            uri: the URI of the context.
            content, title, abstract, overview: the new texts; "" removes one.
            metadata: the new metadata, which replaces the old one whole; {} removes it.
            time: the new time of the described event.
            vector: the new embedding of the abstract.
            expected_revision: the revision that the context must have; None: any revision.

        Raises:
            ValueError: no field is given.
            NotFound: there is no such context.
            RevisionDiffers: the context has another revision.
        """
        fields = {
            "content": content,
            "title": title,
            "abstract": abstract,
            "overview": overview,
            "metadata": metadata,
            "time": time,
            "vector": vector,
        }
        return run(self, document_writes.update(uri, expected_revision, fields))

    @checked
    def exists(self, uri: str) -> bool:
        """Returns True if there is a file or directory that the caller may read."""
        return run(self, document_writes.exists(uri))

    @checked
    def memories(self, *, user: str = "", project: str = "", kind: str = "") -> Memories:
        """Returns the memories, to list, edit and delete: `for memory in client.memories()`.

        Args:
            user: those of this user; "~": the user of the client's key.
            project: those of this project.
            kind: those of this type only, such as "preferences"; "": all types.

        Without user and project these are the shared memories and the caller's own.
        """
        return Memories(self, user, project, kind)

    @checked
    def commit(
        self,
        session: Session,
        *,
        project: str = "",
        time: When | None = None,
        time_zone: str = "",
    ) -> Future[ExtractResult]:
        """Take memories from the new messages of a session, in the background.

        Call it at the end of a turn. It returns at once; the future has the result of `extract`, or
        its error. Each message is read once: the session counts those that were read, and its file
        keeps the number. The messages of a failed commit are read by the next one. The commits of a
        session run one after the other; `close` waits for all of this connection. Messages that
        `keep` dropped before a commit are not read.

        Args:
            session: the session.
            project: as in `extract`.
            time: the time of the conversation; None: now.
            time_zone: as in `extract`.

        The evidence of the result counts all messages of the session from 0, dropped ones included.
        """
        commit = Commit(session, _options(project, time, time_zone))
        before, ended = session.commits.begin()
        result: Future[ExtractResult] = Future()
        self._commits.add(result)

        def run() -> None:
            try:
                if before is not None:
                    before.result()
                for piece in commit.pieces():
                    try:
                        done = self.extract(piece.session, **piece.arguments())
                    except BaseException as error:
                        commit.failed(piece, error)
                        raise
                    commit.done(piece, done)
            except BaseException as error:  # the future tells of it
                ended.set_result(None)
                result.set_exception(error)
            else:
                ended.set_result(None)
                result.set_result(commit.result())

        threading.Thread(target=run, name="commit").start()
        return result

    def close(self) -> None:
        """Waits for the commits, and ends the connection; calls in flight fail."""
        wait(self._commits.all())
        super().close()

    def import_path(
        self,
        path: str | os.PathLike[str],
        uri: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Imports files; unchanged contexts are not written again.

        It returns when all contexts are found by their text; vectors follow. After Ctrl-C the
        imported contexts stay, and the next import continues from there.

        Args:
            path: a directory of Markdown, text and source code, one such file, or JSON lines.
            uri: the URI of `path` in the tree; JSON lines have URIs of their own.
            delete: remove the contexts below `uri` that are no longer in `path`.
            dry_run: change nothing; the summary lists the planned changes.
            progress: called with the number of contexts that were just finished.

        Raises:
            InvalidField: `uri` is invalid or missing, or `path` does not fit the other arguments.
            OSError: `path` cannot be read.
            ClientError: the daemon cannot be reached.
        """
        return _import(self, path, uri, delete=delete, dry_run=dry_run, progress=progress)


class AsyncClient(AsyncConnection, AwaitedResults):
    """A connection to a daemon within one event loop; usable as an async context manager.

    Arguments, attributes, results and errors are the same as those of Client.
    """

    _converts = True

    @checked
    async def add(
        self,
        text: str,
        at: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        time: When | None = None,
        wait_for_vectors: bool = False,
    ) -> AddResult:
        """Writes one text; see Client.add."""
        return await arun(
            self, document_writes.add(text, at, title, metadata, time, wait_for_vectors)
        )

    @checked
    async def put_many(
        self, documents: Iterable[Given], *, progress: Progress = False
    ) -> PutSummary:
        """Writes any number of documents; see Client.put_many.

        `documents` is read on the event loop, and a `progress` function is called there.
        """
        document_writes.check_documents(documents)
        with document_writes.advancing(progress, documents) as advance:
            return await arun(self, document_writes.put_many(documents, PutSummary(), advance))

    @checked
    async def update(
        self,
        uri: str,
        *,
        content: str | None = None,
        title: str | None = None,
        abstract: str | None = None,
        overview: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        time: When | None = None,
        vector: Vector | None = None,
        expected_revision: int | None = None,
    ) -> PutResult:
        """Changes the given fields of a context; see Client.update."""
        fields = {
            "content": content,
            "title": title,
            "abstract": abstract,
            "overview": overview,
            "metadata": metadata,
            "time": time,
            "vector": vector,
        }
        return await arun(self, document_writes.update(uri, expected_revision, fields))

    @checked
    async def exists(self, uri: str) -> bool:
        """Returns True if there is a file or directory that the caller may read."""
        return await arun(self, document_writes.exists(uri))

    @checked
    def memories(self, *, user: str = "", project: str = "", kind: str = "") -> AsyncMemories:
        """Returns the memories: `async for memory in client.memories()`; see Client.memories."""
        return AsyncMemories(self, user, project, kind)

    @checked
    def commit(
        self,
        session: Session,
        *,
        project: str = "",
        time: When | None = None,
        time_zone: str = "",
    ) -> asyncio.Task[ExtractResult]:
        """Take memories from the new messages of a session, in a task; see Client.commit.

        A task that is cancelled leaves its messages to the next commit.
        """
        commit = Commit(session, _options(project, time, time_zone))
        before, ended = session.commits.begin()

        async def run() -> ExtractResult:
            if before is not None:
                await asyncio.shield(asyncio.wrap_future(before))
            for piece in commit.pieces():
                try:
                    done = await self.extract(piece.session, **piece.arguments())
                except BaseException as error:
                    commit.failed(piece, error)
                    raise
                commit.done(piece, done)
            return commit.result()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(lambda _: ended.set_result(None))  # also if it never began
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Waits for the commits, and ends the connection; calls in flight fail."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await super().close()

    async def import_path(
        self,
        path: str | os.PathLike[str],
        uri: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Imports files, on a thread; see Client.import_path.

        `progress` is called on the event loop. After a cancellation the import ends when the
        batches in flight are done.
        """
        loop = asyncio.get_running_loop()
        cancelled = threading.Event()

        def advance(count: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, count)

        running = asyncio.ensure_future(
            asyncio.to_thread(
                _import,
                self,
                path,
                uri,
                delete=delete,
                dry_run=dry_run,
                progress=advance,
                cancelled=cancelled,
            )
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([running])
            raise


def _options(project: str, time: When | None, time_zone: str) -> dict[str, Any]:
    given = {"project": project, "time": time, "time_zone": time_zone}
    return {name: value for name, value in given.items() if value}


def _import(
    client: Client | AsyncClient,
    path: str | os.PathLike[str],
    uri: str,
    *,
    delete: bool,
    dry_run: bool,
    progress: Callable[[int], None] | None,
    cancelled: threading.Event | None = None,
) -> ImportSummary:
    """Import files; `cancelled` ends the import, and Ctrl-C ends it with KeyboardInterrupt."""
    Path(path).stat()  # raises if the path does not exist
    try:
        top, items, _ = items_of(Path(path), uri, delete=delete)
    except errors.InvalidField as error:
        violation = FieldViolation(error.field, error.description)
        raise InvalidField(
            grpc.StatusCode.INVALID_ARGUMENT, str(error), error.reason, error.metadata, (violation,)
        ) from None
    with MessageClient(
        client.address,
        client.timeout,
        retries=client.retries,
        consistent=client.consistent,
        **asdict(client._credentials),
    ) as messages:
        messages._seen = client._seen  # one session
        importer = Importer(messages, top, delete=delete, dry_run=dry_run, cancelled=cancelled)
        importer.run(items, progress or (lambda _: None))
    if importer.summary.end == "interrupted" and not (cancelled and cancelled.is_set()):
        raise KeyboardInterrupt
    return importer.summary
