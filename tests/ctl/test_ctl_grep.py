"""The commands grep and glob of vikingctl."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest
from google.protobuf.json_format import ParseDict

from tests.vikingctl import on_a_terminal
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.pb import contexts_pb2

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/notes"
SILENT = "SILENT"
"""The address of a socket that never answers."""


@pytest.fixture(autouse=True)
def _notes(client: MessageClient) -> None:
    """Fill the tree."""
    client.put(
        [
            Draft(f"{TOP}/tea.md", content="# Tea\r\n\r\nOolong:\t90 degrees\r\noolong again"),
            Draft(f"{TOP}/more/long.txt", content=f"{'x' * 400} oolong {'y' * 400}"),
            Draft(f"{TOP}/more", is_directory=True, abstract="Oolong and others"),
            Draft("viking://user/memories/m.md", content="- likes oolong: a.b"),
        ]
    )


def test_lines_are_printed_as_grep_prints_them(ctl: Ctl) -> None:
    """A line is URI:LINE:TEXT; what is left out of a long line has an ellipsis."""
    shown = [
        f"{TOP}/more/long.txt:1:…{'x' * 99} oolong {'y' * 393}…",
        f"{TOP}/tea.md:4:oolong again",
        "viking://user/memories/m.md:1:- likes oolong: a.b",
    ]
    assert ctl("grep", "oolong") == (0, "\n".join(shown) + "\n", "")
    assert ctl("grep", "oolong", TOP, "--limit", "1")[1] == f"{shown[0]}\n"
    assert ctl("grep", "-i", "^oolong", TOP)[1] == (
        f"{TOP}/tea.md:3:Oolong:\t90 degrees\n{shown[1]}\n"
    )
    assert ctl("grep", "oolong", "--type", "memory")[1] == f"{shown[2]}\n"
    assert ctl("grep", "oolong", "--glob", "*.md")[1] == f"{shown[1]}\n{shown[2]}\n"
    assert ctl("grep", "-F", "a.b")[1] == f"{shown[2]}\n"
    assert ctl("grep", "Oolong", "--abstracts", f"{TOP}/more")[1] == (
        f"{TOP}/more:abstract:1:Oolong and others\n"
    )


def test_paths_are_printed_line_by_line(ctl: Ctl) -> None:
    """A directory has a slash at its end."""
    assert ctl("glob", "**", TOP)[1] == f"{TOP}/more/\n{TOP}/more/long.txt\n{TOP}/tea.md\n"
    assert ctl("glob", "**", TOP, "--kind", "file", "--limit", "1")[1] == f"{TOP}/more/long.txt\n"
    assert ctl("glob", "**/m*", "--kind", "directory")[1] == (
        f"{TOP}/more/\nviking://user/memories/\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["grep", "oolong"], 0),
        (["grep", "coffee"], 1),
        (["grep", "coffee", "--json"], 1),
        (["glob", "*.md"], 1),
        (["glob", "*.md", "--json"], 1),
        (["glob", "**/*.md"], 0),
        (["grep", "(?=a)"], 2),
        (["glob", "a**"], 2),
        (["glob", "*", f"{TOP}/tea.md"], 2),
        (["grep"], 2),
        (["grep", "a", f"{TOP}/none"], 4),
        (["glob", "*", f"{TOP}/none"], 4),
        (["grep", "a", "--address", "127.0.0.1:1"], 3),
        (["grep", "a", "--address", SILENT, "--timeout", "0.1"], 6),
        (["glob", "*", "--address", SILENT, "--timeout", "0.1"], 6),
        (["ls", "--address", SILENT, "--timeout", "0.1"], 1),
    ],
)
def test_exit_codes_tell_nothing_found_from_a_failure(
    ctl: Ctl, arguments: list[str], expected: int
) -> None:
    """1 means that nothing matches; a failure without a code of its own is 6."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f"127.0.0.1:{silent.getsockname()[1]}"
        code, out, err = ctl(*(there if each == SILENT else each for each in arguments))
    assert code == expected
    assert bool(err) == (expected > 1 or arguments[0] == "ls")
    assert bool(out) == (expected == 0 or (expected == 1 and "--json" in arguments))


def test_json_has_all_fields(ctl: Ctl) -> None:
    """The JSON has the messages of the reply, zeros included."""
    [match] = json.loads(ctl("--json", "grep", "Tea")[1])["matches"]
    assert set(match) == {field.json_name for field in contexts_pb2.GrepMatch.DESCRIPTOR.fields}
    assert ParseDict(match, contexts_pb2.GrepMatch()).text == "# Tea"
    found = json.loads(ctl("glob", "**/tea.md", "--json")[1])
    assert ParseDict(found, contexts_pb2.GlobResponse()).entries[0].uri == f"{TOP}/tea.md"


def test_a_terminal_has_colours(daemon: str) -> None:
    """On a terminal the match is bold and red, and a long line is not wrapped."""
    arguments = ["--address", daemon, "grep", "oolong", TOP]
    lines = on_a_terminal(arguments, 80, TERM="xterm-256color").splitlines()
    assert len(lines) == 2
    assert all("\x1b[1;31moolong\x1b[0m" in line for line in lines)
    assert f"\x1b[35m{TOP}/tea.md\x1b[0m" in lines[1]
