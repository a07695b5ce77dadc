"""Addresses of web pages: one canonical form for each page, and the limits of a site."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import idna

from vikingd.domain.errors import InvalidField

MAX_ADDRESS = 2000
"""Limit of the characters of an address."""

PORTS = {"http": 80, "https": 443}
"""The schemes that are fetched, and their usual ports."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_PATH = "/%:@!$&'()*+,;="
_IN_QUERY = _IN_PATH + "?"
_HOST = re.compile(r"[a-z0-9._:-]+")
_LAYOUT = re.compile(r"[\t\r\n]")
# Tracking parameters: they show a site where its reader came from.
_TRACKING = re.compile(
    r"(?i)(?:utm_\w+|mc_[ce]id|[gf]bclid|gclid|gclsrc|dclid|msclkid|yclid|igshid|_ga|_gl|_hs\w+"
    r"|mkt_tok|spm|vero_id)(?:=|\Z)"
)


def canonical(address: str, base: str = "") -> str | None:
    """Return the canonical form of a page's address; None if it is no such address.

    User, password, fragment, the default port and tracking parameters are left out. Escapes and
    segments such as `..` are resolved as browsers do.

    Args:
        address: an address, which may be relative to `base`.
        base: an absolute address.
    """
    address = _LAYOUT.sub("", address.strip())
    if len(address) > MAX_ADDRESS:
        return None
    try:
        parts = urlsplit(urljoin(base, address) if base else address)
        if parts.scheme not in PORTS or not parts.hostname:
            return None
        host = parts.hostname
        if not host.isascii():
            host = idna.encode(host, uts46=True).decode("ascii")
        port = parts.port
    except ValueError:  # the errors of idna are ValueErrors, too
        return None
    if not _HOST.fullmatch(host):
        return None
    if ":" in host:
        host = f"[{host}]"
    place = host if port in (None, PORTS[parts.scheme]) else f"{host}:{port}"
    path = _resolved(_minimally_escaped(parts.path, _IN_PATH))
    given = _minimally_escaped(parts.query, _IN_QUERY).split("&")
    query = "&".join(one for one in given if one and not _TRACKING.match(one))
    return urlunsplit((parts.scheme, place, path, query, ""))


def checked(address: str, field: str) -> str:
    """Return the canonical form of the address that a user gives.

    Raises:
        InvalidField: it is no address of a page.
    """
    found = canonical(address)
    if found is None:
        raise InvalidField(
            field,
            "must be the address of a page, such as https://example.org/docs/, of at most "
            f"{MAX_ADDRESS:,} characters",
        )
    return found


def origin_of(address: str) -> tuple[str, str, int]:
    """Return the scheme, the host and the port of a canonical address."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme]


def path_of(address: str) -> str:
    """Return the path of a canonical address."""
    return urlsplit(address).path


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of a host that belongs to a site: a path, and all paths below it.

    http and https with their default ports are the same site.

    Attributes:
        host: the name of the host.
        port: the port; 0 for a default one.
        path: the path without a slash at its end; "" for the whole host.
    """

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, address: str) -> Bounds:
        """Return the bounds of the site at and below a canonical address."""
        scheme, host, port = origin_of(address)
        return cls(host, 0 if port == PORTS[scheme] else port, path_of(address).rstrip("/"))

    def holds(self, address: str) -> bool:
        """Return True for a canonical address that belongs to the site."""
        scheme, host, port = origin_of(address)
        if (host, 0 if port == PORTS[scheme] else port) != (self.host, self.port):
            return False
        path = path_of(address)
        return path == self.path or path.startswith(f"{self.path}/")

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.host}{port}{self.path}/"


def bounds_below(address: str, below: str) -> Bounds:
    """Return the bounds of a site.

    Args:
        address: the canonical address of its first page.
        below: an address, or a path on the same host.

    Raises:
        InvalidField: `below` is neither, or the first page is not below it.
    """
    if not below.startswith(("/", "http://", "https://")):
        raise InvalidField(
            "below", f"must be an address, or a path that begins with /, not {below[:80]!r}"
        )
    bounds = Bounds.of(checked(urljoin(address, below), "below"))
    if not bounds.holds(address):
        raise InvalidField("below", f"{address} is not below {bounds}: name a page that is")
    return bounds


def _minimally_escaped(text: str, safe: str) -> str:
    """Return a part of an address with only the necessary escapes, in upper case.

    The characters in `safe`, which has "%", stay as they are. "%61%2fb c" gives "a%2Fb%20c".
    """

    def one(escape: re.Match[str]) -> str:
        char = chr(int(escape[1], 16))
        return char if char in _UNRESERVED else escape[0].upper()

    return quote(_ESCAPE.sub(one, re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)), safe=safe)


def _resolved(path: str) -> str:
    """Return a path without the segments `.` and `..`."""
    kept: list[str] = []
    steps = path.split("/")[1:]
    for step in steps:
        if step == "..":
            del kept[-1:]
        elif step != ".":
            kept.append(step)
    if steps and steps[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
