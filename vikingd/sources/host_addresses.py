"""The IP addresses that a fetch may connect to.

A page can redirect to any name, and a name can point to any machine: to one of the user's own
network, or to the service of a cloud that hands out keys. So each name is resolved once and
checked, and a connection goes to the address that was checked.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Executor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = IPv6Network("64:ff9b::/96")
_MAX_ADDRESSES = 4  # of a host that are tried


class PrivateHost(Exception):
    """A host with a private or local address, to which the fetch may not connect."""


class HostAddresses:
    """The addresses of hosts, each resolved once.

    Only the host that the user names may be private or this machine. If it was public at a former
    fetch, it must stay public, because its name may have been taken over.

    Args:
        named: the host of the user's address.
        was_public: True if `named` was public at a former fetch.
        executor: runs the resolutions.
    """

    def __init__(self, named: str, was_public: bool, executor: Executor) -> None:
        self._named = named
        self._must_be_public = was_public
        self._executor = executor
        self._found: dict[str, asyncio.Task[list[str]]] = {}
        self.is_named_public = was_public

    async def of(self, host: str) -> list[str]:
        """Return the addresses of a host, at most four.

        Raises:
            PrivateHost: the host is not public, but must be, see the class.
            OSError: the host is unknown.
        """
        if host not in self._found:
            self._found[host] = asyncio.create_task(self._resolve(host))
        return await asyncio.shield(self._found[host])

    async def _resolve(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        entries = await loop.run_in_executor(self._executor, _look_up, host)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        is_whole_public = all(map(is_public, addresses))
        if host == self._named and is_whole_public:
            self.is_named_public = True
        elif not is_whole_public:
            self._refuse(host, addresses)
        return addresses[:_MAX_ADDRESSES]

    def _refuse(self, host: str, addresses: list[str]) -> None:
        """Raise PrivateHost for a host with private addresses, unless the user names it.

        It is also raised for the named host if that was public before, or if its name leads to a
        link-local address.
        """
        inward = next(one for one in addresses if not is_public(one))
        at = host if host == inward else f"{host} ({inward})"
        if host != self._named:
            raise PrivateHost(
                f"{at} is not public, and only the host of the given address may be so"
            )
        if self._must_be_public:
            raise PrivateHost(
                f"{at} is not public, though it was before: its name may have been taken over; "
                "remove the source and import it again if this is meant"
            )
        if host != inward and ip_address(inward.partition("%")[0]).is_link_local:
            raise PrivateHost(
                f"{at} is a link-local address: name the address itself if this is meant"
            )


def is_public(address: str) -> bool:
    """Return True for a public IP address; addresses embedded in it must be public, too."""
    return all(one.is_global and not one.is_multicast for one in _all_of(ip_address(address)))


def _all_of(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return an address, or the IPv4 addresses that are embedded in it."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    if address.sixtofour:
        return [address, address.sixtofour]
    return [address]


def _look_up(host: str) -> list[tuple[object, object, object, str, tuple[object, ...]]]:
    try:
        return list(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except UnicodeError as error:
        raise OSError(f"is no name of a host: {error}") from None
