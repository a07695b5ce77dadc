"""The forms of vikingctl's output, its quiet mode, its variables, health, version, completion."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from google.protobuf.json_format import ParseDict

import vikingd
from tests.daemons import serving
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl.main import _wants_structure
from vikingd.ctl.output import Form
from vikingd.pb import retrieval_pb2

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/notes"
TEA, CAKE = f"{TOP}/tea.md", f"{TOP}/cake.md"


@pytest.fixture(autouse=True)
def _notes(client: MessageClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the tree, and let the environment choose nothing."""
    for variable in ("OUTPUT", "QUIET", "TIMEOUT", "TRUST_NETWORK"):
        monkeypatch.delenv(f"VIKINGCTL_{variable}", raising=False)
    client.put(
        [
            Draft(TEA, content="Oolong tea, 90 degrees.\nOolong again."),
            Draft(CAKE, content="A cake for the oolong."),
            Draft("viking://user/memories/m.md", content="- likes oolong"),
        ]
    )


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "arguments",
    [
        ["find", "oolong"],
        ["search", "oolong", "--quick"],
        ["retrieve", "oolong", "--mode", "keyword"],
        ["recall", "oolong", "--search", "--no-touch"],
        ["ls", TOP],
        ["tree", TOP],
        ["glob", "**"],
        ["get", TEA],
        ["forget", "--below-salience", "1", "--global", "--dry-run"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_each_form_has_the_same_results(ctl: Ctl, arguments: list[str]) -> None:
    """YAML has the fields of JSON; JSON lines and URIs have a line for each result."""
    code, out, err = ctl(*arguments, "-o", "json")
    assert (code, err) == (0, "")
    whole = json.loads(out)
    told = yaml.safe_load(ctl(*arguments, "-o", "yaml")[1])
    assert told.keys() == whole.keys()
    assert [str(told[key])[:20] for key in told] == [str(whole[key])[:20] for key in whole]
    uris = ctl(*arguments, "-o", "uri")[1].splitlines()
    lines = [json.loads(line) for line in ctl(*arguments, "-o", "jsonl")[1].splitlines()]
    assert [line["uri"] for line in lines] == uris
    parts = [one for value in whole.values() if isinstance(value, list) for one in value]
    parts += [value for value in whole.values() if isinstance(value, dict)]
    wanted = [part for part in parts if isinstance(part, dict) and "uri" in part]
    assert sorted(uris) == sorted(part["uri"] for part in wanted)
    assert uris
    if "score" in lines[0]:
        scores = [line["score"] for line in lines]
        assert scores == sorted(scores, reverse=True)


def test_lines_of_grep_have_all_forms(ctl: Ctl) -> None:
    """JSON lines have each match, and a URI stands once for all lines of its file."""
    assert ctl("grep", "-i", "oolong", TOP, "-o", "uri")[1] == f"{CAKE}\n{TEA}\n"
    lines = [json.loads(x) for x in ctl("grep", "-i", "oolong", TOP, "-o", "jsonl")[1].splitlines()]
    assert [(line["uri"], line["line"]) for line in lines] == [(CAKE, 1), (TEA, 1), (TEA, 2)]
    assert yaml.safe_load(ctl("grep", "-i", "oolong", TOP, "-o", "yaml")[1]) == {"matches": lines}
    assert ctl("grep", "nothing", TOP, "-o", "jsonl")[:2] == (1, "")


def test_a_command_without_uris_refuses_before_it_writes(ctl: Ctl) -> None:
    """-o uri of a command whose results have no URIs is an error, and nothing is written."""
    new = f"{TOP}/new.md"
    code, out, err = ctl("put", new, "--content", "new", "-o", "uri")
    assert (code, out) == (2, "")
    assert "the results of this command have no URIs" in flat(err)
    assert ctl("get", new)[0] == 4


def test_a_reply_without_results_is_one_line_of_json(ctl: Ctl) -> None:
    """JSON lines of other commands are their whole reply."""
    [line] = ctl("stats", "-o", "jsonl")[1].splitlines()
    assert json.loads(line)["version"] == vikingd.__version__
    reply = json.loads(ctl("--json", "find", "oolong")[1])
    assert ParseDict(reply, retrieval_pb2.FindResponse()).total == 3


def test_options_exclude_each_other_and_the_later_one_counts(ctl: Ctl) -> None:
    """--json and another form are an error; a form after the command hides the one before it."""
    code, _, err = ctl("ls", TOP, "--json", "-o", "yaml")
    assert code == 2
    assert "--json and -o yaml exclude each other" in flat(err)
    assert ctl("--json", "ls", TOP, "-o", "uri")[1] == f"{CAKE}\n{TEA}\n"
    assert json.loads(ctl("-o", "uri", "ls", TOP, "--json")[1])["contexts"]


def test_errors_have_the_form_of_the_output(ctl: Ctl) -> None:
    """Structured forms have errors as JSON; the others have text."""
    for form in Form:
        code, out, err = ctl("get", f"{TOP}/none.md", "-o", form)
        assert (code, out) == (4, "")
        if form in (Form.TEXT, Form.URI):
            assert err.startswith("error: ")
        else:
            assert json.loads(err)["reason"] == "NOT_FOUND"


def test_quiet_leaves_out_what_is_no_result(ctl: Ctl) -> None:
    """-q drops footers and notes; results, warnings and errors stay."""
    _, out, err = ctl("find", "oolong")
    assert "3 results" in err
    assert ctl("find", "oolong", "-q") == (0, out, "")
    assert all(uri in out for uri in (TEA, CAKE))
    assert ctl("context", "oolong")[2]
    assert ctl("-q", "context", "oolong")[2] == ""
    assert "error" in ctl("-q", "get", f"{TOP}/none.md")[2]


def test_quiet_tells_what_failed_in_a_file(ctl: Ctl, tmp_path: Path) -> None:
    """An unreadable file is told with -q too."""
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    err = ctl("import", str(tmp_path), f"{TOP}/more", "-q")[2]
    assert "not imported: 1" in err
    assert "picture.png" in err


@pytest.mark.parametrize("command", ["find", "search", "retrieve", "recall", "ls", "tree", "glob"])
def test_n_limits_the_results(ctl: Ctl, command: str) -> None:
    """-n is the number of results for all commands that have several."""
    told = [TOP] if command in ("ls", "tree") else ["**" if command == "glob" else "oolong"]
    more = ["--search"] if command == "recall" else []
    assert len(ctl(command, *told, *more, "-n", "1", "-o", "uri")[1].splitlines()) == 1


def flat(error: str) -> str:
    """Return the text of an error of usage without its frame."""
    return " ".join(error.replace("│", " ").split())


def test_a_variable_sets_the_form(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is an option that the command line overrules; a wrong one is told."""
    monkeypatch.setenv("VIKINGCTL_OUTPUT", "uri")
    assert ctl("ls", TOP)[1] == f"{CAKE}\n{TEA}\n"
    assert json.loads(ctl("ls", TOP, "--json")[1])["contexts"]
    monkeypatch.setenv("VIKINGCTL_OUTPUT", "xml")
    assert "VIKINGCTL_OUTPUT is 'xml', not one of" in flat(ctl("ls")[2])


@pytest.mark.deep
def test_variables_set_options(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable is an option that the command line overrules; a wrong one is told."""
    monkeypatch.setenv("VIKINGCTL_OUTPUT", "uri")
    assert ctl("ls", TOP)[1] == f"{CAKE}\n{TEA}\n"
    assert json.loads(ctl("ls", TOP, "--json")[1])["contexts"]
    monkeypatch.setenv("VIKINGCTL_OUTPUT", "xml")
    assert "VIKINGCTL_OUTPUT is 'xml', not one of text, json, jsonl, yaml, uri" in flat(
        ctl("ls")[2]
    )
    monkeypatch.delenv("VIKINGCTL_OUTPUT")
    monkeypatch.setenv("VIKINGCTL_QUIET", "1")
    assert "3 results" not in ctl("find", "oolong")[2]
    monkeypatch.setenv("VIKINGCTL_QUIET", "maybe")
    assert "VIKINGCTL_QUIET is 'maybe', not 1 or 0" in flat(ctl("ls")[2])
    monkeypatch.delenv("VIKINGCTL_QUIET")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = ("--address", f"127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("VIKINGCTL_TIMEOUT", "0.1")
        assert "gave no answer in time" in ctl("ls", *there)[2]
    monkeypatch.setenv("VIKINGCTL_TIMEOUT", "soon")
    assert "VIKINGCTL_TIMEOUT is 'soon'" in flat(ctl("ls")[2])
    monkeypatch.delenv("VIKINGCTL_TIMEOUT")
    far = ("--address", "192.0.2.1:1", "--key", "vk_x", "--timeout", "0.1")
    assert "plain text" in flat(ctl("ls", *far)[2])
    monkeypatch.setenv("VIKINGCTL_TRUST_NETWORK", "1")
    assert "plain text" not in flat(ctl("ls", *far)[2])


def test_version_has_both_sides(ctl: Ctl) -> None:
    """The versions of the program and of the daemon are told."""
    assert ctl("version")[1] == f"vikingctl\t{vikingd.__version__}\ndaemon\t{vikingd.__version__}\n"
    both = {"vikingctl": vikingd.__version__, "daemon": vikingd.__version__}
    assert json.loads(ctl("version", "--json")[1]) == both
    assert ctl("version", "--address", "127.0.0.1:1")[0] == 3


@pytest.fixture(scope="module")
def without_embedder() -> Iterator[str]:
    """Yield the address of a daemon without an embedder."""
    with serving("--provider", "none") as address:
        yield address


def test_health_is_told_without_a_key(ctl: Ctl, without_embedder: str) -> None:
    """A daemon that serves is 0, one that is not there is 3; -q prints nothing."""
    code, out, err = ctl("health", "--address", without_embedder)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "daemon\tserving"
    assert ctl("health", "-q", "--address", without_embedder) == (0, "", "")
    assert json.loads(ctl("health", "--json", "--address", without_embedder)[1])["daemon"] == (
        "SERVING"
    )
    assert ctl("health", "--address", "127.0.0.1:1")[0] == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_a_script(ctl: Ctl, shell: str) -> None:
    """Each shell has its script, without a daemon."""
    code, out, err = ctl("completion", shell)
    assert (code, err) == (0, "")
    assert "_VIKINGCTL_COMPLETE" in out


def test_bash_completes_a_command(offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script of bash asks the program, which completes a command."""
    for name, value in {
        "_VIKINGCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "vikingctl rem",
        "COMP_CWORD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert "remember" in offline_ctl()[1].split()


@pytest.mark.deep
def test_bash_completes_commands_and_values() -> None:
    """The script of bash completes a command, an option and the value of an option."""
    ctl = str(Path(sys.executable).with_name("vikingctl"))
    environment = os.environ | {"_VIKINGCTL_COMPLETE": "complete_bash"}
    for words, wanted in (
        ("vikingctl rem", "remember"),
        ("vikingctl find --tar", "--target"),
        ("vikingctl ls -o ya", "yaml"),
    ):
        more = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        done = subprocess.run(ctl, env=environment | more, capture_output=True, text=True)
        assert wanted in done.stdout.split(), words


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["ls", "--json"], True),
        (["ls", "-o", "yaml"], True),
        (["-ojsonl", "ls"], True),
        (["--output=json"], True),
        (["ls", "-o", "uri"], False),
        (["find", "yaml", "-o", "text"], False),
        (["ls", "-o"], False),
    ],
)
def test_errors_of_usage_are_json_for_programs(arguments: list[str], expected: bool) -> None:
    """The form is known even if the arguments are wrong."""
    assert _wants_structure(arguments) == expected
