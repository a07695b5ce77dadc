"""The clients whose methods return dataclasses, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait

from vikingd.client.argument_checks import checked
from vikingd.client.client_connection import AsyncConnection, Connection, with_functions
from vikingd.client.conversation import Session
from vikingd.client.extract_results import ExtractResult
from vikingd.client.import_summary import ImportSummary
from vikingd.client.memory_commits import Commit
from vikingd.client.memory_entries import AsyncMemories, Memories
from vikingd.client.multi_call_steps import arun, run
from vikingd.client.result_methods import AwaitedMethods, BlockingMethods
from vikingd.client.value_conversion import When


@with_functions
class Client(Connection, BlockingMethods):
    """A connection to a daemon; usable from any thread, and as a context manager.

    It connects with the first call. Methods return dataclasses (see vikingd.client.results) and
    raise ClientError or one of its subclasses in vikingd.client.client_errors.

    Args:
        address: the daemon's: HOST:PORT, unix:PATH, or vikings://HOST:PORT for TLS; several IP
            addresses with commas between them; "user": this user's own daemon, which any call but
            health starts if it does not run; None: VIKINGD_ADDRESS in the environment, else
            127.0.0.1:7716.
        timeout: deadline of each call in seconds, retries included; None: no deadline.
        retries: send a call again when the daemon is unavailable, up to three times within about
            a second, if the method's documentation allows it. False: raise the error at once.
        key: sent with each call. A key is never sent in plain text to another machine.
        tenant: the tenant that the key of an operator works in.
        ca: PEM file of the authorities that may sign the daemon's certificate. None: the
            authorities that gRPC trusts.
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

    @checked
    def memories(self, *, user: str = "", project: str = "", kind: str = "") -> Memories:
        """Return the memories, to list, edit and delete: `for memory in client.memories()`.

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
        commit = Commit(session, project=project, time=time, time_zone=time_zone)
        before, ended = session.commits.begin()
        result: Future[ExtractResult] = Future()
        self._commits.add(result)
        result.add_done_callback(self._commits.discard)

        def work() -> None:
            try:
                if before is not None:
                    before.result()
                found = run(self, commit.steps())
            except BaseException as error:  # the future has the error
                ended.set_result(None)
                result.set_exception(error)
            else:
                ended.set_result(None)
                result.set_result(found)

        threading.Thread(target=work, name="commit").start()
        return result

    def close(self) -> None:
        """Wait for the commits, and end the connection; calls in flight fail."""
        wait(list(self._commits))
        super().close()

    def import_path(
        self,
        path: str | os.PathLike[str],
        uri: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        no_ignore: bool = False,
        max_file_size: int | str | None = None,
        encoding: str = "",
        with_secrets: bool = False,
        hidden: bool = False,
        ref: str = "",
        below: str = "",
        depth: int | None = None,
        max_pages: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Import files, or a source by its address; unchanged contexts are not written again.

        It returns when all contexts are found by their text; vectors follow. After Ctrl-C the
        imported contexts stay, and the next import continues from there.

        Hidden files are left out, and what `.ignore` files name, and in a git checkout what
        `.gitignore`, `.git/info/exclude` and git's global excludes file name. Hidden directories
        that git tracks are taken. The summary lists what is left out, and the rule. What is left
        out is never deleted.

        An address is fetched by this client into the user's cache, and imported as a folder is: a
        page (`https://`), a repository (`git+https://`, `git+http://`, `git+ssh://`, `git+file://`,
        with a folder behind `#`), an archive (zip, tar; also by its path). The metadata `source`
        of each file says where it came from. A second import takes what changed, and moves what was
        renamed. `vikingctl sources` lists what was imported by address.

        Args:
            path: a directory of Markdown, text and source code, one such file, JSON lines, an
                archive, or an address.
            uri: the URI of `path` in the tree; JSON lines have URIs of their own.
            delete: remove the contexts below `uri` that are no longer in `path`.
            dry_run: change nothing; the summary lists the planned changes.
            include: take only files that match one of these globs, in gitignore's syntax, relative
                to `path`. What a glob names without a wildcard is taken in any case.
            exclude: leave out files and directories that match one of these globs.
            no_ignore: read no ignore files.
            max_file_size: leave out larger files: bytes, or a text such as "10 MB".
            encoding: of text files without byte order mark that are not UTF-8, such as "gb18030".
            with_secrets: take secrets, too, and files that consist of them, such as private keys.
            hidden: take hidden files and directories, too.
            ref: of a repository: a branch, a tag or a commit; "": its default branch.
            below: of a page: import the site below this prefix or path, not the page alone.
            depth: of a site: the largest number of links from the page; None: no limit.
            max_pages: of a site: the largest number of pages; None: the default.
            progress: called with the number of contexts that were just finished.

        Raises:
            InvalidField: `uri` is invalid or missing, or `path` does not fit the other arguments.
            OSError: `path` cannot be read.
            NotFetched: the address cannot be fetched.
            ClientError: the daemon cannot be reached.
        """
        from vikingd.client.path_imports import Options, import_path  # they load readers of files

        given = Options(
            *(include, exclude, no_ignore, max_file_size, encoding, with_secrets, hidden),
            *(ref, below, depth, max_pages, delete),
        )
        return import_path(self, path, uri, given, dry_run=dry_run, progress=progress)


@with_functions
class AsyncClient(AsyncConnection, AwaitedMethods):
    """A connection to a daemon within one event loop; usable as an async context manager.

    Arguments, attributes, results and errors are the same as those of Client.
    """

    @checked
    def memories(self, *, user: str = "", project: str = "", kind: str = "") -> AsyncMemories:
        """Return the memories: `async for memory in client.memories()`; see Client.memories."""
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
        commit = Commit(session, project=project, time=time, time_zone=time_zone)
        before, ended = session.commits.begin()

        async def work() -> ExtractResult:
            if before is not None:
                await asyncio.shield(asyncio.wrap_future(before))
            return await arun(self, commit.steps())

        task = asyncio.get_running_loop().create_task(work())
        self._commits.add(task)
        task.add_done_callback(lambda _: ended.set_result(None))  # also if it never began
        task.add_done_callback(self._commits.discard)
        return task

    async def close(self) -> None:
        """Wait for the commits, and end the connection; calls in flight fail."""
        if self._commits:
            await asyncio.wait(self._commits)
        await super().close()

    async def import_path(
        self,
        path: str | os.PathLike[str],
        uri: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        no_ignore: bool = False,
        max_file_size: int | str | None = None,
        encoding: str = "",
        with_secrets: bool = False,
        hidden: bool = False,
        ref: str = "",
        below: str = "",
        depth: int | None = None,
        max_pages: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Import files, on a thread; see Client.import_path.

        `progress` is called on the event loop. After a cancellation the import ends when the
        batches in flight are done.
        """
        loop = asyncio.get_running_loop()
        cancelled = threading.Event()

        def advance(count: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, count)

        def work() -> ImportSummary:
            from vikingd.client.path_imports import Options, import_path  # .2 s at its first import

            given = Options(
                *(include, exclude, no_ignore, max_file_size, encoding, with_secrets, hidden),
                *(ref, below, depth, max_pages, delete),
            )
            return import_path(
                *(self, path, uri, given), dry_run=dry_run, progress=advance, cancelled=cancelled
            )

        running = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([running])
            raise
