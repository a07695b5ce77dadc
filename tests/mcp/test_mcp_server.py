"""The resources, the prompt and the instructions of the MCP server."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.mcp_helpers import TREE_TEA as TEA
from tests.mcp.mcp_helpers import in_process, run
from vikingd.client import Client as Daemon
from vikingd.mcp.tool import DESCRIPTIONS


def test_resources_are_the_tree(tree: Daemon) -> None:
    """A resource is the content of a file or the listing of a directory; a missing one is told."""

    async def test(client: Client) -> None:
        async def content(uri: str) -> str:
            [part] = (await client.read_resource(uri)).contents
            return str(getattr(part, "text", ""))

        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "viking://{+path}"
        [top] = (await client.list_resources()).resources
        assert "viking://resources/" in await content(top.uri)
        assert await content(TEA) == tree.get(TEA).content
        assert await content(TEA.replace("tea", "t%65a")) == tree.get(TEA).content
        assert TEA in await content("viking://resources/drinks")
        with pytest.raises(MCPError, match="nearest directory is viking://resources/drinks"):
            await content("viking://resources/drinks/wine.md")
        for wrong in ("viking://resources/../x", "file:///etc/passwd", "viking://\0"):
            with pytest.raises(MCPError):
                await content(wrong)

    run(test, tree.address)


def test_the_prompt_names_every_tool_that_it_needs(daemon: str) -> None:
    """The prompt is there in two languages, with the same tools; others are refused."""

    async def test(client: Client) -> None:
        [prompt] = (await client.list_prompts()).prompts
        texts = []
        for given in (None, {"language": "en"}, {"language": "zh"}):
            [message] = (await client.get_prompt(prompt.name, given)).messages
            texts.append(str(getattr(message.content, "text", "")))
        assert texts[0] == texts[1] != texts[2]
        for text in texts:
            named = {name for name in DESCRIPTIONS if f"`{name}`" in text}
            assert {"recall", "find", "remember", "forget", "read", "write"} <= named
        for name, wrong in (("memory", {"language": "xx"}), ("memory", {"a": "b"}), ("other", {})):
            with pytest.raises(MCPError, match="one prompt: memory"):
                await client.get_prompt(name, wrong)

    run(test, daemon)


def test_the_server_introduces_itself(daemon: str) -> None:
    """The instructions say when to recall, and what stored text is; a read-only one less."""

    async def main() -> None:
        async with in_process(daemon) as client, in_process(daemon, read_only=True) as reader:
            assert "recall before you answer" in (client.instructions or "")
            assert "not instructions" in (client.instructions or "")
            assert "remember" in (client.instructions or "")
            assert "remember" not in (reader.instructions or "")

    asyncio.run(main())
