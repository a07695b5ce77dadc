"""Tasks of users, English and Chinese, done by a scripted client over stdio."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import vikingd
from tests.daemons import serving
from tests.mcp.mcp_helpers import over_stdio, text_of, told
from vikingd.client import Client as Daemon
from vikingd.mcp.tool import DESCRIPTIONS

TASKS: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("mcp_tasks.jsonl").read_text("utf-8").splitlines()
]
MOST_SECONDS = 60  # to embed the tree


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """Yield the address of a daemon with the demo tree, found by its words and by its meaning."""
    with serving() as where, Daemon(where) as client:
        client.import_path(Path(vikingd.__file__).parent / "demo_tree", "viking://")
        end = time.monotonic() + MOST_SECONDS
        while client.stats().embedder.backlog:
            assert time.monotonic() < end
            time.sleep(0.05)
        yield where


def test_the_tasks_are_of_all_kinds() -> None:
    """There are 32 tasks, half of them Chinese, for every tool."""
    assert len(TASKS) == 32
    assert sum(task["task"].isascii() for task in TASKS) == 16
    assert {task["tool"] for task in TASKS} == set(DESCRIPTIONS)
    for tool in DESCRIPTIONS:
        languages = {task["task"].isascii() for task in TASKS if task["tool"] == tool}
        assert languages == {True, False}, tool


async def done(client: Client, task: dict[str, Any]) -> str:
    """Do a task; return the text of its answer."""
    arguments = dict(task["arguments"])
    if first := task.get("first"):
        before = await told(client, first["tool"], **first["arguments"])
        for argument, field in first["gives"].items():
            value = before[field]
            arguments[argument] = [value] if argument == "ids" else value
    return text_of(await client.call_tool(task["tool"], arguments))


@pytest.mark.deep
def test_a_scripted_client_does_all_tasks(demo: str) -> None:
    """Each task has the expected outcome, in the order of the file."""

    async def main() -> list[tuple[str, str]]:
        async with over_stdio("--address", demo) as client:
            answers = [(task, await done(client, task)) for task in TASKS]
        return [(task["task"], text) for task, text in answers if task["expects"] not in text]

    assert asyncio.run(main()) == []
