"""Grep and Glob over gRPC: answers against plain Python, and pages."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import grpc
import pytest

from tests.answer.grep_helpers import TOP, Found, collected, found_in, plain_glob, plain_lines, put
from vikingd.client import (
    AsyncClient,
    Client,
    ContextType,
    NodeKind,
    NotFound,
)
from vikingd.client.messages import MessageClient
from vikingd.client.method_declarations import Stubs
from vikingd.domain.contexts import Draft
from vikingd.pb import contexts_pb2

pytestmark = pytest.mark.stores

WORDS = ("oolong", "Kyoto", "E4102", "queue", "état", "状态码", "e\u0301t", "x" * 700, "a.b", "_id")


@pytest.fixture
def stubs(client: MessageClient) -> Iterator[Stubs]:
    """Yield the stubs of the daemon, whose tree is empty."""
    with grpc.insecure_channel(client.address) as channel:
        yield Stubs(channel)


def corpus(rng: random.Random) -> dict[str, str]:
    """Return random contents by URI, with line ends of all kinds."""
    contents = {}
    for _ in range(80):
        path = "/".join(rng.choices(("a", "b", "a-b", "字", "c.d"), k=rng.randint(1, 4)))
        lines = (
            " ".join(rng.choices(WORDS, k=rng.randint(0, 5))) for _ in range(rng.randint(1, 9))
        )
        end = rng.choice(("\n", "\r\n", "\n\n"))
        contents[f"{TOP}/{path}/{rng.randint(0, 9)}{rng.choice(('.md', '.txt'))}"] = end.join(
            lines
        ) + rng.choice(("", end))
    return contents


def plain(contents: dict[str, str], pattern: str, flags: int = re.ASCII) -> list[tuple[str, Found]]:
    """Return all matches by URI and line."""
    compiled = re.compile(pattern, flags)
    return [(uri, one) for uri in sorted(contents) for one in plain_lines(contents[uri], compiled)]


def shown(matches: Any) -> list[tuple[str, Found]]:
    """Return matches in the form of `short`."""
    return short(
        [
            (m.uri, found_in(m.line, m.column, m.text, m.start, m.end, m.line_length))
            for m in matches
        ]
    )


def short(found: list[tuple[str, Found]]) -> list[tuple[str, Found]]:
    """Return matches without the lines, and the beginning of each: more of it may be cut."""
    return [(uri, one._replace(text="", match=one.match[:100])) for uri, one in found]


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_answers_are_those_of_plain_python(client: MessageClient, seed: int) -> None:
    """Matches are those of `re`, entries those of a plain glob, in the order of URIs."""
    rng = random.Random(seed)
    contents = corpus(rng)
    put(client, contents)
    for pattern in (
        "oolong", "^oolong", "état|状态码", r"\bx+\b", "[^ ]+$", r"E\d{4}", "^$", ".", "码 .*o",
        "é",
    ):  # fmt: skip
        matches = shown(client.grep(pattern, TOP, page_size=rng.choice((0, 7))))
        assert matches == short(plain(contents, pattern)), pattern
    flags = re.IGNORECASE
    matches = shown(client.grep("kYOTO|ÉTAT", TOP, case_insensitive=True))
    assert matches == short(plain(contents, "kYOTO|ÉTAT", flags))
    matches = shown(client.grep("A.B", TOP, case_insensitive=True, literal=True))
    assert matches == short(plain(contents, r"A\.B", flags))
    nodes = {node.uri: node.is_directory for node in client.tree(TOP) if node.uri != TOP}
    for glob in ("**", "*", "**/*.md", "a/**", "*/[ab]/*", "**/a-b/**/?.txt", "字/*", "**/c.d"):
        below = {uri: uri[len(TOP) + 1 :] for uri in nodes}
        wanted = [uri for uri in sorted(nodes) if plain_glob(below[uri], glob)]
        entries = list(client.glob(glob, TOP, page_size=rng.choice((0, 3))))
        assert [entry.uri for entry in entries] == wanted
        assert all(entry.is_directory == nodes[entry.uri] for entry in entries)
        directories = [entry.uri for entry in client.glob(glob, TOP, kind=NodeKind.DIRECTORY)]
        assert directories == [uri for uri in wanted if nodes[uri]]
        assert directories == [entry.uri for entry in client.glob(f"{glob}/", TOP)]
        files = [entry.uri for entry in client.glob(glob, TOP, kind=NodeKind.FILE)]
        assert files == [uri for uri in wanted if not nodes[uri]]
        within = {uri: contents[uri] for uri in files}
        if "/" in glob:
            matches = shown(client.grep("o+", TOP, glob=glob))
            assert matches == short(plain(within, "o+"))


def test_a_glob_of_grep_without_a_slash_is_for_names(client: MessageClient) -> None:
    """`*.md` means Markdown files in any directory; a file as the target is always searched."""
    put(client, {f"{TOP}/{path}": "tea" for path in ("a.md", "b/c.md", "b/d.txt")})

    def found(target: str, glob: str) -> list[str]:
        return [match.uri[len(TOP) + 1 :] for match in client.grep("tea", target, glob=glob)]

    assert found(TOP, "*.md") == ["a.md", "b/c.md"]
    assert found(TOP, "b/*") == ["b/c.md", "b/d.txt"]
    assert found(f"{TOP}/a.md", "*.txt") == ["a.md"]
    assert found(f"{TOP}/a.md", "b/c/d") == ["a.md"]


def test_types_and_abstracts_are_searched_as_asked(client: MessageClient, stubs: Stubs) -> None:
    """Contents alone are searched unless abstracts are asked for; types select by root."""
    client.put(
        [
            Draft(TOP, is_directory=True, abstract="tea of\nthe top tea"),
            Draft(f"{TOP}/a.md", content="coffee\ntea", abstract="tea"),
            Draft("viking://user/memories/m.md", content="- tea"),
            Draft("viking://agent/skills/s", is_directory=True, abstract="no\ntea"),
        ]
    )

    def found(**more: Any) -> list[tuple[str, int, int]]:
        matches = client.grep("tea", "", **more)
        return [(match.uri.rpartition("/")[2], match.level, match.line) for match in matches]

    a, m, skill, top = ("a.md", 2, 2), ("m.md", 2, 1), ("s", 0, 2), ("top", 0, 1)
    assert found() == [a, m]
    every = [skill, top, ("top", 0, 2), ("a.md", 0, 1), a, ("m.md", 0, 1), m]
    assert found(with_abstracts=True) == every
    for size in range(1, 8):  # a page may end between the two texts of a context
        assert found(with_abstracts=True, page_size=size) == every
    assert found(context_types=[ContextType.MEMORY]) == [m]
    types = [ContextType.SKILL, ContextType.RESOURCE]
    assert found(context_types=types, with_abstracts=True) == every[:5]
    request = contexts_pb2.GrepRequest(pattern="tea", with_abstracts=True, target_uri=TOP)
    page = stubs.contexts.Grep(request)
    assert (page.searched_files, page.searched_bytes) == (
        1,
        len("tea of\nthe top teateacoffee\ntea"),
    )


def test_the_clients_return_the_same(client: MessageClient, typed: Client) -> None:
    """The synchronous and the asynchronous client yield equal results."""
    put(client, {f"{TOP}/{number}.md": "tea\nno\ntea 茶" for number in range(5)})

    async def asked() -> tuple[list[Any], list[Any]]:
        async with AsyncClient(client.address) as other:
            matches = [match async for match in other.grep("t", TOP, page_size=2)]
            return matches, [entry async for entry in other.glob("[1-3]*", TOP, page_size=2)]

    matches, entries = asyncio.run(asked())
    assert matches == list(typed.grep("t", TOP))
    assert entries == list(typed.glob("[1-3]*", TOP))
    assert (len(matches), len(entries)) == (10, 3)
    assert (matches[1].uri, matches[1].line, matches[1].text) == (f"{TOP}/0.md", 3, "tea 茶")
    assert entries[0].context_type is ContextType.RESOURCE


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_pages_are_one_whole_pass_while_others_write(
    client: MessageClient, stubs: Stubs, size: int
) -> None:
    """What is there from begin to end comes once and in order, whatever is written between."""
    rng = random.Random(size)
    kept = {f"{TOP}/k{number:02}/f.md": "hit\nno\nhit hit\n" for number in range(12)}
    put(client, kept)
    others: list[str] = []
    numbers = count()

    def write() -> None:
        for _ in range(3):
            directory, name = f"k{rng.randint(0, 11):02}", f"{rng.choice('az')}{next(numbers)}"
            others.append(f"{TOP}/{directory}/{name}.md")
            put(client, {others[-1]: "miss\n" * rng.randint(1, 4)})
        client.delete(others.pop(rng.randrange(len(others))))
        client.put([Draft(uri, is_directory=True, abstract=str(rng.random())) for uri in (TOP,)])

    request = contexts_pb2.GrepRequest(pattern="hit", target_uri=TOP, page_size=size)
    matches = collected(stubs.contexts.Grep, request, "matches", write)
    assert [(m.uri, m.line) for m in matches] == [(uri, n) for uri in sorted(kept) for n in (1, 3)]
    glob = contexts_pb2.GlobRequest(pattern="*/f.md", target_uri=TOP, page_size=size)
    entries = collected(stubs.contexts.Glob, glob, "entries", write)
    assert [entry.uri for entry in entries] == sorted(kept)
    assert others


def test_a_page_goes_on_after_a_context_that_is_gone(client: MessageClient, stubs: Stubs) -> None:
    """A token is a place, which needs no context."""
    put(client, {f"{TOP}/{name}.md": "hit\nhit" for name in "abc"})
    request = contexts_pb2.GrepRequest(pattern="hit", target_uri=TOP, page_size=1)
    request.page_token = stubs.contexts.Grep(request).next_page_token
    client.delete(f"{TOP}/a.md")
    matches = collected(stubs.contexts.Grep, request, "matches")
    assert [match.uri[-4:] for match in matches] == ["b.md", "b.md", "c.md", "c.md"]
    assert [match.uri[-4:] for match in client.grep("hit", TOP)] == [m.uri[-4:] for m in matches]


def test_what_is_not_there_is_not_found(typed: Client) -> None:
    """A missing target is NOT_FOUND; the root and an empty directory have no matches."""
    for call in (lambda uri: typed.grep("a", uri), lambda uri: typed.glob("*", uri)):
        with pytest.raises(NotFound):
            list(call(f"{TOP}/missing"))
    assert list(typed.grep("a")) == []
    assert list(typed.glob("**")) == []


def test_a_search_sees_the_revision_that_it_asks_for(client: MessageClient, stubs: Stubs) -> None:
    """With min_revision a search waits for a write, and tells the revision that it saw."""
    revision = client.put([Draft(f"{TOP}/a.md", content="tea")]).revision
    page = stubs.contexts.Grep(contexts_pb2.GrepRequest(pattern="tea", min_revision=revision))
    assert (len(page.matches), page.revision >= revision) == (1, True)
    for call, request in (
        (stubs.contexts.Grep, contexts_pb2.GrepRequest(pattern="a", min_revision=revision + 9)),
        (stubs.contexts.Glob, contexts_pb2.GlobRequest(pattern="*", min_revision=revision + 9)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
