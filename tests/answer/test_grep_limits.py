"""The limits of Grep and Glob over gRPC: work, deadlines, pages, and hostile requests."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.answer.grep_helpers import TOP, collected, put
from tests.patience import SECONDS, eventually
from vikingd.client import Client, InvalidField, Unsendable
from vikingd.client.messages import MessageClient
from vikingd.client.method_declarations import Stubs
from vikingd.pb import admin_pb2, contexts_pb2

SLOW = "[ab]*a[ab]{900}c"
"""A pattern that takes microseconds for each byte of a text of a and b: RE2 has too many states."""


@pytest.fixture
def stubs(client: MessageClient) -> Iterator[Stubs]:
    """Yield the stubs of the daemon, whose tree is empty."""
    with grpc.insecure_channel(client.address) as channel:
        yield Stubs(channel)


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


@pytest.mark.deep
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
    "page_token": [
        {"page_token": "a"},
        {"page_token": "MjowOmE="},
        {"page_token": "Zjphxx=="},
        {"page_token": "MjozOnZpa2luZzovL3VzZXJzL3g=", "target_uri": TOP},
    ],
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


@pytest.mark.deep
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
