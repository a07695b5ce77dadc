"""The same requests get the same bytes from a daemon over SQLite and one over PostgreSQL."""

from __future__ import annotations

import os
from typing import Any

import grpc
import pytest

from tests.access.random_calls import CHANCE, CLOCK, Told, Walker
from tests.answer.parts_helpers import AREAS
from tests.daemons import serving
from tests.postgres_servers import NEEDS_POSTGRES, Server
from vikingd.client.method_declarations import Stubs

SEED = int(os.environ.get("TEST_SEED", "2811"))
CALLS = 1000
TARGETS = ("viking://", *AREAS, "viking://resources")
PLACE = frozenset(("StatsResponse.store_path", "StatsResponse.index"))
"""The place of a store, and the files of its index."""


ROOM = frozenset(("OptimizeResponse.given_back_bytes",))
"""The room that SQLite gives back, and a server of databases keeps."""


class Caller(Walker):
    """Makes random calls of all services but those for backups, keys and tenants."""

    def __init__(self, address: str, seed: int) -> None:
        self._channel = grpc.insecure_channel(address)
        super().__init__(
            Stubs(self._channel),
            "vk_none_none",
            seed,
            seed,
            AREAS,
            TARGETS,
            hidden=CLOCK | CHANCE | PLACE | ROOM,
        )
        self._metadata = ()

    def call(self, service: str, rpc: str, request: Any, timeout: float = 60.0) -> Any:
        """Make a call, unless only one of the stores has it."""
        if service == "access" or rpc == "Backup":
            return None
        return super().call(service, rpc, request, timeout)

    def walk(self, calls: int) -> list[Told]:
        """Make some calls; return what is told."""
        while len(self.told) < calls:
            self.step()
        self._channel.close()
        return self.told


@pytest.mark.parametrize("calls", [20, pytest.param(CALLS, marks=pytest.mark.deep)])
@NEEDS_POSTGRES
def test_random_requests_are_answered_equally(postgres: Server, calls: int) -> None:
    """Replies and errors are equal, byte for byte, without the times of the daemons' clocks."""
    with (
        serving("--provider", "none") as one,
        serving("--provider", "none", "--store", postgres.new_database()) as other,
    ):
        told = Caller(one, SEED).walk(calls), Caller(other, SEED).walk(calls)
    for number, (a, b) in enumerate(zip(*told, strict=True)):
        assert a == b, f"call {number} with TEST_SEED={SEED}"
    assert len({one.rpc for one in told[0] if one.code == "OK"}) >= (15 if calls == CALLS else 5)
    assert len({one.code for one in told[0]}) >= (4 if calls == CALLS else 2)
