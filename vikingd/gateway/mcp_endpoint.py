"""The MCP endpoint of the gateway: streamable HTTP at /mcp, without sessions, with JSON replies."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from vikingd.client import AsyncClient
from vikingd.gateway.callers import Callers
from vikingd.gateway.daemon_calls import Calls
from vikingd.gateway.rest import check_json
from vikingd.mcp.mcp_server import PATH, http_app

__all__ = ["PATH", "McpEndpoint"]

# Hosts and origins are checked at the door already.
_UNCHECKED = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class McpEndpoint:
    """The MCP server as an ASGI application; each call to the daemon has the key of its request.

    Args:
        client: a client of the daemon without a key.
        callers: finds the key of a request.
        calls: used to read the body of a request within the limits of the gateway.
        read_only: leave out the tools that write.
    """

    def __init__(
        self, client: AsyncClient, callers: Callers, calls: Calls, *, read_only: bool
    ) -> None:
        def client_of(context: Context[Any, Any]) -> AsyncClient:
            request: Any = context.request_context.request
            caller = callers.of(request.headers)
            return client.with_key(caller.key, caller.tenant)

        self._calls = calls
        self._app = http_app(client_of, read_only, _UNCHECKED)

    def running(self) -> AbstractAsyncContextManager[Any]:
        """Return an async context manager; the endpoint answers only within its block."""
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope = {**scope, "path": PATH, "raw_path": PATH.encode()}  # without a slash at the end
        request = Request(scope, receive)
        check_json(request)
        async with self._calls.body(request) as (_, body):
            waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def replay() -> Message:
                return waiting.pop() if waiting else await receive()

            await self._app(scope, replay, send)
