"""Equal texts: Retrieve shows the source before its copies, by kind, then by path."""

from __future__ import annotations

import pytest

from vikingd.client import Draft, Include, Mode
from vikingd.client.messages import MessageClient
from vikingd.index.metadata.columns import Columns

TOP = "viking://resources/app"
USERS = "export function loadUsers(limit: number) {\n  return fetch('/users?limit=' + limit)\n}\n"
KINDS = {
    "a/licence.ts": "licence",
    "b/generated.ts": "generated",
    "c/vendored.ts": "vendored",
    "d/test.ts": "test",
    "e/data.ts": "data",
    "f/configuration.ts": "configuration",
    "g/example.ts": "example",
    "h/documentation.ts": "documentation",
    "packages/core/source/of/users.ts": "source",
}


def _put(client: MessageClient, kinds: dict[str, str], text: str = USERS) -> None:
    client.put(
        [
            *(
                Draft(f"{TOP}/{path}", content=text, metadata={"kind": kind} if kind else {})
                for path, kind in kinds.items()
            ),
            Draft(f"{TOP}/src/orders.ts", content="export function loadOrders() {}"),
        ]
    )


def _shown(client: MessageClient) -> str:
    return client.retrieve("loadUsers limit").items[0].uri.removeprefix(f"{TOP}/")


@pytest.mark.parametrize(
    ("kinds", "shown"),
    [
        ({"build/users.ts": "", "src/users.ts": ""}, "src/users.ts"),
        ({"build/users.ts": "generated", "packages/a/src/users.ts": "source"}, "packages/a"),
        ({"a/users.ts": "test", "a/deeper/users.ts": ""}, "a/deeper"),
        ({"a/users.ts": "made up", "a/users_test.ts": "test"}, "a/users.ts"),
    ],
)
def test_of_two_equal_files_the_source_is_shown(
    client: MessageClient, kinds: dict[str, str], shown: str
) -> None:
    """A copy whose name comes first in the alphabet does not hide the source, at any limit."""
    _put(client, kinds)
    for limit in (1, 5):
        for mode in (Mode.HYBRID, Mode.KEYWORD):
            items = client.retrieve("loadUsers limit", mode=mode, top_k=limit).items
            assert items[0].uri.removeprefix(f"{TOP}/").startswith(shown)
            assert len([item for item in items if "loadUsers" in item.text]) == 1


def test_kinds_have_an_order(client: MessageClient) -> None:
    """Without the file that is shown, the next kind is."""
    _put(client, KINDS)
    for path in reversed(KINDS):
        assert _shown(client) == path
        client.delete(f"{TOP}/{path}")


@pytest.mark.parametrize("include", [(), (Include.TEXT, Include.METADATA)])
def test_the_copies_are_named_with_the_source(
    client: MessageClient, include: tuple[Include, ...]
) -> None:
    """Five are named, the preferred ones first, and the others counted."""
    _put(client, KINDS)
    *copies, source = (f"{TOP}/{path}" for path in KINDS)
    for limit in (1, 5):
        item = client.retrieve("loadUsers limit", top_k=limit, include=include).items[0]
        assert item.uri == source
        assert list(item.copies) == copies[:2:-1]
        assert item.more_copies == 3
    (other,) = client.retrieve("loadOrders", top_k=1, include=include).items
    assert not other.copies
    assert not other.more_copies


def test_copies_are_those_of_the_scope(client: MessageClient) -> None:
    """A copy outside the directory, or one that `where` leaves out, is not named."""
    _put(client, {"build/users.ts": "generated", "src/users.ts": "source", "src/a.ts": "test"})
    (item,) = client.retrieve("loadUsers limit", target_uri=f"{TOP}/src", top_k=1).items
    assert (item.uri, *item.copies) == (f"{TOP}/src/users.ts", f"{TOP}/src/a.ts")
    where = {"kind": {"$in": ["generated", "source"]}}
    (item,) = client.retrieve("loadUsers limit", where=where, top_k=1).items
    assert (item.uri, *item.copies) == (f"{TOP}/src/users.ts", f"{TOP}/build/users.ts")


def test_a_repetition_in_the_same_file_is_no_copy(client: MessageClient) -> None:
    """A file is not named as a copy of itself."""
    text = "\n\n".join(f"# Part {i}\n\nThe ferry sails at noon." for i in range(3))
    _put(client, {"b/ferry.md": "source"}, text)
    items = client.retrieve("ferry noon", mode=Mode.KEYWORD).items
    assert items
    assert not any(item.copies for item in items)


def test_a_changed_kind_counts_at_once(client: MessageClient) -> None:
    """The kind of the newest revision decides."""
    _put(client, {"build/users.ts": "source", "src/users.ts": "generated"})
    assert _shown(client) == "build/users.ts"
    _put(client, {"build/users.ts": "generated", "src/users.ts": "source"})
    assert _shown(client) == "src/users.ts"


def test_a_context_is_shown_once_by_the_preferred_of_its_equals(client: MessageClient) -> None:
    """With one text of each context, equal passages of one file do not show another one twice."""
    text = "\n\n".join(f"# Part {i}\n\nThe ferry sails at noon." for i in range(3))
    _put(client, {"b/ferry.md": "test", "a/long/ferry.md": "documentation"}, text)
    items = client.retrieve("ferry noon", mode=Mode.KEYWORD, group_by_context=True).items
    assert [item.uri for item in items] == [f"{TOP}/a/long/ferry.md"]


def test_kinds_are_those_of_a_revision() -> None:
    """A reader of an older revision sees the value before a change, also after a removal."""
    columns = Columns()
    columns.add(1, {"kind": "test"}, 1)
    columns.add(3, {"kind": "data", "n": 1}, 1)
    columns.add(1, {"n": 2, "kind": "source"}, 2)
    columns.remove(3, 3)
    wanted = [0, 1, 3, 9]
    assert columns.values("kind", wanted, 0) == {}
    assert columns.values("kind", wanted, 1) == {1: "test", 3: "data"}
    assert columns.values("kind", wanted, 2) == {1: "source", 3: "data"}
    assert columns.values("kind", wanted, 3) == {1: "source"}
    assert columns.values("other", wanted, 3) == {}
