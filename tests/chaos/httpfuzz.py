"""Mutated HTTP messages for the gateway: REST, MCP, the session and the page."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from tests.chaos.wirefuzz import corpus

_MCP_HEADERS = (
    "accept: application/json, text/event-stream\r\n"
    "content-type: application/json\r\nmcp-protocol-version: 2025-06-18\r\n"
)
_JSON_HEADER = "content-type: application/json\r\n"
_URI = "viking://resources/fuzz/a.md"
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "fuzz", "version": "1"},
}
_TOOLS: dict[str, dict[str, Any]] = {
    "find": {"query": "lighthouse", "limit": 3},
    "search": {"task": "fix the lighthouse"},
    "recall": {"query": "tea"},
    "remember": {"text": "Likes tea.", "memory_type": "preferences"},
    "forget": {"ids": [1]},
    "read": {"uri": _URI},
    "list": {"uri": "viking://"},
    "write": {"uri": _URI, "content": "fuzz"},
    "build_context": {"query": "lighthouse"},
    "grep": {"pattern": "light.*"},
    "glob": {"pattern": "**/*.md"},
}
_PATHS = (
    "/",
    "/app.js",
    "/../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/vendor/..%2f..%2fapp.py",
    "//evil.example/",
    "/v1/openapi.json",
    "/v1/docs",
    "/healthz",
    "/v1/find?q=%ff%fe&limit=99999999999",
    "/v1/find?q=a&q=b&timeout=nan",
    "/v1/tree?uri=viking://%00",
    "/v1/contexts/..%2f..%2f",
    "/v1/contexts/%E4%B8%AD%ff",
    "/session",
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 2**63, -(2**64), "", "\x00", "\ud800", "a" * 70_000),
    *([], {}, [[]], {"": {}}, "viking://~", "../..", "1970-01-01T00:00:00Z", "NaN", "-0"),
)
_HEADERS = (
    "host: evil.example",
    "host: ",
    "origin: http://evil.example",
    "origin: null",
    "transfer-encoding: chunked",
    "content-length: 5",
    "content-length: -1",
    "content-type: text/plain",
    "content-encoding: gzip",
    "expect: 100-continue",
    "upgrade: websocket",
    "cookie: vikingd-session=x; vikingd-session=y",
    "authorization: Basic eDp5",
    "vikingd-tenant: ../x",
    'if-match: "18446744073709551616"',
    "mcp-session-id: \x7f",
    "x: " + "y" * 40_000,
)


def _templates() -> Iterator[tuple[str, str, str, Any]]:
    """Yield method, path, headers and body of valid requests."""
    for rpc, messages in corpus().items():
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in rpc)
        for message in messages:
            yield "POST", f"/v1/{name.lstrip('_')}", _JSON_HEADER, MessageToDict(message)
    yield "POST", "/session", _JSON_HEADER, {"key": "vk_x", "tenant": ""}
    yield "DELETE", "/session", "", None
    for path in _PATHS:
        yield "GET", path, "", None
    yield "PUT", "/v1/contexts/resources/fuzz/a.md", "content-type: text/markdown\r\n", "# a"
    yield "PUT", "/v1/contexts/resources/fuzz/b.md", _JSON_HEADER, {"content": "b"}
    yield "DELETE", "/v1/contexts/resources/fuzz/a.md", "", None
    asked: list[tuple[str, dict[str, Any]]] = [
        ("initialize", _HELLO),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": _URI}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "memory"}),
        *(("tools/call", {"name": name, "arguments": given}) for name, given in _TOOLS.items()),
    ]
    for number, (method, params) in enumerate(asked):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        yield "POST", "/mcp", _MCP_HEADERS, body


class Messages:
    """An endless source of mutated requests, each the bytes of a connection.

    Args:
        dice: decides everything.
        host: of the gateway, for the header.
        key: the key of the caller.
    """

    def __init__(self, dice: random.Random, host: str, key: str) -> None:
        self._dice = dice
        self._host = host
        self._key = key
        self._valid = list(_templates())

    def next(self) -> tuple[bytes, bool]:
        """Return the next request, and whether it is whole, so that it must have an answer."""
        dice = self._dice
        method, path, headers, body = dice.choice(self._valid)
        if isinstance(body, dict) and dice.random() < 0.7:
            body = self._changed(json.loads(json.dumps(body)))
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        if text and dice.random() < 0.2:
            text = dice.choice(_TEXTS)(text)
        data = text.encode("utf-8", "surrogatepass")
        if dice.random() < 0.15:
            method = dice.choice(("GET", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "get", "\x00"))
        if dice.random() < 0.2:
            others = (path + "/", path + "?a=%", "/" + path, path.upper(), path[:-1] or "*")
            path = dice.choice(others)
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\nconnection: close\r\n{headers}"
        if dice.random() < 0.9:
            head += f"authorization: Bearer {self._key}\r\n"
        is_whole = dice.random() < 0.8
        if not is_whole:
            head += f"{dice.choice(_HEADERS)}\r\n"
        if data:
            head += f"content-length: {len(data)}\r\n"
        raw = head.encode("utf-8", "surrogatepass") + b"\r\n" + data
        return (self._garbled(raw), False) if dice.random() < 0.2 else (raw, is_whole)

    def _changed(self, value: Any) -> Any:
        """Return a JSON value with one part replaced, doubled, renamed or removed."""
        dice = self._dice
        if isinstance(value, dict) and value and dice.random() < 0.85:
            name = dice.choice(list(value))
            kind = dice.random()
            if kind < 0.6:
                value[name] = self._changed(value[name])
            elif kind < 0.7:
                del value[name]
            elif kind < 0.85:
                value[f"{name}x"] = value.pop(name)
            else:
                value[name] = [value[name]] * dice.choice((1, 2, 300))
            return value
        if isinstance(value, list) and value and dice.random() < 0.7:
            at = dice.randrange(len(value))
            value[at] = self._changed(value[at])
            return value
        return dice.choice(_VALUES)

    def _garbled(self, raw: bytes) -> bytes:
        """Return bytes with some of them changed, cut off or inserted."""
        dice, data = self._dice, bytearray(raw)
        for _ in range(dice.choice((1, 1, 2, 8))):
            at = dice.randrange(len(data))
            kind = dice.random()
            if kind < 0.4:
                data[at] = dice.randrange(256)
            elif kind < 0.6:
                del data[at : at + dice.choice((1, 4, 64))]
            elif kind < 0.8:
                data[at:at] = dice.randbytes(dice.choice((1, 3, 40)))
            else:
                del data[at:]
            if not data:
                return b"\r\n\r\n"
        return bytes(data)


_TEXTS: tuple[Callable[[str], str], ...] = (
    lambda text: text[:-1],
    lambda text: f"[{text}]",
    lambda text: "[" * 5000 + text,
    lambda text: '{"a":' * 500 + text + "}" * 500,
    lambda text: text.replace(":", ":NaN,", 1),
    lambda text: "\ufeff" + text,
    lambda text: text.replace("{", '{"query":1,"query":2,', 1),
    lambda text: text + text,
    lambda text: text.replace('"', "'"),
    lambda text: f"null{text[:0]}",
    lambda text: "\ud800" + text,
)
