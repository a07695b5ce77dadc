"""Addresses and certificates of peers, as gRPC names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

# OpenSSL writes each byte of a character beyond ASCII as two digits. A pair of backslashes is one.
_ESCAPED = re.compile(rb"\\\\|(?:\\[89A-F][0-9A-F])+")
_SUBJECT = re.compile(r"[A-Za-z][A-Za-z0-9-]*=|[0-9.]+=")
"""The beginning of a subject: the type of its first attribute."""


def address_of(peer: str) -> str:
    """Return the address of a gRPC peer without its port; "unix" for every unix socket.

    Peers are such as `ipv4:1.2.3.4:5678`, `ipv6:%5B::1%5D:5678`, `ipv6:[::1]:5678` and
    `unix:/path`. Any other is returned as it is.
    """
    kind, _, rest = peer.partition(":")
    if kind == "ipv4":
        return rest.rpartition(":")[0] or rest
    if kind == "ipv6":
        rest = unquote(rest) if "%" in rest else rest
        return rest[1:].partition("]")[0] if rest.startswith("[") else rest
    return "unix" if kind in ("unix", "unix-abstract") else peer


def subjects_of(auth_context: Mapping[str, Iterable[bytes]]) -> Iterator[str]:
    """Yield the names in the verified certificate of a client: its subject, then the others.

    The subject is whole, in the form of RFC 4514: `CN=ana` has this one attribute. One with an
    organisation too is `CN=ana,O=Acme`. A name of the subjectAltName that looks like a subject is
    left out.
    """
    for subject in auth_context.get("x509_subject", ()):
        if subject:
            yield _ESCAPED.sub(_unescaped, subject).decode(errors="backslashreplace")
    for name in auth_context.get("x509_subject_alternative_name", ()):
        text = name.decode(errors="backslashreplace")
        if text and not _SUBJECT.match(text):
            yield text


def _unescaped(found: re.Match[bytes]) -> bytes:
    """Return the characters of escaped bytes; what is not printable stays escaped."""
    if found[0] == b"\\\\":
        return found[0]
    data = bytes.fromhex(found[0].replace(b"\\", b"").decode())
    try:
        return data if data.decode().isprintable() else found[0]
    except UnicodeDecodeError:
        return found[0]
