"""A whole find over gRPC beside an echo of the same sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import data, echo
from benchmarks.bench import Questions, echo_of
from benchmarks.daemon import serving, temporary_store
from benchmarks.writes import load_tree
from vikingd.client import Method

Calls = dict[str, Callable[[int], bytes]]


@pytest.fixture(scope="module", params=[10_000, 100_000])
def calls(request: pytest.FixtureRequest) -> Iterator[Calls]:
    """Senders of finds and of echoes, each by the number of the query."""
    tree = data.tree(request.param)
    with ExitStack() as stack:
        server = stack.enter_context(serving(stack.enter_context(temporary_store())))
        load_tree(server, tree)
        find = Questions(server, tree).load(Method.AUTO)
        loads = {"find": find, "echo": echo_of(stack.enter_context(echo.serving()), find)}
        yield {
            name: load.sender(stack.enter_context(grpc.insecure_channel(load.server.address)))
            for name, load in loads.items()
        }


@pytest.mark.parametrize("name", ["echo", "find"])
def test_call(benchmark: BenchmarkFixture, calls: Calls, name: str) -> None:
    """One call in flight."""
    assert benchmark(calls[name], 0)
