"""Grep and Glob on a real daemon, beside plain twins that search each line by `re`."""

from __future__ import annotations

import base64
import fnmatch
import random
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack_helpers import HIDDEN, SHARED, fort

from vikingd.client import Client, Draft, GlobEntry, GrepMatch, InvalidField, NodeKind, NotFound
from vikingd.client.methods import Stubs
from vikingd.pb import contexts_pb2

TOP = "viking://resources/corpus"
SEED = 2611
Place = tuple[str, int, int]
"""URI, line and column of a match."""

NAMES = ("a", "a-b", "a.md", "B.md", "é.txt", "中.md", "[x].md", "a b", "*")
ATOMS = ("a", "b", "ab", "é", "中", "文", ".", "x", "\\.", "\\d", "[a-c]", "[^a]", "\\w", "\\s")
LETTERS = ("a", "b", "ab", "A", "é", "中", "文", ".", "x", " ", "7", "\t", "c", "\r", "0-0")
ENDS = ("\n", "\n", "\n\n", "\r\n", "\r\n")


def some_text(rng: random.Random) -> str:
    """Return a text of short lines, long lines and empty ones, with either kind of line ends."""
    out = ""
    for _ in range(rng.randint(0, 8)):
        long = rng.random() < 0.05
        out += "".join(
            rng.choices(LETTERS, k=rng.randint(900, 2000) if long else rng.randint(0, 9))
        )
        out += rng.choice(ENDS)
    return out + rng.choice(("", "", "end a", "\r"))


def some_pattern(rng: random.Random) -> str:
    """Return a regular expression that `re` and RE2 read alike."""
    out = ""
    for _ in range(rng.randint(1, 4)):
        atom = rng.choice(ATOMS)
        if rng.random() < 0.2:  # not repeated: `re` would search for hours
            out += f"({atom}|{rng.choice(ATOMS)})"
        else:
            out += atom + rng.choice(("", "", "", "+", "*", "?", "{2,3}", "+?"))
    return rng.choice(("", "", "", "^", "\\b")) + out + rng.choice(("", "", "", "$", "\\b"))


def corpus(rng: random.Random, files: int) -> dict[str, str]:
    """Return contents by URI."""
    found: dict[str, str] = {}
    while len(found) < files:
        *above, name = (rng.choice(NAMES) for _ in range(rng.randint(1, 4)))
        path = [TOP, *(f"{one}.d" for one in above), name]  # a name never is file and directory
        found["/".join(path)] = some_text(rng)
    return found


def twin_lines(content: str) -> list[str]:
    """Return the lines of a text."""
    lines = content.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def twin_grep(
    files: dict[str, str], pattern: str, chosen: Iterable[str], flags: int = re.ASCII
) -> list[Place]:
    """Search each line of each file by itself."""
    found = []
    for uri in sorted(chosen):
        for number, line in enumerate(twin_lines(files[uri]), 1):
            hit = re.search(pattern, line, flags)
            if hit is not None:
                found.append((uri, number, hit.start() + 1))
    return found


def twin_glob(pattern: str, path: str) -> bool:
    """Match name by name, with each way to spread `**`."""
    wanted, names = pattern.split("/"), path.split("/")

    @cache
    def match(i: int, j: int) -> bool:
        if i == len(wanted):
            return j == len(names)
        if wanted[i] == "**":
            return match(i + 1, j) or (j < len(names) and match(i, j + 1))
        return j < len(names) and fnmatch.fnmatchcase(names[j], wanted[i]) and match(i + 1, j + 1)

    return match(0, 0)


def nodes_of(files: Iterable[str], top: str) -> dict[str, bool]:
    """Return all nodes below a directory, and whether each is a directory."""
    found: dict[str, bool] = {}
    for uri in files:
        found[uri] = False
        while (uri := uri.rpartition("/")[0]) != top and uri.startswith(top):
            found[uri] = True
    return {uri: found[uri] for uri in sorted(found)}


def places(matches: Iterable[GrepMatch]) -> list[Place]:
    """Return where the matches are."""
    return [(match.uri, match.line, match.column) for match in matches]


def entries(found: Iterable[GlobEntry]) -> list[tuple[str, bool]]:
    """Return the URIs of entries, and whether each is a directory."""
    return [(entry.uri, entry.is_directory) for entry in found]


def put(client: Client, files: dict[str, str]) -> None:
    """Write files."""
    client.put([Draft(uri, content=content) for uri, content in files.items()])


@pytest.fixture
def stubs(daemon: str) -> Any:
    """Yield the stubs of the daemon."""
    with grpc.insecure_channel(daemon) as channel:
        yield Stubs(channel)


def test_lines_are_those_of_a_plain_search(typed: Client) -> None:
    """Random patterns find in random files what `re` finds line by line, in pages of any size."""
    rng = random.Random(SEED)
    files = corpus(rng, 120)
    put(typed, files)
    hits = 0
    for case in range(150):
        pattern, size = some_pattern(rng), rng.choice((0, 1, 7, 100))
        wanted = twin_grep(files, pattern, files)
        size = 0 if len(wanted) > 100 else size
        found = places(typed.grep(pattern, TOP, page_size=size))
        assert found == wanted, (SEED, case, pattern)
        hits += len(wanted)
    assert hits > 1000


def test_case_glob_and_target_narrow_a_grep(typed: Client) -> None:
    """The case is ignored on request; `glob` and the target choose the files."""
    rng = random.Random(SEED)
    files = corpus(rng, 80)
    put(typed, files)
    for pattern in ("é", "a.*É", "aB"):
        wanted = twin_grep(files, pattern, files, re.IGNORECASE)
        assert places(typed.grep(pattern, TOP, case_insensitive=True)) == wanted
    assert len(wanted) > len(twin_grep(files, pattern, files))
    for glob in ("*.md", "a.d/**", "[!a]*", "**/中.md", "**/*.d/a*"):
        each = glob if "/" in glob else f"**/{glob}"
        chosen = [uri for uri in files if twin_glob(each, uri.removeprefix(f"{TOP}/"))]
        assert chosen, glob
        assert places(typed.grep("a", TOP, glob=glob)) == twin_grep(files, "a", chosen), glob
    for target in (f"{TOP}/a.d", *list(files)[:5]):
        below = [uri for uri in files if uri == target or uri.startswith(f"{target}/")]
        assert places(typed.grep("a", target)) == twin_grep(files, "a", below), target
    one = next(iter(files))
    name = one.rpartition("/")[2]
    literal = "".join(f"[{c}]" if c in "*?[" else c for c in name)
    assert places(typed.grep("^", one, glob=literal)) == twin_grep(files, "^", [one])


def test_paths_are_those_of_a_plain_match(typed: Client) -> None:
    """Random globs find what a match name by name finds, in the order of URIs, in any pages."""
    rng = random.Random(SEED)
    files = corpus(rng, 150)
    put(typed, files)
    nodes = nodes_of(files, TOP)
    parts = ("*", "**", "**", "a*", "?.md", "*.md", "[a-c]*", "[!a-c]*", "[[]x].md", "[*]", "中.md",
             "a.d", "*.d", "[]a]*", "[a", "é*", "[b-a-c]?", "a-b.d", "B.md", "b.md")  # fmt: skip
    hits = 0
    for case in range(250):
        pattern = "/".join(rng.choices(parts, k=rng.randint(1, 4)))
        kind = rng.choice((None, NodeKind.FILE, NodeKind.DIRECTORY))
        if "[b-a" in pattern:  # a reversed range, which fnmatch takes for an empty one
            continue
        wanted = [
            (uri, is_directory)
            for uri, is_directory in nodes.items()
            if twin_glob(pattern, uri.removeprefix(f"{TOP}/"))
            and (kind is None or (kind is NodeKind.DIRECTORY) == is_directory)
        ]
        size = rng.choice((0, 1, 3)) if len(wanted) < 40 else 0
        found = entries(typed.glob(pattern, TOP, kind=kind, page_size=size))
        assert found == wanted, (SEED, case, pattern, kind)
        hits += len(wanted)
    assert hits > 1000


def test_pages_hold_while_others_write(stubs: Stubs, typed: Client) -> None:
    """Lines of files that stay are found once each, whatever is written between the pages."""
    rng = random.Random(SEED)
    files = {f"{TOP}/{i:03}.md": "hit\nno\nhit\n" * rng.randint(1, 3) for i in range(40)}
    put(typed, files)
    kept = {uri for uri in files if rng.random() < 0.6}
    found: list[tuple[str, int]] = []
    request = contexts_pb2.GrepRequest(pattern="hit", target_uri=TOP, page_size=3)
    while True:
        page = stubs.contexts.Grep(request)
        found += [(match.uri, match.line) for match in page.matches]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
        changed = rng.choice(sorted(files.keys() - kept))
        if rng.random() < 0.5:
            typed.delete(changed, allow_missing=True)
        else:
            put(typed, {changed: "hit\n" * rng.randint(1, 9)})
        put(typed, {f"{TOP}/{rng.randint(0, 39):03}-new.md": "a hit"})
    assert found == sorted(set(found))
    wanted = [(uri, line) for uri, line, _ in twin_grep(files, "hit", kept)]
    assert [one for one in found if one[0] in kept] == wanted
    names = [f"{TOP}/{i:03}.md" for i in range(40)]
    put(typed, dict.fromkeys(names, "x"))
    seen = []
    for entry in typed.glob("???.md", TOP, page_size=1):
        seen.append(entry.uri)
        typed.delete(entry.uri)
    assert seen == names


BAD = (r"(?=a)", r"(?<!a)b", r"(a)\1", "(", "a{1001}", "((a{100}){100}){100}", "")


@pytest.mark.parametrize("pattern", BAD)
def test_a_wrong_pattern_is_named(typed: Client, pattern: str) -> None:
    """A pattern that RE2 refuses is INVALID_ARGUMENT at `pattern`."""
    put(typed, {f"{TOP}/a.md": "a"})
    with pytest.raises(InvalidField) as caught:
        next(typed.grep(pattern))
    assert [one.field for one in caught.value.field_violations] == ["pattern"]


def test_wrong_fields_are_named(stubs: Stubs, typed: Client) -> None:
    """Globs, sizes, tokens and targets that are wrong are named."""
    put(typed, {f"{TOP}/a.md": "a"})
    other = base64.urlsafe_b64encode(b"0:0:viking://user/memories/a.md").decode()
    wrong: list[tuple[str, str, dict[str, Any]]] = [
        ("Grep", "glob", {"glob": "x" * 1025}),
        ("Grep", "pattern", {"pattern": "x" * 20_000}),
        ("Grep", "page_token", {"page_token": other}),
        ("Grep", "page_token", {"page_token": "?"}),
        ("Grep", "target_uri", {"target_uri": "resources"}),
        ("Glob", "pattern", {"pattern": ""}),
        ("Glob", "pattern", {"pattern": "x" * 20_000}),
        ("Glob", "page_token", {"page_token": "?"}),
        ("Glob", "target_uri", {"target_uri": f"{TOP}/a.md"}),
    ]
    for name, field, values in wrong:
        request = getattr(contexts_pb2, f"{name}Request")(
            **{"pattern": "a", "target_uri": TOP} | values
        )
        with pytest.raises(grpc.RpcError) as caught:
            getattr(stubs.contexts, name)(request)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, values
        assert field in error.details(), (values, error.details())
    for target in (f"{TOP}/missing", "viking://user/memories"):
        with pytest.raises(NotFound):
            next(typed.grep("a", target))
        with pytest.raises(NotFound):
            next(typed.glob("*", target))


def test_text_that_is_not_utf8_is_refused(daemon: str, typed: Client) -> None:
    """A pattern of bytes that are not UTF-8 is INVALID_ARGUMENT."""
    put(typed, {f"{TOP}/a.md": "a"})
    with grpc.insecure_channel(daemon) as channel:
        for name in ("Grep", "Glob"):
            call = channel.unary_unary(f"/viking.retrieval.v1.Contexts/{name}")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\x0a\x02\xff\xfe")
            error: Any = caught.value
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_no_pattern_takes_more_than_linear_time(typed: Client) -> None:
    """A pattern that keeps a backtracking search busy for years ends within the deadline."""
    put(typed, {f"{TOP}/a.md": "a" * 500_000 + "b"})
    for pattern in ("(a+)+$", "(a*)*c", "(a|aa)+$", "(.*)(.*)(.*)(.*)(.*)x"):
        assert not list(typed.grep(pattern, TOP)), pattern


def test_a_key_searches_what_it_may_read(tmp_path: Path) -> None:
    """Lines and paths of hidden files are not there, and a hidden target is NOT_FOUND."""
    with fort(tmp_path) as target:
        for name, hidden_too in (("ana", False), ("bob", True)):
            found = target.stubs.contexts.Grep(
                contexts_pb2.GrepRequest(pattern="oolong"), metadata=target.metadata(name)
            )
            uris = {match.uri for match in found.matches}
            assert (HIDDEN in uris, SHARED in uris) == (hidden_too, True)
            paths = target.stubs.contexts.Glob(
                contexts_pb2.GlobRequest(pattern="**"), metadata=target.metadata(name)
            )
            assert (HIDDEN in {entry.uri for entry in paths.entries}) == hidden_too
        missing = "viking://users/bux/memories"
        for method, kind in (
            ("Grep", contexts_pb2.GrepRequest),
            ("Glob", contexts_pb2.GlobRequest),
        ):
            hidden = target.tries(
                "ana", "contexts", method, kind(pattern="a", target_uri="viking://users/bob")
            )
            gone = target.tries("ana", "contexts", method, kind(pattern="a", target_uri=missing))
            assert hidden[0] == gone[0] == "NOT_FOUND"
