"""Hidden characters: one table, and the same treatment at every door."""

from __future__ import annotations

import json
import subprocess
import unicodedata
from collections.abc import Iterator

import pytest
import yaml

from tests.commands import serve
from tests.mcp.mcp_helpers import run, text_of
from tests.store.store_helpers import file, opened, put
from tests.vikingctl import on_a_terminal, piped
from vikingd.client import Client, Document, InvalidField
from vikingd.ctl.output import Form, written
from vikingd.domain import hidden_characters
from vikingd.domain.text import clean, without_invisible
from vikingd.gateway.app import PAGE

HIDDEN = {
    "escape": "\x1b", "bell": "\x07", "NUL": "\x00", "delete": "\x7f", "C1": "\x9d",
    "right-to-left override": "\u202e", "isolate": "\u2067", "Arabic mark": "\u061c",
    "zero width space": "\u200b", "joiner": "\u200d", "non-joiner": "\u200c",
    "word joiner": "\u2060", "soft hyphen": "\xad", "byte order mark": "\ufeff",
    "filler": "\u3164", "half filler": "\uffa0", "jamo filler": "\u115f",
    "grapheme joiner": "\u034f", "selector 1": "\ufe00", "selector 16": "\ufe0f",
    "Han selector": "\U000e0100", "tag": "\U000e0041", "language tag": "\U000e0001",
    "line separator": "\u2028", "paragraph separator": "\u2029",
    "Mongolian selector": "\u180b", "annotation": "\ufff9", "musical": "\U0001d173",
}  # fmt: skip
"""Each is hidden between Latin letters."""

BELONGING = [
    "tab\tand\nlines\r\nof text", "é e\u0301 ü", "茶", "你好，世界", "ｆｕｌｌ",
    "می\u200cخواهم", "نمی\u200cدانم", "क्\u200dष", "ක්\u200dෂ", "അവന്\u200d ", "ন্\u200cন",
    "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "👩🏽\u200d🚀",
    "❤\ufe0f", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "☎\ufe0e",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "🇫🇷",
    "葛\U000e0100", "ᠠ\u180b",
]  # fmt: skip
IDLE = [
    "a\u200db", "می\u200c", "\u200cخواهم", "👨\u200d", "\u200d👨", "👨\u200d\u200d👩",
    "a\ufe0f", "❤\ufe0f\ufe0f",
    "🏴\U000e0067\U000e0062", "🏴\U000e0078\U000e0078\U000e007f", "\u200d", "क\u200d ",
    "葛\U000e0100\U000e0101",
]  # fmt: skip

OLD = "viking://resources/old\u202egpj\u200b.md"
"""A URI as stores of earlier versions may have."""
RENAMED = "viking://resources/oldgpj.md"
"""Its URI since the start of this version."""
MOVED = "viking://resources/moved\xad.md"
EVIL = "tea " + " ".join(f"{name}{one}." for name, one in HIDDEN.items() if one != "\0")


def test_the_table() -> None:
    """All control, format and default-ignorable characters are in it; printable ones are not."""
    for one in HIDDEN.values():
        assert hidden_characters.marked(f"a{one}b") == "a\ufffdb", ascii(one)
    for code in [*range(0x3000), *range(0xA000, 0xD800), *range(0xE000, 0x20000)]:
        one = chr(code)
        is_control = unicodedata.category(one) in ("Cc", "Zl", "Zp") and one not in "\t\n"
        is_visible = unicodedata.category(one)[0] in "LNPS" and not hidden_characters.first(
            f"a{one}b"
        )
        assert hidden_characters.first(f"a{one}b") or not is_control, ascii(one)
        if hidden_characters.first(f"a{one}b"):
            name = unicodedata.name(one, "")
            assert unicodedata.category(one)[0] in "CZM" or "FILLER" in name, ascii(one)
        else:
            assert is_visible or unicodedata.category(one)[0] in "MCZL"


@pytest.mark.parametrize("text", BELONGING, ids=ascii)
def test_what_belongs_to_a_text(text: str) -> None:
    """Joiners, selectors and tags that a script or an emoji needs are left alone."""
    assert hidden_characters.first(text) == ""
    assert hidden_characters.marked(text) == text


@pytest.mark.parametrize("text", IDLE, ids=ascii)
def test_idle_joiners_selectors_and_tags(text: str) -> None:
    """The same characters are hidden where nothing needs them."""
    assert "\ufffd" in hidden_characters.marked(text)
    assert len(hidden_characters.marked(text)) == len(text)


def test_the_page_has_the_table() -> None:
    """The module of the page is the one that the table makes."""
    assert (PAGE / "hidden.js").read_text(encoding="utf-8") == hidden_characters.javascript()


@pytest.mark.parametrize("name", HIDDEN)
def test_extracted_texts(name: str) -> None:
    """A text that Extract stores has no hidden character, and words stay apart."""
    assert hidden_characters.first(without_invisible(f"a{HIDDEN[name]}b")) == ""
    assert without_invisible("a\u2028b") == "a b"
    assert without_invisible("می\u200cخواهم") == "می\u200cخواهم"


@pytest.mark.parametrize("form", [Form.JSON, Form.JSONL, Form.YAML])
def test_structured_forms(form: Form) -> None:
    """JSON and YAML have escapes, and are read back as they were."""
    value = {f"k{EVIL}": [EVIL, *HIDDEN.values(), *BELONGING], "uri": OLD, "plain": "tea", "n": 1}
    made = written([value], form)
    assert hidden_characters.first(made) == ""
    read = yaml.safe_load(made) if form is Form.YAML else json.loads(made)
    assert read == value


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a daemon whose store has a context with the URI OLD."""
    path = tmp_path_factory.mktemp("old") / "store"
    path.mkdir()
    with opened(path, model="none", dimension=None) as store:
        put(store, file(OLD, EVIL), file(MOVED, EVIL))
    command = serve(path, "--provider", "none")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


@pytest.mark.parametrize("name", HIDDEN)
def test_new_uris(name: str, old: str) -> None:
    """A new URI with a hidden character is refused, and the error names the character."""
    uri = f"viking://resources/a{HIDDEN[name]}b.md"
    with Client(old) as client:
        client.put([Document("viking://resources/plain.md", "tea")])
        for call in (
            lambda: client.put([Document(uri, "tea")]),
            lambda: client.move("viking://resources/plain.md", uri),
            lambda: client.remember("Drinks tea.", "tasks", project=f"a{HIDDEN[name]}b"),
        ):
            with pytest.raises(InvalidField) as refused:
                call()
            code = f"U+{ord(HIDDEN[name]):04X}"
            assert code in str(refused.value) or "control character" in str(refused.value)
        client.put([Document("viking://resources/می\u200cخواهم 👨\u200d👩.md", "tea")])


def test_old_uris(old: str) -> None:
    """A context with such a URI from earlier has lost the characters; both URIs are of it."""
    with Client(old) as client:
        assert client.get(MOVED).content == EVIL
        listed = [one.uri for one in client.list("viking://resources")]
        assert MOVED not in listed
        assert "viking://resources/moved.md" in listed
        client.move(MOVED, "viking://resources/renamed.md")
        assert client.get("viking://resources/renamed.md").content == EVIL
        client.delete("viking://resources/renamed.md")


COMMANDS = [
    ["get", OLD], ["get", OLD, "--content"], ["ls", "viking://resources"], ["tree"],
    ["find", "tea"], ["grep", "tea"], ["glob", "**"], ["context", "tea"],
    *([command, *rest, "-o", form]
      for command, *rest in (["ls", "viking://resources"], ["find", "tea"], ["get", OLD])
      for form in ("json", "jsonl", "yaml", "uri")),
]  # fmt: skip


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_terminals(command: list[str], old: str) -> None:
    """On a terminal no form of any command prints a hidden character."""
    printed = on_a_terminal(["--address", old, *command], 4000, TERM="dumb", NO_COLOR="1")
    shown = printed.replace("\r\n", "\n")
    assert "old" in shown or "tea" in shown
    assert hidden_characters.first(shown) == ""


def test_pipes(old: str) -> None:
    """In a pipe, URIs and contents are exact, and JSON and YAML can be read back exactly."""

    def said(*arguments: str) -> str:
        return piped("--address", old, *arguments).decode()

    assert RENAMED in said("ls", "viking://resources", "-o", "uri").split("\n")
    assert said("get", OLD, "--content") == EVIL
    read = json.loads(said("get", OLD, "-o", "json"))["context"]
    assert (read["uri"], read["content"]) == (RENAMED, EVIL)
    assert yaml.safe_load(said("get", OLD, "-o", "yaml"))["context"] == read


def test_prompts(old: str) -> None:
    """BuildContext and the texts of MCP have U+FFFD for each hidden character."""
    with Client(old) as client:
        built = client.build_context(uris=[OLD], citation="uri")
    assert hidden_characters.first(built.text) == ""
    assert clean(EVIL).split()[-1] in built.text
    assert built.citations[0].uri == RENAMED

    async def test(model: object) -> None:
        for tool, arguments in (
            ("read", {"uri": OLD}),
            ("list", {"uri": "viking://resources"}),
            ("find", {"query": "tea"}),
            ("glob", {"pattern": "**"}),
            ("grep", {"pattern": "tea"}),
        ):
            text = text_of(await model.call_tool(tool, arguments))  # type: ignore[attr-defined]
            assert "old" in text
            assert hidden_characters.first(text) == ""

    run(test, old)
