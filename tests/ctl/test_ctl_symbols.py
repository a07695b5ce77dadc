"""The names in files with their lines: vikingctl symbols, and `symbols` of the clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from vikingd.client import AsyncClient, Client, ClientError, Draft
from vikingd.client.messages import MessageClient
from vikingd.ingest.code import grammars, outline
from vikingd.system.install_command import install_command

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/app"
CODE, GUIDE, NOTES, TABLE = (
    f"{TOP}/client.py",
    f"{TOP}/guide.md",
    f"{TOP}/notes.rst",
    f"{TOP}/a.csv",
)
PYTHON = "import ssl\r\n\r\n\r\nclass Client:\r\n    def get(self, 茶):\r\n        return 茶\r\n"
MARKDOWN = "---\ntitle: x\n---\n# Guide\n\nText.\n\n## Install\n\nRun it.\n\n\n# Next\n"
RST = "=====\nNotes\n=====\n\nOne.\n\nTwo\n---\n\nText.\n\n====\nLast\n====\n\nEnd.\n"
SHOWN = f"""\
{CODE}:4-6  class  Client  class Client
{CODE}:5-6  function  Client > get  def get(self, 茶)
{GUIDE}:4-10  heading  Guide
{GUIDE}:8-10  heading  Guide > Install
{GUIDE}:13  heading  Next
{NOTES}:2-10  heading  Notes
{NOTES}:7-10  heading  Notes > Two
{NOTES}:13-16  heading  Last
"""
LINES = ["\t".join([*line.split("  "), ""][:4]) + "\n" for line in SHOWN.splitlines()]
"""The same with four fields; a heading has no signature."""


@pytest.fixture(autouse=True)
def _files(client: MessageClient) -> None:
    """Fill the tree."""
    files = {CODE: PYTHON, GUIDE: MARKDOWN, NOTES: RST, TABLE: "a,b\n1,2\n"}
    client.put([Draft(uri, content=content) for uri, content in files.items()])


def test_each_name_is_a_line(ctl: Ctl) -> None:
    """A line is URI:LINES, kind, names and signature; a directory gives its files in order."""
    assert ctl("symbols", TOP) == (0, "".join(LINES), "")
    assert ctl("symbols", CODE)[1] == "".join(LINES[:2])
    assert (
        ctl("get", CODE, "--lines", "5-6")[1] == "    def get(self, 茶):\r\n        return 茶\r\n"
    )


def test_a_limit_is_told(ctl: Ctl) -> None:
    """What is left out is told on stderr, and in the JSON."""
    code, out, err = ctl("symbols", TOP, "--limit", "3")
    assert (code, out) == (0, "".join(LINES[:3]))
    assert "there are more" in err
    code, out, err = ctl("symbols", TOP, "--max-files", "2")
    assert (code, out) == (0, "".join(LINES[:5]))
    assert "there are more" in err
    assert "1 more" in ctl("symbols", CODE, "-n", "1")[2]
    assert json.loads(ctl("symbols", CODE, "-n", "1", "--json")[1])["note"]
    assert "has no outline" in ctl("symbols", TABLE)[2]


def test_the_forms_for_programs_have_all_fields(ctl: Ctl) -> None:
    """JSON has the fields of each symbol, JSON lines one a line, and URIs the files."""
    found = json.loads(ctl("symbols", CODE, "--json")[1])
    assert found["files"] == 1
    assert found["symbols"][1] == {
        "uri": CODE,
        "name": "get",
        "kind": "function",
        "path": ["Client"],
        "signature": "def get(self, 茶)",
        "firstLine": 5,
        "lastLine": 6,
    }
    lines = [json.loads(line) for line in ctl("symbols", CODE, "-o", "jsonl")[1].splitlines()]
    assert lines == found["symbols"]
    assert ctl("symbols", TOP, "-o", "uri")[1] == f"{CODE}\n{GUIDE}\n{NOTES}\n"
    assert ctl("symbols", f"{TOP}/none")[0] == 4


def test_both_clients_have_the_same_symbols(daemon: str) -> None:
    """The awaited method gives the same as the other one, also of a directory in pages."""

    async def awaited() -> list[str]:
        async with AsyncClient(daemon) as client:
            return [str(one) for one in await client.symbols(TOP)]

    with Client(daemon) as client:
        found = client.symbols(TOP)
    assert asyncio.run(awaited()) == [str(one) for one in found] == SHOWN.splitlines()
    assert found.files == 3
    assert found[1].place == f"{CODE}:5-6"
    assert found.to_dicts()[1]["first_line"] == 5
    assert "8 results" in repr(found)


def test_a_missing_grammar_is_told(daemon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without grammars Markdown is read, and the error for code says how to install them."""
    monkeypatch.setattr(grammars, "language_is_there", lambda _: False)
    monkeypatch.setattr(outline, "language_is_there", lambda _: False)
    with Client(daemon) as client:
        with pytest.raises(ClientError) as raised:
            client.symbols(CODE)
        assert raised.value.reason == "GRAMMAR_NOT_INSTALLED"
        assert install_command("code") in raised.value.message
        found = client.symbols(TOP)
        assert "left out: 1 file:" in found.note
        assert {one.uri for one in found} == {GUIDE, NOTES}
