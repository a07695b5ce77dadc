"""Addresses of daemons: HOST:PORT, unix:PATH and vikings://HOST:PORT, which is TLS."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, replace
from urllib.parse import quote

TLS = "vikings://"
UNIX = "unix:"
USER = "user"
"""The word that clients take in place of an address: the socket of the user's own daemon."""

LONGEST_PATH = 103
"""The most bytes of a unix socket's path, which is the limit of macOS; Linux takes four more."""

MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address. A unix socket has a `path`; all others have a host and a port."""

    host: str = ""  # a name or an IP address, IPv6 without brackets
    port: int = 0
    path: str = ""
    tls: bool = False

    def __str__(self) -> str:
        return f"{TLS if self.tls else ''}{self._plain(self.path)}"

    @property
    def target(self) -> str:
        """The address as gRPC expects it; gRPC decodes percent signs in paths."""
        return self._plain(quote(self.path))

    @property
    def is_local(self) -> bool:
        """True if only this machine can be at the other end: loopback or a unix socket."""
        if self.path or self.host == "localhost":
            return True
        ip = self.ip
        return ip is not None and ip.is_loopback

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The IP address; None if the host is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def _plain(self, path: str) -> str:
        if path:
            return f"{UNIX}{path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """Parse an address.

    Raises:
        ValueError: the text is no address.
    """
    if text.startswith(UNIX):
        return _socket(text.removeprefix(UNIX))
    host, _, port = text.removeprefix(TLS).rpartition(":")
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\]", host)
    if not (bracketed or re.fullmatch(r"[A-Za-z0-9._*-]+", host)) or not _is_port(port):
        raise ValueError(f"{text!r} is not HOST:PORT, {TLS}HOST:PORT or {UNIX}PATH")
    name = bracketed[1] if bracketed else host.lower()
    if bracketed:
        try:
            name = str(ipaddress.IPv6Address(name))
        except ValueError:
            raise ValueError(f"{host} is not an IPv6 address") from None
    return Address(name, int(port), tls=text.startswith(TLS))


def own_address(text: str) -> Address:
    """Parse an address to listen on; ~ becomes the home directory.

    Raises:
        ValueError: the text is no address of this machine, or the path is not absolute.
    """
    address = parse(text)
    if address.path:
        path = os.path.expanduser(address.path)
        if not path.startswith("/"):
            raise ValueError(f"{address} is not an absolute path")
        return _socket(path)
    if address.host == "localhost":
        return replace(address, host="127.0.0.1")
    if address.ip is None:
        raise ValueError(f"{address.host} is not an IP address; 0.0.0.0 is all addresses")
    return address


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and int(text) <= MAX_PORT


def _socket(path: str) -> Address:
    if not path or not path.isprintable():
        raise ValueError(f"{path!r} is not the path of a unix socket")
    size = len(path.encode())
    if size > LONGEST_PATH:
        raise ValueError(
            f"the path of a unix socket has at most {LONGEST_PATH} bytes; {path} has {size}"
        )
    return Address(path=path)
