"""Mutated and random requests for every RPC, many at a time.

Each request has to be answered, with any status except INTERNAL and UNKNOWN. A light client has to
be answered too. Memory stays bounded, refused requests change nothing, and a kill loses nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections import Counter
from pathlib import Path

import grpc

from tests.chaos import light
from tests.chaos.common import Run
from tests.chaos.daemon import CALL, Daemon, Wrong
from tests.chaos.wirefuzz import HEAVY, Requests
from vikingd.client import ClientError, NotFound
from vikingd.client.messages import MessageClient

KIND = "fuzz"
_IN_FLIGHT = 96
_BATCH = 20_000  # requests for each daemon
_PATIENCE = 15.0  # seconds that a light call may wait during the batch
_MEMORY = 600 << 20  # bytes that a daemon may use after a batch in addition to its start
_SOON = 4.0  # seconds that a request may take; a slower one is sent again alone
_SILENCE = 60.0  # seconds that a request may take alone
_AGAIN = 150  # refused requests that are sent again to check that they change nothing


def run(run: Run) -> None:
    """Send requests until the time is over."""
    for number in run.step_numbers(KIND):
        directory = run.directory / f"fuzz-{number}"
        with run.step(KIND, str(number), directory):
            batch(run, number, directory)


def batch(run: Run, number: int, directory: Path) -> None:
    """Send some thousands of requests to one daemon."""
    dice = run.dice(KIND, number)
    directory.mkdir()
    daemon = Daemon(
        run.nursery,
        directory / "store",
        "--log-level",
        "warning",
        VIKINGD_INDEX__COMPACT_MIN="300",
    )
    run.count(KIND, "starts")
    with daemon.client() as client:
        light.prepare(client)
        for _ in range(20):
            client.find("lighthouse")
        before = daemon.memory()["VmRSS"]
        stop, waits = threading.Event(), [0.0]
        beside = threading.Thread(target=_light_calls, args=(daemon, stop, waits))
        beside.start()
        try:
            refused = asyncio.run(_send(run, daemon, Requests(dice)))
        finally:
            stop.set()
            beside.join()
        run.most(KIND, "longest light wait, ms", int(max(waits) * 1000))
        if max(waits) > _PATIENCE:
            raise Wrong(f"a light find waited {max(waits):.1f} s")
        daemon.check()
        time.sleep(1.5)  # accesses are counted within a second
        growth = daemon.memory()["VmRSS"] - before
        run.most(KIND, "most memory added, MiB", growth >> 20)
        if growth > _MEMORY:
            raise Wrong(f"{growth >> 20} MiB more are in use after {_BATCH} requests")
        refused_again(run, daemon, client, refused, dice)
        report = client.verify()
        if not report.ok:
            raise Wrong(f"verify: {list(report.problems)[:5]}")
        before_kill = snapshot(client)
    daemon.kill()
    daemon = Daemon(run.nursery, directory / "store")
    run.count(KIND, "starts")
    with daemon.client() as client:
        if snapshot(client) != before_kill:
            raise Wrong("after a kill something else stands than before it")
    daemon.stop()


async def _send(run: Run, daemon: Daemon, source: Requests) -> list[tuple[str, bytes]]:
    """Send a batch with many requests in flight; return some of the refused ones."""
    refused: list[tuple[str, bytes]] = []
    codes: Counter[str] = Counter()
    faults: list[str] = []
    slow: list[tuple[str, bytes]] = []
    options = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    left = iter(range(_BATCH))
    async with grpc.aio.insecure_channel(daemon.address, options) as channel:
        calls: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}

        async def work() -> None:
            for _ in left:
                if faults or time.monotonic() > run.until + 5:
                    return
                path, data = source.next()
                if path not in calls:
                    calls[path] = channel.unary_unary(path, None, None)
                try:
                    await calls[path](data, timeout=_SOON)
                    code = "OK"
                except grpc.aio.AioRpcError as error:
                    code = error.code().name
                    if code in ("INTERNAL", "UNKNOWN"):
                        faults.append(f"{path} {code} {error.details()!r}: {data[:3000].hex()}")
                    elif code == "UNAVAILABLE" and daemon.code is not None:
                        ended = f"it ended with {daemon.code} after {path}"
                        faults.append(f"{ended} {data[:3000].hex()}")
                    elif _is_silent(error) and path.rpartition("/")[2] not in HEAVY:
                        slow.append((path, data))
                    elif code != "DEADLINE_EXCEEDED":
                        refused.append((path, data))
                codes[code] += 1

        await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
        for path, data in slow[:5]:
            try:
                await calls[path](data, timeout=_SILENCE)
            except grpc.aio.AioRpcError as error:
                if _is_silent(error):
                    faults.append(f"{path} is not answered: {data[:3000].hex()}")
    run.count(KIND, "requests", sum(codes.values()))
    for code, count in codes.items():
        run.count(KIND, code, count)
    if slow:
        run.count(KIND, "slow", len(slow))
    if faults:
        raise Wrong("\n".join(faults[:3]))
    return refused


def _is_silent(error: grpc.RpcError) -> bool:
    """Return whether the deadline passed without a reply, which may be a wait for a revision."""
    return (
        error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        and "revision" not in (error.details() or "").lower()
    )


def _light_calls(daemon: Daemon, stop: threading.Event, waits: list[float]) -> None:
    with MessageClient(daemon.address, CALL) as client:
        call = light.light_calls(client)["find"]
        while not stop.wait(0.02):
            started = time.monotonic()
            try:
                call(0)
            except NotFound:
                pass  # one of the requests removed the context
            except ClientError:
                waits.append(CALL)
            waits.append(time.monotonic() - started)


def refused_again(
    run: Run,
    daemon: Daemon,
    client: MessageClient,
    refused: list[tuple[str, bytes]],
    dice: random.Random,
) -> None:
    """Check that refused requests change nothing."""
    with grpc.insecure_channel(daemon.address) as channel:
        before = snapshot(client)
        for path, data in dice.sample(refused, min(len(refused), _AGAIN)):
            try:
                channel.unary_unary(path, None, None)(data, timeout=_SILENCE)
            except grpc.RpcError:
                run.count(KIND, "refused again")
                continue
            before = snapshot(client)  # the accepted request was refused for an earlier state
    if snapshot(client) != before:
        raise Wrong("requests that were refused changed something")


def snapshot(client: MessageClient) -> str:
    """Return a hash of the whole tree, without the counters that reads change."""
    digest = hashlib.sha256()
    for context in client.tree(""):
        whole = client.get(context.uri).context
        whole.ClearField("access_count")
        for passage in whole.passages:
            passage.memory.ClearField("access_count")
        digest.update(whole.SerializeToString(deterministic=True))
    return digest.hexdigest()
