"""Archives by the address of the web, fetched into a file under the rules for pages.

Each host is checked, also after a redirect, and connected to by the IP address that was checked.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from vikingd.sources.archives import MAX_ARCHIVE
from vikingd.sources.fetched import SourceFailed
from vikingd.system.installing import install_command

MAX_SECONDS = 3600.0
"""Limit of a whole download."""

_MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BLOCK = 1 << 16
_LOOK = 0.1  # seconds between two looks at the request to end


@dataclass(frozen=True, slots=True)
class Download:
    """The end of a download.

    Attributes:
        is_unchanged: True if the host says that nothing changed; then nothing came.
        etag, modified: the host's words, for the next download; "" for none.
        is_public: True if the host of the address was public.
    """

    is_unchanged: bool
    etag: str
    modified: str
    is_public: bool


def download(
    address: str, file: Path, state: Mapping[str, Any] | None, cancelled: threading.Event
) -> Download:
    """Fetch an archive into a file.

    Args:
        address: an address of http or https.
        file: the file, which is replaced.
        state: `etag`, `modified` and `is_public` of the last download; None: there is none.
        cancelled: an event that ends the download.

    Raises:
        SourceFailed: it cannot be fetched, or is too large.
        InterruptedError: `cancelled` was set.
        OSError: the file cannot be written.
    """
    try:
        web = import_module("vikingd.sources.web_requests")
    except ModuleNotFoundError as error:
        raise SourceFailed(
            f"{error.name} is not installed; install it with: {install_command('web')}"
        ) from None
    places = import_module("vikingd.sources.host_addresses")
    executor = ThreadPoolExecutor(1)
    try:
        with file.open("wb") as out:
            host = urlsplit(address).hostname or ""
            hosts = places.HostAddresses(host, bool((state or {}).get("is_public")), executor)
            requests = web.WebRequests(hosts, MAX_SECONDS, MAX_ARCHIVE)
            work = _download(requests, address, out, state or {})
            found = asyncio.run(_until(work, cancelled))
        return Download(*found, is_public=hosts.is_named_public)
    except (web.Unanswered, places.Inward) as error:
        raise SourceFailed(f"{address} {error}") from None
    except (web.httpx.HTTPError, socket.gaierror) as error:
        raise SourceFailed(f"{address} cannot be fetched: {error}") from None
    except TimeoutError:
        raise SourceFailed(f"{address} takes more than {MAX_SECONDS:,.0f} s") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


async def _until(work: Any, cancelled: threading.Event) -> tuple[bool, str, str]:
    """Await the work, or end it when `cancelled` is set."""
    task = asyncio.ensure_future(asyncio.wait_for(work, MAX_SECONDS))
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK)
        if cancelled.is_set():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise InterruptedError
    found: tuple[bool, str, str] = task.result()
    return found


async def _download(
    requests: Any, address: str, out: IO[bytes], state: Mapping[str, Any]
) -> tuple[bool, str, str]:
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if etag := state.get("etag"):
        headers["If-None-Match"] = etag
    elif modified := state.get("modified"):
        headers["If-Modified-Since"] = modified
    at = address
    try:
        for _ in range(_MAX_REDIRECTS):
            response = await requests._send(at, headers)
            try:
                if response.status_code in _REDIRECTS:
                    at = urljoin(at, response.headers.get("location", ""))
                    if urlsplit(at).scheme not in ("http", "https"):
                        raise SourceFailed(f"{address} redirects to {at[:200]}, which is no page")
                    continue
                if response.status_code == 304:
                    return True, str(state.get("etag", "")), str(state.get("modified", ""))
                if response.status_code != 200:
                    raise SourceFailed(f"{address} answers {response.status_code}")
                size = 0
                async for block in response.aiter_raw(_BLOCK):
                    size += len(block)
                    if size > MAX_ARCHIVE:
                        raise SourceFailed(
                            f"{address} has more than {MAX_ARCHIVE:,} bytes, the limit"
                        )
                    out.write(block)
                said = response.headers
                return False, said.get("etag", ""), said.get("last-modified", "")
            finally:
                await response.aclose()
        raise SourceFailed(f"{address} redirects more than {_MAX_REDIRECTS} times")
    finally:
        await requests.close()
