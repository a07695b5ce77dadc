"""Quotas of keys and tenants, against a plain model with a clock of the test."""

from __future__ import annotations

import random
import sys
from dataclasses import asdict, dataclass, field, replace

import pytest

from vikingd.access.quotas import MAX_LIMIT, DayCount, Limits, Quotas, check_stored
from vikingd.domain.errors import InvalidField, QuotaExceeded

DAY = 86_400
NAMES = ("calls_in_flight", "calls_per_second", "bytes_per_second")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@dataclass
class Bucket:
    """A token bucket as in a textbook: a level, which time fills up to one second's worth."""

    rate: int
    level: float
    at: float

    def fill(self, now: float) -> None:
        """Add what has come since the last time."""
        self.level = min(self.rate, self.level + (now - self.at) * self.rate)
        self.at = now

    def lacks(self, amount: float) -> float:
        """Return the seconds until the amount is there, or the bucket is full."""
        return max(0.0, (min(amount, self.rate) - self.level) / self.rate)


@dataclass
class Side:
    """A key or a tenant of the model."""

    in_flight: int = 0
    limits: Limits | None = None
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def waits(self, limits: Limits, size: int, now: float) -> dict[str, float]:
        """Return the seconds that a call has to wait for each limit."""
        if limits != self.limits:
            self.limits = limits
            rates = {name: rate for name, rate in asdict(limits).items() if name in NAMES[1:]}
            self.buckets = {name: Bucket(rate, rate, now) for name, rate in rates.items() if rate}
        for bucket in self.buckets.values():
            bucket.fill(now)
        amounts = dict(zip(NAMES[1:], (1, size), strict=True))
        waits = {name: bucket.lacks(amounts[name]) for name, bucket in self.buckets.items()}
        if limits.calls_in_flight and self.in_flight >= limits.calls_in_flight:
            waits["calls_in_flight"] = 0.1
        return waits

    def enter(self, size: int) -> None:
        """Take the places."""
        self.in_flight += 1
        for name, bucket in self.buckets.items():
            bucket.level -= size if name == "bytes_per_second" else 1

    def leave(self, size: int, now: float) -> None:
        """Give them back."""
        self.in_flight -= 1
        if bucket := self.buckets.get("bytes_per_second"):
            bucket.fill(now)
            bucket.level -= size


def refused(quotas: Quotas, *call: object) -> QuotaExceeded | None:
    """Enter, and return the refusal."""
    try:
        quotas.enter(*call)  # type: ignore[arg-type]
    except QuotaExceeded as error:
        return error
    return None


def some_limits(rng: random.Random) -> Limits:
    """Return limits, of which some are none."""
    return Limits(
        rng.choice((0, 0, 1, 3)), rng.choice((0, 0, 1, 5, 50)), rng.choice((0, 0, 10, 1000))
    )


@pytest.mark.deep_after(6)
@pytest.mark.parametrize("seed", range(20))
def test_random_calls_are_judged_as_by_a_plain_model(seed: int) -> None:
    """Entries, refusals and waiting times are those of textbook buckets, also as limits change."""
    rng, clock = random.Random(seed), Clock()
    quotas = Quotas(clock)
    limits = {name: some_limits(rng) for name in ("k1", "k2", "k3", "t1", "t2")}
    sides = {name: Side() for name in limits}
    running: list[tuple[str, str]] = []
    counted = {True: 0, False: 0}
    for step in range(2000):
        clock.now += rng.choice((0.0, 0.001, 0.03, 0.2, 1.5))
        if rng.random() < 0.01:
            limits[rng.choice(sorted(limits))] = some_limits(rng)
        if running and rng.random() < 0.45:
            key, tenant = running.pop(rng.randrange(len(running)))
            size = rng.choice((0, 5, 300, 4000))
            quotas.leave(key, tenant, size)
            for name in (key, tenant):
                sides[name].leave(size, clock.now)
            continue
        key, tenant = rng.choice(("k1", "k2", "k3")), rng.choice(("t1", "t2"))
        size = rng.choice((0, 1, 9, 200, 3000))
        waits = {
            (of, name): seconds
            for of, side in (("key", key), ("tenant", tenant))
            for name, seconds in sides[side].waits(limits[side], size, clock.now).items()
            if seconds > 1e-6
        }
        error = refused(quotas, key, limits[key], tenant, limits[tenant], size)
        assert (error is None) == (not waits), (seed, step, waits, error)
        counted[error is None] += 1
        if error is None:
            running.append((key, tenant))
            for name in (key, tenant):
                sides[name].enter(size)
        else:
            longest = max(waits.values())
            of, name = error.metadata["of"], error.metadata["limit"]
            assert waits[of, name] == pytest.approx(longest), (seed, step)
            assert error.retry_after == pytest.approx(longest, abs=1e-6), (seed, step)
            assert {"key": key, "tenant": tenant}[of] in str(error)
    assert min(counted.values()) > 20, counted


def test_a_refusal_names_whose_limit_which_and_its_value() -> None:
    """The message has the name, the limit, its value and the time to wait."""
    quotas = Quotas(Clock())
    few = Limits(calls_per_second=2)
    for _ in range(2):
        quotas.enter("k1", few, "acme", Limits(), 0)
    with pytest.raises(QuotaExceeded) as refusal:
        quotas.enter("k1", few, "acme", Limits(), 0)
    assert str(refusal.value) == (
        "the key k1 has reached its limit calls_per_second of 2; retry after 0.5 s"
    )
    assert refusal.value.metadata == {"limit": "calls_per_second", "of": "key"}
    assert refusal.value.retry_after == 0.5


@pytest.mark.parametrize("rate", [1, 3, 7, 1000, 10**9])
def test_a_caller_that_waits_as_long_as_told_is_accepted(rate: int) -> None:
    """Rounding refuses no caller, and a caller that waits less is refused."""
    clock = Clock()
    quotas, limits = Quotas(clock), Limits(bytes_per_second=rate)
    waited = 0
    for size in (3 * rate, 1, rate // 2, rate, 5 * rate) * 20:
        if error := refused(quotas, "k", limits, "t", Limits(), size):
            assert error.retry_after is not None
            told = clock.now
            if error.retry_after > 1e-3:
                clock.now = told + error.retry_after * 0.9
                assert refused(quotas, "k", limits, "t", Limits(), size) is not None
            clock.now = told + error.retry_after
            quotas.enter("k", limits, "t", Limits(), size)
            waited += 1
        quotas.leave("k", "t", 0)
    assert waited > 20


def test_a_refused_call_takes_nothing() -> None:
    """Refusals of the tenant's limit cost the key nothing, and the other way round."""
    clock = Clock()
    quotas = Quotas(clock)
    key, tenant = Limits(10, 100, 1000), Limits(calls_in_flight=1)
    quotas.enter("k1", Limits(), "t", tenant, 0)
    for _ in range(1000):
        assert refused(quotas, "k2", key, "t", tenant, 500) is not None
    quotas.leave("k1", "t", 0)
    quotas.enter("k2", key, "t", tenant, 1000)  # the whole burst is there
    quotas.leave("k2", "t", 0)
    for _ in range(1000):
        assert refused(quotas, "k2", key, "t", tenant, 500) is not None
    quotas.enter("k1", Limits(), "t", tenant, 0)


def test_a_large_request_passes_when_the_bucket_is_full_and_leaves_a_debt() -> None:
    """A request of ten seconds' bytes passes, and the next waits ten seconds."""
    clock = Clock()
    quotas, limits = Quotas(clock), Limits(bytes_per_second=100)
    quotas.enter("k", limits, "t", Limits(), 1000)
    quotas.leave("k", "t", 0)
    error = refused(quotas, "k", limits, "t", Limits(), 100)
    assert error is not None
    assert error.retry_after == pytest.approx(10)
    clock.now += 10
    quotas.enter("k", limits, "t", Limits(), 1000)


def test_a_reply_leaves_a_debt_of_key_and_tenant() -> None:
    """Another key of the tenant waits off the reply of the first."""
    clock = Clock()
    quotas, limits = Quotas(clock), Limits(bytes_per_second=100)
    quotas.enter("k1", limits, "t", limits, 0)
    quotas.leave("k1", "t", 350)
    for key in ("k1", "k2"):
        error = refused(quotas, key, limits, "t", limits, 0)
        assert error is not None
        assert error.retry_after == pytest.approx(2.5)
    quotas.enter("k2", limits, "other", limits, 0)


def test_limits_that_come_while_calls_are_in_flight_count_them() -> None:
    """A call that entered without a limit has a place when a limit comes."""
    quotas = Quotas(Clock())
    quotas.enter("k", Limits(), "t", Limits(), 0)
    one = Limits(calls_in_flight=1)
    assert refused(quotas, "k", one, "t", Limits(), 0) is not None
    quotas.leave("k", "t", 0)
    quotas.enter("k", one, "t", Limits(), 0)
    assert refused(quotas, "k", one, "t", Limits(), 0) is not None


def test_idle_keys_and_tenants_take_no_memory() -> None:
    """After 100,000 keys some thousand are kept; those in flight or in debt are among them."""
    clock = Clock()
    quotas = Quotas(clock)
    limits = Limits(1, 1, 100)
    quotas.enter("runs", limits, "runs", limits, 0)
    quotas.enter("owes", limits, "owes", limits, 0)
    quotas.leave("owes", "owes", 10**9)
    for number in range(100_000):
        clock.now += 0.001
        name = str(number)
        quotas.enter(name, limits, name, limits, 0)
        quotas.leave(name, name, 0)
    for usages in (quotas._keys, quotas._tenants):
        assert len(usages) < 5000
    for name in ("runs", "owes"):
        assert refused(quotas, name, limits, "t", Limits(), 0) is not None
        assert refused(quotas, "k", Limits(), name, limits, 0) is not None
    clock.now += 100
    for _ in range(10_000):  # calls of one key drop the others too
        quotas.enter("k", Limits(), "t", Limits(), 0)
        quotas.leave("k", "t", 0)
    assert len(quotas._keys) < 1100


def test_what_a_tenant_stores_is_checked_before_a_write() -> None:
    """Contexts may reach the limit, not pass it. Bytes are checked for replacements too."""
    limits = Limits(contexts=10, stored_bytes=1000)
    check_stored(limits, 7, 999, 3)
    check_stored(limits, 12, 999, 0)  # the limit was lowered; replacements are accepted
    check_stored(Limits(), 10**12, 10**15, 10**6)
    for call, limit, value in (
        ((limits, 8, 0, 3), "contexts", "10"),
        ((limits, 0, 1000, 0), "stored_bytes", "1,000"),
    ):
        with pytest.raises(QuotaExceeded, match=f"limit {limit} is {value};") as refusal:
            check_stored(*call)
        assert refusal.value.metadata == {"limit": limit, "of": "tenant"}
        assert refusal.value.retry_after is None


@pytest.mark.parametrize("value", [-1, MAX_LIMIT + 1])
@pytest.mark.parametrize("name", list(asdict(Limits())))
def test_a_limit_has_a_range(name: str, value: int) -> None:
    """The error names the limit."""
    with pytest.raises(InvalidField) as refusal:
        replace(Limits(), **{name: value})
    assert refusal.value.field == name
    replace(Limits(), **{name: MAX_LIMIT})


def test_a_key_has_no_limits_of_stored_data() -> None:
    """The first three limits are allowed, the last three refused by name."""
    Limits(1, 2, 3).check_of_key()
    for name in ("contexts", "stored_bytes", "embedded_texts_per_day"):
        with pytest.raises(InvalidField) as refusal:
            replace(Limits(1, 2, 3), **{name: 1}).check_of_key()
        assert refusal.value.field == name


def test_embedded_texts_count_for_one_day_and_over_restarts() -> None:
    """The count begins anew at midnight UTC, and not at a restart."""
    rng = random.Random(3)
    now, counts, day = 20_000.0 * DAY, dict[int, int](), DayCount()
    for _ in range(2000):
        now += rng.choice((0, 1, 600, DAY / 3, DAY))
        today = int(now) // DAY
        done = counts.get(today, 0)
        assert day.allowed(100, now) == max(0, 100 - done)
        assert day.allowed(0, now) == sys.maxsize
        count = rng.randrange(60)
        day.add(count, now)
        counts[today] = done + count
        if rng.random() < 0.2:
            day = DayCount(day.day, day.count)
