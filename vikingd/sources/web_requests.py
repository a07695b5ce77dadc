"""Requests to untrusted hosts: limited in size and time, and only to checked addresses."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from ssl import SSLContext

import httpx

from vikingd import __version__
from vikingd.sources.host_addresses import HostAddresses, PrivateHost
from vikingd.sources.page_addresses import origin_of
from vikingd.sources.robots_rules import AGENT

USER_AGENT = f"{AGENT}/{__version__}"
"""The User-Agent of each request."""

_CONNECT = 10.0  # seconds for a connection, at most
_READ = 20.0  # seconds between two pieces of an answer, at most
_CHUNK = 1 << 16  # bytes
_PLAIN = ("", "identity")
_GZIP = ("gzip", "x-gzip")
_LONG = 200  # characters of a library's message


class Unanswered(Exception):
    """A request without a usable answer; the message is a reason, to be put after the address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: an HTTP response.

    Attributes:
        status: the status of HTTP.
        headers: by their names in lower case.
        body: the content, decompressed; b"" unless the status is 200.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return a header by its name in lower case; "" without one."""
        return self.headers.get(name, "")

    @property
    def modified(self) -> datetime | None:
        """The time of Last-Modified; None if it is not stated."""
        return _date(self.header("last-modified"))

    @property
    def retry_after(self) -> float | None:
        """The seconds until the host allows the next request; None if it does not say."""
        stated = self.header("retry-after").strip()
        if stated.isdecimal() and len(stated) < 10:
            return float(stated)
        until = _date(stated)
        return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until else None


class WebRequests:
    """Requests of one fetch. Neither cookies nor a proxy nor a password is used.

    Args:
        hosts: resolves and checks the names of hosts.
        seconds: the limit for a whole answer.
        limit: the bytes of the content of an answer, decompressed.
    """

    def __init__(self, hosts: HostAddresses, seconds: float, limit: int) -> None:
        self._hosts = hosts
        self._seconds = seconds
        self._limit = limit
        # One for each host, so that no connection is used for a host that its certificate does not
        # name though both have one address.
        self._transports: dict[tuple[str, str, int], httpx.AsyncHTTPTransport] = {}
        wait = min(_READ, seconds)
        self._timeouts = {"connect": min(_CONNECT, seconds), "read": wait, "write": wait}

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx.create_ssl_context()

    async def get(self, address: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask for a canonical address, without following a redirect.

        Raises:
            Unanswered: the host is not reached or not allowed, or the answer is too slow, too
                large, damaged or compressed in another way than with gzip.
        """
        async with self.stream(address, headers or {}) as response:
            body = await self._body(response) if response.status_code == 200 else b""
            given = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, given, body)

    @asynccontextmanager
    async def stream(
        self, address: str, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Request an address; the `with` block gets the HTTP response, and reads its body.

        The limit of time holds for the whole block.

        Raises:
            Unanswered: the host is not reached or not allowed, or the block takes too long.
        """
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    response = await self._send(address, headers)
                except OSError as error:  # one of the block is not of the host
                    raise Unanswered(f"cannot be fetched: {error.strerror or error}") from None
                try:
                    yield response
                finally:
                    await response.aclose()
        except PrivateHost as error:
            raise Unanswered(str(error)) from None
        except TimeoutError:
            raise Unanswered(f"takes more than {self._seconds:,g} s") from None
        except httpx.TimeoutException as error:
            what = "connection" if isinstance(error, httpx.ConnectTimeout) else "answer"
            raise Unanswered(f"gives no {what} in time") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise _unreached(error) from None

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    async def _send(self, address: str, headers: Mapping[str, str]) -> httpx.Response:
        scheme, host, _ = origin = origin_of(address)
        url = httpx.URL(address)
        if origin not in self._transports:
            self._transports[origin] = httpx.AsyncHTTPTransport(
                verify=self._tls if scheme == "https" else False,
                trust_env=False,
                limits=httpx.Limits(max_connections=None),
            )
        whole = {
            "Host": url.netloc.decode("ascii"),
            "User-Agent": USER_AGENT,
            "Accept": "text/html, application/xhtml+xml, text/markdown, text/*;q=0.9, */*;q=0.5",
            "Accept-Encoding": "gzip",
            **headers,
        }
        extensions: dict[str, object] = {"timeout": self._timeouts}
        if scheme == "https":
            extensions["sni_hostname"] = host
        fault: httpx.TransportError | None = None
        for place in await self._hosts.of(host):
            pinned = url.copy_with(host=place)
            request = httpx.Request("GET", pinned, headers=whole, extensions=extensions)
            try:
                return await self._transports[origin].handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                fault = error
        raise fault or httpx.ConnectError("its name has no address")

    async def _body(self, response: httpx.Response) -> bytes:
        """Read the content of an answer, up to the limit."""
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in (*_PLAIN, *_GZIP):
            raise Unanswered(f"is compressed with {coding[:20]}, which was not asked for")
        size = response.headers.get("content-length", "")
        if size.isdecimal() and int(size) > self._limit:
            raise Unanswered(f"has {int(size):,} bytes, at most {self._limit:,} are taken")
        content = _Content(self._limit, is_gzip=coding in _GZIP)
        async for chunk in response.aiter_raw(_CHUNK):
            content.add(chunk)
        return content.whole()


class _Content:
    """The content of an answer while it is received.

    Decompression stops at the limit, so that a small answer cannot fill the memory.
    """

    def __init__(self, limit: int, *, is_gzip: bool) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._is_gzip = is_gzip
        self._gzip = zlib.decompressobj(wbits=31)
        self._has_begun = False

    def add(self, chunk: bytes) -> None:
        """Add received bytes, and decompress them if needed.

        Raises:
            Unanswered: the content is too large, or its compression is damaged.
        """
        if not self._is_gzip:
            self._keep(chunk)
            return
        while chunk:
            if self._gzip.eof:  # another member follows
                self._gzip = zlib.decompressobj(wbits=31)
            self._has_begun = True
            try:
                self._keep(self._gzip.decompress(chunk, self._limit - self._size + 1))
            except zlib.error:
                raise Unanswered("has damaged compression") from None
            chunk = self._gzip.unused_data

    def whole(self) -> bytes:
        """Return the content.

        Raises:
            Unanswered: the compressed content is not complete.
        """
        if self._has_begun and not self._gzip.eof:
            raise Unanswered("is cut off")
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise Unanswered(f"has more than {self._limit:,} bytes")
        self._parts.append(part)


def _unreached(error: Exception) -> Unanswered:
    return Unanswered(f"cannot be fetched: {str(error)[:_LONG] or type(error).__name__}")


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
