"""Grep and Glob over gRPC: answers against plain Python, pages, limits and hostile requests."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import grpc
import pytest
from grep_helpers import Found, found_in, plain_glob, plain_lines
from patience import SECONDS, eventually

from vikingd.client import (
    AsyncClient,
    Client,
    ContextType,
    InvalidField,
    NodeKind,
    NotFound,
    Unsendable,
)
from vikingd.client.messages import MessageClient
from vikingd.client.methods import Stubs
from vikingd.domain.contexts import Draft
from vikingd.pb import admin_pb2, contexts_pb2

TOP = "viking://resources/top"
WORDS = ("oolong", "Kyoto", "E4102", "queue", "état", "状态码", "e\u0301t", "x" * 700, "a.b", "_id")
SLOW = "[ab]*a[ab]{900}c"
"""A pattern that takes microseconds for each byte of a text of a and b: RE2 has too many states."""


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


def put(client: MessageClient, contents: dict[str, str]) -> None:
    """Write files."""
    client.put([Draft(uri, content=content) for uri, content in contents.items()])


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


@pytest.mark.parametrize("seed", [1, 2, 3])
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


def collected(call: Callable[..., Any], request: Any, items: str, between: Any = None) -> list[Any]:
    """Return the items of all pages; `between` is called after each page."""
    found: list[Any] = []
    while True:
        page = call(request, timeout=SECONDS)
        found += getattr(page, items)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found
        if between is not None:
            between()


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


def test_a_reply_fits_a_client_however_long_the_lines_are(
    client: MessageClient, stubs: Stubs
) -> None:
    """A page ends where its bytes do, and all pages together have every line."""
    put(client, {f"{TOP}/{'n' * 900}.md": ("字" * 600 + "\n") * 1100})
    request = contexts_pb2.GrepRequest(pattern="字", target_uri=TOP, page_size=10_000)
    page = stubs.contexts.Grep(request)
    assert 1 << 20 < page.ByteSize() < 4 << 20
    assert page.next_page_token
    assert len(collected(stubs.contexts.Grep, request, "matches")) == 1100


def test_a_call_has_a_limit_of_work_and_tells_how_far_it_came(
    client: MessageClient, stubs: Stubs
) -> None:
    """A large pattern takes more calls; empty pages have a token, and nothing is left out."""
    contents = {f"{TOP}/{number:03}.md": (f"{number} " * 100 + "\n") * 5 for number in range(300)}
    put(client, contents)
    large = "(?:" + "[αβ]{900}" * 5 + "|299)"
    request = contexts_pb2.GrepRequest(pattern=large, target_uri=TOP)
    pages = []
    while True:
        pages.append(stubs.contexts.Grep(request, timeout=SECONDS))
        request.page_token = pages[-1].next_page_token
        if not request.page_token:
            break
    assert len(pages) > 2
    assert not pages[0].matches
    assert 0 < pages[0].searched_files < 300
    assert 100_000 < pages[0].searched_bytes < 600_000
    matches = [match for page in pages for match in page.matches]
    assert [(m.uri, m.line) for m in matches] == [(f"{TOP}/299.md", n) for n in range(1, 6)]
    small = stubs.contexts.Grep(contexts_pb2.GrepRequest(pattern="299", target_uri=TOP))
    assert small.searched_files == 300
    assert small.searched_bytes == sum(map(len, contents.values()))
    assert small.revision == stubs.admin.Stats(admin_pb2.StatsRequest()).revision


def test_paths_have_a_limit_of_work_too(client: MessageClient, stubs: Stubs) -> None:
    """A call looks at a limited number of paths; the next page goes on."""
    names = [f"{'x' * 600}{number:04}" for number in range(1000)]
    for start in range(0, 1000, 500):
        put(client, {f"{TOP}/{'y' * 200}/{name}": "tea" for name in names[start : start + 500]})
    large = "*/" + "?" * 590 + "*0999"
    request = contexts_pb2.GlobRequest(pattern=large, target_uri=TOP)
    first = stubs.contexts.Glob(request)
    assert (len(first.entries), bool(first.next_page_token)) == (0, True)
    entries = collected(stubs.contexts.Glob, request, "entries")
    assert [entry.uri[-4:] for entry in entries] == ["0999"]
    grep = contexts_pb2.GrepRequest(pattern="tea", target_uri=TOP, glob=large)
    page = stubs.contexts.Grep(grep)
    assert (len(page.matches), page.searched_files, bool(page.next_page_token)) == (0, 0, True)
    assert [m.uri[-4:] for m in collected(stubs.contexts.Grep, grep, "matches")] == ["0999"]


def line_of_letters(client: MessageClient) -> None:
    """Write a file with one line, on which RE2 is slow."""
    rng = random.Random(7)
    put(client, {f"{TOP}/slow.txt": "".join(rng.choices("ab", k=1_500_000))})


def test_a_slow_search_ends_when_nobody_waits_and_keeps_nobody_waiting(
    client: MessageClient, stubs: Stubs
) -> None:
    """A deadline and a cancellation end a search; other calls go on meanwhile."""
    line_of_letters(client)
    slow = contexts_pb2.GrepRequest(pattern=SLOW, target_uri=TOP)
    started = time.perf_counter()
    with pytest.raises(grpc.RpcError) as caught:
        stubs.contexts.Grep(slow, timeout=0.5)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.perf_counter() - started < 3
    # As many as one caller may have slots: the next heavy call waits until one of them ends.
    calls: list[Any] = [stubs.contexts.Grep.future(slow, timeout=SECONDS) for _ in range(4)]
    longest = 0.0
    for _ in range(60):
        started = time.perf_counter()
        stubs.contexts.List(contexts_pb2.ListRequest(uri=TOP, page_size=10), timeout=SECONDS)
        longest = max(longest, time.perf_counter() - started)
        time.sleep(0.01)
    assert not any(call.done() for call in calls)
    assert longest < 1
    for call in calls:
        call.cancel()
    started = time.perf_counter()
    quick = contexts_pb2.GrepRequest(pattern="c", target_uri=TOP)
    assert not stubs.contexts.Grep(quick, timeout=SECONDS).matches
    assert time.perf_counter() - started < 8


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", "(a*)*c", "(.*)*x", "((a{0,30}){0,30})c", "(?:a?){500}(?:a){500}",
     r"(\w+\s?)+!", ".*.*.*.*c", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"],
)  # fmt: skip
def test_a_pattern_that_stops_other_engines_is_quick(
    client: MessageClient, stubs: Stubs, pattern: str
) -> None:
    """Time is linear in the text: what takes `re` for ever takes milliseconds."""
    put(client, {f"{TOP}/a.txt": "a" * 20_000 + " !\n" + "x" * 20_000})
    started = time.perf_counter()
    stubs.contexts.Grep(contexts_pb2.GrepRequest(pattern=pattern, target_uri=TOP), timeout=SECONDS)
    assert time.perf_counter() - started < 3


REFUSED = {
    "pattern": [
        {"pattern": ""},
        {"pattern": "("},
        {"pattern": "(?=a)"},
        {"pattern": r"(a)\1"},
        {"pattern": "a{1001}"},
        {"pattern": "(?:(?:a{1000}){1000}){1000}"},
        {"pattern": r"\pL{1000}"},
        {"pattern": "a" * (16 << 10)},
        {"pattern": "a\nb"},
        {"pattern": r"a\n"},
    ],
    "glob": [{"glob": "a**"}, {"glob": "a//b"}, {"glob": "x" * 1025}, {"glob": "viking://a"}],
    "page_size": [{"page_size": 10_001}],
    "page_token": [{"page_token": "a"}, {"page_token": "MjowOmE="}, {"page_token": "Zjphxx=="}],
    "target_uri": [{"target_uri": "resources"}, {"target_uri": "viking://~/x"}],
    "context_types[1]": [{"context_types": [1, 9]}],
}


@pytest.mark.parametrize(
    ("field", "request_fields"),
    [(field, fields) for field, requests in REFUSED.items() for fields in requests],
)
def test_a_faulty_grep_is_refused_by_its_field(
    typed: Client, field: str, request_fields: dict[str, Any], stubs: Stubs
) -> None:
    """The error is INVALID_ARGUMENT and names the field."""
    request = contexts_pb2.GrepRequest(**{"pattern": "a", **request_fields})
    with pytest.raises(grpc.RpcError) as caught:
        stubs.contexts.Grep(request, timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith(f"{field}: ")
    if field == "pattern":
        with pytest.raises(InvalidField) as refused:
            list(typed.grep(request.pattern))
        assert refused.value.field_violations[0].field == "pattern"


@pytest.mark.parametrize(
    ("field", "request_fields"),
    [
        ("pattern", {"pattern": ""}),
        ("pattern", {"pattern": "a**"}),
        ("pattern", {"pattern": "x" * 1025}),
        ("pattern", {"pattern": "a/", "kind": 1}),
        ("kind", {"kind": 3}),
        ("page_size", {"page_size": 10_001}),
        ("page_token", {"page_token": "a"}),
        ("page_token", {"page_token": "Zjp2aWtpbmc6Ly91c2Vy", "target_uri": TOP}),
        ("target_uri", {"target_uri": f"{TOP}/a.md"}),
    ],
)
def test_a_faulty_glob_is_refused_by_its_field(
    client: MessageClient, stubs: Stubs, field: str, request_fields: dict[str, Any]
) -> None:
    """The error is INVALID_ARGUMENT and names the field; a file is no directory."""
    put(client, {f"{TOP}/a.md": "tea"})
    with pytest.raises(grpc.RpcError) as caught:
        stubs.contexts.Glob(contexts_pb2.GlobRequest(**{"pattern": "*", **request_fields}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith(f"{field}: ")


def test_what_is_not_there_is_not_found(typed: Client) -> None:
    """A missing target is NOT_FOUND; the root and an empty directory have no matches."""
    for call in (lambda uri: typed.grep("a", uri), lambda uri: typed.glob("*", uri)):
        with pytest.raises(NotFound):
            list(call(f"{TOP}/missing"))
    assert list(typed.grep("a")) == []
    assert list(typed.glob("**")) == []


def test_strange_bytes_in_a_pattern(client: MessageClient) -> None:
    """A NUL is a character that no text has; what is not Unicode is refused."""
    put(client, {f"{TOP}/a.txt": "a\tb\nab"})
    assert list(client.grep("a\0b", TOP)) == []
    assert list(client.grep("a\0", TOP, literal=True)) == []
    assert list(client.glob("a\0*", TOP)) == []
    assert [match.line for match in client.grep("a\0?b", TOP)] == [2]
    assert [match.line for match in client.grep(r"a[\x00\x09]b", TOP)] == [1]
    for call in (client.grep, client.glob):
        with pytest.raises(Unsendable):
            list(call("a\ud800"))
    with grpc.insecure_channel(client.address) as channel:
        for method in ("Grep", "Glob"):
            call = channel.unary_unary(f"/viking.retrieval.v1.Contexts/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\x0a\x02a\xff")
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert caught.value.details().startswith("pattern: ")


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


def test_a_search_that_ends_early_holds_no_old_revision(
    client: MessageClient, stubs: Stubs
) -> None:
    """After a search without an end, later calls see what was written."""
    line_of_letters(client)
    for number in range(6):
        with pytest.raises(grpc.RpcError):
            stubs.contexts.Grep(contexts_pb2.GrepRequest(pattern=SLOW, target_uri=TOP), timeout=0.3)
        put(client, {f"{TOP}/{number}.md": "tea"})
        eventually(lambda wanted=number + 1: len(list(client.grep("tea", TOP))) == wanted)
