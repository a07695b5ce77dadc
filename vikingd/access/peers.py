"""Addresses and certificates of callers (peers), in the forms in which gRPC gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

# OpenSSL writes each byte of a character beyond ASCII as two hexadecimal digits: \C3\A9 is é. It
# writes a backslash as two.
_ESCAPED = re.compile(rb"\\\\|(?:\\[89A-F][0-9A-F])+")
_SUBJECT = re.compile(r"[A-Za-z][A-Za-z0-9-]*=|[0-9.]+=")
"""The beginning of a subject: the type of its first attribute."""


def address_of(peer: str) -> str:
    """Return the address of a gRPC peer without its port; "unix" for every unix socket.

    Examples of peers are `ipv4:1.2.3.4:5678`, `ipv6:%5B::1%5D:5678`, `ipv6:[::1]:5678` and
    `unix:/path`. Any other form is returned as it is.
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

    The subject is written as in RFC 4514: `CN=ana`, or with an organisation `CN=ana,O=Acme`. Names
    of the subjectAltName that look like a subject are left out.
    """
    for subject in auth_context.get("x509_subject", ()):
        if subject:
            yield _ESCAPED.sub(_unescaped, subject).decode(errors="backslashreplace")
    for name in auth_context.get("x509_subject_alternative_name", ()):
        text = name.decode(errors="backslashreplace")
        if text and not _SUBJECT.match(text):
            yield text


def _unescaped(found: re.Match[bytes]) -> bytes:
    """Return the characters of escaped UTF-8 bytes; escapes of unprintable ones stay."""
    if found[0] == b"\\\\":
        return found[0]
    data = bytes.fromhex(found[0].replace(b"\\", b"").decode())
    try:
        return data if data.decode().isprintable() else found[0]
    except UnicodeDecodeError:
        return found[0]
