"""The server on stdin and stdout."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vikingd.client import AsyncClient
from vikingd.mcp.server import server


async def serve(opened: Callable[[], AsyncClient], read_only: bool) -> None:
    """Serve until stdin ends, or nobody reads stdout.

    Args:
        opened: opens the client, within the event loop.
        read_only: leave out the tools that write.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")  # to stderr
    async with opened() as client:
        try:
            await server(lambda _: client, read_only).run_stdio_async()
        except* (BrokenPipeError, ConnectionResetError):
            pass
