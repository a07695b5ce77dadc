"""A client with light calls in its own process, which reports the time of each call.

Each kind of call has one thread: find, get and, on request, put. The client calls until standard
input ends. Then it writes one line of JSON with the seconds of the calls of each kind.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from vikingd.client import ClientError, Draft
from vikingd.client.messages import MessageClient

URI = "viking://resources/light/light.md"


def light_calls(client: MessageClient) -> dict[str, Callable[[int], Any]]:
    """Return the calls by name."""
    return {
        "find": lambda _: client.find("lighthouse", target_uri="viking://resources/light", limit=3),
        "get": lambda _: client.get(URI),
        "put": lambda n: client.put([Draft(f"{URI}-put.md", content=f"a word {n}")]),
    }


def prepare(client: MessageClient) -> None:
    """Write the contexts that the light calls read."""
    client.put([Draft(URI, content="The lighthouse stands at the harbour.")])


def main() -> None:
    """Call a daemon. Arguments: ADDRESS, SECONDS that a call may take, names of calls."""
    address, timeout, *names = sys.argv[1:]
    waits: dict[str, list[float]] = {name: [] for name in names}
    began: dict[str, float] = {}
    stop = threading.Event()

    def call(name: str) -> None:
        with MessageClient(address, float(timeout), retries=False) as client:
            one, count = light_calls(client)[name], 0
            while not stop.is_set():
                began[name] = time.monotonic()
                try:
                    one(count)
                except ClientError as error:
                    if error.code.name == "UNAVAILABLE":
                        waits[name].append(float(timeout))
                        stop.wait(1)
                waits[name].append(time.monotonic() - began.pop(name))
                count += 1
                stop.wait(0.002)

    for name in names:
        threading.Thread(target=call, args=(name,), daemon=True).start()
    print("calling", flush=True)
    sys.stdin.read()
    stop.set()
    now = time.monotonic()
    for name, since in dict(began).items():
        waits[name].append(now - since)  # unfinished calls
    print(json.dumps(waits), flush=True)


if __name__ == "__main__":
    main()
