"""The tree as resources: the content of a file, or the listing of a directory."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp_types import Resource

from vikingd.client import AsyncClient, ClientError, NotFound
from vikingd.domain import uri as uris
from vikingd.mcp.browse_tools import list_
from vikingd.mcp.failures import explained
from vikingd.mcp.tool import ClientOf

TOP = Resource(
    uri=uris.ROOT, name="top", title="The top directories", description="What there is in vikingd."
)
"""The resource that has a fixed URI."""

_LISTED = 20_000  # tokens of the listing of a directory


def add(server: MCPServer[Any], client_of: ClientOf) -> None:
    """Add the resources to a server."""

    @server.resource("viking://{+path}", name="file", title="A file or a directory")
    async def below(path: str, context: Context[Any, Any]) -> str:
        """Read a file, or list a directory. Escape ? and # as %3F and %23."""
        return await _text(uris.ROOT + path, context, client_of)


async def _text(uri: str, context: Context[Any, Any], client_of: ClientOf) -> str:
    try:
        client = client_of(context)
    except ToolError as error:
        raise ResourceError(str(error)) from None
    try:
        return await _content(uri, client)
    except NotFound as error:
        raise ResourceNotFoundError(await explained(error, client, ("uri",))) from None
    except ClientError as error:
        raise ResourceError(await explained(error, client, ("uri",))) from None


async def _content(uri: str, client: AsyncClient) -> str:
    if uri != uris.ROOT:
        context = await client.get(uri)
        if not context.is_directory:
            return context.content
    return str(await list_(client, uri, max_tokens=_LISTED))
