"""Delays for callers that send wrong keys."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from math import inf

from vikingd.access.peers import address_of

FREE = 10
"""The number of wrong keys from one address that are refused without a delay."""
LONGEST = 2.0
"""The longest delay in seconds."""
MOST_ADDRESSES = 10_000
MOST_WAITING = 1_000

_SLOPE = 0.2  # seconds of delay for each failure beyond the free ones
_HALF_LIFE = 60.0  # seconds in which half of the failures are forgotten
_MOST_FAILURES = FREE + LONGEST / _SLOPE  # more would only delay the recovery
_REPORT_EVERY = 60.0  # seconds
_MAX_ADDRESS = 64  # characters


@dataclass(slots=True)
class _Address:
    at: float
    failures: float = 0.0
    unreported: int = 0
    reported_at: float = -inf


class Failures:
    """Counts of wrong keys by address of the caller, and the delays that follow from them.

    The port does not matter. IPv6 addresses count together by /64, and all unix sockets count as
    one address. The addresses that failed last are kept. All methods are for one event loop.

    Args:
        report: called with a delayed address and the number of its failures since the last report;
            at most once a minute for each address.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self, report: Callable[[str, int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0

    def delay(self, peer: str) -> float:
        """Count a wrong key from a gRPC peer; return for how many seconds to delay the refusal."""
        now = self._clock()
        name = counted_address(peer)
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address(now)
            if len(self._addresses) > MOST_ADDRESSES:
                self._addresses.popitem(last=False)
        else:
            self._addresses.move_to_end(name)
        kept = address.failures * 0.5 ** ((now - address.at) / _HALF_LIFE)
        address.failures = min(kept + 1, _MOST_FAILURES)
        address.at = now
        address.unreported += 1
        delay = max(0.0, address.failures - FREE) * _SLOPE
        if delay > 0 and now - address.reported_at >= _REPORT_EVERY:
            failures, address.unreported, address.reported_at = address.unreported, 0, now
            self._report(name, failures)
        return delay

    @property
    def is_crowded(self) -> bool:
        """True if so many callers wait already that the next one must be refused at once."""
        return self._waiting >= MOST_WAITING

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a caller as waiting within the `with` block."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1


def counted_address(peer: str) -> str:
    """Return the address under which a gRPC peer is counted; for IPv6 its /64 network."""
    name = address_of(peer)
    try:
        address = ip_address(name)
    except ValueError:  # a unix socket, or a kind that gRPC may yet add
        return "".join(c if c.isprintable() else "?" for c in name[:_MAX_ADDRESS])
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:  # an IPv4 peer of a socket for both
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), 64), strict=False))
