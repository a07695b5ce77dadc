"""Addresses of peers, as gRPC names them."""

from __future__ import annotations

from urllib.parse import unquote


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
