"""Archives on the web, downloaded into a file under the same host rules as pages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vikingd.sources.archives import MAX_ARCHIVE
from vikingd.sources.fetch_result import SourceFailed
from vikingd.sources.host_addresses import HostAddresses
from vikingd.sources.host_rules import MAX_REDIRECTS, REDIRECTS
from vikingd.sources.page_addresses import canonical, checked, origin_of
from vikingd.sources.web_requests import Unanswered, WebRequests

MAX_SECONDS = 3600.0
"""The most seconds of a whole download."""

_BLOCK = 1 << 16
_LOOK = 0.1  # seconds between two looks at the request to end


@dataclass(slots=True)
class Download:
    """The result of a download.

    Attributes:
        is_unchanged: True if the host says that nothing changed; then nothing was received.
        etag, modified: the host's ETag and Last-Modified, for the next download; "" for none.
        is_public: True if the host of the address was public.
    """

    is_unchanged: bool
    etag: str
    modified: str
    is_public: bool = False


def download(
    address: str, file: Path, state: Mapping[str, Any], cancelled: threading.Event
) -> Download:
    """Fetch an archive into a file.

    Args:
        address: an address of http or https.
        file: the file, which is replaced.
        state: `etag`, `modified` and `is_public` of the last download; empty: there is none.
        cancelled: an event that ends the download.

    Raises:
        InvalidField: the address cannot be used.
        SourceFailed: it cannot be fetched, or is too large.
        InterruptedError: `cancelled` was set.
        OSError: the file cannot be written.
    """
    start = checked(address, "path")
    executor = ThreadPoolExecutor(1)
    hosts = HostAddresses(origin_of(start)[1], bool(state.get("is_public")), executor)
    requests = WebRequests(hosts, MAX_SECONDS, MAX_ARCHIVE)
    try:
        with file.open("wb") as out:
            found = asyncio.run(_until(_download(requests, start, out, state), cancelled))
    except Unanswered as error:
        raise SourceFailed(f"{address} {error}") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
    found.is_public = hosts.is_named_public
    return found


async def _until(work: Coroutine[Any, Any, Download], cancelled: threading.Event) -> Download:
    """Await a coroutine; cancel it when `cancelled` is set."""
    task = asyncio.create_task(work)
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK)
        if cancelled.is_set():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise InterruptedError
    return task.result()


async def _download(
    requests: WebRequests, at: str, out: IO[bytes], state: Mapping[str, Any]
) -> Download:
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if etag := state.get("etag"):
        headers["If-None-Match"] = etag
    elif modified := state.get("modified"):
        headers["If-Modified-Since"] = modified
    try:
        for _ in range(MAX_REDIRECTS + 1):
            async with requests.stream(at, headers) as response:
                said = response.headers
                if response.status_code in REDIRECTS:
                    target = canonical(said.get("location", ""), at)
                    if target is None:
                        raise Unanswered("redirects to no page")
                    at = target
                    continue
                if response.status_code == 304 and state:
                    return Download(True, state.get("etag", ""), state.get("modified", ""))
                if response.status_code != 200:
                    raise Unanswered(f"answers {response.status_code}")
                size = 0
                async for block in response.aiter_raw(_BLOCK):
                    size += len(block)
                    if size > MAX_ARCHIVE:
                        raise Unanswered(f"has more than {MAX_ARCHIVE:,} bytes, the limit")
                    out.write(block)
                return Download(False, said.get("etag", ""), said.get("last-modified", ""))
        raise Unanswered(f"redirects more than {MAX_REDIRECTS} times")
    finally:
        await requests.close()
