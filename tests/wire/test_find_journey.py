"""The way of a find through the modules of the daemon, from its handler to the reply's bytes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import vikingd
from tests.answer.parts_helpers import NoDeadline, Store, fill, reader
from vikingd.domain.rights import CALLER
from vikingd.pb.retrieval_pb2 import FindRequest

HOME = f"{Path(vikingd.__file__).parent}/"
ROOMS = ("wire/", "answer/", "lanes/", "plan/")
"""From the top down; `lanes` also runs the functions that it is given."""

WAY = (
    "wire/retrieval_service.py",
    "lanes/call_cost.py",
    "lanes/call_pools.py",
    "lanes/queues.py",
    "wire/messages/decode.py",
    "answer/query_planning.py",
    "plan/query_text.py",
    "plan/find_plan.py",
    "plan/query_scope.py",
    "answer/find_answer.py",
    "answer/scored_scope.py",
    "answer/find_hits.py",
    "answer/confidence.py",
    "answer/translated_twins.py",
    "wire/messages/find_reply.py",
    "wire/messages/encoded_results.py",
    "wire/messages/common_messages.py",
)
"""The modules of these rooms in the order of their first calls: check, plan, run, render."""


@contextmanager
def followed() -> Iterator[list[tuple[str, str]]]:
    """Yield a list that gets (module of the caller, module) of each call of this thread."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            above = frame.f_back
            caller = above.f_code.co_filename if above is not None else ""
            calls.append((caller.removeprefix(HOME), frame.f_code.co_filename.removeprefix(HOME)))

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Return the calls of a find, as in `followed`."""
    store = Store(tmp_path_factory.mktemp("journey"))
    fill(store, 1, 0)
    request: Any = FindRequest(query="harbour status")

    async def main() -> list[tuple[str, str]]:
        CALLER.set(reader("viking://"))
        context: Any = NoDeadline()
        await store.service.Find(request, context)  # loads what loads once
        with followed() as noted:
            assert await store.service.Find(request, context)
        return noted

    try:
        return asyncio.run(main())
    finally:
        store.close()


def test_a_find_passes_the_listed_modules(calls: list[tuple[str, str]]) -> None:
    """A module more on the way is noticed."""
    passed = dict.fromkeys(module for _, module in calls if module.startswith(ROOMS))
    assert tuple(passed) == WAY


def test_no_answer_calls_the_wire(calls: list[tuple[str, str]]) -> None:
    """Answers and plans know neither the handler nor the reply."""
    upwards = {
        (caller, module)
        for caller, module in calls
        if module.startswith("wire/") and not caller.startswith(("wire/", "lanes/"))
        if caller.startswith(ROOMS)
    }
    assert not upwards
