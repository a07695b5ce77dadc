"""Many tenants in one daemon: memory, first calls to closed tenants, and kills.

`python -m benchmarks.tenants` makes tenants over gRPC. Then clients call random ones, most of which
are closed. With `--kills N` the daemon is then killed N times under the same load and started
again. Each client knows its acknowledged writes: a sample is checked after each kill, and all at
the end, when the index of each tenant is compared with its store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np

from benchmarks import daemon, data
from benchmarks.daemon import say, temporary_store
from vikingd.client import context_input
from vikingd.client.method_declarations import Stubs
from vikingd.domain.contexts import Draft, Passage
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, retrieval_pb2

_PUTS = 0.15  # share of the calls
_SAME = 0.5  # share of the calls that go to the tenant of the client's last call
_SLOTS = 3  # files that a client writes in a tenant
_ROOT = "viking://resources/load"
_MAKERS = 4  # tenants that are made at one time
_CHECKERS = 8
_SAMPLE = 40  # writes that are checked after a kill
_LIFE = (0.5, 3.0)  # seconds between a start and the next kill
_DEADLINE = 120.0
_WATCH = 0.1  # seconds between two looks at the memory
_CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]

_ALL = access_pb2.Grant(right=access_pb2.RIGHT_ADMIN)

_T = TypeVar("_T")
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run; `pause` is the mean of the seconds before a call of a client."""

    tenants: int = 1000
    contexts: int = 100
    clients: int = 32
    seconds: float = 120.0
    most_open: int = 100
    kills: int = 0
    pause: float = 0.0
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """The figures of a run.

    Attributes:
        memory: resident bytes of the daemon at the start, the highest and at the end.
        taken: seconds of the calls, by kind and state of the tenant, such as "find closed".
        failed: failed calls by status, except for those that a kill ended.
        restarts: seconds of the starts after kills.
        checked: the writes that were read again at the end.
        lost: what is wrong with acknowledged writes.
    """

    made_in: float = 0.0
    disk_bytes: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    calls_per_second: float = 0.0
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: Counter[str] = field(default_factory=Counter)
    restarts: list[float] = field(default_factory=list)
    acknowledged: int = 0
    checked: int = 0
    lost: list[str] = field(default_factory=list)


class Daemon:
    """A daemon that can be killed and started again at the same address."""

    def __init__(self, store: Path, most_open: int) -> None:
        config = store.with_name(f"{store.name}.toml")
        config.write_text(f"[tenants]\nmost_open = {most_open}\n")
        self._store, self._config = store, config
        self._stack = ExitStack()
        self.server = self._start("127.0.0.1:0")

    def _start(self, listen: str) -> daemon.Server:
        serving = daemon.serving(self._store, listen=listen, config=self._config)
        return self._stack.enter_context(serving)

    def kill(self) -> None:
        """Kill the daemon, and start it again."""
        os.kill(self.server.pid, signal.SIGKILL)
        self._stack.close()
        self.server = self._start(self.server.address)

    def close(self) -> None:
        """Stop the daemon."""
        self._stack.close()
        self._config.unlink()


class Writes:
    """The writes of all clients: each client has its own files, which hold rising numbers."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}  # the last acknowledged number
        self.sent: dict[tuple[str, str], int] = {}  # the last number

    def begin(self, tenant: str, uri: str) -> int:
        """Return the number of the next write to a file."""
        number = self.sent[tenant, uri] = self.sent.get((tenant, uri), 0) + 1
        return number

    def fault(self, tenant: str, uri: str, least: int, found: int) -> str:
        """Return a text if a found number is lower than the acknowledged one, or was never sent.

        `least` is the acknowledged number. Returns "" for a right one.
        """
        if least <= found <= self.sent[tenant, uri]:
            return ""
        return f"{tenant} {uri} has {found}, not {least} to {self.sent[tenant, uri]}"


class Recency:
    """The tenants in the order of their last calls, to predict which are open."""

    def __init__(self, most_open: int) -> None:
        self._most = most_open
        self._order: OrderedDict[str, bool] = OrderedDict()

    def called(self, tenant: str) -> None:
        """Record that a call of a tenant began or ended."""
        self._order[tenant] = True
        self._order.move_to_end(tenant)

    def state(self, tenant: str) -> str:
        """Return "open", "closed", or "unknown" where the order of calls in flight may decide."""
        for newer, other in enumerate(reversed(self._order)):
            if newer >= 2 * self._most:
                break
            if other == tenant:
                return "open" if newer < self._most / 2 else "unknown"
        return "closed"


class Load:
    """The tenants of a daemon, the calls to them, and the writes that it acknowledged."""

    def __init__(self, options: Options, at: Daemon, outcome: Outcome) -> None:
        self.options, self.at, self.outcome = options, at, outcome
        self.writes = Writes()
        self.keys: dict[str, Metadata] = {}
        self._tree = data.tree(options.contexts)
        self._queries = self._tree.queries(200)
        self._contexts = [context_input(draft) for draft in self._tree.drafts()]
        self._recency = Recency(options.most_open)
        self._is_over = asyncio.Event()
        self._may_fail = False

    @asynccontextmanager
    async def stubs(self) -> AsyncIterator[Stubs]:
        """Yield the stubs of a connection of its own."""
        async with grpc.aio.insecure_channel(self.at.server.address, _CHANNEL) as channel:
            yield Stubs(channel)

    async def make(self) -> None:
        """Make the tenants with their contexts and keys."""
        started = time.perf_counter()
        async with self.stubs() as stubs:
            first: Any = await _answered(
                # The first connection of a busy machine may take a second try.
                stubs.access.CreateKey(
                    access_pb2.CreateKeyRequest(operator=True), wait_for_ready=True
                )
            )

            async def made(name: str) -> None:
                mine = (*_bearer(first.secret), ("vikingd-tenant", name))
                tenant = access_pb2.PutTenantRequest(name=name, create=True)
                await _answered(stubs.access.PutTenant(tenant, metadata=mine))
                request = access_pb2.CreateKeyRequest(grants=[_ALL])
                key: Any = await _answered(stubs.access.CreateKey(request, metadata=mine))
                self.keys[name] = _bearer(key.secret)
                put = contexts_pb2.PutRequest(contexts=self._contexts)
                await _answered(stubs.contexts.Put(put, metadata=self.keys[name]))
                if len(self.keys) % 100 == 0:
                    say(f"{len(self.keys):,} tenants are made")

            names = [f"t{i:04}" for i in range(self.options.tenants)]
            await _each(_MAKERS, names, made)
        self.outcome.made_in = time.perf_counter() - started

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the clients within the block."""
        self._is_over.clear()
        clients = [asyncio.create_task(self._client(i)) for i in range(self.options.clients)]
        try:
            yield
        finally:
            self._is_over.set()
            await asyncio.gather(*clients)

    async def _client(self, number: int) -> None:
        dice = random.Random(f"{self.options.seed}/{number}/{time.time_ns()}")
        names, tenant = list(self.keys), ""
        async with self.stubs() as stubs:
            while True:
                if self.options.pause:
                    await asyncio.sleep(dice.expovariate(1 / self.options.pause))
                if self._is_over.is_set():
                    break
                if not tenant or dice.random() >= _SAME:
                    tenant = dice.choice(names)
                state = self._recency.state(tenant)
                self._recency.called(tenant)
                started = time.perf_counter()
                kind = "put" if dice.random() < _PUTS else "find"
                try:
                    if kind == "put":
                        await self._put(stubs, tenant, f"{number}-{dice.randrange(_SLOTS)}", dice)
                    else:
                        await self._find(stubs, tenant, dice)
                except grpc.aio.AioRpcError as error:
                    if not (self._may_fail and error.code() is grpc.StatusCode.UNAVAILABLE):
                        self.outcome.failed[f"{error.code().name}: {error.details()}"] += 1
                else:
                    self.outcome.taken[f"{kind} {state}"].append(time.perf_counter() - started)
                self._recency.called(tenant)

    async def _find(self, stubs: Stubs, tenant: str, dice: random.Random) -> None:
        query = dice.choice(self._queries)
        find = retrieval_pb2.FindRequest(query=query.text, vector=query.vector)
        call: Any = stubs.retrieval.Find(
            find, metadata=self.keys[tenant], timeout=_DEADLINE, wait_for_ready=True
        )
        await call

    async def _put(self, stubs: Stubs, tenant: str, name: str, dice: random.Random) -> None:
        uri = f"{_ROOT}/{name}.md"
        number = self.writes.begin(tenant, uri)
        content = f"{number} {dice.choice(self._queries).text}"
        passage = Passage("", 0, len(content), dice.choice(self._queries).vector)
        draft = Draft(uri, content=content, passages=(passage,))
        put = contexts_pb2.PutRequest(contexts=[context_input(draft)])
        call: Any = stubs.contexts.Put(
            put, metadata=self.keys[tenant], timeout=_DEADLINE, wait_for_ready=True
        )
        await call
        self.writes.known[tenant, uri] = number
        self.outcome.acknowledged += 1

    async def kill(self, times: int) -> None:
        """Kill the daemon under load, and check some writes after each start."""
        dice = random.Random(self.options.seed)
        self._may_fail = True
        for number in range(times):
            await asyncio.sleep(dice.uniform(*_LIFE))
            await asyncio.to_thread(self.at.kill)
            self.outcome.restarts.append(self.at.server.start_seconds)
            known = list(self.writes.known)
            await self.check(dice.sample(known, min(_SAMPLE, len(known))))
            if (number + 1) % 10 == 0:
                say(f"{number + 1} kills, {len(self.outcome.lost)} faults")
        self._may_fail = False

    async def check(self, files: Iterable[tuple[str, str]]) -> None:
        """Read files again, and note what is wrong."""
        async with self.stubs() as stubs:

            async def read(file: tuple[str, str]) -> None:
                tenant, uri = file
                least = self.writes.known[file]
                call: Any = stubs.contexts.Get(
                    contexts_pb2.GetRequest(uri=uri),
                    metadata=self.keys[tenant],
                    timeout=_DEADLINE,
                    wait_for_ready=True,
                )
                try:
                    found = int((await call).context.content.split()[0])
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.NOT_FOUND:
                        found = 0
                    else:
                        self.outcome.lost.append(f"{tenant} {uri}: {error.details()}")
                        return
                self.outcome.checked += 1
                if fault := self.writes.fault(tenant, uri, least, found):
                    self.outcome.lost.append(fault)

            await _each(_CHECKERS, files, read)

    async def verify(self) -> None:
        """Compare index and store of each tenant."""
        files = Counter(tenant for tenant, _ in self.writes.known)
        async with self.stubs() as stubs:

            async def verify(tenant: str) -> None:
                call: Any = stubs.admin.Verify(
                    admin_pb2.VerifyRequest(), metadata=self.keys[tenant], timeout=_DEADLINE
                )
                report = await call
                least = len(self._contexts) + files[tenant]
                if not report.ok or report.contexts < least:
                    problems = "; ".join(report.problems)
                    self.outcome.lost.append(
                        f"{tenant} has {report.contexts} of {least} contexts: {problems}"
                    )

            await _each(_CHECKERS, self.keys, verify)

    async def watch(self) -> None:
        """Record the memory of the daemon until cancelled."""
        memory = self.outcome.memory
        while True:
            with suppress(OSError, KeyError):  # it was killed
                now = self.at.server.resident_bytes()
                memory["highest"] = max(memory.get("highest", 0), now)
                memory["end"] = now
            await asyncio.sleep(_WATCH)


async def run(options: Options, store: Path) -> Outcome:
    """Run the benchmark on an empty directory."""
    outcome = Outcome()
    at = Daemon(store, options.most_open)
    try:
        outcome.memory["start"] = at.server.resident_bytes()
        load = Load(options, at, outcome)
        await load.make()
        outcome.memory["made"] = at.server.resident_bytes()
        outcome.disk_bytes = sum(
            path.stat().st_blocks * 512 for path in store.rglob("*") if path.is_file()
        )
        watching = asyncio.create_task(load.watch())
        async with load.running():
            await asyncio.sleep(options.seconds)
        calls = sum(map(len, outcome.taken.values()))
        outcome.calls_per_second = calls / options.seconds if options.seconds else 0.0
        taken = dict(outcome.taken)
        if options.kills:
            outcome.taken = defaultdict(list)  # a kill takes its time
            async with load.running():
                await load.kill(options.kills)
            outcome.checked = 0
            await load.check(sorted(load.writes.known))
            await load.verify()
        outcome.taken = taken
        watching.cancel()
    finally:
        at.close()
    return outcome


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.tenants", description=__doc__)
    for name, default in asdict(Options()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    arguments = vars(parser.parse_args())
    file = arguments.pop("json")
    options = Options(**arguments)
    with temporary_store() as directory:
        outcome = asyncio.run(run(options, directory / "store"))
    shown = figures(outcome)
    for name, value in shown.items():
        print(f"{name:32} {value}")
    if file is not None:
        file.write_text(json.dumps({"options": asdict(options), **shown}, indent=2) + "\n")
    if outcome.lost or outcome.failed:
        raise SystemExit(1)


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return the figures by name; times in ms, memory in MB."""
    shown: dict[str, Any] = {
        "made in, s": round(outcome.made_in, 1),
        "on disk, MB": round(outcome.disk_bytes / 1e6),
        "calls a second": round(outcome.calls_per_second, 1),
    }
    shown |= {f"memory, {name}, MB": size // 10**6 for name, size in outcome.memory.items()}
    at: dict[str, Sequence[float]] = {}
    for name, seconds in sorted(outcome.taken.items()):
        at[name] = np.percentile(np.array(seconds) * 1e3, (50, 99)).tolist()
        shown[f"{name}, calls"] = len(seconds)
        shown |= {
            f"{name}, {p}": round(ms, 1) for p, ms in zip(("p50", "p99"), at[name], strict=True)
        }
    for kind in ("find", "put"):
        if {f"{kind} open", f"{kind} closed"} <= at.keys():
            pairs = zip(("p50", "p99"), at[f"{kind} closed"], at[f"{kind} open"], strict=True)
            for p, closed, opened in pairs:
                shown[f"{kind}, ratio of {p}"] = round(closed / opened, 2)
    if outcome.restarts:
        shown["kills"] = len(outcome.restarts)
        shown["start after a kill, median, s"] = round(float(np.median(outcome.restarts)), 2)
        shown["start after a kill, longest, s"] = round(max(outcome.restarts), 2)
        shown["acknowledged writes"] = outcome.acknowledged
        shown["files checked at the end"] = outcome.checked
        shown["lost"] = len(outcome.lost)
        shown["examples"] = outcome.lost[:5]
    shown["failed calls"] = dict(outcome.failed)
    return shown


def _bearer(secret: str) -> Metadata:
    return (("authorization", f"Bearer {secret}"),)


async def _answered(call: Any) -> Any:
    """Await a call of an asyncio stub; its declared type is that of the synchronous stub."""
    return await call


async def _each(workers: int, items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    """Call a function for each item, with a limited number of calls at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(workers)))


if __name__ == "__main__":
    main()
