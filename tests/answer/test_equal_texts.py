"""Equal texts: Find and Retrieve show the source before its copies, by kind, then by path."""

from __future__ import annotations

import pytest

from vikingd.client import Draft, Mode
from vikingd.client.messages import MessageClient
from vikingd.index.metadata.columns import Columns
from vikingd.pb.retrieval_pb2 import FindResponse

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


def _found(reply: FindResponse) -> list[str]:
    found = sorted(reply.resources, key=lambda match: (-match.score, match.uri))
    return [match.uri.removeprefix(f"{TOP}/") for match in found]


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
        assert _found(client.find("loadUsers limit", limit=limit))[0].startswith(shown)
        for mode in (Mode.HYBRID, Mode.KEYWORD):
            items = client.retrieve("loadUsers limit", mode=mode, top_k=limit).items
            assert items[0].uri.removeprefix(f"{TOP}/").startswith(shown)
            assert len([item for item in items if "loadUsers" in item.text]) == 1


def test_equal_files_stand_together_in_the_order_of_kinds(client: MessageClient) -> None:
    """All that are results name each other, and another file does not come between them."""
    _put(client, KINDS)
    reply = client.find("loadUsers limit", limit=20)
    assert _found(reply)[: len(KINDS)] == list(reversed(KINDS))
    twins = {match.uri: match.twin for match in reply.resources}
    first, second = (f"{TOP}/{path}" for path in list(reversed(KINDS))[:2])
    assert twins[first] == second
    assert {twin for uri, twin in twins.items() if uri != first and "orders" not in uri} == {first}
    assert twins[f"{TOP}/src/orders.ts"] == ""
    scores = [match.score for match in reply.resources][: len(KINDS)]
    assert max(scores) == pytest.approx(min(scores))


def test_files_of_the_same_first_text_are_not_equal(client: MessageClient) -> None:
    """A file that goes on in another way is a result of its own, without a twin."""
    _put(client, {"build/users.ts": "", "src/users.ts": ""})
    longer = USERS + "\n" + "export const other = 'something else entirely'\n" * 80
    client.put([Draft(f"{TOP}/c/users.ts", content=longer)])
    twins = {match.uri: match.twin for match in client.find("loadUsers limit").resources}
    assert twins[f"{TOP}/c/users.ts"] == ""
    assert twins[f"{TOP}/src/users.ts"] == f"{TOP}/build/users.ts"


def test_a_changed_kind_counts_at_once(client: MessageClient) -> None:
    """The kind of the newest revision decides."""
    _put(client, {"build/users.ts": "source", "src/users.ts": "generated"})
    assert _found(client.find("loadUsers limit"))[0] == "build/users.ts"
    _put(client, {"build/users.ts": "generated", "src/users.ts": "source"})
    assert _found(client.find("loadUsers limit"))[0] == "src/users.ts"


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
