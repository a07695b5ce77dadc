"""The same find over each interface: gRPC, REST and MCP over HTTP, MCP over stdio.

`python -m benchmarks.doors` sends words without a vector over 10,000 nodes, one call in flight, by
turns. Connections stay open. Each figure is compared with that of gRPC in the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from benchmarks import data
from benchmarks.daemon import serving, temporary_store
from benchmarks.page import gateway
from vikingd.client import AsyncClient
from vikingd.client import Client as BlockingClient

_BATCH = 500
_LIMIT = 10
_JSON = {"content-type": "application/json"}

Ask = Callable[[str], Awaitable[int]]
"""Sends a query; returns the number of results."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.doors", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20, help="calls of each door in a round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    given = parser.parse_args()
    with temporary_store() as store, serving(store) as server:
        tree = data.tree(given.nodes)
        with BlockingClient(server.address, timeout=120) as client:
            for batch in tree.batches(_BATCH):
                client.put(batch)
            client.optimize()
        queries = [query.text for query in tree.queries(200)]
        with gateway(server.address) as url:
            taken = asyncio.run(_measure(server.address, url, queries, given.rounds, given.calls))
    plain = np.median(taken["gRPC"])
    figures = {}
    print(f"{'door':22} {'p50 ms':>8} {'p99 ms':>8} {'ratio':>6}")
    for name, seconds in taken.items():
        p50, p99 = np.percentile(np.array(seconds) * 1e3, (50, 99))
        ratio = float(np.median(seconds) / plain)
        figures[name] = {"p50": round(p50, 2), "p99": round(p99, 2), "ratio": round(ratio, 2)}
        print(f"{name:22} {p50:8.2f} {p99:8.2f} {ratio:6.2f}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


async def _measure(
    address: str, url: str, queries: list[str], rounds: int, calls: int
) -> dict[str, list[float]]:
    """Return the seconds of the calls by interface."""
    taken: dict[str, list[float]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncClient(address))
        stdio = StdioServerParameters(
            command=sys.executable, args=["-m", "vikingd.ctl.main", "--address", address, "mcp"]
        )
        over_http = streamable_http_client(f"{url}/mcp")
        doors: dict[str, Ask] = {
            "gRPC": _grpc(client),
            "GET /v1/find": _get(url),
            "POST /v1/find": _post(url),
            "MCP find, HTTP": _tool(await stack.enter_async_context(Client(over_http))),
            "MCP find, stdio": _tool(await stack.enter_async_context(Client(stdio))),
        }
        counts = {name: await ask(queries[0]) for name, ask in doors.items()}
        if len(set(counts.values())) > 1:
            raise SystemExit(f"the doors do not agree: {counts}")
        for number in range(rounds):
            for name, ask in doors.items():
                for i in range(calls):
                    query = queries[(number * calls + i) % len(queries)]
                    started = time.perf_counter()
                    await ask(query)
                    taken[name].append(time.perf_counter() - started)
    return taken


def _grpc(client: AsyncClient) -> Ask:
    async def ask(query: str) -> int:
        return (await client.find(query, limit=_LIMIT)).total

    return ask


def _get(url: str) -> Ask:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    async def ask(query: str) -> int:
        connection.request("GET", f"/v1/find?q={quote(query)}&limit={_LIMIT}")
        return int(json.loads(connection.getresponse().read()).get("total", 0))

    return ask


def _post(url: str) -> Ask:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    async def ask(query: str) -> int:
        body = json.dumps({"query": query, "limit": _LIMIT})
        connection.request("POST", "/v1/find", body, _JSON)
        return int(json.loads(connection.getresponse().read()).get("total", 0))

    return ask


def _tool(client: Client) -> Ask:
    async def ask(query: str) -> int:
        result = await client.call_tool("find", {"query": query, "limit": _LIMIT})
        if result.is_error or result.structured_content is None:
            raise SystemExit(f"MCP: {result}")
        return len(result.structured_content["results"])

    return ask


if __name__ == "__main__":
    main()
