"""Imports of what mem0 and OpenViking wrote; migrations/README.md tells of the files."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.client.replies import entry_of
from vikingd.ctl.migrations.openviking import mapped
from vikingd.ctl.migrations.source import name_of
from vikingd.domain import uri as uris
from vikingd.ingest.files import microseconds
from vikingd.pb import contexts_pb2

Ctl = Callable[..., tuple[int, str, str]]

FILES = Path(__file__).parent / "migrations"
MEM0 = FILES / "mem0.json"
OPENVIKING = ("openviking-0.4.1", "openviking-0.5.2")
ALICE = "viking://users/alice/memories/mem0"
PORT = "viking://resources/port"


def _import(ctl: Ctl, *arguments: str, code: int = 0) -> dict[str, Any]:
    ended, out, err = ctl("import", *arguments, "--json")
    assert (ended, err) == (code, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def _refused(ctl: Ctl, *arguments: str) -> str:
    """Return the message of an import that begins nothing."""
    ended, out, err = ctl("import", *arguments, "--json")
    assert (ended, out) == (2, "")
    return str(json.loads(err)["message"])


def _files(client: MessageClient, top: str = uris.ROOT) -> dict[str, str]:
    """Return the contents below a directory by URI."""
    contexts = (client.get(c.uri).context for c in client.tree(top) if not c.is_directory)
    return {context.uri: context.content for context in contexts}


def _memories(context: contexts_pb2.Context) -> dict[str, tuple[int, int]]:
    """Return the times of each memory of a file: when it changed and when it was made."""
    found = {}
    for passage in context.passages:
        state = entry_of(passage)
        assert state is not None
        times = (state.time or 0, state.created_at or 0)
        found[context.content[passage.start : passage.end]] = times
    return found


@given(st.sets(st.text(min_size=1, max_size=150), min_size=1))
def test_each_id_has_a_name_of_its_own(identifiers: set[str]) -> None:
    """Every name is one segment of a URI, and different ids have different names."""
    names = {name_of(identifier) for identifier in identifiers}
    assert len(names) == len(identifiers)
    for name in names:
        assert uris.name(uris.parse(f"{PORT}/{name}")) == name


def test_names_are_changed_only_where_a_uri_needs_it() -> None:
    """Slashes, control characters, percents and whole dots are encoded; all else stays."""
    for identifier, name in (
        ("a b:c~é.md", "a b:c~é.md"),
        ("b/c", "b%2Fc"),
        ("b%2Fc", "b%252Fc"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("x\x85", "x%C2%85"),
        ("\ud800", "%ED%A0%80"),
    ):
        assert name_of(identifier) == name


def test_memories_become_entries_with_their_times(ctl: Ctl, client: MessageClient) -> None:
    """Each user and category has a file, and a memory keeps its text and its times."""
    summary = _import(ctl, "--from", "mem0", str(MEM0))
    assert (summary["created"], summary["unreadable"], summary["failed"]) == (5, [], [])
    files = _files(client)
    assert sorted(files) == [
        "viking://agent/memories/mem0/memories.md",
        f"{ALICE}/memories.md",
        f"{ALICE}/preferences.md",
        next(uri for uri in files if uri.startswith(f"{ALICE}/preferences/")),
        "viking://users/bob/memories/mem0/personal details.md",
    ]
    preferences = client.get(f"{ALICE}/preferences.md").context
    assert preferences.content == (
        "# preferences\n\n- Drinks black tea in the morning.\n- Two lines:\n  - one\n  - two\n"
    )
    given_ = {item["memory"]: item for item in json.loads(MEM0.read_text())["results"]}
    tea = given_["Drinks black tea in the morning."]
    assert tea["updated_at"] != tea["created_at"]
    assert _memories(preferences)["Drinks black tea in the morning."] == (
        microseconds(tea["updated_at"]),
        microseconds(tea["created_at"]),
    )
    assert dict(preferences.metadata) == {"role": "user"}
    memories = client.get(f"{ALICE}/memories.md").context
    assert dict(memories.metadata) == {"agent_id": "helper", "role": "user"}
    alone = client.get(next(u for u in files if u.startswith(f"{ALICE}/preferences/"))).context
    assert alone.content == "The lamp turns once a minute. " * 60
    assert any(note.startswith("'source' is left out") for note in summary["notes"])
    assert any("each a file of its own: 1" in note for note in summary["notes"])


def test_a_second_import_of_memories_keeps_what_happened_since(
    ctl: Ctl, client: MessageClient
) -> None:
    """A second import writes nothing, and counters that grew stay."""
    _import(ctl, "--from", "mem0", str(MEM0))
    passage = client.get(f"{ALICE}/preferences.md").context.passages[0]
    client.reinforce(passage.memory.id)
    revision = client.stats().revision
    again = _import(ctl, "--from", "mem0", str(MEM0))
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 5)
    assert client.stats().revision == revision
    assert client.get(f"{ALICE}/preferences.md").context.passages[0].memory.reinforcement == 1


def _export(path: Path, *memories: Any, **more: Any) -> str:
    path.write_text(json.dumps({"results": memories, **more}))
    return str(path)


def _one(identifier: str, **more: Any) -> dict[str, Any]:
    time = "2026-01-02T03:04:05+00:00"
    memory = {"id": identifier, "memory": f"Says {identifier}.", "user_id": "alice"}
    return {**memory, "created_at": time, "updated_at": time, **more}


def test_a_faulty_memory_is_named_and_the_others_are_imported(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Each faulty memory is listed with its id and the reason."""
    path = _export(
        tmp_path / "m.json",
        _one("good", categories=["health", "food"]),
        _one("old", created_at="yesterday"),
        _one("empty", memory=" "),
        _one("stranger", user_id="a b"),
        _one("good", memory="Says another thing."),
        "text",
        next="https://api.example.com/?page=2",
    )
    summary = _import(ctl, "--from", "mem0", path)
    reasons = {
        item["path"].removeprefix(f"{path}: "): item["reason"] for item in summary["unreadable"]
    }
    assert list(reasons) == ["old", "empty", "stranger", "memory 6", "good"]
    assert "created_at" in reasons["old"]
    assert "name a URI below viking://users/NAME/memories" in reasons["stranger"]
    assert _files(client) == {f"{ALICE}/health.md": "# health\n\n- Says good.\n"}
    assert dict(client.get(f"{ALICE}/health.md").context.metadata)["categories"] == [
        "health",
        "food",
    ]
    assert any(note.startswith("the file is one page of several") for note in summary["notes"])


def test_many_memories_are_several_files(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """A category with more memories than a file has room continues in the next file."""
    path = _export(tmp_path / "m.json", *(_one(f"{i:04}", run_id=str(i)) for i in range(131)))
    summary = _import(ctl, "--from", "mem0", path, "viking://user/memories/old")
    counts = {uri: text.count("\n- ") for uri, text in _files(client).items()}
    top = "viking://user/memories/old/memories"
    assert counts == {f"{top}.md": 128, f"{top}/2.md": 3}
    assert dict(client.get(f"{top}.md").context.metadata) == {}
    assert summary["notes"][0].startswith("'run_id' is left out")
    assert summary["notes"][0].endswith(": 131")


def test_memories_are_never_mixed_or_deleted_by_mistake(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """One URI takes the memories of one user; --delete removes only what the import owns."""
    mixed = _refused(ctl, "--from", "mem0", str(MEM0), "viking://user/memories")
    assert "2 users (alice, bob)" in mixed
    assert "needs an export of one user" in _refused(ctl, "--from", "mem0", str(MEM0), "--delete")
    elsewhere = _refused(ctl, "--from", "mem0", str(MEM0), "viking://resources/x")
    assert "not below the memories" in elsewhere
    own = "viking://users/alice/memories/preferences.md"
    client.put([Draft(own, content="# Preferences\n\n- Was here before.\n")])
    path = _export(tmp_path / "m.json", _one("a", categories=["x"]), _one("b", categories=["y"]))
    _import(ctl, "--from", "mem0", path)
    _export(tmp_path / "m.json", _one("a", categories=["x"]))
    planned = _import(ctl, "--from", "mem0", path, "--delete", "--dry-run")
    assert planned["planned"] == [["delete", f"{ALICE}/y.md"]]
    assert _import(ctl, "--from", "mem0", path, "--delete")["deleted"] == 1
    assert sorted(_files(client)) == [f"{ALICE}/x.md", own]


def test_what_is_no_export_of_mem0_is_refused(ctl: Ctl, tmp_path: Path) -> None:
    """A missing file, a wrong format and options of other sources have clear errors."""
    wrong = tmp_path / "wrong.json"
    for text, reason in (("{", "is not JSON"), ('{"a": 1}', "is no export of mem0")):
        wrong.write_text(text)
        assert reason in _refused(ctl, "--from", "mem0", str(wrong))
    assert "does not exist" in _refused(ctl, "--from", "mem0", str(tmp_path / "none"))
    assert "is read from a file" in _refused(ctl, "--from", "mem0", "http://127.0.0.1:1")
    for option in (("--collection", "a"), ("--map", "text=a"), ("--vectors", "keep")):
        message = _refused(ctl, "--from", "mem0", str(MEM0), *option)
        assert f"Invalid value for {option[0]}" in message
        for place in (str(FILES), "http://127.0.0.1:1"):
            message = _refused(ctl, place, "viking://resources/x", *option)
            assert f"Invalid value for {option[0]}: needs --from" in message


@pytest.mark.parametrize("version", OPENVIKING)
def test_a_workspace_keeps_uris_texts_and_descriptions(
    ctl: Ctl, client: MessageClient, version: str
) -> None:
    """Contents, abstracts and overviews of a workspace have the URIs that they had there."""
    summary = _import(ctl, "--from", "openviking", str(FILES / version))
    assert (summary["unreadable"], summary["failed"]) == ([], [])
    skill = "viking://users/default/skills/mooring"
    assert _files(client) == {
        f"{PORT}/harbour.md": "# Harbour\n\nThe harbour opens at nine.\n",
        f"{PORT}/lamps/lighthouse.md": "# Lighthouse\n\nIts lamp turns once a minute.\n",
        f"{PORT}/灯塔.txt": "灯塔的灯每分钟转一圈。\n",
        "viking://user/memories/preferences/tea.md": "The user drinks green tea in the morning.\n",
        "viking://user/memories/profile.md": "Alice is a harbour pilot.\n",
        f"{skill}/SKILL.md": (
            "---\nname: mooring\ndescription: Moor a boat.\n---\n\n# Mooring\n\n"
            "Tie the bow line first."
        ),
    }
    port = client.get(PORT).context
    assert port.abstract == "The harbour and its lighthouse: opening hours and lamps."
    assert port.overview == f"# Harbour\n\n{port.abstract}"
    assert dict(client.get(f"{skill}/SKILL.md").context.metadata)["name"] == "mooring"
    assert "directories that have no place here, viking://user/NAME/sessions: 1" in summary["notes"]
    revision = client.stats().revision
    again = _import(ctl, "--from", "openviking", str(FILES / version / "viking" / "default"))
    assert (again["created"], again["updated"]) == (0, 0)
    assert client.stats().revision == revision


def test_relations_become_links(ctl: Ctl, client: MessageClient) -> None:
    """A relation is a link; one to a context that is not imported is told."""
    summary = _import(ctl, "--from", "openviking", str(FILES / OPENVIKING[0]))
    assert summary["linked"] == 1
    assert "relations to a context that is not imported: 1" in summary["notes"]
    relations = client.get(PORT).context.relations
    assert [(r.uri, r.reason) for r in relations] == [
        ("viking://user/memories/profile.md", "the pilot")
    ]


def test_fields_of_a_memory_become_metadata_and_times(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """The comment at the end of a memory is metadata here; a broken one stays text."""
    memories = tmp_path / "viking/a/user/bo/memories"
    memories.mkdir(parents=True)
    fields = {"version": 3, "topic": "tea", "created_at": "2026-01-02T03:04:05Z"}
    comment = f"\n<!-- MEMORY_FIELDS\n{json.dumps(fields)}\n-->"
    (memories / "tea.md").write_text(f"Likes tea.\n{comment}")
    (memories / "odd.md").write_text("Likes it.\n\n<!-- MEMORY_FIELDS\n{odd}\n-->")
    (memories / "pic.png").write_bytes(b"\0")
    (memories / "link.md").symlink_to(memories / "tea.md")
    summary = _import(ctl, "--from", "openviking", str(tmp_path))
    top = "viking://users/bo/memories"
    assert {item["uri"]: item["reason"] for item in summary["unreadable"]} == {
        f"{top}/pic.png": "is binary",
        f"{top}/link.md": "is a symbolic link",
    }
    tea = client.get(f"{top}/tea.md").context
    made = microseconds("2026-01-02T03:04:05Z")
    assert tea.content == "Likes tea.\n"
    assert _memories(tea) == {"Likes tea.": (made, made)}
    assert dict(tea.metadata) == fields
    assert "{odd}" in client.get(f"{top}/odd.md").context.content


def test_every_place_of_openviking_has_one_here_or_none() -> None:
    """Users and agents keep their names; what vikingd does not have maps to nothing."""
    for there, here in {
        "resources/a": "resources/a",
        "user/default/memories/a": "user/memories/a",
        "user/bo/memories/a": "users/bo/memories/a",
        "user/default/resources/a": "users/default/resources/a",
        "user/memories/a": "user/memories/a",
        "agent/skills/a": "agent/skills/a",
        "agent/helper/memories/a": "agent/memories/helper/a",
        "agent/helper/skills/a": "agent/skills/helper/a",
        "agent/tools/a": "",
        "session/a": "",
        "user/bo/sessions/a": "",
    }.items():
        assert mapped(there.split("/")) == (here and f"viking://{here}")


def test_delete_follows_a_workspace(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """--delete removes below its URI what the workspace no longer has, and nothing else."""
    shutil.copytree(FILES / OPENVIKING[1], tmp_path / "w")
    assert "needs a URI" in _refused(ctl, "--from", "openviking", str(tmp_path / "w"), "--delete")
    _import(ctl, "--from", "openviking", str(tmp_path / "w"))
    (tmp_path / "w/viking/default/resources/port/harbour.md").unlink()
    before = set(_files(client))
    summary = _import(ctl, "--from", "openviking", str(tmp_path / "w"), PORT, "--delete")
    assert (summary["deleted"], summary["created"]) == (1, 0)
    assert before - set(_files(client)) == {f"{PORT}/harbour.md"}


def test_a_wrong_workspace_is_refused(ctl: Ctl, tmp_path: Path) -> None:
    """A directory without a tree is refused, and of several accounts one must be chosen."""
    assert "is no workspace" in _refused(ctl, "--from", "openviking", str(tmp_path))
    for account in ("a", "b"):
        (tmp_path / "viking" / account / "resources").mkdir(parents=True)
    message = _refused(ctl, "--from", "openviking", str(tmp_path))
    assert f"{tmp_path}/viking/a, {tmp_path}/viking/b" in message


@contextmanager
def _server(version: str, last: int = 1 << 30) -> Iterator[tuple[str, list[str]]]:
    """Replay the answers of a real server; yield its URL and the keys that it was sent.

    After `last` answers it answers with a line that is not HTTP.
    """
    answers = json.loads((FILES / version / "answers.json").read_text())
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("X-API-Key", ""))
            if len(keys) > last:
                self.wfile.write(b"gone\r\n")
                return
            status, body = answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", keys
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("version", OPENVIKING)
def test_a_server_gives_what_its_workspace_has(
    ctl: Ctl, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an import from the workspace, one from the server changes nothing."""
    monkeypatch.setenv("VIKINGCTL_SOURCE_KEY", "secret")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    first = _import(ctl, "--from", "openviking", str(FILES / version))
    with _server(version) as (url, keys):
        summary = _import(ctl, "--from", "openviking", f"{url}/")
    assert (summary["unreadable"], summary["failed"]) == ([], [])
    assert (summary["updated"], summary["unchanged"]) == (0, first["created"])
    assert summary["linked"] == first["linked"]
    assert set(keys) == {"secret"}


def test_a_server_that_stops_leaves_what_came(
    ctl: Ctl, client: MessageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that goes away ends the import with an error, and nothing is deleted."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    client.put([Draft(f"{PORT}/mine.md", content="mine")])
    with _server(OPENVIKING[1], last=12) as (url, _):
        code, out, err = ctl("import", "--from", "openviking", url, PORT, "--delete", "--json")
    assert code == 1
    report = json.loads(err)
    assert report["reason"] == "NOT_READ"
    assert "the same command continues" in report["message"]
    assert json.loads(out)["end"] == "failed"
    assert f"{PORT}/mine.md" in _files(client)


def test_a_server_that_cannot_be_used_is_refused(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, a wrong server and a key in the clear have clear errors."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "no server of OpenViking answers" in _refused(
        ctl, "--from", "openviking", "http://127.0.0.1:9"
    )
    with _server(OPENVIKING[0], last=0) as (url, _):
        assert "no server of OpenViking answers" in _refused(ctl, "--from", "openviking", url)
    monkeypatch.setenv("VIKINGCTL_SOURCE_KEY", "secret")
    message = _refused(ctl, "--from", "openviking", "http://openviking.example.com")
    assert "would send the key in the clear" in message
    for url, reason in (("ftp://a/b", "no URL of HTTP"), ("http://a:x", "is no URL")):
        assert reason in _refused(ctl, "--from", "openviking", url)
