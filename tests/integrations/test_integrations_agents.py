"""The session of OpenAI's Agents SDK: order, writers side by side, losslessness."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote

import pytest
from agents.items import TResponseInputItem
from agents.memory.session import Session
from agents.memory.session_settings import SessionSettings
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.client import Client, Draft, InvalidField, NotFound
from vikingd.integrations.common import encoded
from vikingd.integrations.openai_agents import VikingdSession, _Head

ROOT = "viking://resources/sessions"

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
    ),
    max_leaves=10,
)


def said(*texts: str) -> list[TResponseInputItem]:
    """Return messages of a user."""
    return [cast("TResponseInputItem", {"role": "user", "content": text}) for text in texts]


@pytest.fixture
def session(typed: Client) -> VikingdSession:
    """Return an empty session."""
    return VikingdSession(typed, "ana/1", ROOT)


def test_the_four_methods(session: VikingdSession, typed: Client) -> None:
    """Items come back in their order; the newest one is popped; a cleared session is empty."""

    async def test() -> None:
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])
        await session.add_items(said("a", "b"))
        await session.add_items(said("c"))
        assert await session.get_items() == said("a", "b", "c")
        assert await session.get_items(2) == said("b", "c")
        assert await session.get_items(9) == said("a", "b", "c")
        assert await session.get_items(0) == []
        assert await session.pop_item() == said("c")[0]
        await session.add_items(said("c", "d"))
        other = VikingdSession(typed, "ana/1", ROOT, SessionSettings(limit=3))
        assert await other.get_items() == said("b", "c", "d")
        assert await other.get_items(1) == said("d")
        assert await VikingdSession(typed, "ana", ROOT).get_items() == []
        await session.clear_session()
        assert await other.get_items() == []
        assert await other.pop_item() is None
        await other.add_items(said("e"))
        assert await session.get_items() == said("e")

    asyncio.run(test())
    files = [c.uri for c in typed.tree(session.uri) if not c.is_directory]
    assert files == [f"{ROOT}/ana%2F1.session/0000000004.json"]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), min_size=1, max_size=5))
@example([{"cut": "\ud83c", "nul": "\0\x85\u2028", "big": 2**200, "whole": 1.0}])
def test_items_are_kept_losslessly(session: VikingdSession, items: list[Any]) -> None:
    """Any JSON comes back as it was, with the types of numbers."""

    async def test() -> list[Any]:
        await session.clear_session()
        await session.add_items(items)
        return cast("list[Any]", await session.get_items())

    assert repr(asyncio.run(test())) == repr(items)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_name_is_a_segment(name: str) -> None:
    """Names are encoded without loss, and have no character that a URI refuses."""
    segment = encoded(name)
    assert unquote(segment) == name
    assert "/" not in segment
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in segment)


@pytest.mark.deep
def test_many_and_long_items(session: VikingdSession) -> None:
    """More items than a page or a call has, and items that do not fit into metadata."""

    async def test() -> None:
        items = said(*map(str, range(1100)), "long " * 20_000)
        await session.add_items(items)
        assert await session.get_items() == items
        assert await session.get_items(2) == items[-2:]
        assert await session.pop_item() == items[-1]
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(test())


@pytest.mark.deep
def test_writers_side_by_side_lose_and_mix_nothing(typed: Client) -> None:
    """Each append is in one piece, and those of a writer are in its order."""
    writers, appends = 4, 25

    def write(name: int) -> None:
        async def test() -> None:
            own = VikingdSession(typed, "one", ROOT)
            for n in range(appends):
                await own.add_items(said(f"{name} {n} a", f"{name} {n} b"))

        asyncio.run(test())

    threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    items = asyncio.run(VikingdSession(typed, "one", ROOT).get_items())
    texts = [cast("dict[str, str]", item)["content"] for item in items]
    assert len(texts) == writers * appends * 2
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        assert (first[-1], second) == ("a", f"{first[:-1]}b")
    for name in range(writers):
        own = [text for text in texts if text.startswith(f"{name} ")]
        assert own == [f"{name} {n} {part}" for n in range(appends) for part in "ab"]


@pytest.mark.deep
def test_pops_and_appends_side_by_side_take_each_item_once(typed: Client) -> None:
    """What was appended is popped once or is left; equal items are no exception."""
    popped: list[Any] = []
    rounds = 40

    def write(text: str) -> None:
        async def test() -> None:
            own = VikingdSession(typed, "two", ROOT)
            for _ in range(rounds):
                await own.add_items(said(text))

        asyncio.run(test())

    def pop() -> None:
        async def test() -> None:
            own = VikingdSession(typed, "two", ROOT)
            popped.extend([await own.pop_item() for _ in range(rounds)])

        asyncio.run(test())

    threads = [threading.Thread(target=write, args=("same",)) for _ in range(2)]
    threads += [threading.Thread(target=pop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = asyncio.run(VikingdSession(typed, "two", ROOT).get_items())
    taken = [item for item in popped if item is not None]
    assert [*taken, *left] == said("same") * 2 * rounds
    assert taken


@pytest.mark.deep
def test_a_late_deletion_of_a_popped_item_spares_the_next_one(
    session: VikingdSession, typed: Client
) -> None:
    """If an equal item takes the number of a popped one, it is another file."""

    async def test() -> None:
        await session.add_items(said("a"))
        [file] = [c for c in typed.tree(session.uri) if not c.is_directory]
        revision = typed.get(file.uri).revision
        head = typed.get(session.uri)
        # A popper has lowered the end, and stops before it deletes the file.
        session._change(lambda head: [session._moved(head, 0, 0)])
        assert typed.get(session.uri).revision > head.revision
        assert await session.get_items() == []
        await session.add_items(said("a"))
        assert typed.get(file.uri).revision > revision
        assert await session.get_items() == said("a")

    asyncio.run(test())


class Late(VikingdSession):
    """A session that is so slow that another writer appends before it deletes a popped file."""

    def _change(self, plan: Callable[[_Head], list[Draft]]) -> _Head:
        head = super()._change(plan)
        VikingdSession(self.client, self.session_id, ROOT)._add(said("b"))
        return head


def test_a_pop_deletes_no_item_of_another_writer(session: VikingdSession) -> None:
    """The next item takes the number of the popped one, and stays."""

    async def test() -> None:
        await session.add_items(said("a"))
        popped = await Late(session.client, session.session_id, ROOT).pop_item()
        assert popped == said("a")[0]
        assert await session.get_items() == said("b")

    asyncio.run(test())


def test_a_file_that_somebody_deleted_is_passed_over(
    session: VikingdSession, typed: Client
) -> None:
    """The other items stay, and the session goes on."""

    async def test() -> None:
        await session.add_items(said("a", "b", "c"))
        typed.delete(f"{session.uri}/0000000002.json")
        assert await session.get_items() == said("a", "b")
        assert await session.pop_item() == said("b")[0]
        await session.add_items(said("d"))
        assert await session.get_items() == said("a", "d")

    asyncio.run(test())


def test_wrong_items_are_refused_and_nothing_is_written(
    session: VikingdSession, typed: Client
) -> None:
    """The error names the item."""

    async def test() -> None:
        with pytest.raises(TypeError, match=r"items\[1\]\['content'\] is of type object"):
            await session.add_items([*said("a"), cast("Any", {"content": object()})])
        with pytest.raises(InvalidField, match="content"):
            await session.add_items(said("a", "long " * 500_000))
        assert await session.get_items() == []

    asyncio.run(test())
    with pytest.raises(NotFound):
        typed.get(session.uri)
    with pytest.raises(ValueError, match="session_id is empty"):
        VikingdSession(typed, "", ROOT)
