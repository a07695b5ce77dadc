"""Clients of the MCP server: in this process, and over stdio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.daemons import serving
from vikingd.client import AsyncClient, Draft
from vikingd.client import Client as Daemon
from vikingd.mcp.mcp_server import server

TEA = "viking://resources/tea.md"
TREE_TEA = "viking://resources/drinks/tea.md"
VIKINGCTL = ("-m", "vikingd.ctl.main")


class Keyed(NamedTuple):
    """A daemon with keys: its address, the key of an operator and that of a reader."""

    address: str
    operator: str
    reader: str


@contextmanager
def keyed(*options: str) -> Iterator[Keyed]:
    """Run a daemon with keys, a tenant beside the first, and TEA in both."""
    with serving("--provider", "none", *options) as address:
        with Daemon(address) as first:
            operator = first.create_key(operator=True).secret
        with Daemon(address, key=operator) as client:
            client.put([Draft(TEA, content="Oolong.")])
            reader = client.create_key(read=["viking://resources"]).secret
            client.put_tenant("acme", create=True)
        with Daemon(address, key=operator, tenant="acme") as client:
            client.put([Draft(TEA, content="Acme's tea.")])
        yield Keyed(address, operator, reader)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a server: this one, without the settings of vikingd."""
    return {k: v for k, v in os.environ.items() if not k.startswith("VIKING")} | more


def over_stdio(*options: str, **variables: str) -> Client:
    """Return the SDK's client of `vikingctl mcp`."""
    arguments = [*VIKINGCTL, "mcp", *options]
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env=environment(**variables)
    )
    return Client(parameters)


@contextmanager
def served(*options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `vikingctl mcp` for raw messages."""
    command = [sys.executable, *VIKINGCTL, "mcp", *options]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def in_process(
    address: str, *, read_only: bool = False, timeout: float = 30.0, key: str = ""
) -> AsyncIterator[Client]:
    """Yield the SDK's client of a server in this process."""
    async with (
        AsyncClient(address, timeout, key=key) as daemon,
        Client(server(lambda _: daemon, read_only)) as client,
    ):
        yield client


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured content of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return result.structured_content


async def failed(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a call that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


def text_of(result: Any) -> str:
    """Return the text form of the result of a call."""
    assert isinstance(result, CallToolResult)
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def run(test: Callable[[Client], Awaitable[None]], address: str, **options: Any) -> None:
    """Run a test with a client in this process."""

    async def main() -> None:
        async with in_process(address, **options) as client:
            await test(client)

    asyncio.run(main())


def sections(count: int, size: int = 300) -> str:
    """Return a Markdown text with so many sections."""
    parts: Iterable[str] = (
        f"## Part {number}\n\n{f'Sentence {number} about tea. ' * (size // 22)}\n"
        for number in range(count)
    )
    return "# Tea\n\n" + "\n".join(parts)
