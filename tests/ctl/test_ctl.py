"""The commands of vikingctl, against a real daemon."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import Parse

import vikingd
from tests.vikingctl import on_a_terminal, piped, started
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl import render
from vikingd.pb import admin_pb2, admin_pb2_grpc, contexts_pb2, retrieval_pb2
from vikingd.pb.contexts_pb2 import GetResponse
from vikingd.pb.retrieval_pb2 import FindResponse

PACKAGE = Path(vikingd.__file__).parent
PYPROJECT = PACKAGE.with_name("pyproject.toml")
Ctl = Callable[..., tuple[int, str, str]]


def test_a_bug_is_not_blamed_on_an_argument(monkeypatch: pytest.MonkeyPatch, ctl: Ctl) -> None:
    """A ValueError from a bug in a command is not reported as a usage error."""
    monkeypatch.setattr(render, "stats_table", lambda _: int("x"))
    with pytest.raises(ValueError, match="int"):
        ctl("stats")


@pytest.mark.usefixtures("client")
def test_a_context_is_written_read_and_removed(ctl: Ctl) -> None:
    """The commands put, get, ls, tree, link, mv, unlink and rm work on one context."""
    tea = "viking://resources/notes/tea.md"
    options = ("--content", "Oolong: 90 degrees.", "--title", "Tea", "--metadata", '{"year": 2024}')
    code, out, _ = ctl("put", tea, *options)
    assert (code, out.startswith(f"created {tea} at revision ")) == (0, True)
    assert ctl("put", tea, *options)[1].startswith("unchanged")
    ctl("put", "viking://resources/notes", "--directory", "--abstract", "What I drink.")
    code, out, _ = ctl("get", tea, "--details")
    assert (code, "Tea" in out, "year" in out, "19 characters" in out) == (0, True, True, True)
    assert ctl("get", tea)[1] == ctl("get", tea, "--content")[1] == "Oolong: 90 degrees."
    assert ctl("get", "viking://resources/notes")[1].startswith("tea.md\t")
    assert "tea.md" in ctl("ls", "viking://resources/notes")[1]
    assert "What I drink." in ctl("tree", "--depth", "2")[1]
    assert ctl("link", tea, "viking://resources/notes", "--reason", "part")[0] == 0
    assert "\tpart\n" in ctl("get", tea, "--details")[1]
    assert ctl("unlink", tea, "viking://resources/notes")[0] == 0
    assert "moved 2 contexts" in ctl("mv", "viking://resources/notes", "viking://resources/n")[1]
    assert "removed 2 contexts" in ctl("rm", "-r", "--yes", "viking://resources/n")[1]
    assert ctl("get", tea)[0] == 4


def test_put_takes_its_content_from_a_file_or_stdin(
    ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The put command reads its content from a file, or from stdin with `--file -`."""
    file = tmp_path / "note.txt"
    file.write_text("从文件来\n", encoding="utf-8")
    ctl("put", "viking://resources/a.txt", "--file", str(file))
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"from stdin\r\n")))
    ctl("put", "viking://resources/b.txt", "--file", "-")
    assert ctl("get", "viking://resources/a.txt", "--content")[1] == "从文件来\n"
    assert ctl("get", "viking://resources/b.txt", "--content")[1] == "from stdin\r\n"


@pytest.mark.usefixtures("client")
def test_every_reading_command_prints_one_json_object(ctl: Ctl) -> None:
    """Every reading command prints one JSON object with --json, including zero fields."""
    uri = "viking://resources/tea.md"
    assert Parse(ctl("put", uri, "--content", "Oolong", "--json")[1], contexts_pb2.PutResponse())
    found = Parse(ctl("--json", "find", "oolong", "--trace")[1], FindResponse())
    assert [match.uri for match in found.resources] == [uri]
    assert found.HasField("trace")
    assert Parse(ctl("get", uri, "--json")[1], GetResponse()).context.content == "Oolong"
    grep, glob = ["grep", "o+"], ["glob", "**"]
    for command in (["ls"], ["tree"], grep, glob, ["stats"], ["verify"], ["optimize"]):
        code, out, err = ctl(*command, "--json")
        assert (code, err) == (0, "")
        assert isinstance(json.loads(out), dict)
    assert json.loads(ctl("stats", "--json")[1])["embedder"]["backlog"] == "0"


@pytest.mark.usefixtures("client")
def test_find_passes_every_option_on(ctl: Ctl) -> None:
    """Target, type, limit, threshold, where, levels, alpha and method of find reach the daemon."""
    for name, year in (("a", 2023), ("b", 2024), ("c", 2025)):
        ctl(
            "put",
            f"viking://resources/{name}/tea.md",
            "--content",
            f"oolong tea {name}",
            "--metadata",
            json.dumps({"year": year}),
        )
    ctl("put", "viking://user/memories/tea.md", "--content", "likes oolong tea")

    def found(*options: str) -> set[str]:
        reply = json.loads(ctl("find", "oolong", "--json", *options)[1])
        return {match["uri"] for bucket in ("memories", "resources") for match in reply[bucket]}

    everything = found()
    assert len(everything) == 4
    assert found("--target", "viking://resources/a") == {"viking://resources/a/tea.md"}
    assert found("--type", "memory") == {"viking://user/memories/tea.md"}
    assert found("--type", "memory", "--type", "resource") == everything
    assert len(found("--limit", "2")) == 2
    assert found("--threshold", "1") == set()
    assert found("--where", '{"year": {"$gt": 2024}}') == {"viking://resources/c/tea.md"}
    assert found("--levels", "directories").isdisjoint(everything)
    for method in ("auto", "exhaustive", "best-first", "exact"):
        assert found("--method", method, "--alpha", "1") == everything


@pytest.mark.usefixtures("client")
def test_get_shows_metadata_as_they_were_given(ctl: Ctl) -> None:
    """Texts are shown as they are, numbers, lists and objects as JSON."""
    metadata = {"year": 2024, "tags": ["a", "茶"], "by": {"name": "Ada"}, "to": "Lyon"}
    ctl("put", "viking://resources/tea.md", "--content", "x", "--metadata", json.dumps(metadata))
    shown = ctl("get", "viking://resources/tea.md", "--details")[1]
    rows = dict(line.split("\t") for line in shown.splitlines())
    assert {key[9:]: value for key, value in rows.items() if key.startswith("metadata ")} == {
        "year": "2024",
        "tags": '["a", "茶"]',
        "by": '{"name": "Ada"}',
        "to": "Lyon",
    }


@pytest.mark.usefixtures("client")
def test_find_shows_a_table_and_with_trace_the_tree(ctl: Ctl) -> None:
    """The find command prints URIs and a footer; --trace and --timings add details."""
    ctl("put", "viking://resources/tea.md", "--content", "oolong")
    code, out, err = ctl("find", "oolong")
    assert (code, out) == (0, f"{out[:5]}\tresource\tviking://resources/tea.md\t1\toolong\t\n")
    assert "1 result · revision" in err
    assert "·dense" in ctl("find", "oolong", "--trace=full")[1]
    folded = ctl("find", "--trace", "oolong")[1]
    assert folded.startswith(out)
    assert ("which alone makes" in folded, "·dense" in folded) == (True, False)
    assert "--trace=full" in ctl("find", "oolong", "--trace=all")[2]
    assert "score " in ctl("find", "oolong", "--timings")[1].splitlines()[-1]
    assert "vikingctl import" not in ctl("find", "nothing of that kind")[2]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("command", ["find", "search", "retrieve", "context"])
def test_an_empty_store_tells_how_to_import(ctl: Ctl, command: str) -> None:
    """A search in a store without files names the command that brings files in."""
    code, out, err = ctl(
        command, "oolong", *(["--mode", "keyword"] if command == "retrieve" else [])
    )
    assert (code, out, "vikingctl import" in err) == (0, "", True)
    assert "vikingctl import" not in ctl(command, "oolong", "-q")[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["get", "viking://resources/none"], 4),
        (["get", "http://x"], 2),
        (["find", "x", "--limit", "0"], 2),
        (["find", "x", "--where", "[1]"], 2),
        (["find", "x", "--where", "{"], 2),
        (["find", "x", "--where", '{"a": 1' + "0" * 400 + "}"], 2),
        (["find", "x", "--where", '{"a":' * 5000 + "1" + "}" * 5000], 2),
        (["find", "x", "--where", '{"a":' * 60 + "1" + "}" * 60], 2),
        (["forget", "-5"], 2),
        (["forget", "99999999999999999999"], 2),
        (["recall", "x", "--max-tokens", "99999999999"], 2),
        (["find", "\udcff"], 2),
        (["context", "\udcff"], 2),
        (["stats", "--address", "\udcff"], 2),
        (["find", "x", "--where", json.dumps({"a": 10**400})], 2),
        (["recall", "x", "--now", "0001-01-01"], 2),
        (["find", "x", "--type", "dream"], 2),
        (["get", "viking://resources", "--overview", "--content"], 2),
        (["import", "/nowhere", "viking://resources"], 2),
        (["import", "/", "--no-wait"], 2),
        (["import", __file__, "viking://resources", "--delete"], 2),
        (["put", "viking://resources/x", "--content", "a", "--directory"], 2),
        (["nonsense"], 2),
        (["mv", "viking://resources/none", "viking://resources/x"], 4),
        (["unlink", "viking://resources/a", "viking://resources/b"], 4),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_failures_have_their_exit_codes_and_are_told_on_stderr(
    ctl: Ctl, arguments: list[str], expected: int
) -> None:
    """A failure has its exit code and a message on stderr, with --json as JSON; stdout is empty."""
    code, out, err = ctl(*arguments)
    assert (code, out) == (expected, "")
    assert err
    code, out, err = ctl(*arguments, "--json")
    assert (code, out) == (expected, "")
    assert json.loads(err)["message"]


@pytest.mark.parametrize("arguments", [["tree"], ["tree", "--json"], ["export", "viking://"]])
def test_a_full_disk_is_told_without_a_traceback(daemon: str, arguments: list[str]) -> None:
    """A full disk behind stdout ends a command with exit code 1 and one line on stderr."""
    to = ["--to", "-"] if arguments[0] == "export" else []
    command = [*arguments, *to, "--address", daemon]
    with open("/dev/full", "wb") as full:
        run = started(command, os.environ, full.fileno(), subprocess.PIPE, text=True)
    _, err = run.communicate()
    assert run.returncode == 1
    assert err.count("\n") == 1
    assert "can't read or write: No space left on device" in err


@pytest.mark.deep
def test_what_stdout_cannot_encode_is_escaped(
    client: MessageClient, daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Characters that the encoding of stdout or stderr lacks are printed as JSON escapes."""
    uri, missing = "viking://resources/喝茶.md", "viking://resources/café.md"
    client.put([Draft(uri, content="é – 😀 tea")])
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    def run(*arguments: str) -> tuple[int, bytes, bytes]:
        command = [sys.executable, "-m", "vikingd.ctl.main", "--address", daemon, *arguments]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    for command in (["-q", "find", "tea"], ["tree"]):
        code, out, err = run(*command)
        assert (code, err) == (0, b"")
        assert rb"\u559d\u8336.md" in out
    assert run("get", uri, "--content") == (0, rb"\u00e9 \u2013 \ud83d\ude00 tea", b"")
    assert Parse(run("get", uri, "--json")[1], GetResponse()).context == client.get(uri).context
    code, _, err = run("get", missing, "--json")
    assert code == 4
    assert json.loads(err)["metadata"]["uri"] == missing


INTERRUPTED = {
    "while it loads": """
class Finder:
    def find_spec(name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder)
""",
    "while it has loaded": """
import typer.main
typer.main.get_command = lambda _: signal.raise_signal(signal.SIGINT)
""",
}


@pytest.mark.parametrize("program", ["vikingctl", "vikingd"])
@pytest.mark.parametrize("moment", INTERRUPTED)
def test_ctrl_c_is_quiet_before_a_command_runs(program: str, moment: str) -> None:
    """Ctrl-C before a command runs ends the program with exit code 130 and no output."""
    module, name = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"][program].split(":")
    code = f"import signal, sys\n{INTERRUPTED[moment]}\nfrom {module} import {name}\n{name}()"
    run = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_an_unreachable_daemon_is_told_with_the_way_to_start_it(ctl: Ctl) -> None:
    """An unreachable daemon gives exit code 3, its address and the command that starts a daemon."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
        for arguments in (["stats", "--address", nowhere], ["--address", nowhere, "stats"]):
            code, _, err = ctl(*arguments)
            assert code == 3
            assert nowhere in err
            assert "vikingd serve" in err


def test_rm_asks_before_it_removes_a_full_directory(
    ctl: Ctl, client: MessageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, rm asks before a directory is removed, and the answer no keeps it."""

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    client.put([Draft("viking://resources/a/b.md", content="x")])
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert ctl("rm", "-r", "viking://resources/a")[0] == 1
    assert client.get("viking://resources/a/b.md")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert ctl("rm", "-r", "viking://resources/a")[0] == 0
    assert [context.uri for context in client.tree()] == ["viking://", "viking://resources"]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [([], "-r removes it"), (["--yes"], "-r removes it"), (["-r"], "--yes removes it")],
)
def test_rm_of_a_directory_is_said_twice_without_a_terminal(
    ctl: Ctl,
    client: MessageClient,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    remedy: str,
) -> None:
    """Without a terminal, rm of a directory needs -r and --yes; rm of a file needs neither."""
    file, other = "viking://resources/a/b.md", "viking://resources/c.md"
    client.put([Draft(file, content="x"), Draft(other, content="y")])
    monkeypatch.setattr(sys, "stdin", StringIO())
    code, _, err = ctl("rm", other, "viking://resources/a", *options)
    assert (code, remedy in " ".join(err.split())) == (2, True)
    assert client.get(file)
    assert client.get(other)
    assert ctl("rm", other)[0] == 0
    assert ctl("rm", "-r", "--yes", "viking://resources/a")[0] == 0


@pytest.mark.parametrize("options", [[], ["--content", "a", "--directory"]])
def test_put_writes_no_content_that_was_not_given(
    ctl: Ctl, client: MessageClient, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """A put without content, or of a directory with content, is refused and changes nothing."""
    uri = "viking://resources/a.md"
    client.put([Draft(uri, content="kept")])
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))
    code, _, err = ctl("put", uri, *options)
    assert (code, "--file" in " ".join(err.split())) == (2, True)
    assert client.get(uri).context.content == "kept"


HOSTILE = "".join(
    map(
        chr,
        [
            *range(1, 9),
            *range(11, 32),
            *range(127, 160),
            0x61C,
            0x200E,
            0x200F,
            *range(0x202A, 0x202F),
            *range(0x2066, 0x206A),
        ],
    )
)
SHOWING = [
    ["find", "hostile", "--trace"],
    ["get", "{uri}"],
    ["get", "{uri}", "--content"],
    ["get", "{uri}", "--overview"],
    ["ls", "viking://user/memories"],
    ["tree"],
    ["grep", "hostile", "--abstracts"],
    ["glob", "**"],
    ["glob", "**", "--json"],
    ["retrieve", "hostile"],
    ["context", "hostile"],
    ["recall", "hostile", "--global"],
    ["search", "hostile", "--trace"],
    ["recall", "hostile", "--global", "--json"],
    ["get", "{uri}", "--json"],
    ["export", "viking://user", "--to", "-"],
]


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("command", SHOWING, ids=" ".join)
def test_no_command_prints_what_acts_on_a_terminal(
    client: MessageClient, daemon: str, command: list[str]
) -> None:
    """No command prints control characters of stored text to a terminal."""
    uri = "viking://user/memories/note.md"
    text = f"hostile {HOSTILE} text"
    draft = Draft(
        uri,
        content=f"- {text}\n- hostile 2\r\n",
        abstract=text,
        overview=text,
        title=text,
        metadata={text: text},
    )
    client.put([draft])
    client.link(uri, "viking://user", text)
    arguments = [argument.replace("{uri}", uri) for argument in command]
    printed = on_a_terminal(["--address", daemon, *arguments], 4000, TERM="dumb", NO_COLOR="1")
    shown = printed.replace("\r\n", "\n")
    assert ("ote.md" if command[0] == "glob" else "hostile") in shown
    assert set(HOSTILE).isdisjoint(shown), sorted(set(HOSTILE) & set(shown))


def test_get_writes_the_exact_content_where_no_terminal_is(
    client: MessageClient, daemon: str
) -> None:
    """Without a terminal, the get command writes the exact content."""
    uri, content = "viking://resources/a.txt", f"a{HOSTILE}\r\n\tb\rc\u200b"
    client.put([Draft(uri, content=content)])
    command = ("--address", daemon, "get", uri)
    assert piped(*command, "--content") == content.encode()
    assert json.loads(piped(*command, "--json"))["context"]["content"] == content


def test_an_error_cannot_act_on_the_terminal(ctl: Ctl, tmp_path: Path) -> None:
    """Errors of the daemon and of files have no control characters."""
    code, _, err = ctl("get", "viking://resources/\u202e\x9b31m")
    assert code == 2
    assert set(HOSTILE).isdisjoint(err)
    missing = "viking://resources/a\u202eb"
    code, _, err = ctl("get", missing)
    assert (code, "does not exist" in err) == (4, True)
    assert set(HOSTILE).isdisjoint(err)
    code, _, err = ctl("get", missing, "--json")
    assert "viking://resources/ab" in json.loads(err)["message"]
    assert set(HOSTILE).isdisjoint(err)
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"metadata": {}, HOSTILE: 1}))
    code, _, err = ctl("import", str(lines))
    assert code == 1
    assert "is an unknown key" in " ".join(err.split())
    assert set(HOSTILE).isdisjoint(err)


class _Differing(admin_pb2_grpc.AdminServicer):
    """A daemon that reports a difference between index and store."""

    def Verify(self, request: Any, context: Any) -> admin_pb2.VerifyResponse:  # noqa: ARG002, N802
        return admin_pb2.VerifyResponse(contexts=3, problems=["viking://resources/x is missing"])


def test_verify_fails_when_index_and_store_differ(ctl: Ctl) -> None:
    """The verify command prints each difference and ends with exit code 1."""
    server = grpc.server(ThreadPoolExecutor(1))
    admin_pb2_grpc.add_AdminServicer_to_server(_Differing(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    code, out, _ = ctl("verify", "--address", f"127.0.0.1:{port}")
    assert (code, "viking://resources/x is missing" in out) == (1, True)
    code, out, _ = ctl("verify", "--address", f"127.0.0.1:{port}", "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    server.stop(None)


def test_a_prompt_is_on_stdout_and_its_sources_beside_it(client: MessageClient, ctl: Ctl) -> None:
    """The context command prints the prompt to stdout and the sources to stderr."""
    said = "Green tea wants water of 80 degrees."
    client.put([Draft("viking://resources/p/tea.md", content=said)])
    code, out, err = ctl("context", "green tea", "--max-tokens", "40", "--citation", "uri")
    assert (code, out) == (0, f"[viking://resources/p/tea.md] {said}\n")
    assert "of 40 tokens" in err
    assert "viking://resources/p/tea.md" in err
    _, out, _ = ctl("--json", "context", "green tea", "--strategy", "keyword")
    reply = Parse(out, retrieval_pb2.BuildContextResponse())
    assert reply.citations[0].uri == "viking://resources/p/tea.md"


def test_passages_are_shown_with_what_the_answer_came_to(client: MessageClient, ctl: Ctl) -> None:
    """The retrieve command prints its items and the degradation, or the reason for no items."""
    client.put([Draft(f"viking://resources/p/{i}tea.md", content="Green tea") for i in range(9)])
    code, out, err = ctl("retrieve", "tea", "--trace", "--weights", "0", "2")
    assert code == 0
    assert "viking://resources/p/0tea.md\t1\t1\tGreen tea\t" in out
    assert "also in: viking://resources/p/1tea.md" in out
    assert "and 3 more" in out
    assert "1 item" in err
    assert "words alone" in err
    assert "no item: no match" in ctl("retrieve", "coffee", "--mode", "keyword")[2]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["viking://resources/", "--content", "x"], "content belongs to a file"),
        (["viking://resources/a.md", "--content", ""], ""),
    ],
)
@pytest.mark.usefixtures("client")  # an empty tree
def test_a_document_that_cannot_be_is_an_error_of_usage(
    ctl: Ctl, arguments: list[str], advice: str
) -> None:
    """`put` refuses a text for a directory with advice, and takes an empty text for a file."""
    code, _, err = ctl("put", *arguments)
    assert code == (2 if advice else 0)
    assert advice in " ".join(err.replace("│", " ").split())
