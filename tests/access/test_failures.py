"""Delays for peers that send wrong keys, with a clock of the test."""

from __future__ import annotations

import random
from contextlib import ExitStack
from itertools import pairwise

import pytest

from vikingd.access import wrong_keys as module
from vikingd.access.peers import address_of
from vikingd.access.wrong_keys import FREE, LONGEST, MOST_ADDRESSES, Failures, counted_address


class World:
    """Failures with a clock, and what they reported."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reports: list[tuple[float, str, int]] = []
        self.failures = Failures(
            lambda address, count: self.reports.append((self.now, address, count)),
            lambda: self.now,
        )


@pytest.mark.parametrize(
    ("peer", "address", "counted"),
    [
        ("ipv4:1.2.3.4:5678", "1.2.3.4", "1.2.3.4"),
        ("ipv4:1.2.3.4", "1.2.3.4", "1.2.3.4"),
        ("ipv6:%5B::1%5D:5678", "::1", "::/64"),
        ("ipv6:[::1]:5678", "::1", "::/64"),
        ("ipv6:%5b2001:db8:1:2:3:4:5:6%5d:1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::]:65535", "2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("ipv6:[::ffff:1.2.3.4]:5", "::ffff:1.2.3.4", "1.2.3.4"),
        ("ipv6:[fe80::1%25eth0]:5", "fe80::1%eth0", "fe80::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", "fe80::1%eth0", "fe80::/64"),
        ("ipv6:::1", "::1", "::/64"),
        ("unix:", "unix", "unix"),
        ("unix:/run/vikingd.sock", "unix", "unix"),
        ("unix-abstract:name", "unix", "unix"),
        ("", "", ""),
        ("vsock:3:1\n2", "vsock:3:1\n2", "vsock:3:1?2"),
        ("ipv4:" + "9" * 99 + ":1", "9" * 99, "9" * 64),
    ],
)
def test_peers_of_grpc_are_read(peer: str, address: str, counted: str) -> None:
    """Ports are left out, IPv6 counts by /64, and IPv4 within IPv6 as IPv4."""
    assert address_of(peer) == address
    assert counted_address(peer) == counted


def test_the_first_ten_are_free_and_delays_grow_to_two_seconds() -> None:
    """Failures from many ports of one address have no delay, then ever longer ones."""
    world = World()
    delays = [world.failures.delay(f"ipv4:10.0.0.1:{port}") for port in range(100)]
    assert delays[:FREE] == [0.0] * FREE
    assert all(a < b for a, b in zip(delays[FREE - 1 : 19], delays[FREE:20], strict=True))
    assert set(delays[20:]) == {LONGEST}
    assert world.failures.delay("ipv4:10.0.0.2:1") == 0


def test_one_network_of_ipv6_is_one_sender() -> None:
    """Addresses within a /64 share their count, and another /64 has its own."""
    world = World()
    delays = [world.failures.delay(f"ipv6:[2001:db8::{n:x}]:{n}") for n in range(1, 31)]
    assert delays[-1] == LONGEST
    assert world.failures.delay("ipv6:%5B2001:db8:0:1::1%5D:5") == 0


def test_delays_fall_with_time() -> None:
    """After a minute of quiet the longest delay has gone, whatever the number of failures."""
    world = World()
    for _ in range(10_000):
        world.failures.delay("ipv4:10.0.0.1:1")
    world.now += 20
    assert 0 < world.failures.delay("ipv4:10.0.0.1:1") < LONGEST
    world.now += 120
    assert [world.failures.delay("ipv4:10.0.0.1:1") for _ in range(5)] == [0.0] * 5


def test_a_rare_mistake_is_never_slowed() -> None:
    """An address with a wrong key every ten seconds stays without a delay."""
    world = World()
    for _ in range(1000):
        world.now += 10
        assert world.failures.delay("ipv4:10.0.0.1:1") == 0
    assert world.reports == []


def test_a_slowed_address_is_reported_once_a_minute_with_its_failures() -> None:
    """Over ten minutes of failures each address has ten reports, which count all of them."""
    world = World()
    for second in range(600):
        world.now = float(second)
        world.failures.delay("ipv4:10.0.0.1:1")
        world.failures.delay("ipv6:[2001:db8::1]:1")
    for name in ("10.0.0.1", "2001:db8::/64"):
        reports = [(at, count) for at, address, count in world.reports if address == name]
        times = [at for at, _ in reports]
        assert FREE <= times[0] <= FREE + 5
        assert len(times) == 10
        assert all(b - a == 60 for a, b in pairwise(times))
        assert sum(count for _, count in reports) == times[-1] + 1


def test_delays_are_those_of_a_plain_model() -> None:
    """Each delay follows from the ages of all earlier failures of the address."""
    rng, world = random.Random(7), World()
    known: dict[int, tuple[float, float]] = {}
    for _ in range(5000):
        world.now += rng.choice((0.0, 0.1, 1.0, 30.0))
        host = rng.randrange(3)
        at, count = known.get(host, (world.now, 0.0))
        count = min(20.0, count / 2 ** ((world.now - at) / 60) + 1)
        known[host] = world.now, count
        expected = min(2.0, max(0.0, count - 10) / 5)
        assert world.failures.delay(f"ipv4:10.0.0.{host}:1") == pytest.approx(expected)


def test_memory_is_bounded_and_keeps_those_that_go_on() -> None:
    """Among 30,000 addresses, one that fails again and again stays slowed."""
    world, delays = World(), list[float]()
    for number in range(30_000):
        world.failures.delay(f"ipv4:10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1")
        if number % 100 == 0:
            delays.append(world.failures.delay("ipv4:192.0.2.1:1"))
    assert len(world.failures._addresses) == MOST_ADDRESSES
    assert set(delays[20:]) == {LONGEST}


def test_a_crowd_of_waiting_callers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers count while they wait, also those whose wait is cancelled."""
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    failures = World().failures
    with ExitStack() as stack:
        for _ in range(3):
            assert not failures.is_crowded
            stack.enter_context(failures.waiting())
        assert failures.is_crowded
    assert not failures.is_crowded
    for _ in range(5):
        with pytest.raises(KeyError), failures.waiting():
            raise KeyError
    assert not failures.is_crowded
