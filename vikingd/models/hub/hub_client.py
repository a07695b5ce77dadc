"""The client of a model hub, such as Hugging Face: the hash, size and content of files by HTTP."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx

from vikingd.models.http.endpoint_secrets import is_loopback, key_in
from vikingd.models.http.retry_headers import retry_after
from vikingd.models.hub.cache import is_offline, size_of
from vikingd.models.hub.hub_errors import HubAway, HubFailed, HubRefused, NotOnHub

_T = TypeVar("_T")

_DEFAULT_ENDPOINT = "https://huggingface.co"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SIZE = re.compile(r"[0-9]{1,18}")
# Matches the header Content-Range: "bytes 100-999/1000", "bytes 100-999/*".
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]+|\*)")
_REDIRECTS = 5
_TRIES = 4
"""The most attempts in a row without further bytes."""
_PAUSE = 1.0
"""The seconds after the first attempt without bytes; doubled after each further one."""
_LONGEST_PAUSE = 60.0
"""The most seconds that a hub may ask to wait."""
_TIMEOUT = 10.0  # seconds
_OVERLOADED = 429
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """A file on the hub.

    Attributes:
        path: its path in the repository.
        commit: the commit that has the file.
        etag: the hash of its content: SHA-256 (64 hex digits) or the SHA-1 of a Git blob (40).
        size: the size in bytes.
        sha256: the pinned SHA-256 of its content; "" if none is pinned.
    """

    path: str
    commit: str
    etag: str
    size: int
    sha256: str = ""


class _Temporary(Exception):
    """A temporary failure: the next attempt may succeed.

    Attributes:
        wait: the seconds that the hub asks to wait; None: it names no time.
    """

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _Lost(_Temporary):
    """A connection could not be made, or was lost."""


class Hub:
    """A connection to the hub at HF_ENDPOINT, as a context manager.

    HF_TOKEN is sent to this endpoint alone. HF_HUB_ETAG_TIMEOUT (for entries) and
    HF_HUB_DOWNLOAD_TIMEOUT (for contents) are the most seconds without a received byte.

    Raises:
        HubFailed: an environment variable cannot be used; the message names it.
        HubAway: HF_HUB_OFFLINE forbids requests.
    """

    def __init__(self) -> None:
        if is_offline():
            raise HubAway("HF_HUB_OFFLINE is set, so no hub is asked")
        named = os.environ.get("HF_ENDPOINT") or _DEFAULT_ENDPOINT
        try:
            self._endpoint = httpx.URL(named.rstrip("/"))
        except httpx.InvalidURL as error:
            raise HubFailed(f"HF_ENDPOINT is no URL: {error}") from None
        if self._endpoint.scheme not in ("http", "https") or not self._endpoint.host:
            raise HubFailed(f"HF_ENDPOINT is {_shown(self._endpoint)!r}, not https://HOST")
        token = key_in("HF_TOKEN")
        if not (token.isascii() and token.isprintable()):
            raise HubFailed("HF_TOKEN has characters that are in no token")
        if token and self._endpoint.scheme != "https" and not is_loopback(self._endpoint.host):
            raise HubFailed(
                f"HF_TOKEN would go to {_shown(self._endpoint)} in plain text: set HF_ENDPOINT to "
                "https://..., or unset HF_TOKEN"
            )
        self._has_token = bool(token)
        self._for_entries = _seconds("HF_HUB_ETAG_TIMEOUT")
        self._for_contents = _seconds("HF_HUB_DOWNLOAD_TIMEOUT")
        headers = {"Accept-Encoding": "identity", "User-Agent": "vikingd"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._client = httpx.Client(headers=headers)
        except OSError as error:
            raise HubFailed(f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._client.close()

    def entry(self, repository: str, revision: str, path: str) -> Entry | None:
        """Return the entry of a file; None if the revision has no such file.

        Raises:
            HubFailed: the hub does not return the entry.
        """
        address = self._address(repository, revision, path)

        def ask() -> Entry | None:
            try:
                with self._reply("HEAD", address, {}, self._for_entries) as reply:
                    self._check(reply, repository, revision)
                    missing = reply.status_code == httpx.codes.NOT_FOUND
                    return None if missing else _entry_of(reply, revision, path)
            except _Lost as error:  # nothing has begun that is worth another attempt
                raise HubAway(str(error)) from None

        return _with_retries(ask, lambda: 0)

    def receive(
        self, repository: str, entry: Entry, file: Path, advance: Callable[[int], object]
    ) -> None:
        """Download the part of a content that `file` does not have yet, and append it.

        After a lost connection the download continues where it ended. After an error the received
        part stays in the file, for a later call.

        Args:
            repository: ORG/NAME.
            entry: the entry of the file, from `entry`.
            file: the file to write; at the end it has `entry.size` bytes.
            advance: called with the number of further bytes; negative if received bytes were
                dropped.

        Raises:
            HubFailed: the content cannot be downloaded.
            OSError: the file cannot be written.
        """
        address = self._address(repository, entry.commit, entry.path)

        def have() -> int:
            return max(size_of(file), 0)

        def give_up() -> None:
            advance(-have())
            file.unlink(missing_ok=True)

        def go_on() -> None:
            if have() > entry.size:
                give_up()
            if size_of(file) == entry.size:
                return
            at = have()
            headers = {"Range": f"bytes={at}-"} if at else {}
            with self._reply("GET", address, headers, self._for_contents) as reply:
                if reply.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    give_up()
                    raise _Temporary(f"{_shown(address)} has no part from byte {at:,} on")
                self._check(reply, repository, entry.commit)
                if reply.status_code == httpx.codes.NOT_FOUND:
                    raise NotOnHub(f"{_shown(reply.url)} does not exist")
                if _first_byte(reply, at, entry.size) < at:
                    give_up()
                if not _append(reply, file, entry.size, advance):
                    give_up()
                    raise HubFailed(f"{_shown(reply.url)} has more than {entry.size:,} bytes")
            if have() < entry.size:
                raise _Lost(f"{_shown(address)}: the connection ended too early")

        advance(have())
        _with_retries(go_on, have)

    def _address(self, repository: str, revision: str, path: str) -> httpx.URL:
        written = f"{repository}/resolve/{quote(revision, safe='')}/{quote(path)}"
        return httpx.URL(f"{self._endpoint}/{written}")

    @contextmanager
    def _reply(
        self, method: str, address: httpx.URL, headers: dict[str, str], patience: float
    ) -> Iterator[httpx.Response]:
        """Send a request and yield the reply, after redirects.

        For HEAD, a redirect to another host is not followed: its headers describe the file.
        """
        request = self._client.build_request(method, address, headers=headers, timeout=patience)
        try:
            reply = self._client.send(request, stream=True)
            for _ in range(_REDIRECTS):
                onward = reply.next_request
                if onward is None or (method == "HEAD" and onward.url.netloc != address.netloc):
                    break
                reply.close()
                if address.scheme == "https" and onward.url.scheme != "https":
                    raise HubFailed(f"{_shown(address)} redirects to plain HTTP, which is refused")
                reply = self._client.send(onward, stream=True)
            else:
                reply.close()
                raise HubFailed(f"{_shown(address)} redirects more than {_REDIRECTS} times")
            try:
                yield reply
            finally:
                reply.close()
        except httpx.TimeoutException:
            raise _Lost(f"{_shown(address)}: nothing came for {patience:g} s") from None
        except httpx.UnsupportedProtocol as error:
            raise HubFailed(f"{_shown(address)}: {error}") from None
        except httpx.TransportError as error:
            raise _Lost(f"{_shown(address)}: {str(error) or type(error).__name__}") from None

    def _check(self, reply: httpx.Response, repository: str, revision: str) -> None:
        """Raise the error that the status of a reply means.

        A success raises none, nor does status 404 for a missing file.
        """
        status, about = reply.status_code, reply.headers.get("X-Error-Code", "")
        told = f"{_shown(reply.url)} answers {status}"
        elsewhere = reply.url.netloc != self._endpoint.netloc
        if status in (_OVERLOADED, httpx.codes.REQUEST_TIMEOUT) or status >= _SERVER_ERROR:
            raise _Temporary(told, retry_after(reply.headers))
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            if elsewhere:  # the signature in a redirect has a time to live
                raise _Temporary(told)
            remedy = (
                "HF_TOKEN is not valid, or may not read it"
                if self._has_token
                else "it does not exist, or needs a token: set HF_TOKEN"
            )
            raise HubRefused(f"{_shown(self._endpoint)} refuses {repository} ({status}): {remedy}")
        if about in ("RepoNotFound", "RevisionNotFound"):
            missing = repository if about == "RepoNotFound" else f"{repository} at {revision}"
            raise NotOnHub(f"{_shown(self._endpoint)} has no {missing}")
        if reply.is_client_error and status != httpx.codes.NOT_FOUND:
            raise HubFailed(told)


def _with_retries(attempt: Callable[[], _T], progress: Callable[[], int]) -> _T:
    """Call `attempt` until it succeeds; return its result.

    Temporary failures are retried, until `_TRIES` in a row bring no progress.

    Args:
        attempt: raises `_Temporary` for a temporary failure.
        progress: returns the number of bytes that were received so far.

    Raises:
        HubAway: the last attempt failed, or the hub asks to wait for too long.
    """
    most, failed = progress(), 0
    while True:
        try:
            return attempt()
        except _Temporary as error:
            now = progress()
            failed = 1 if now > most else failed + 1
            most = max(most, now)
            pause = _PAUSE * 2 ** (failed - 1) if error.wait is None else error.wait
            if failed < _TRIES and pause <= _LONGEST_PAUSE:
                time.sleep(pause)
                continue
            asked = "" if error.wait is None else f", and asks to wait {error.wait:,.0f} s"
            raise HubAway(f"{error}{asked}") from None


def _entry_of(reply: httpx.Response, revision: str, path: str) -> Entry:
    headers, where = reply.headers, _shown(reply.url)
    commit = headers.get("X-Repo-Commit", "")
    if not _COMMIT.fullmatch(commit):
        raise HubFailed(
            f"{where} does not answer like a hub, without X-Repo-Commit: check HF_ENDPOINT, and "
            "whether a proxy or a login page stands between"
        )
    if _COMMIT.fullmatch(revision) and commit != revision:
        raise HubFailed(f"{where} is of the commit {commit}, not {revision}")
    etag = headers.get("X-Linked-Etag") or headers.get("ETag", "")
    etag = etag.removeprefix("W/").strip('"')
    if not _ETAG.fullmatch(etag):
        raise HubFailed(f"{where} has the ETag {etag!r}, which is no SHA-256 and no hash of Git")
    size = headers.get("X-Linked-Size") or headers.get("Content-Length", "")
    if not _SIZE.fullmatch(size):
        raise HubFailed(f"{where} has no size")
    return Entry(path, commit, etag, int(size))


def _first_byte(reply: httpx.Response, have: int, size: int) -> int:
    """Return the byte of the file's content with which the body of a reply begins.

    It is `have` if the reply has the rest from there on, or 0 if it has the whole content.

    Raises:
        HubFailed: the reply has another part, another size, or is an HTML page.
    """
    where = _shown(reply.url)
    if "text/html" in reply.headers.get("Content-Type", ""):
        raise HubFailed(f"{where} is an HTML page: a proxy or a login page may stand between")
    begin, whole = 0, reply.headers.get("Content-Length", "")
    if reply.status_code == httpx.codes.PARTIAL_CONTENT:
        told = reply.headers.get("Content-Range", "")
        found = _RANGE.fullmatch(told)
        if not found or int(found[1]) != have:
            raise HubFailed(f"{where} answers bytes={have}- with the range {told!r}")
        begin, whole = have, found[2]
    if _SIZE.fullmatch(whole) and int(whole) != size:
        raise HubFailed(f"{where} has {int(whole):,} bytes, not {size:,}")
    return begin


def _append(reply: httpx.Response, file: Path, size: int, advance: Callable[[int], object]) -> bool:
    """Append the body of a reply to a file; stop and return False if the file exceeds `size`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    have = max(size_of(file), 0)
    with file.open("ab") as opened:
        for part in reply.iter_raw():  # a size would collect bytes, which a break would lose
            have += len(part)
            if have > size:
                return False
            opened.write(part)
            advance(len(part))
    return True


def _shown(url: httpx.URL) -> str:
    """Return a URL without its user, query and fragment, which may be secret."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _seconds(variable: str) -> float:
    text = os.environ.get(variable) or str(_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise HubFailed(f"{variable} is {text!r}, not a number of seconds")
    return seconds
