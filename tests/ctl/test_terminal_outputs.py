"""The output of commands in a pipe and on terminals of three widths, against kept files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.ctl.terminal_outputs import DEEP, PIPE, QUICK, WIDTHS, filled, kept, printed

URI = re.compile(r"viking://\S+")
ANOTHER = "`python -m tests.ctl.terminal_outputs` writes the files again"


@pytest.fixture(scope="module")
def tree() -> Iterator[tuple[str, Path]]:
    """Yield the address of a daemon with the tree, and the file of a session."""
    with filled() as made:
        yield made


@pytest.mark.deep_after(20)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "command", [*QUICK, *(pytest.param(x, marks=pytest.mark.deep) for x in DEEP)]
)
def test_a_command_prints_what_is_kept(tree: tuple[str, Path], command: str, width: int) -> None:
    """Each command prints the kept text, in a pipe and on terminals."""
    address, session = tree
    now = printed(command, width, address, session).kept(command).rstrip("\n")
    assert now == kept(width)[command], ANOTHER


@pytest.mark.parametrize("width", WIDTHS)
def test_the_files_have_these_commands_alone(width: int) -> None:
    """No kept output is left of a command that is gone."""
    assert list(kept(width)) == [*QUICK, *DEEP]


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_a_line_is_wider_than_its_terminal_for_a_uri_alone(width: int) -> None:
    """Only URIs, commands that can be copied, and texts as they are stored may be too wide."""
    for command, text in kept(width).items():
        if command.startswith(("context", "grep", "help")) or "--help" in command:
            continue
        for line in text.splitlines()[1:]:
            first = URI.search(line)
            assert cell_len(line) <= width or (first and first.start() <= 60), (command, line)


def test_a_uri_is_whole_on_each_terminal() -> None:
    """The URIs of a result in a pipe stand unbroken on each terminal, unless a text is cut."""
    for command in QUICK[:2]:
        lines = kept(PIPE)[command].split("\n\n")[0].splitlines()[1:]
        uris = {line.split("\t")[2] for line in lines if line.count("\t") > 2}
        assert uris
        for width in WIDTHS[1:]:
            assert all(uri in kept(width)[command] for uri in uris), (command, width)


def test_a_pipe_has_one_record_a_line_without_padding() -> None:
    """No line of a pipe ends with spaces, and lines of one table have the same number of fields."""
    for command, text in kept(PIPE).items():
        out = text.split("--- stderr")[0]
        assert not re.search(r" +$", out, re.MULTILINE), command
        assert "\x1b" not in out
    for command in (QUICK[0], QUICK[4], QUICK[5], QUICK[6]):
        lines = kept(PIPE)[command].split("\n--- ")[0].splitlines()[1:]
        assert len({line.count("\t") for line in lines}) == 1, command
