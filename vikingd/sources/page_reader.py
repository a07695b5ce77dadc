"""Reads pages in a child process, so that a hostile page can only spoil its own result."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from vikingd.sources.page_child import LENGTHS, packed
from vikingd.sources.page_content import PageContent, Unfit

_MEMORY = 1 << 30  # bytes of data of the child


class PageReader:
    """Reads the content of HTTP responses, one at a time, in a child that the first one starts.

    A child that crashed or took too long is replaced for the next page.

    Attributes:
        seconds: the time for one page.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self._turn = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None

    async def read(self, data: bytes, stated_type: str, address: str, robots: str) -> PageContent:
        """Read the content of an HTTP response in the child; see `page_content.read_content`.

        Args:
            data: the body, decompressed.
            stated_type: the header Content-Type; "" without one.
            address: the canonical address of the page.
            robots: the header X-Robots-Tag; "" without one.

        Raises:
            Unfit: the content cannot be stored, or takes too much time or memory.
        """
        values = {"stated_type": stated_type, "address": address, "robots": robots}
        async with self._turn:
            try:
                async with asyncio.timeout(self.seconds):
                    found, content = await self._ask(packed(values, data))
            except TimeoutError:
                await self.close()
                raise Unfit(f"takes more than {self.seconds:g} s to read") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                await self.close()
                raise Unfit(
                    "ends its parser: it is damaged, or it needs more than "
                    f"{_MEMORY >> 20:,} MiB of memory to read"
                ) from None
            except asyncio.CancelledError:
                await self.close()
                raise
        if "unfit" in found:
            raise Unfit(found["unfit"])
        return PageContent(data=content, **found)

    async def close(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _ask(self, request: bytes) -> tuple[dict[str, Any], bytes]:
        if self._child is None:
            # Its own session, so that Ctrl-C reaches the parent alone.
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "vikingd.sources.page_child", str(_MEMORY)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(request)
        await self._child.stdin.drain()
        lengths = LENGTHS.unpack(await self._child.stdout.readexactly(LENGTHS.size))
        head, data = [await self._child.stdout.readexactly(size) for size in lengths]
        return json.loads(head), data
