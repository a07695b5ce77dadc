"""The time of a call by stage inside the daemon, from the request's bytes to the reply's bytes.

`python -m benchmarks.stages` loads a tree into an engine in its own process and calls the handlers
there, without a network. `--against DIR` also measures another checkout of the project, by turns.
Times are processor time of the event loop's thread, which alone answers light calls. Other load on
the machine has little effect.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

FIND = "/viking.retrieval.v1.Retrieval/Find"
RETRIEVE = "/viking.retrieval.v1.Retrieval/Retrieve"
QUERIES = 128
SHARE = 0.01
_ONLY_WORDS = 2  # MODE_KEYWORD
_BATCH = 500
_GC_THRESHOLDS = (50_000, 20, 100)  # as in vikingd/daemon/daemon_lifecycle.py

METADATA = (("user-agent", "grpc-python"),)
"""The metadata that a client of gRPC sends."""

Call = Callable[[bytes], Awaitable[bytes]]
Figures = dict[str, float]
"""Median microseconds by stage; `whole` is measured without the clocks of the other stages."""


class Site(NamedTuple):
    """A function that is timed for a stage.

    The time of timed functions that it calls is excluded.
    """

    stage: str
    module: str
    name: str  # with dots for a method


SITES = (
    Site("check and parse", "vikingd.wire.call_interceptor", "parsed"),
    Site("decode", "vikingd.wire.messages.decode", "find_query"),
    Site("decode", "vikingd.wire.messages.retrieve_request", "query_of"),
    Site("plan", "vikingd.plan.find_plan", "compile_find"),
    Site("plan", "vikingd.answer.query_planning", "compile_retrieve"),
    Site("hand over", "vikingd.answer.find_answer", "score"),
    Site("kernel", "vikingd.answer.scored_scope", "kernel.find"),
    Site("kernel", "vikingd.answer.hybrid_ranking", "flat.keyword_top"),
    Site("hits", "vikingd.answer.find_answer", "find"),
    Site("hits", "vikingd.answer.query_planning", "retrieve"),
    Site("render", "vikingd.wire.retrieval_service", "find_reply"),
    Site("render", "vikingd.wire.retrieval_service", "retrieve_reply"),
    Site("count", "vikingd.telemetry.metrics", "Metrics.took"),
    Site("count", "vikingd.telemetry.metrics", "Metrics.answered"),
)
"""The functions of each stage."""


class Context:
    """A substitute for gRPC's context of a call."""

    def peer(self) -> str:
        """Return the address of the client."""
        return "ipv4:127.0.0.1:50000"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata that a client of gRPC sends."""
        return METADATA

    def auth_context(self) -> dict[str, list[bytes]]:
        """Return the client's certificate data: there are none."""
        return {}

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline."""
        return 30.0


class Details(NamedTuple):
    """The call details that an interceptor gets."""

    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = METADATA


class Served:
    """A tree in an engine, and the handlers of its calls."""

    def __init__(self, nodes: int, store: Path) -> None:
        from benchmarks import data
        from vikingd.access.authentication import Authenticator
        from vikingd.access.keys import KeyStore
        from vikingd.answer.search_answer import Models
        from vikingd.config import Settings
        from vikingd.daemon.open_tenants import Collector, Tenants
        from vikingd.domain.tenants import TenantSettings
        from vikingd.engine import Engine, EngineSettings, Shared
        from vikingd.ingest import draft_preparation
        from vikingd.lanes.call_pools import Threads
        from vikingd.models.chat.planner_settings import PlannerSettings
        from vikingd.models.embed.embed_settings import EmbedSettings
        from vikingd.models.intent.planner import Planner
        from vikingd.models.rerank.rerankers import Rerankers
        from vikingd.pb import retrieval_pb2_grpc
        from vikingd.telemetry.metrics import Metrics
        from vikingd.wire.admission import Admission
        from vikingd.wire.call_interceptor import Boundary
        from vikingd.wire.retrieval_service import RetrievalService

        self.tree = data.tree(nodes)
        metrics = Metrics()
        shared = Shared(EmbedSettings(provider="none"), metrics)
        self.engine = Engine(EngineSettings(store, EmbedSettings(provider="none")), shared=shared)
        for batch in self.tree.batches(_BATCH):
            self.engine.writable_store.put(
                [draft_preparation.prepare(draft) for draft in batch]
            ).result()
        self.engine.optimize()
        self.threads = Threads()
        models = Models(Planner(PlannerSettings(), lambda *_: None), Rerankers([], lambda *_: None))
        service: Any = RetrievalService(
            self.engine, self.threads, metrics, Settings(path=store), models
        )
        services: Any = Collector()  # takes the handlers in place of a gRPC server
        retrieval_pb2_grpc.add_RetrievalServicer_to_server(service, services)
        self._handlers = services.handlers
        tenants = Tenants(
            self.engine, self._handlers, shared, TenantSettings(), lambda _: self._handlers
        )
        keys = KeyStore(store)
        authenticator = Authenticator(keys, allow_local=False, trust_network=False)
        self.boundary = Boundary(Admission(keys, authenticator, tenants), metrics)

    async def call(self, method: str) -> Call:
        """Return a function that answers a request of a method."""

        async def known(details: Details) -> Any:
            return self._handlers[details.method]

        guarded: Any = await self.boundary.intercept_service(known, Details(method))  # type: ignore[arg-type]
        answer, encode, context = guarded.unary_unary, guarded.response_serializer, Context()

        async def call(request: bytes) -> bytes:
            reply: bytes = encode(await answer(request, context))
            return reply

        return call

    async def cases(self) -> dict[str, tuple[Call, list[bytes]]]:
        """Return, by name, the function that answers a call and its requests."""
        from vikingd.client import find_request, retrieve_request
        from vikingd.domain.retrieve_query import Mode

        find, retrieve = await self.call(FIND), await self.call(RETRIEVE)
        everywhere = self.tree.queries(QUERIES)
        below = self.tree.directory_with(SHARE)
        inside = self.tree.queries(QUERIES, below)
        words = Mode(_ONLY_WORDS)
        whole = [find_request(q.text, vector=q.vector) for q in everywhere]
        part = [find_request(q.text, vector=q.vector, target_uri=below) for q in inside]
        keyword = [retrieve_request(q.text, mode=words, top_k=10) for q in everywhere]
        return {
            "find": (find, [request.SerializeToString() for request in whole]),
            "find_1pct": (find, [request.SerializeToString() for request in part]),
            "keyword": (retrieve, [request.SerializeToString() for request in keyword]),
        }

    def close(self) -> None:
        """End the threads and the engine."""
        self.threads.shutdown()
        self.boundary.close()
        self.engine.close()


class Clocks:
    """The measured times of each stage."""

    def __init__(self) -> None:
        self.clear()
        self._below = [0.0]

    def clear(self) -> None:
        """Remove all measured times."""
        self.taken: dict[str, list[float]] = {}
        self.arguments: tuple[Any, ...] = ()  # of the last call of a kernel

    def watched(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `function` and adds its own time to the stage."""
        clock, below = time.thread_time, self._below

        def timed(*args: Any, **kwargs: Any) -> Any:
            if stage == "kernel":
                self.arguments = args
            below.append(0.0)
            started = clock()
            try:
                return function(*args, **kwargs)
            finally:
                lasted = clock() - started
                self.taken.setdefault(stage, []).append(lasted - below.pop())
                below[-1] += lasted

        return timed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time all functions of SITES within the block."""
        import importlib

        undo: list[tuple[Any, str, Any]] = []
        for stage, module, path in SITES:
            owner: Any = importlib.import_module(module)
            *above, name = path.split(".")
            for part in above:
                owner = getattr(owner, part, None)
            function = getattr(owner, name, None)
            if function is not None:
                undo.append((owner, name, function))
                setattr(owner, name, self.watched(stage, function))
        try:
            yield
        finally:
            for owner, name, function in reversed(undo):
                setattr(owner, name, function)


def _empty_kernel() -> Callable[..., None]:
    """Return a kernel that does nothing, to measure the cost of passing the arguments."""
    import numba

    @numba.njit(nogil=True)
    def nothing(*_: Any) -> None:
        pass

    empty: Callable[..., None] = nothing
    return empty


async def _child(nodes: int, store: Path) -> None:
    """For each line `CASE CALLS` on stdin, make the calls and print the figures as JSON."""
    served = Served(nodes, store)
    cases = await served.cases()
    clocks, empty = Clocks(), _empty_kernel()
    gc.freeze()  # as in the daemon
    gc.set_threshold(*_GC_THRESHOLDS)
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        case, number = line.split()
        call, requests = cases[case]
        asked = [requests[i % len(requests)] for i in range(int(number))]
        whole = await _taken(call, asked)
        with clocks.watching():
            for request in asked:
                await call(request)
        figures = {stage: statistics.median(taken) for stage, taken in clocks.taken.items()}
        arguments = clocks.arguments
        empty(*arguments)  # the first call compiles
        handing = statistics.median(_seconds(empty, arguments) for _ in asked)
        figures["kernel"] -= handing
        figures["hand over"] = figures.get("hand over", 0.0) + handing
        figures["rest"] = statistics.median(whole) - sum(figures.values())
        figures["whole"] = statistics.median(whole)
        clocks.clear()
        print(json.dumps({stage: seconds * 1e6 for stage, seconds in figures.items()}), flush=True)
    served.close()


async def _taken(call: Call, requests: list[bytes]) -> list[float]:
    taken = []
    for request in requests:
        started = time.thread_time()
        await call(request)
        taken.append(time.thread_time() - started)
    return taken


def _seconds(function: Callable[..., None], arguments: tuple[Any, ...]) -> float:
    started = time.thread_time()
    function(*arguments)
    return time.thread_time() - started


class Child:
    """A process that runs the code of one checkout."""

    def __init__(self, checkout: Path, nodes: int, store: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        environment["PYTHONPATH"] = f"{checkout}{os.pathsep}{checkout / 'kernels'}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--nodes", str(nodes), "--child", str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.cases: list[str] = self._read()

    def ask(self, case: str, calls: int) -> Figures:
        """Return the figures of this number of calls."""
        assert self._process.stdin is not None
        print(case, calls, file=self._process.stdin, flush=True)
        figures: Figures = self._read()
        return figures

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Run the command line."""
    from benchmarks.daemon import temporary_store

    parser = argparse.ArgumentParser("python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000, help="size of the tree (10k)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="also measure this checkout")
    parser.add_argument(
        "--only", nargs="+", metavar="CASE", help="select cases: find, find_1pct, keyword"
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each checkout (5)")
    parser.add_argument("--calls", type=int, default=2 * QUERIES, help="calls of a turn (256)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        asyncio.run(_child(arguments.nodes, arguments.child))
        return
    checkouts = [Path(__file__).resolve().parent.parent]
    checkouts += [arguments.against.resolve()] if arguments.against else []
    with temporary_store() as store:
        children = [
            Child(checkout, arguments.nodes, store / str(i)) for i, checkout in enumerate(checkouts)
        ]
        shown = {
            case: _measured(case, children, arguments.rounds, arguments.calls)
            for case in arguments.only or children[0].cases
        }
        for child in children:
            child.close()
    for case, sides in shown.items():
        print(f"{case}, {arguments.nodes:,} nodes, CPU microseconds (median of the turns; range)")
        for stage in dict.fromkeys(stage for side in sides for stage in side):
            cells = [_cell(side[stage]) if stage in side else f"{'':24}" for side in sides]
            print(f"  {stage:<16}" + "".join(cells))
        if len(sides) == 2:
            ratios = [b / a for a, b in zip(sides[0]["whole"], sides[1]["whole"], strict=True)]
            print(f"  {'times faster':<16}{_cell(ratios, '.2f')}")
    if arguments.json:
        arguments.json.write_text(json.dumps(shown, indent=2) + "\n")


def _measured(
    case: str, children: list[Child], rounds: int, calls: int
) -> list[dict[str, list[float]]]:
    """Return the figures of all turns by stage, for each child."""
    for child in children:
        child.ask(case, calls)  # warm-up
    turns = [[child.ask(case, calls) for child in children] for _ in range(rounds)]
    return [
        {stage: [turn[i][stage] for turn in turns] for stage in turns[0][i]}
        for i in range(len(children))
    ]


def _cell(values: list[float], form: str = ".0f") -> str:
    low, high = min(values), max(values)
    text = f"{statistics.median(values):{form}} ({low:{form}}-{high:{form}})"
    return f"{text:<24}"


if __name__ == "__main__":
    main()
