"""The doors of one daemon: gRPC from Node, HTTP by curl, MCP, and the page in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import expect

from tests.gateway.node_helpers import node
from tests.gateway.page_helpers import Browser, Page, Site, page
from tests.mcp.mcp_helpers import over_stdio, text_of
from tests.programs import needed

_SECONDS = 120


class Refused(Exception):
    """A door that did not open; its text is what the caller is told."""


class Door(ABC):
    """A way to a daemon, with one key or none. Each step raises Refused."""

    def find(self, query: str) -> list[str]:
        """Return the URIs of the results."""
        return self._find(query)

    def read(self, uri: str) -> str:
        """Return the content of a file."""
        return self._read(uri)

    def write(self, uri: str, content: str) -> None:
        """Write a new file."""
        self._write(uri, content)

    def remember(self, text: str) -> None:
        """Store a preference."""
        self._remember(text)

    def recall(self, query: str) -> list[str]:
        """Return the contents of memories."""
        return self._recall(query)

    @abstractmethod
    def _find(self, query: str) -> list[str]: ...

    @abstractmethod
    def _read(self, uri: str) -> str: ...

    @abstractmethod
    def _write(self, uri: str, content: str) -> None: ...

    @abstractmethod
    def _remember(self, text: str) -> None: ...

    @abstractmethod
    def _recall(self, query: str) -> list[str]: ...


class NodeDoor(Door):
    """gRPC by Connect's typed client for Node."""

    def __init__(self, directory: Path, address: str, key: str) -> None:
        self._directory, self._address, self._key = directory, address, key

    def _done(self, name: str, **fields: str) -> dict[str, Any]:
        with node(self._directory, self._address, key=self._key) as client:
            outcome = client.outcome(name, **fields)
        if error := outcome.get("error"):
            raise Refused(f"{error['code']}: {error['message']}")
        return dict(outcome["reply"])

    def _find(self, query: str) -> list[str]:
        return list(self._done("find", text=query)["uris"])

    def _read(self, uri: str) -> str:
        return str(self._done("read", uri=uri)["content"])

    def _write(self, uri: str, content: str) -> None:
        self._done("write", uri=uri, text=content)

    def _remember(self, text: str) -> None:
        self._done("remember", text=text)

    def _recall(self, query: str) -> list[str]:
        return [memory["content"] for memory in self._done("recall", text=query)["memories"]]


class Curl(Door):
    """REST by curl."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def _call(self, path: str, *options: str) -> str:
        header = f'header = "authorization: Bearer {self._key}"\n' if self._key else ""
        done = subprocess.run(
            [needed("curl"), "-sS", "--fail-with-body", "-K-", *options, self._url + path],
            input=header,  # not an argument, which other users could see
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise Refused(json.loads(done.stdout)["message"])
        return done.stdout

    def _post(self, rpc: str, **fields: Any) -> Any:
        json_header = ("-H", "content-type: application/json")
        return json.loads(self._call(f"/v1/{rpc}", *json_header, "-d", json.dumps(fields)))

    def _find(self, query: str) -> list[str]:
        reply = json.loads(self._call(f"/v1/find?q={quote(query)}"))
        return [
            match["uri"]
            for kind in ("memories", "resources", "skills")
            for match in reply.get(kind, [])
        ]

    def _read(self, uri: str) -> str:
        reply = json.loads(self._call(f"/v1/contexts/{quote(uri.removeprefix('viking://'))}"))
        return str(reply["content"])

    def _write(self, uri: str, content: str) -> None:
        path = f"/v1/contexts/{quote(uri.removeprefix('viking://'))}"
        self._call(path, "-X", "PUT", "-H", "content-type: text/markdown", "--data-binary", content)

    def _remember(self, text: str) -> None:
        assert self._post(
            "remember", text=text, memoryType="preferences", scope={"withGlobal": True}
        )

    def _recall(self, query: str) -> list[str]:
        reply = self._post("recall", query=query, scope={"withGlobal": True})
        return [memory["content"] for memory in reply.get("results", [])]


class Mcp(Door):
    """The tools of MCP, by the SDK's client."""

    def _client(self) -> Any:
        raise NotImplementedError

    def _told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        async def called() -> dict[str, Any]:
            async with asyncio.timeout(_SECONDS), self._client() as client:
                result = await client.call_tool(tool, arguments)
                if result.is_error:
                    raise Refused(text_of(result))
                return dict(result.structured_content)

        # A thread of its own, since the browser's driver has an event loop on this one.
        with ThreadPoolExecutor(1) as thread:
            try:
                return thread.submit(asyncio.run, called()).result(_SECONDS)
            except Exception as failed:
                error: BaseException = failed
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise Refused(str(error))

    def _find(self, query: str) -> list[str]:
        return [each["uri"] for each in self._told("find", query=query)["results"]]

    def _read(self, uri: str) -> str:
        return str(self._told("read", uri=uri)["content"])

    def _write(self, uri: str, content: str) -> None:
        assert self._told("write", uri=uri, content=content)

    def _remember(self, text: str) -> None:
        assert self._told("remember", text=text, memory_type="preferences")

    def _recall(self, query: str) -> list[str]:
        return [each["content"] for each in self._told("recall", query=query)["memories"]]


class McpStdio(Mcp):
    """`vikingctl mcp` as a child process."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._variables = {"VIKINGD_KEY": key} if key else {}

    def _client(self) -> Client:
        return over_stdio("--address", self._address, **self._variables)


class McpHttp(Mcp):
    """MCP of the gateway over streamable HTTP."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/mcp"
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def _client(self) -> Client:
        http = httpx2.AsyncClient(headers=self._headers, trust_env=False, timeout=_SECONDS)
        return Client(streamable_http_client(self._url, http_client=http))


class Chromium(Door):
    """A person with a browser, who signs in first."""

    def __init__(self, browser: Browser, at: Site, key: str) -> None:
        self._browser = browser
        self._at = at
        self._key = key

    def _on(self, fragment: str, look: Any) -> Any:
        """Open the page, sign in, and return what `look` returns for it."""
        with page(self._browser, self._at, fragment, expected=("401", "403", "404")) as (tab, _):
            dialog = tab.get_by_role("dialog", name="Sign in")
            expect(dialog).to_be_visible()
            if not self._key:
                raise Refused("Sign in")
            dialog.get_by_label("Key").fill(self._key)
            dialog.get_by_role("button", name="Sign in").click()
            signed_in = tab.get_by_role("button", name="Sign out")
            expect(dialog.get_by_role("alert").or_(signed_in)).to_be_visible()
            if dialog.is_visible():
                raise Refused(dialog.get_by_role("alert").inner_text())
            alert = tab.get_by_role("main").get_by_role("alert")
            answer = look(tab)
            if alert.is_visible():
                raise Refused(alert.inner_text())
            return answer

    def _find(self, query: str) -> list[str]:
        def look(tab: Page) -> list[str]:
            expect(tab.locator(".summary")).to_be_visible()
            shown = tab.locator(".crumbs bdi").all()
            return [str(one.get_attribute("title")) for one in shown]

        return list(self._on(f"#q={quote(query)}", look))

    def _read(self, uri: str) -> str:
        def look(tab: Page) -> str:
            alert = tab.get_by_role("main").get_by_role("alert")
            raw = tab.get_by_role("button", name="Plain text")
            expect(raw.or_(alert)).to_be_visible()
            if alert.is_visible():
                return ""
            raw.click()
            return tab.get_by_role("article").locator("pre").first.inner_text()

        return str(self._on(f"#uri={quote(uri, safe='')}", look))

    def _write(self, uri: str, content: str) -> None:
        above, _, name = uri.rpartition("/")

        def look(tab: Page) -> None:
            tab.get_by_text("New file").click()
            tab.get_by_role("textbox", name=re.compile("^Name")).fill(name)
            tab.get_by_role("textbox", name="Content").fill(content)
            tab.get_by_role("button", name="Create").click()
            alert = tab.get_by_role("main").get_by_role("alert")
            expect(tab.get_by_role("article", name=uri).or_(alert)).to_be_visible()

        self._on(f"#uri={quote(above, safe='')}", look)

    def _remember(self, text: str) -> None:
        def look(tab: Page) -> None:
            tab.get_by_text("Remember", exact=True).click()
            tab.get_by_role("textbox", name="Remember").fill(text)
            tab.get_by_role("button", name="Save").click()
            alert = tab.get_by_role("main").get_by_role("alert")
            expect(tab.get_by_text("Saved.").or_(alert)).to_be_visible()

        self._on("#mode=recall&q=anything", look)

    def _recall(self, query: str) -> list[str]:
        def look(tab: Page) -> list[str]:
            expect(tab.locator(".answer")).to_be_visible()
            return tab.locator(".answer .memory-text").all_inner_texts()

        return list(self._on(f"#mode=recall&q={quote(query)}", look))
