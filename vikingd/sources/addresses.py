"""Addresses of sources: pages, repositories of git, and archives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from vikingd.domain.errors import InvalidField
from vikingd.sources.archives import is_archive

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//|:)")
_SCP = re.compile(r"([\w.-]+@)?[\w.-]+\.[\w.-]+:[^/\\].*")  # git@example.org:team/repository.git
_UNFIT = re.compile(r"[\x00-\x20\x7f-\x9f]")
_GIT = "git+"
_KNOWN = "https://, http://, git+https://, git+http://, git+ssh:// and git+file://"
_WEB, _REPOSITORY = ("https", "http"), ("https", "http", "ssh", "file")


class Kind(StrEnum):
    """The kind of a source."""

    PAGE = "page"
    REPOSITORY = "repository"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a source.

    Attributes:
        text: the address without a password and without a folder, as it is shown and stored.
        url: the URL for git or HTTP, without credentials; for an archive on this machine, its
            absolute path.
        folder: the folder of a repository to import, without slashes around it; "": all of it.
        credentials: USER:PASSWORD of a repository by http; "" for none. They are never shown nor
            stored.
    """

    kind: Kind
    text: str
    url: str
    folder: str = ""
    credentials: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """True for an archive on this machine."""
        return "://" not in self.url

    @property
    def whole(self) -> str:
        """The address with the folder."""
        return f"{self.text}#{self.folder}" if self.folder else self.text


def address_of(given: str) -> Address | None:
    """Return the address in an argument; None for the path of a directory or of another file.

    Raises:
        InvalidField: the argument is an address that cannot be used; `path` is the field.
    """
    scheme = _SCHEME.match(given)
    if scheme is None:
        if _SCP.fullmatch(given) and not Path(given).exists():
            host, _, path = given.partition(":")
            raise _refused(f"{given} is no path; a repository is git+ssh://{host}/{path}")
        path_ = Path(given)
        if is_archive(path_.name) and path_.is_file():
            place = path_.resolve()
            return Address(Kind.ARCHIVE, str(place), str(place))
        return None
    name = scheme[1].lower()
    if scheme[2] != "//":
        raise _refused(f"begins with {name}::, which is not known; known are {_KNOWN}")
    parts = _split(given, "path")
    if name.startswith(_GIT) and name.removeprefix(_GIT) in _REPOSITORY:
        return _repository(parts._replace(scheme=name.removeprefix(_GIT)))
    if name not in _WEB:
        hint = "; give the path of a file or folder by itself" if name == "file" else ""
        raise _refused(f"begins with {name}://, which is not known; known are {_KNOWN}{hint}")
    return _page(parts._replace(scheme=name))


def check_below(below: str) -> None:
    """Raise InvalidField for a prefix of a site that cannot be used or has a password."""
    _refuse_user(_split(below, "below"), "below")


def _split(given: str, field: str) -> SplitResult:
    if _UNFIT.search(given):
        raise InvalidField(field, "has spaces or control characters: write %20 for a space")
    try:
        parts = urlsplit(given)
        _ = parts.port  # it is read when it is asked for
    except ValueError as error:
        raise InvalidField(field, f"is no address: {error}") from None
    return parts


def _page(parts: SplitResult) -> Address:
    _check_host(parts)
    if parts.path.rstrip("/").endswith(".git"):
        raise _refused("is a repository: put git+ before it")
    _refuse_user(parts, "path")
    bare = urlunsplit(parts._replace(netloc=parts.netloc.lower(), fragment=""))
    return Address(Kind.ARCHIVE if is_archive(parts.path) else Kind.PAGE, bare, bare)


def _repository(parts: SplitResult) -> Address:
    """Return the address of a repository; the part after "#" is a folder."""
    if parts.query:
        raise _refused("has a query (?), which repositories have not")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise _refused("names a machine: git+file:// takes an absolute path, git+file:///...")
        bare = parts._replace(netloc="")
    else:
        _check_host(parts)
        bare = parts if parts.scheme == "ssh" else _without_user(parts)
        if parts.scheme == "ssh" and parts.password is not None:
            raise _refused("has a password, which ssh does not take: use a key")
    if not bare.path.strip("/"):
        raise _refused("names no repository: its path is missing")
    folder = parts.fragment.strip("/")
    if any(step in ("", ".", "..") for step in folder.split("/") if folder):
        raise _refused(f"has the folder {folder!r}, which is no path below the repository")
    url = urlunsplit(bare._replace(fragment=""))
    if parts.scheme == "file":
        url = f"file://{bare.path}"
    credentials = "" if parts.scheme in ("ssh", "file") else _user(parts)
    return Address(Kind.REPOSITORY, _GIT + url, url, folder, credentials)


def _check_host(parts: SplitResult) -> None:
    if not parts.hostname:
        raise _refused("names no host")
    if parts.hostname.startswith("-") or (parts.username or "").startswith("-"):
        raise _refused("has a host or a user that begins with -, as an option does")


def _refuse_user(parts: SplitResult, field: str) -> None:
    if _user(parts):
        raise InvalidField(
            field, "has a user or a password, which pages and archives are not fetched with"
        )


def _without_user(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2].lower())


def _user(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[0]


def _refused(reason: str) -> InvalidField:
    return InvalidField("path", reason)
