"""Whole finds and retrievals over gRPC, each beside an echo of the same sizes."""

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
from vikingd.client import Method, Mode

Calls = dict[str, Callable[[int], bytes]]
ASKED = ("find", "retrieve_hybrid", "retrieve_vector", "retrieve_keyword")


@pytest.fixture(scope="module")
def calls(request: pytest.FixtureRequest) -> Iterator[Calls]:
    """Senders of each kind of query and of its echo, by the number of the query."""
    tree = data.tree(request.param)
    with ExitStack() as stack:
        server = stack.enter_context(serving(stack.enter_context(temporary_store())))
        load_tree(server, tree)
        questions = Questions(server, tree)
        loads = {"find": questions.load(Method.AUTO)}
        for mode in Mode:
            loads[f"retrieve_{mode.name.lower()}"] = questions.retrievals(mode)
        nothing = stack.enter_context(echo.serving())
        loads |= {f"{name}_echo": echo_of(nothing, load) for name, load in loads.items()}
        yield {
            name: load.sender(stack.enter_context(grpc.insecure_channel(load.server.address)))
            for name, load in loads.items()
        }


@pytest.mark.parametrize("name", [f"{name}{kind}" for name in ASKED for kind in ("_echo", "")])
def test_call(benchmark: BenchmarkFixture, calls: Calls, name: str) -> None:
    """One call in flight."""
    benchmark.group = name.removesuffix("_echo")
    assert benchmark(calls[name], 0)
