"""Links, length and code blocks of the documents."""

from __future__ import annotations

import io
import re
import shlex
import sys
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

import vikingd
from tests.daemons import serving
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client.messages import MessageClient
from vikingd.config import load
from vikingd.ctl import main
from vikingd.daemon import server

ROOT = Path(vikingd.__file__).parents[1]
DOCUMENTS = sorted(
    path
    for path in (
        ROOT / "README.md",
        ROOT / "benchmarks" / "RESULTS.md",
        *ROOT.glob("*/README.md"),
        *ROOT.glob("vikingd/*/README.md"),
    )
    if not path.parent.name.startswith(".")
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
SAME_COMMAND = re.compile(r"(?!&|\||;|[0-9]*>)").match
PROGRAMS = {
    "vikingctl": typer.main.get_command(main.app),
    "vikingd": typer.main.get_command(server.app),
}


def blocks(*languages: str) -> list[Any]:
    """Return the code blocks of all documents in these languages, as test parameters."""
    return [
        pytest.param(found[2], id=f"{path.relative_to(ROOT).parent}-{number}")
        for path in DOCUMENTS
        for number, found in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8")))
        if found[1] in languages
    ]


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_first_page_is_short() -> None:
    """The README has at most 160 lines."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Each relative link names an existing file and, if it has an anchor, an existing heading."""
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def answered(request: Request) -> Reply:
    """Answer a call of OpenAI's Responses API."""
    assert request.path.endswith("/responses")
    text = f"Model {request.json['model']} says tea."
    content = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "type": "message",
        "id": "m1",
        "status": "completed",
        "role": "assistant",
        "content": [content],
    }
    response = {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    return Reply(response)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "code",
    # Those of the adapters have models of their own, see test_integrations_guide.py.
    [block for block in blocks("python") if "vikingd.integrations" not in block.values[0]],
)
def test_python_blocks_run(
    code: str,
    daemon: str,
    client: MessageClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each Python block runs against a daemon and a scripted model."""
    del client  # the fixture has emptied the tree
    if "create_key(" in code:  # then each call needs a key, so others have another daemon
        with serving("--provider", "none") as daemon:
            run_block(code, daemon, tmp_path, monkeypatch)
    else:
        run_block(code, daemon, tmp_path, monkeypatch)


def run_block(code: str, daemon: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a Python block with the address of a daemon in place of the default one."""
    code = code.replace('Client("127.0.0.1:7716")', f'Client("{daemon}")')
    code = code.replace('vikingd.open("./data")', 'vikingd.open("./data", provider="none")')
    monkeypatch.chdir(directory)
    code = re.sub(r'\bClient\((?!")', f'Client("{daemon}", ', code)
    with ScriptedServer(answered) as model:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setattr(sys, "stdin", io.StringIO("I drink tea.\n\n"))
        exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})
        assert ("OpenAI" in code) == bool(model.requests)


@pytest.mark.parametrize("code", blocks("sh"))
def test_shell_blocks_name_commands_and_options_that_exist(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of vikingctl or vikingd in a shell block parses."""
    (tmp_path / "docs").mkdir()
    said = '{"messages": []}'
    (tmp_path / "session.json").write_text(said)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
    monkeypatch.chdir(tmp_path)
    code = re.sub(r"\$\([^)]*\)", "output", code.replace("\\\n", ""))
    for line in code.splitlines():
        words = list(shlex.split(line, comments=True))
        for at, word in enumerate(words):
            command = PROGRAMS.get(word)
            if command is not None and words[at - 1] != "-m":
                arguments = list(takewhile(SAME_COMMAND, words[at + 1 :]))
                while isinstance(command, TyperGroup):
                    word, *arguments = arguments
                    command = command.commands[word]
                with command.make_context(word, arguments, resilient_parsing=False) as context:
                    assert not context.args


@pytest.mark.parametrize("text", blocks("toml"))
def test_settings_are_those_of_the_configuration(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block of TOML is a configuration that loads."""
    for name in re.findall(r'_env = "(\w+)"', text):
        monkeypatch.setenv(name, "a-secret-of-some-length")
    (tmp_path / "vikingd.toml").write_text(text, encoding="utf-8")
    origins = load(tmp_path / "vikingd.toml").origins
    for name in tomllib.loads(text):
        assert any(key == name or key.startswith(f"{name}.") for key in origins), name
