"""The synchronous client."""

from __future__ import annotations

import os
from collections.abc import Callable

from vikingd.client.connection import Connection
from vikingd.client.files import import_path
from vikingd.client.importing import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.client.methods import BlockingResults


class Client(Connection, BlockingResults):
    """A connection to a daemon; usable from any thread, and as a context manager.

    It connects with the first call. Methods return dataclasses (see vikingd.client.results) and
    raise ClientError, or one of the classes below it in vikingd.client.errors.

    Args:
        address: HOST:PORT of the daemon.
        timeout: deadline of each call in seconds, retries included; None for none.
        retries: send a call again, up to three times within a second or so, when the daemon is
            unavailable, if its method says that. False: raise at once.

    Attributes:
        address: as given.
        timeout: as given.
        retries: as given.
    """

    _converts = True

    def import_path(
        self,
        path: str | os.PathLike[str],
        uri: str = "",
        *,
        delete: bool = False,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Imports files; what did not change since the last time is left alone.

        It returns when all is found by its text; vectors follow. After Ctrl-C what is in stays,
        and the next import goes on from there.

        Args:
            path: a directory of Markdown, text and source code, one such file, or JSON lines.
            uri: what it becomes; JSON lines bring URIs of their own.
            delete: remove what is below `uri` and no longer in `path`.
            dry_run: change nothing; the summary says what would change.
            progress: told how many contexts were just dealt with.

        Raises:
            InvalidField: `uri` is none, or is needed; or `path` cannot be imported so.
            OSError: `path` cannot be read.
            ClientError: the daemon cannot be reached.
        """
        with MessageClient(self.address, self.timeout, retries=self.retries) as messages:
            return import_path(
                messages, path, uri, delete=delete, dry_run=dry_run, progress=progress
            )
