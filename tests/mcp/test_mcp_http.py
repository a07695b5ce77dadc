"""The MCP server as an application for streamable HTTP, on a real socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from tests.mcp.mcp_helpers import TEA, failed, keyed, told
from vikingd.client import AsyncClient
from vikingd.mcp.mcp_server import PATH, http_app

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[str, str, str]]:
    """Yield the URL of a server, the key of an operator and that of a reader."""
    with keyed() as daemon:
        clients: dict[str, AsyncClient] = {}

        def client_of(context: Context[Any, Any]) -> AsyncClient:
            """Return the client with the key of the request."""
            key = context.request_context.request.headers.get("authorization", "")
            if not key:
                raise ToolError("There is no key.")
            if key not in clients:
                clients[key] = AsyncClient(daemon.address, key=key.removeprefix("Bearer "))
            return clients[key]

        with running(client_of) as url:
            yield url, daemon.operator, daemon.reader


@contextmanager
def running(client_of: Any) -> Iterator[str]:
    """Run the application by uvicorn on a thread; yield its URL."""
    app = http_app(client_of, read_only=False)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + 10
        while not server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        [socket] = server.servers[0].sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}{PATH}"
    finally:
        server.should_exit = True
        thread.join(10)


def post(url: str, key: str = "", **more: Any) -> httpx.Response:
    """Send one call of `read` without a session."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "read", "arguments": {"uri": TEA}},
    }
    headers = HEADERS | ({"authorization": f"Bearer {key}"} if key else {})
    headers |= more.pop("headers", {})
    return httpx.post(url, **{"json": message, **more}, headers=headers, trust_env=False)


def test_each_call_has_the_rights_of_its_key(door: tuple[str, str, str]) -> None:
    """The SDK's client reads with any key, and writes with one that may."""
    url, operator, reader = door

    async def calls(key: str) -> str:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, trust_env=False)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            assert (await told(client, "read", uri=TEA))["content"] == "Oolong."
            new = {"uri": f"viking://resources/{key[3:8]}.md", "content": "New."}
            if key == operator:
                return str((await told(client, "write", **new))["outcome"])
            return await failed(client, "write", **new)

    async def main() -> None:
        assert await calls(operator) == "created"
        assert "right" in await calls(reader)

    asyncio.run(main())


def test_a_call_needs_no_session_and_gets_json(door: tuple[str, str, str]) -> None:
    """One request with a key is answered in JSON; without one, the error of `client_of` is told."""
    url, operator, _ = door
    reply = post(url, operator)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert reply.json()["result"]["structuredContent"]["content"] == "Oolong."
    without = post(url).json()["result"]
    assert without["isError"]
    assert without["content"][0]["text"] == "There is no key."


def test_foreign_hosts_and_origins_and_large_bodies_are_refused(
    door: tuple[str, str, str],
) -> None:
    """By default the server answers for this machine alone, and takes no body above 4 MiB."""
    url, operator, _ = door
    assert post(url, operator, headers={"host": "evil.example"}).status_code == 421
    assert post(url, operator, headers={"origin": "http://evil.example"}).status_code == 403
    assert post(url, operator, content=b" " * (4 << 20) + b"{}", json=None).status_code == 413
    assert post(url, operator, content=b"{", json=None).status_code == 400
    assert post(url, operator).status_code == 200
