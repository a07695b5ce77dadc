"""Mutated HTTP and MCP messages for a gateway with keys, many at a time.

Each message gets an answer that is no 500, or a closed connection where it cannot be understood.
The gateway goes on, its memory stays bounded, and its log has no fault and no key.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx

from tests.chaos import light
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong
from tests.chaos.httpfuzz import Messages
from vikingd.client import Client

KIND = "doors"
_IN_FLIGHT = 24
_BATCH = 20_000  # messages for each gateway
_SILENCE = 30.0  # seconds until an answer
_UNFINISHED = 0.3  # seconds until an answer to what may be no whole request
_MEMORY = 250 << 20  # bytes that a gateway may use after a batch in addition to its start
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def run(run: Run) -> None:
    """Send messages until the time is over."""
    for number in run.step_numbers(KIND):
        directory = run.directory / f"doors-{number}"
        with run.step(KIND, str(number), directory):
            batch(run, number, directory)


def batch(run: Run, number: int, directory: Path) -> None:
    """Send some thousands of messages to one gateway."""
    directory.mkdir()
    daemon = Daemon(run.nursery, directory / "store", "--log-level", "warning")
    with daemon.client() as client:
        light.prepare(client)
    with Client(daemon.address) as first:
        operator = first.create_key(operator=True).secret
    with Client(daemon.address, key=operator) as client:
        key = client.create_key(write=["viking://"]).secret
    log = directory / "gateway.log"
    command = [sys.executable, "-m", "vikingd.daemon.server", "gateway", "--listen", "127.0.0.1:0"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*command, "--daemon", daemon.address], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as gateway,
    ):
        run.count(KIND, "starts")
        try:
            assert gateway.stdout is not None
            url = gateway.stdout.readline().split()[-1]
            headers = {"authorization": f"Bearer {key}"}
            with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
                _healthy(http)
                before = _resident(gateway.pid)
                source = Messages(run.dice(KIND, number), url.removeprefix("http://"), key)
                asyncio.run(_send(run, url, source))
                if gateway.poll() is not None:
                    raise Wrong(f"the gateway ended with {gateway.returncode}")
                _healthy(http)
                growth = _resident(gateway.pid) - before
            run.most(KIND, "most memory added, MiB", growth >> 20)
            if growth > _MEMORY:
                raise Wrong(f"{growth >> 20} MiB more are in use after {_BATCH} messages")
        finally:
            gateway.terminate()
    said = log.read_text(errors="replace")
    for text in (key, operator, "Traceback"):
        if text in said:
            raise Wrong(f"the log of the gateway has {text[:12]}...: {said[:2000]}")
    daemon.check()
    daemon.stop()


def _resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) << 10 if found else 0


def _healthy(http: httpx.Client) -> None:
    """Raise Wrong unless a find is answered."""
    answer = http.get("/v1/find", params={"q": "lighthouse"})
    if answer.status_code != 200:
        raise Wrong(f"a find after the batch: {answer.status_code} {answer.text[:300]}")


async def _send(run: Run, url: str, source: Messages) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    statuses: Counter[str] = Counter()
    faults: list[str] = []
    left = iter(range(_BATCH))

    async def work() -> None:
        for _ in left:
            if faults or time.monotonic() > run.until + 5:
                return
            message, is_whole = source.next()
            answer = await _answer(host, int(port), message, _SILENCE if is_whole else _UNFINISHED)
            found = _STATUS.match(answer)
            status = found[1].decode() if found else "none"
            if status == "500" or (is_whole and not found):
                faults.append(f"{answer[-600:]!r} to {message[:3000]!r}")
            statuses[status] += 1

    await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
    run.count(KIND, "messages", sum(statuses.values()))
    for status, count in statuses.items():
        run.count(KIND, status, count)
    if faults:
        raise Wrong("\n".join(faults[:3]))


async def _answer(host: str, port: int, message: bytes, seconds: float) -> bytes:
    """Send a message over a connection of its own; return what comes back in the time."""
    reader, writer = await asyncio.open_connection(host, port)
    answer = b""
    try:
        async with asyncio.timeout(seconds):
            writer.write(message)
            await writer.drain()
            while piece := await reader.read(1 << 16):
                answer += piece
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    return answer
