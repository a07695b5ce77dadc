"""The lines of passages as vikingctl shows them, and the lines that `get --lines` prints."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from vikingd.client import Draft, Passage
from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]
FILE = "viking://resources/code/client.py"
CONTENT = "import ssl\r\n\r\n\r\nclass Client:\r\n    茶 = 1\r\n\r\ndef request(): ...\r\n"


@pytest.fixture(autouse=True)
def _file(client: MessageClient) -> None:
    """Write a file of two passages, on the lines 4 to 5 and 7."""
    parts = "class Client:\r\n    茶 = 1", "def request(): ...\r\n"
    starts = [CONTENT.index(part) for part in parts]
    cut = [Passage("", at, at + len(part)) for at, part in zip(starts, parts, strict=True)]
    client.put([Draft(FILE, content=CONTENT, abstract="A module.", passages=tuple(cut))])


def test_find_and_retrieve_show_the_lines_of_a_passage(ctl: Ctl) -> None:
    """The lines are a field FIRST-LAST, in JSON two fields; an abstract has no lines."""
    assert f"\t{FILE}\t4-5\t" in ctl("find", "Client")[1]
    assert f"\t{FILE}\t7\t2\t" in ctl("retrieve", "request", "--mode", "keyword")[1]
    assert f"\t{FILE}\t\t\t" in ctl("retrieve", "module", "--mode", "keyword")[1]
    [found] = json.loads(ctl("find", "Client", "-o", "json")[1])["resources"]
    best = found["passages"][0]
    assert (best["firstLine"], best["lastLine"]) == (4, 5)
    items = json.loads(ctl("retrieve", "request", "--mode", "keyword", "-o", "json")[1])["items"]
    assert (items[0]["firstLine"], items[0]["lastLine"]) == (7, 7)


def test_grep_and_find_name_the_same_line(ctl: Ctl) -> None:
    """A line that grep names is the one that find names and that `get --lines` prints."""
    assert ctl("grep", "def request")[1] == f"{FILE}:7:def request(): ...\n"
    assert ctl("get", FILE, "--lines", "7")[1] == "def request(): ...\r\n"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("4:5", "class Client:\r\n    茶 = 1\r\n"),
        ("4-5", "class Client:\r\n    茶 = 1\r\n"),
        (":1", "import ssl\r\n"),
        ("6:", "\r\ndef request(): ...\r\n"),
        ("1:99", CONTENT),
    ],
)
def test_get_prints_lines_as_they_are(ctl: Ctl, given: str, shown: str) -> None:
    """The lines keep their ends, and nothing else is printed."""
    assert ctl("get", FILE, "--lines", given) == (0, shown, "")


def test_lines_behind_a_uri_are_those_that_find_shows(ctl: Ctl, client: MessageClient) -> None:
    """`get URI:4-5` prints the lines; a file whose name ends so is printed whole."""
    assert ctl("get", f"{FILE}:4-5") == (0, "class Client:\r\n    茶 = 1\r\n", "")
    assert ctl("get", f"{FILE}:7") == (0, "def request(): ...\r\n", "")
    client.put([Draft(f"{FILE}:7", content="its own file")])
    assert ctl("get", f"{FILE}:7") == (0, "its own file", "")
    code, _, said = ctl("get", f"{FILE}:99")
    assert (code, "there are 7 lines" in said) == (2, True)
    assert ctl("get", f"{FILE}.old:4")[0] == 4


def test_lines_as_json(ctl: Ctl) -> None:
    """As JSON the lines come with the numbers of the first and the last of them."""
    for form in ("json", "jsonl", "yaml"):
        code, out, _ = ctl("get", FILE, "--lines", "6:99", "-o", form)
        assert (code, "lastLine" in out) == (0, True)
    assert json.loads(ctl("get", FILE, "--lines", "6:99", "-o", "json")[1]) == {
        "uri": FILE,
        "firstLine": 6,
        "lastLine": 7,
        "content": "\r\ndef request(): ...\r\n",
    }
    assert ctl("get", FILE, "--lines", "6", "-o", "uri") == (0, f"{FILE}\n", "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((FILE, "--lines", "8"), "begins with line 8, but there are 7 lines"),
        ((FILE, "--lines", "5:4"), "the last line is before the first"),
        ((FILE, "--lines", "0"), "the first line is 1"),
        ((FILE, "--lines", "x"), "type 12:40, 12:, :40 or 12"),
        (("viking://resources/code", "--lines", "1"), "is a directory, which has no lines"),
        ((FILE, "--lines", "1", "--content"), "exclude each other"),
    ],
)
def test_bad_lines_are_refused(ctl: Ctl, arguments: tuple[str, ...], why: str) -> None:
    """A range that cannot be shown is an error of usage that names the option."""
    code, out, error = ctl("get", *arguments)
    told = " ".join(error.replace("│", " ").split())
    assert (code, out, why in told, "--lines" in told) == (2, "", True, True), error
