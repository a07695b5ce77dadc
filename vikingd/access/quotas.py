"""Quotas of keys and tenants: calls in flight, calls and bytes a second, and what is stored."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields

from vikingd.domain.errors import InvalidField, QuotaExceeded

MAX_LIMIT = (1 << 63) - 1
"""Maximum of each limit, which is that of a 64-bit integer."""

_OF_TENANTS = ("contexts", "stored_bytes", "embedded_texts_per_day")
_BURST = 1.0  # seconds; a full bucket has what this time brings
_SLACK = 1e-6  # seconds; a caller that waits as long as told must not fail by rounding
_PLACE_AFTER = 0.1  # seconds; when a call in flight ends is not known
_FEW = 1_000  # keys or tenants below which idle ones are kept, which costs nothing
_LOOKED_AT = 2  # usages that a call checks if there are more than _FEW; idle ones are dropped
_DAY = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a key or a tenant; 0 means no limit.

    Attributes:
        calls_in_flight: calls at one time.
        calls_per_second: calls a second, with a burst of one second's worth.
        bytes_per_second: bytes of requests and replies a second, with the same burst.
        contexts: contexts in the store; of a tenant only.
        stored_bytes: bytes of the store; of a tenant only.
        embedded_texts_per_day: texts embedded in one UTC day; of a tenant only.

    Raises:
        InvalidField: a limit is negative or above `MAX_LIMIT`; names the limit.
    """

    calls_in_flight: int = 0
    calls_per_second: int = 0
    bytes_per_second: int = 0
    contexts: int = 0
    stored_bytes: int = 0
    embedded_texts_per_day: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= MAX_LIMIT:
                raise InvalidField(field.name, f"is {value}, it must be from 0 to {MAX_LIMIT}")

    def check_of_key(self) -> None:
        """Raise InvalidField for a limit that a key cannot have."""
        for name in _OF_TENANTS:
            if value := getattr(self, name):
                raise InvalidField(name, f"is {value}, but only a tenant can have this limit")


@dataclass(slots=True)
class _Usage:
    """The usage of one key or one tenant. A token bucket bounds each rate, see `Quotas`.

    Attributes:
        in_flight: calls that run now.
        calls_full: the time at which the bucket of calls will be full again. Each call moves this
            time by 1 / rate, so it tells how full the bucket is, or how deep in debt.
        bytes_full: the time at which the bucket of bytes will be full again.
    """

    limits: Limits
    in_flight: int = 0
    calls_full: float = 0.0
    bytes_full: float = 0.0

    def set(self, limits: Limits) -> None:
        """Set the limits. If they differ from the present ones, the buckets become full."""
        if limits != self.limits:
            self.calls_full = self.bytes_full = 0.0
        self.limits = limits

    def wait(self, size: int, now: float) -> tuple[float, str]:
        """Return (seconds until a call of `size` bytes may begin, name of the limit it waits for).

        (0, "") means that the call may begin now.
        """
        limits = self.limits
        wait, name = 0.0, ""
        if limits.calls_in_flight and self.in_flight >= limits.calls_in_flight:
            wait, name = _PLACE_AFTER, "calls_in_flight"
        if rate := limits.calls_per_second:
            # The bucket must have one call.
            seconds = self.calls_full - now - (_BURST - 1 / rate)
            if seconds > _SLACK and seconds > wait:
                wait, name = seconds, "calls_per_second"
        if rate := limits.bytes_per_second:
            # The bucket must have the bytes of the request, or be full.
            seconds = self.bytes_full - now - max(0.0, _BURST - size / rate)
            if seconds > _SLACK and seconds > wait:
                wait, name = seconds, "bytes_per_second"
        return wait, name

    def enter(self, size: int, now: float) -> None:
        """Count a call that begins: as one in flight, and in the buckets of calls and of bytes."""
        self.in_flight += 1
        if rate := self.limits.calls_per_second:
            self.calls_full = max(self.calls_full, now) + 1 / rate
        if self.limits.bytes_per_second:
            self.charge(size, now)

    def charge(self, size: int, now: float) -> None:
        """Take bytes out of the bucket; it may go below zero."""
        self.bytes_full = max(self.bytes_full, now) + size / self.limits.bytes_per_second

    def is_idle(self, now: float) -> bool:
        """Return True if no call runs and both buckets are full, as in a new object."""
        return not self.in_flight and self.calls_full <= now and self.bytes_full <= now


class Quotas:
    """Calls in flight, calls a second and bytes a second of all keys and tenants.

    A bucket holds one second's worth. A larger request is accepted when the bucket is full; then
    the bucket is in debt. Keys and tenants that are idle with full buckets are forgotten, except
    for some thousand. All methods are for one event loop.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: OrderedDict[str, _Usage] = OrderedDict()
        self._tenants: OrderedDict[str, _Usage] = OrderedDict()

    def enter(
        self, caller_key: str, of_key: Limits, tenant: str, of_tenant: Limits, request_bytes: int
    ) -> None:
        """Count a call as begun, for its key and its tenant. `leave` must follow.

        Raises:
            QuotaExceeded: a limit of the key or of the tenant is reached. Nothing was taken. The
                error names the limit with the longest wait.
        """
        now = self._clock()
        key = _usage(self._keys, caller_key, of_key, now)
        whole = _usage(self._tenants, tenant, of_tenant, now)
        key_wait, key_limit = key.wait(request_bytes, now)
        wait, limit = whole.wait(request_bytes, now)
        if key_limit and key_wait >= wait:
            raise _exceeded("key", caller_key, of_key, key_limit, key_wait)
        if limit:
            raise _exceeded("tenant", tenant, of_tenant, limit, wait)
        key.enter(request_bytes, now)
        whole.enter(request_bytes, now)

    def leave(self, caller_key: str, tenant: str, reply_bytes: int) -> None:
        """Count a call as ended, and charge the bytes of its reply.

        If the bytes exceed those that are left, later calls are refused until the rate allows them.
        """
        now = 0.0
        for usage in (self._keys[caller_key], self._tenants[tenant]):
            usage.in_flight -= 1
            if usage.limits.bytes_per_second:
                now = now or self._clock()
                usage.charge(reply_bytes, now)


def check_stored(of_tenant: Limits, contexts: int, stored_bytes: int, adds: int) -> None:
    """Raise QuotaExceeded if a tenant stores as much as it may; called before each Put.

    The bytes of the write itself do not count, so the last accepted write may pass the limit.
    Deletes need no check. Errors do not say how much is stored, since the caller may not see all of
    it.

    Args:
        contexts: number of contexts in the store.
        stored_bytes: bytes of the store.
        adds: contexts that the write adds; those that it replaces do not count.

    Raises:
        QuotaExceeded: with the limit; waiting does not help.
    """
    most = of_tenant.contexts
    if most and adds > 0 and contexts + adds > most:
        raise QuotaExceeded(
            f"the write adds {adds:,} contexts, for which the tenant has no room: its limit "
            f"contexts is {most:,}; delete contexts, or ask an operator for a higher limit",
            None,
            limit="contexts",
            of="tenant",
        )
    most = of_tenant.stored_bytes
    if most and stored_bytes >= most:
        raise QuotaExceeded(
            f"the tenant has no room: its limit stored_bytes is {most:,}; delete contexts, or ask "
            "an operator for a higher limit",
            None,
            limit="stored_bytes",
            of="tenant",
        )


@dataclass(slots=True)
class DayCount:
    """A count of texts or tokens that were used in the present UTC day.

    Times are seconds since 1970-01-01 UTC. The caller stores the fields, so that the count survives
    a restart.

    Attributes:
        day: the number of the day since 1970-01-01.
        count: the texts or tokens used on that day.
    """

    day: int = 0
    count: int = 0

    @staticmethod
    def end(now: float) -> int:
        """Return the time at which the present day ends."""
        return (int(now // _DAY) + 1) * _DAY

    def allowed(self, limit: int, now: float) -> int:
        """Return how many more may be used today; `sys.maxsize` if `limit` is 0, no limit."""
        return max(0, limit - self.used(now)) if limit else sys.maxsize

    def used(self, now: float) -> int:
        """Return how many were used today."""
        return self.count if int(now // _DAY) == self.day else 0

    def add(self, count: int, now: float) -> None:
        """Count used texts or tokens."""
        day = int(now // _DAY)
        if day != self.day:
            self.day, self.count = day, 0
        self.count += count


def _usage(usages: OrderedDict[str, _Usage], name: str, limits: Limits, now: float) -> _Usage:
    """Return the usage of a key or tenant, created if needed; drop idle ones if there are many."""
    if len(usages) > _FEW:
        for _ in range(_LOOKED_AT):
            other, usage = usages.popitem(last=False)
            if not usage.is_idle(now):
                usages[other] = usage
    found = usages.get(name)
    if found is None:
        found = usages[name] = _Usage(limits)
    elif found.limits is not limits:
        found.set(limits)
    return found


def _exceeded(of: str, name: str, limits: Limits, limit: str, wait: float) -> QuotaExceeded:
    return QuotaExceeded(
        f"the {of} {name} has reached its limit {limit} of {getattr(limits, limit):,}; "
        f"retry after {wait:.3g} s",
        wait,
        limit=limit,
        of=of,
    )
