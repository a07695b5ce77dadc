"""What vikingctl says of URIs that do not exist, and of moves that change a type."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from vikingd.client import Draft
from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/notes"


@pytest.fixture(autouse=True)
def _notes(client: MessageClient) -> None:
    client.put([Draft(f"{TOP}/tea.md", content="Oolong"), Draft(f"{TOP}/茶/一.md", content="乌龙")])


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (f"get {TOP}/te.md", f"did you mean {TOP}/tea.md?"),
        ("find x --target viking://resource/nots", f"did you mean {TOP}?"),
        ("find x --target viking://usr/x", "did you mean viking://user?"),
        (f"retrieve x --target {TOP}/Tea", f"did you mean {TOP}/tea.md?"),
        (f"ls {TOP}/茶/二/三", f"the nearest that exists is {TOP}/茶"),
        (f"get {TOP}/tea.md/x", f"the nearest that exists is {TOP}/tea.md"),
        ("rm viking://resources/zzz", "the nearest that exists is viking://resources"),
        ("ls viking://user/memories/x", ""),
        ("get viking://zzzzzz", ""),
    ],
)
def test_an_error_names_the_nearest_uri(ctl: Ctl, command: str, hint: str) -> None:
    """A slip in a name leads to the URI that exists; without one the error stands alone."""
    code, out, err = ctl(*command.split())
    assert (code, out) == (4, "")
    line = err.splitlines()[0]
    assert line.endswith(f"does not exist; {hint}" if hint else "does not exist")
    message = json.loads(ctl(*command.split(), "-o", "json")[2])["message"]
    assert line == f"error: {message}"


def test_a_move_that_changes_the_type_tells_it(ctl: Ctl) -> None:
    """Documents that become memories are told, with the way back; another move is not remarked."""
    memories = "viking://user/memories/notes"
    assert ctl("mv", TOP, f"{TOP}2")[2] == ""
    code, _, err = ctl("mv", f"{TOP}2", memories)
    assert (code, "memory now, not resource" in err) == (0, True)
    assert f"vikingctl mv {memories} {TOP}2" in err
    assert ctl("mv", memories, "viking://~/memories/x")[0] == 2
    assert ctl("mv", memories, "viking://users/ana/memories/x")[2] == ""
