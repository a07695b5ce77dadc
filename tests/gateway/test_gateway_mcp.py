"""MCP at the gateway: each call has the key of its request, and passes the same doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest
from mcp import Client as Models
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.gateway_helpers import Gateway, gateway_of, reason
from tests.mcp.mcp_helpers import TEA, failed, keyed, told

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Door(NamedTuple):
    """A gateway of a daemon with keys."""

    gateway: Gateway
    address: str
    operator: str
    reader: str


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Yield a gateway of a daemon with keys and two tenants."""
    with keyed() as daemon, gateway_of(daemon.address, tmp_path_factory.mktemp("mcp")) as gateway:
        yield Door(gateway, *daemon)


def call(gateway: Gateway, name: str, arguments: Any, **more: str) -> httpx.Response:
    """Call a tool without a session."""
    params = {"name": name, "arguments": arguments}
    return send(gateway, "tools/call", params, **more)


def send(gateway: Gateway, method: str, params: Any, **more: str) -> httpx.Response:
    """Send a message."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = HEADERS | {name.replace("_", "-"): value for name, value in more.items()}
    return gateway.http.post("/mcp", json=message, headers=headers)


def content(reply: httpx.Response) -> str:
    """Return the content that `read` has read."""
    assert reply.status_code == 200, reply.text
    return str(reply.json()["result"]["structuredContent"]["content"])


def test_each_call_has_the_rights_of_its_key(door: Door) -> None:
    """The SDK's client reads with any key, and writes with one that may."""

    async def calls(key: str) -> str:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, trust_env=False)
        url = f"{door.gateway.url}/mcp"
        async with http, Models(streamable_http_client(url, http_client=http)) as models:
            assert (await told(models, "read", uri=TEA))["content"] == "Oolong."
            new = {"uri": f"viking://resources/{key[3:8]}.md", "content": "New."}
            if key == door.operator:
                return str((await told(models, "write", **new))["outcome"])
            return await failed(models, "write", **new)

    async def main() -> None:
        outcomes = await asyncio.gather(*map(calls, (door.operator, door.reader, door.reader)))
        assert outcomes[0] == "created"
        assert "right" in outcomes[1]
        assert outcomes[2] == outcomes[1]

    asyncio.run(main())


def test_tenants_and_sessions_are_those_of_rest(door: Door) -> None:
    """The header names the tenant, and a session has its key."""
    gateway, bearer = door.gateway, f"Bearer {door.operator}"
    arguments = {"uri": TEA}
    assert content(call(gateway, "read", arguments, authorization=bearer)) == "Oolong."
    acme = call(gateway, "read", arguments, authorization=bearer, vikingd_tenant="acme")
    assert content(acme) == "Acme's tea."
    signed = gateway.http.post("/session", json={"key": door.operator, "tenant": "acme"})
    cookie = signed.headers["set-cookie"].partition(";")[0]
    gateway.http.cookies.clear()
    assert content(call(gateway, "read", arguments, cookie=cookie)) == "Acme's tea."
    without = call(gateway, "read", arguments).json()["result"]
    assert without["isError"]
    assert "key" in without["content"][0]["text"]


def test_models_pass_the_same_doors(door: Door, daemon: str, tmp_path: Path) -> None:
    """Host, Origin, key and body are checked before a message is read."""
    gateway, bearer = door.gateway, f"Bearer {door.operator}"
    arguments = {"uri": TEA}
    assert reason(call(gateway, "read", arguments, host="evil.example")) == "HOST_NOT_ALLOWED"
    foreign = call(gateway, "read", arguments, origin="https://evil.example")
    assert reason(foreign) == "ORIGIN_NOT_ALLOWED"
    assert call(gateway, "read", arguments, authorization="Basic a").status_code == 401
    large = call(gateway, "read", {"uri": "a" * (5 << 20)}, authorization=bearer)
    assert large.status_code == 413
    wrong = call(gateway, "read", {"uri": "a" * 100_000}, authorization="Bearer vk_wrong")
    assert wrong.status_code == 401
    long = call(gateway, "read", {"uri": "a" * 100_000}, authorization=bearer)
    assert long.json()["result"]["isError"]
    broken = gateway.http.post("/mcp", content=b"{", headers=HEADERS)
    assert broken.status_code == 400
    assert gateway.get("/mcp", accept="text/event-stream").status_code == 405
    everywhere = ("--listen", "0.0.0.0:0", "--trust-network")
    with gateway_of(daemon, tmp_path, *everywhere) as public:
        assert call(public, "stats", {}).status_code == 401
        assert send(public, "tools/list", {}).status_code == 401


def test_a_gateway_may_only_read(daemon: str, gateway: Gateway, tmp_path: Path) -> None:
    """With gateway.read_only models have no tools that write; REST stays as it is."""

    def tools(of: Gateway) -> set[str]:
        return {tool["name"] for tool in send(of, "tools/list", {}).json()["result"]["tools"]}

    file = tmp_path / "read.toml"
    file.write_text("[gateway]\nread_only = true\n")
    with gateway_of(daemon, tmp_path, "--config", str(file)) as reading:
        assert tools(reading) < tools(gateway)
        assert "write" not in tools(reading)
        assert "write" in tools(gateway)
        put = {"contexts": [{"uri": TEA, "content": "x"}]}
        assert reading.post("put", put).status_code == 200
        assert "switched off" in call(reading, "write", {"uri": TEA, "content": "y"}).text
        assert content(call(reading, "read", {"uri": TEA})) == "x"


def test_replies_are_json_without_a_session(gateway: Gateway) -> None:
    """A reply is JSON, and names no session of MCP."""
    reply = send(gateway, "tools/list", {})
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert json.loads(reply.text)["result"]["tools"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_slash_at_the_end_changes_nothing(gateway: Gateway) -> None:
    """`/mcp/`, which many examples have, is the same address: replies, methods and errors."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    plain, slash = (
        gateway.http.post(path, json=message, headers=HEADERS) for path in ("/mcp", "/mcp/")
    )
    assert (slash.status_code, slash.text) == (plain.status_code, plain.text) == (200, plain.text)
    assert gateway.http.post("/mcp/", content=b"{", headers=HEADERS).status_code == 400
    assert gateway.http.get("/mcp/").status_code == 405
    assert gateway.http.post("/mcp/x", json=message, headers=HEADERS).status_code == 404
