"""The trees of OpenViking, read from its workspace on disk or from its HTTP server."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from vikingd.ctl.migrations.source import stopped
from vikingd.domain.errors import InvalidField
from vikingd.domain.uri import MAX_LEVELS, ROOT
from vikingd.ingest.file_tree import printable
from vikingd.ingest.files import text_of_file
from vikingd.system.directory_walk import walk

_SCOPES = ("resources", "user", "agent")
_ALL = 1_000_000  # entries of one directory in one answer
_TIMEOUT = 60  # seconds


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, which would send the key to another server."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirect is an error."""


_OPENER = build_opener(_NoRedirect)


class Unavailable(Exception):
    """A file or directory that cannot be read, and the reason."""


class Entry(NamedTuple):
    """A child of a directory."""

    name: str
    is_directory: bool


@dataclass(slots=True)
class Workspace:
    """The directory of one account on disk; a path is a tuple of segments below viking://.

    The methods raise Unavailable for what cannot be read, or is no text.
    """

    path: Path

    def name(self, parts: Sequence[str]) -> str:
        """Return the path of a file."""
        return printable(self.path.joinpath(*parts))

    def entries(self, parts: Sequence[str]) -> list[Entry]:
        """Return the children of a directory; a symbolic link counts as a file."""
        try:
            with os.scandir(self.path.joinpath(*parts)) as found:
                return [Entry(one.name, one.is_dir(follow_symlinks=False)) for one in found]
        except OSError as error:
            raise Unavailable(error.strerror or str(error)) from None

    def text(self, parts: Sequence[str]) -> str:
        """Return the content of a file."""
        path = self.path.joinpath(*parts)
        if os.path.islink(path):
            raise Unavailable("is a symbolic link")
        try:
            return text_of_file(path)
        except OSError as error:
            raise Unavailable(error.strerror or str(error)) from None

    def count(self) -> int:
        """Return the number of files that are not hidden."""
        return sum(
            not name.startswith(".")
            for scope in _SCOPES
            for _, _, names in walk(self.path / scope, MAX_LEVELS)
            for name in names
        )


@dataclass(slots=True)
class Server:
    """The tree that an OpenViking server shows to one user; `key` is the user's API key, or "".

    The methods raise Unavailable for a file or directory that the server does not give, and
    ClientError if the server does not answer any more.

    Raises:
        InvalidField: no server of OpenViking answers, or the server does not list the root.
    """

    url: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")
        try:
            self._ask("fs/ls", **_listing(ROOT))
        except Unavailable as error:
            raise InvalidField(
                "path",
                f"{self.url} answers, but does not list {ROOT}: {error}. The API key of a server "
                "is read from VIKINGCTL_SOURCE_KEY",
            ) from None
        except OSError as error:
            raise InvalidField(
                "path",
                f"no server of OpenViking answers at {self.url}: {_reason(error)}. "
                "`openviking-server` starts one",
            ) from None

    def name(self, parts: Sequence[str]) -> str:
        """Return the URI of a context."""
        return ROOT + "/".join(parts)

    def entries(self, parts: Sequence[str]) -> list[Entry]:
        """Return the children of a directory."""
        found = self._answer("fs/ls", **_listing(self.name(parts)))
        try:
            return [Entry(str(one["name"]), bool(one["isDir"])) for one in found]
        except (TypeError, KeyError):
            raise Unavailable("the server lists it in an unknown form") from None

    def text(self, parts: Sequence[str]) -> str:
        """Return the content of a file."""
        text = self._answer("content/read", uri=self.name(parts), raw="true")
        if not isinstance(text, str):
            raise Unavailable("the server sends no text")
        return text

    def count(self) -> int:
        """Return 0: the number of files is unknown before all directories are read."""
        return 0

    def _answer(self, method: str, **parameters: str) -> Any:
        try:
            return self._ask(method, **parameters)
        except OSError as error:
            what = f"{self.url} does not answer for {parameters['uri']}"
            raise stopped(f"{what}: {_reason(error)}") from None

    def _ask(self, method: str, **parameters: str) -> Any:
        """Return the result of a GET.

        Raises:
            Unavailable: the server refuses it, or its answer is not in its form.
            OSError: the server does not answer.
        """
        request = Request(f"{self.url}/api/v1/{method}?{urlencode(parameters)}")
        if self.key:
            request.add_header("X-API-Key", self.key)
        try:
            with _OPENER.open(request, timeout=_TIMEOUT) as answer:
                body = answer.read()
        except HTTPError as error:
            raise Unavailable(_message(error)) from None
        except HTTPException as error:
            raise OSError(f"the answer is not HTTP: {error!r}") from None
        try:
            return json.loads(body)["result"]
        except (ValueError, TypeError, KeyError):
            raise Unavailable("the answer is not that of OpenViking") from None


Place = Workspace | Server
"""The source of a tree of OpenViking: a directory on disk, or a server."""


def opened_workspace(place: str) -> Workspace:
    """Return the tree of a workspace, or of an account in it.

    Raises:
        InvalidField: there is none, or there are several accounts.
    """
    path = Path(place)
    found = [one for one in (path, *_accounts(path), *_accounts(path / "viking")) if _is_one(one)]
    if len(found) == 1 or (found and found[0] == path):
        return Workspace(found[0])
    if found:
        names = ", ".join(str(one) for one in found)
        raise InvalidField("path", f"{place} has several accounts; import one: {names}")
    raise InvalidField(
        "path",
        f"{place} is no workspace of OpenViking: it has no viking/ACCOUNT/resources. The workspace "
        "is the directory that storage.workspace names in ov.conf",
    )


def _accounts(path: Path) -> list[Path]:
    try:
        return sorted(one for one in path.iterdir() if one.is_dir() and one.name[0] not in "._")
    except OSError:
        return []


def _is_one(path: Path) -> bool:
    return any((path / scope).is_dir() for scope in _SCOPES)


def _listing(uri: str) -> dict[str, str]:
    """Return the query parameters that list all children of a directory."""
    form = {"output": "original", "show_all_hidden": "true", "node_limit": str(_ALL)}
    return {"uri": uri, **form}


def _reason(error: OSError) -> str:
    return str(error.reason if isinstance(error, URLError) else error)


def _message(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (OSError, ValueError, TypeError, KeyError):
        return f"HTTP {error.code}"
