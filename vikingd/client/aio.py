"""The asynchronous client."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

from vikingd.client.connection import AsyncConnection
from vikingd.client.files import import_path
from vikingd.client.importing import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.client.methods import AwaitedResults


class AsyncClient(AsyncConnection, AwaitedResults):
    """A connection to a daemon within one event loop; usable as an async context manager.

    Otherwise as Client: arguments, attributes, what methods return and raise.
    """

    _converts = True

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

        `progress` is called on the event loop. Cancelled, it ends after the batches that are in
        flight.
        """
        loop = asyncio.get_running_loop()
        cancelled = threading.Event()

        def advance(count: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, count)

        def run() -> ImportSummary:
            with MessageClient(self.address, self.timeout, retries=self.retries) as messages:
                return import_path(
                    messages,
                    path,
                    uri,
                    delete=delete,
                    dry_run=dry_run,
                    progress=advance,
                    cancelled=cancelled,
                )

        running = asyncio.ensure_future(asyncio.to_thread(run))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([running])
            raise
