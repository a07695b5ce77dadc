"""Questions for code: the definition of a name first, and kinds of files that a find prefers."""

from __future__ import annotations

from typing import Any

import pytest

from vikingd.client import ClientError, Draft, Mode, Preference, SearchMode
from vikingd.client.messages import MessageClient
from vikingd.ingest.file_kinds import FileKind
from vikingd.plan.preferences import FACTORS
from vikingd.plan.query_text import asked_definition

TOP = "viking://resources/app"
CLIENT = '''"""The client."""

class Client:
    """Sends requests."""

    def get(self, url):
        return self.send(url)

    def send(self, url):
        return open_pool(url)


def open_pool(url):
    return url
'''
USES = "from client import Client, open_pool\n\n" + "client = Client()\nclient.get(Client)\n" * 6
GO = "package a\n\n// Get reads.\nfunc (s *Store) Get(key string) string {\n\treturn s.m[key]\n}\n"
PAGE = "# Client\n\nThe Client and its open_pool. Client, Client.get, Client.send, Store.Get.\n"


def _put(client: MessageClient) -> None:
    client.put(
        [
            Draft(f"{TOP}/src/client.py", content=CLIENT, metadata={"kind": "source"}),
            Draft(f"{TOP}/src/a.py", content=USES, metadata={"kind": "source"}),
            Draft(f"{TOP}/tests/test_client.py", content=USES, metadata={"kind": "test"}),
            Draft(f"{TOP}/store.go", content=GO),
            Draft(f"{TOP}/deploy.sh", content="roll-back() {\n  echo\n}\n"),
            Draft(f"{TOP}/README.md", content=PAGE, metadata={"kind": "documentation"}),
        ]
    )


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Client", ("Client",)),
        ("`open_pool()`", ("open_pool",)),
        ("Client.get", ("Client.get", "get")),
        ("httpx.Client.get()", ("Client.get", "get")),
        ("Context::new", ("Context.new", "new")),
        ("Store#save!", ("Store.save!", "save!")),
        ("def get", ("get",)),
        ("class Client", ("Client",)),
        ("fn parse_args(a: &str)", ("parse_args",)),
        ("where is Client defined?", ("Client",)),
        ("Where's the function `open_pool` defined", ("open_pool",)),
        ("where is the Client class implemented", ("Client",)),
        ("in which file is open_pool declared", ("open_pool",)),
        ("which file defines Client.send", ("Client.send", "send")),
        ("definition of open_pool", ("open_pool",)),
        ("go to the definition of Client.get", ("Client.get", "get")),
        ("show me the implementation of the method send", ("send",)),
        ("open_pool definition", ("open_pool",)),
        ("Client 在哪里定义？", ("Client",)),
        ("函数 open_pool 定义在哪个文件", ("open_pool",)),
        ("哪里定义了 Client", ("Client",)),
        ("open_pool 的实现", ("open_pool",)),
        ("X是在哪儿定义的", ("X",)),
        ("where is roll-back defined", ("roll-back",)),
        ("roll-back 在哪里定义", ("roll-back",)),
        ("a->send", ("a.send", "send")),
        ("roll - back", ()),
        ("-back", ()),
        ("how do I define a client?", ()),
        ("where is my tea", ()),
        ("how is Client used", ()),
        ("Client and Server", ()),
        ("", ()),
        ("3.14", ()),
        ("x" * 300, ()),
    ],
)
def test_a_question_for_a_definition_is_known(question: str, names: tuple[str, ...]) -> None:
    """A name alone, or a question for its definition, gives the name; others give nothing."""
    assert asked_definition(question) == names


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("where is fetch_all defined", "src/api.js"),
        ("fetch_all 在哪里定义", "src/api.js"),
        ("definition of fetch_all", "src/api.js"),
        ("NASA 在哪里", "docs/where.md"),
        ("哪里定义了备份", "docs/where.md"),
    ],
)
def test_a_name_that_is_only_used_is_found_by_its_uses(
    client: MessageClient, question: str, path: str
) -> None:
    """The words of the question for a definition do not count; those for a place do."""
    page = "# 备份\n\n在这里定义备份。NASA 在哪里：NASA 在华盛顿。It is defined there.\n"
    client.put(
        [
            Draft(f"{TOP}/src/api.js", content="on('x', { fetch_all: 1 });\n" + "// filler\n" * 40),
            Draft(f"{TOP}/docs/where.md", content=page),
            Draft(f"{TOP}/docs/nasa.md", content="NASA, NASA and NASA."),  # first by its name alone
        ]
    )
    assert client.find(question, target_uri=TOP).resources[0].uri == f"{TOP}/{path}"


@pytest.mark.deep_after(7)
@pytest.mark.parametrize(
    ("question", "path", "section"),
    [
        ("Client", "src/client.py", "Client, get, send, open_pool"),
        ("open_pool", "src/client.py", "Client, get, send, open_pool"),
        ("where is open_pool defined", "src/client.py", "Client, get, send, open_pool"),
        ("send", "src/client.py", "Client, get, send, open_pool"),
        ("Store.Get", "store.go", "Store > Get"),
        ("where is Get defined?", "store.go", "Store > Get"),
        ("Get 在哪里定义", "store.go", "Store > Get"),
        ("roll-back 在哪里定义", "deploy.sh", "roll-back"),
    ],
)
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_definition_is_before_its_uses(
    client: MessageClient, question: str, path: str, section: str, *, is_compacted: bool
) -> None:
    """The defining passage is first in Find and Retrieve, however often others have the name."""
    _put(client)
    if is_compacted:
        client.optimize()
    found = client.find(question, target_uri=TOP)
    assert found.resources[0].uri == f"{TOP}/{path}"
    assert found.resources[0].passages[0].section == section
    for mode in (Mode.HYBRID, Mode.KEYWORD):
        item = client.retrieve(question, target_uri=TOP, mode=mode).items[0]
        assert (item.uri, item.section) == (f"{TOP}/{path}", section)


def test_the_uses_follow_the_definition(client: MessageClient) -> None:
    """Files that only use the name are results too, and a part of a name is no definition."""
    _put(client)
    found = {match.uri.removeprefix(f"{TOP}/") for match in client.find("Client").resources}
    assert {"src/client.py", "src/a.py", "tests/test_client.py", "README.md"} <= found
    # Only "open_pool" is defined here.
    assert client.find("pool", trace=True).trace.identifiers is False


def test_a_definition_goes_with_its_file(client: MessageClient) -> None:
    """After a change of the file, the name is where it is defined now."""
    _put(client)
    client.put([Draft(f"{TOP}/src/client.py", content="x = 1\n")])
    client.put([Draft(f"{TOP}/src/pool.py", content="def open_pool(url):\n    return url\n")])
    assert client.find("open_pool", target_uri=TOP).resources[0].uri == f"{TOP}/src/pool.py"


TEXT = "The pool of connections opens at the first request.\n"


@pytest.mark.parametrize("preference", [Preference.CODE, Preference.DOCS])
def test_a_preference_orders_kinds(client: MessageClient, preference: Preference) -> None:
    """Files that match alike stand in the order of their factors, and the trace says why."""
    drafts = [
        Draft(f"{TOP}/{kind}/{i}.txt", content=f"{TEXT}{kind} {i}\n", metadata={"kind": kind})
        for i, kind in enumerate(FileKind)
    ]
    client.put(drafts)
    question = "pool of connections opens at the first request"
    plain = client.find(question, limit=20, trace=True)
    assert {match.parts.kind for match in plain.resources} == {0.0}
    found = client.find(question, limit=20, prefer=preference, trace=True)
    kinds = [FileKind(match.uri.split("/")[4]) for match in found.resources]
    factors = [FACTORS[preference].get(kind, 1.0) for kind in kinds]
    assert factors == sorted(factors, reverse=True)
    assert kinds[0].value == {"CODE": "source", "DOCS": "documentation"}[preference.name]
    for match, factor in zip(found.resources, factors, strict=True):
        parts = match.parts
        assert match.score == pytest.approx(factor * (parts.final - parts.kind), abs=1e-6)
    unnamed = {"kind": 7}, {"kind": "made up"}, {}
    client.put([Draft(f"{TOP}/{i}.txt", content=TEXT, metadata=m) for i, m in enumerate(unnamed)])
    others = client.find(question, limit=20, prefer=preference, trace=True).resources
    assert [match.parts.kind for match in others if match.uri.count("/") == 4] == [0.0] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prefer": Preference.CODE, "mode": SearchMode.THINKING}, "prefer"),
        ({"prefer": "tests"}, "prefer"),
    ],
)
def test_a_preference_that_cannot_be_is_refused(
    client: MessageClient, arguments: dict[str, Any], words: str
) -> None:
    """The error names the field."""
    with pytest.raises((ClientError, ValueError), match=words):
        client.find("pool", **arguments)
