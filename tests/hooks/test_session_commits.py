"""Commits of sessions: each message once, whatever is killed, away or late."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.daemons import serving
from tests.hooks.hook_helpers import Machine, Talk, texts_below, until
from vikingd.client import Client
from vikingd.hooks import said_messages
from vikingd.hooks.agent_events import Message
from vikingd.hooks.project_names import project_of
from vikingd.system.platform import holder_of


@pytest.fixture(scope="module")
def wordy() -> Iterator[str]:
    """Yield the address of a daemon without an embedder."""
    with serving("--provider", "none") as where:
        yield where


@pytest.fixture
def talk(tmp_path: Path, wordy: str) -> Talk:
    """Return a session in a checkout of its own; the daemon's store is empty."""
    with Client(wordy) as client:
        for top in client.list():
            client.delete(top.uri)
    machine = Machine(tmp_path, wordy)
    return Talk(machine, machine.checkout("moon"), "one")


def turns(talk: Talk) -> Counter[str]:
    """Return the turns of all sessions in the store with their counts, without the clock."""
    found = Counter[str]()
    for uri, content in texts_below(talk.machine.address, "viking://").items():
        if "/session-" in uri:
            lines = [line for line in content.splitlines() if line.startswith("- ")]
            found.update(line.partition(", ")[0][2:] + line.partition(":")[2][3:] for line in lines)
    return found


def root_of(talk: Talk) -> str:
    """Return the directory of the memories of the project."""
    return f"viking://projects/{project_of(talk.event('Stop')['cwd'])}/memories"


DAY = "2026-03-02T10:{:02}:{:02}Z"


def test_a_turn_is_committed_once_and_to_its_project(talk: Talk) -> None:
    """Facts and turns stand below the project, with their times; nothing is said twice."""
    talk.say("user", "I prefer oolong to coffee.", DAY.format(0, 0))
    talk.say("assistant", "Noted.", DAY.format(0, 5))
    for name in ("Stop", "PreCompact", "SessionEnd"):
        talk.stop(name)
        talk.machine.wait()
    progress = json.loads((talk.machine.state / "hooks" / "claude-code.one.progress").read_text())
    assert progress == {"place": talk.transcript.stat().st_size}
    files = texts_below(talk.machine.address, "viking://")
    assert set(files) == {
        f"{root_of(talk)}/preferences.md",
        f"{root_of(talk)}/journal/2026-03-02/session-one.md",
    }
    assert turns(talk) == Counter({"User I prefer oolong to coffee.": 1, "Assistant Noted.": 1})
    talk.say("user", "And sencha in the evening.", DAY.format(1, 0))
    talk.stop()
    talk.machine.wait()
    assert turns(talk)["User And sencha in the evening."] == 1
    assert sum(turns(talk).values()) == 3
    with Client(talk.machine.address) as client:
        first = client.get(f"{root_of(talk)}/preferences.md").passages[0].memory
    assert first.reinforcement == 0
    assert talk.machine.log == ""


NOT_SAID = {
    "thinking": {"type": "assistant", "content": [{"type": "thinking", "thinking": "SECRET"}]},
    "a tool": {"type": "assistant", "content": [{"type": "tool_use", "input": {"a": "SECRET"}}]},
    "a result": {
        "type": "user",
        "content": [
            {"type": "tool_result", "content": "SECRET"},
            {"type": "text", "text": "SECRET"},
        ],
    },
    "a reminder": {"type": "user", "content": "<system-reminder>SECRET</system-reminder>"},
    "a command": {"type": "user", "content": "<command-name>/SECRET</command-name>"},
    "an output": {"type": "user", "content": "<local-command-stdout>SECRET</local-command-stdout>"},
    "a notification": {"type": "user", "content": "<task-notification>SECRET</task-notification>"},
    "an interruption": {"type": "user", "content": "[Request interrupted by user] SECRET"},
    "a meta message": {"type": "user", "isMeta": True, "content": "SECRET"},
    "a subagent": {"type": "assistant", "isSidechain": True, "content": "SECRET"},
    "a summary": {"type": "user", "isCompactSummary": True, "content": "SECRET"},
    "an error": {"type": "assistant", "isApiErrorMessage": True, "content": "SECRET"},
    "a system record": {"type": "system", "content": "SECRET"},
    "our memories": {
        "type": "user",
        "content": "<vikingd-memory>\nSECRET\n</vikingd-memory><vikingd-memory>SECRET",
    },
}


def test_only_what_was_said_is_committed(talk: Talk) -> None:
    """No tool, no thinking, no words of the harness and no memories of ours become a turn."""
    talk.say("user", "Before.", DAY.format(0, 0))
    for case in NOT_SAID.values():
        fields = {key: value for key, value in case.items() if key not in ("type", "content")}
        message = {"role": case["type"], "content": case["content"]}
        talk.record(type=case["type"], timestamp=DAY.format(1, 0), message=message, **fields)
    talk.record(type="attachment", attachment={"type": "hook_success", "content": "SECRET"})
    for origin, prompt in (("human", "Typed meanwhile."), ("peer", "SECRET")):
        queued = {"type": "queued_command", "commandMode": "prompt", "prompt": prompt}
        talk.record(
            type="attachment",
            timestamp=DAY.format(2, 0),
            attachment={**queued, "origin": {"kind": origin}},
        )
    with talk.transcript.open("a") as file:
        file.write('no JSON\n[1]\n"SECRET"\n{"type": 7, "message": []}\n')
    mixed = "Said.\n<system-reminder>SECRET</system-reminder>\nSaid, too."
    talk.say("user", mixed, DAY.format(3, 0))
    talk.say("assistant", "After.", DAY.format(4, 0))
    with talk.transcript.open("a") as file:
        file.write('{"type": "user", "message": {"content": "half a li')
    talk.stop()
    talk.machine.wait()
    files = texts_below(talk.machine.address, "viking://")
    assert "SECRET" not in str(files)
    assert sorted(turns(talk)) == [
        "Assistant After.",
        "User Before.",
        "User Said.",
        "User Typed meanwhile.",
    ]


def test_last_words_that_come_late(talk: Talk) -> None:
    """An agent may write the last message after the event: the commit waits for it."""
    talk.say("user", "Which tea?", DAY.format(0, 0))
    talk.stop(last_assistant_message="Oolong.")
    lock = talk.machine.state / "hooks" / "claude-code.one.lock"
    until(lambda: lock.exists() and holder_of(lock) is not None)
    time.sleep(0.3)  # without the wait it would be over by now
    talk.say("assistant", "Oolong.", DAY.format(0, 9))
    talk.machine.wait()
    assert turns(talk) == Counter({"User Which tea?": 1, "Assistant Oolong.": 1})


def test_a_long_session_goes_in_pieces(talk: Talk) -> None:
    """Its messages come in order, also through a line of the harness that is very long."""
    for i in range(130):
        talk.say("user" if i % 2 else "assistant", f"Message {i}.", DAY.format(i // 60, i % 60))
        if i == 70:
            talk.record(
                type="user", message={"content": [{"type": "tool_result"}]}, x="x" * 400_000
            )
    talk.stop()
    talk.machine.wait()
    assert len(turns(talk)) == sum(turns(talk).values()) == 130


def test_a_daemon_that_is_away(talk: Talk, tmp_path: Path) -> None:
    """What could not be committed waits, and the next start of any session commits it."""
    talk.say("user", "I live in Lyon.", DAY.format(0, 0))
    away = f"unix:{tmp_path}/away"
    for _ in range(3):
        talk.stop(address=away)
    until(lambda: talk.machine.log.count("FileNotFoundError") == 3)
    assert talk.machine.is_waiting()
    other = Talk(talk.machine, talk.machine.checkout("sun"), "two")
    other.start()
    talk.machine.wait()
    assert turns(talk) == Counter({"User I live in Lyon.": 1})
    assert all(
        uri.startswith(root_of(talk)) for uri in texts_below(talk.machine.address, "viking://")
    )


@pytest.mark.parametrize("point", ["before the call", "before the acknowledgement"])
def test_a_kill_at_any_point(talk: Talk, point: str) -> None:
    """After a kill -9 the next stop commits what is missing, and nothing twice."""
    talk.say("user", "I prefer oolong to coffee.", DAY.format(0, 0))
    with a_way(talk.machine.address, drops=point == "before the call") as (where, reached):
        talk.stop(address=where)
        assert reached.wait(60)
        lock = talk.machine.state / "hooks" / "claude-code.one.lock"
        holder = holder_of(lock)
        assert holder is not None
        os.kill(holder, signal.SIGKILL)
        until(lambda: holder_of(lock) is None)
    assert talk.machine.is_waiting()
    assert sum(turns(talk).values()) == (point != "before the call")
    talk.say("assistant", "Noted.", DAY.format(0, 9))
    talk.say("user", "I prefer trains to planes.", DAY.format(1, 0))
    talk.stop()
    talk.machine.wait()
    assert turns(talk) == Counter(
        {
            "User I prefer oolong to coffee.": 1,
            "Assistant Noted.": 1,
            "User I prefer trains to planes.": 1,
        }
    )
    with Client(talk.machine.address) as client:
        passages = client.get(f"{root_of(talk)}/preferences.md").passages
    assert [one.memory.reinforcement for one in passages] == [0, 0]


@contextmanager
def a_way(address: str, *, drops: bool) -> Iterator[tuple[str, threading.Event]]:
    """Yield the address of a way to a daemon on which replies get lost, and a sign.

    With `drops` requests get lost, too, and the sign is set when one came; else when a reply to a
    call came.
    """
    host, _, port = address.rpartition(":")
    reached = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def there(near: socket.socket, far: socket.socket) -> None:
            with suppress(OSError):
                while data := near.recv(1 << 16):
                    if not drops:
                        far.sendall(data)
                    elif b"Memories/Extract" in data:
                        reached.set()
                far.shutdown(socket.SHUT_RDWR)

        def back() -> None:
            with suppress(OSError):
                near, _ = server.accept()
                far = socket.create_connection((host, int(port)))
                with near, far:
                    thread = threading.Thread(target=there, args=(near, far))
                    thread.start()
                    while data := far.recv(1 << 16):
                        if b"grpc-status" in data:
                            reached.set()
                    thread.join()

        thread = threading.Thread(target=back)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", reached
    thread.join()


def test_what_the_daemon_refuses_waits(talk: Talk) -> None:
    """A wrong key leaves the session to a later stop; wrong times of messages are none."""
    talk.say("user", "I live in Lyon.", "0001-01-01T00:00:00+00:00")
    talk.say("user", "I work in Oslo.", "9999-01-01T00:00:00Z")
    talk.stop(VIKINGD_PROJECT="no/name")
    assert "VIKINGD_PROJECT: 'no/name' is no name of a project" in talk.machine.log
    talk.stop(VIKINGD_KEY="vk_unknown")
    until(lambda: "CallFailed: status 16" in talk.machine.log)
    assert talk.machine.is_waiting()
    talk.stop()
    talk.machine.wait()
    assert turns(talk) == Counter({"User I live in Lyon.": 1, "User I work in Oslo.": 1})


def test_two_stops_at_once(talk: Talk) -> None:
    """Processes of one session take turns."""
    for i in range(8):
        talk.say("user", f"I like tea number {i}.", DAY.format(0, i))
        talk.stop()
    talk.machine.wait()
    assert len(turns(talk)) == sum(turns(talk).values()) == 8
    with Client(talk.machine.address) as client:
        passages = client.get(f"{root_of(talk)}/preferences.md").passages
    assert [one.memory.reinforcement for one in passages] == [0] * 8


@pytest.mark.parametrize("source", ["resume", "fork"])
def test_a_resumed_session_that_is_not_known(talk: Talk, source: str) -> None:
    """Its copy of an older conversation is not committed again; what follows is."""
    talk.say("user", "Copied from another session.", DAY.format(0, 0))
    talk.start(source)
    talk.say("user", "Said after that.", DAY.format(1, 0))
    talk.stop()
    talk.machine.wait()
    assert turns(talk) == Counter({"User Said after that.": 1})


def test_a_transcript_that_was_cut_or_removed(talk: Talk) -> None:
    """A shorter file is read anew without saying anything twice; a missing one is told."""
    talk.say("user", "One.", DAY.format(0, 0))
    talk.say("user", "Two.", DAY.format(0, 1))
    talk.stop()
    talk.machine.wait()
    lines = talk.transcript.read_text().splitlines(keepends=True)
    talk.transcript.write_text(lines[0])
    talk.stop()
    talk.machine.wait()
    talk.transcript.unlink()
    talk.stop()
    talk.machine.wait()
    assert turns(talk) == Counter({"User One.": 1, "User Two.": 1})
    assert "is shorter than it was" in talk.machine.log
    assert "one.jsonl is no file" in talk.machine.log


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_transcript_that_is_no_file(talk: Talk, kind: str) -> None:
    """It is told and not waited for, and later words of the session are committed."""
    if kind == "pipe":
        os.mkfifo(talk.transcript)
    elif kind == "directory":
        talk.transcript.mkdir()
    else:
        talk.transcript.symlink_to("/dev/zero")
    talk.start("resume")
    talk.stop()
    talk.machine.wait()
    assert "one.jsonl is no file, so there is nothing to read" in talk.machine.log
    talk.transcript.rmdir() if kind == "directory" else talk.transcript.unlink()
    talk.say("user", "I live in Lyon.", DAY.format(0, 0))
    talk.stop()
    talk.machine.wait()
    assert turns(talk) == Counter({"User I live in Lyon.": 1})


def test_a_line_that_is_very_long_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is passed over in parts, and what stands before and behind it is found."""
    monkeypatch.setattr(said_messages, "_MOST_LINE", 100)
    path = tmp_path / "said"
    one, two = (
        json.dumps(Message("user", text, 1.0)._asdict()).encode() + b"\n" for text in ("a", "b")
    )
    with path.open("wb") as file:
        file.write(one + b"x" * 100 + b"\n" + one)
        file.truncate(8 << 20)  # zeros, without a newline
    end = len(one) * 2 + 101
    tracemalloc.start()
    assert said_messages.next_end(str(path), 0, said_messages.kept) == end
    with path.open("ab") as file:
        file.write(b"\n" + two)
    whole = said_messages.next_end(str(path), end, said_messages.kept)
    piece = said_messages.piece_of(str(path), end, whole, said_messages.kept)
    room = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert whole == path.stat().st_size
    assert [message.text for message in piece.messages] == ["a", "a", "b"]
    assert piece.first == 2
    assert room < 1 << 20


@pytest.mark.deep
def test_a_session_that_fails_holds_up_no_other(talk: Talk) -> None:
    """Whatever its failure is, the log has it, and the next session is committed."""
    talk.say("user", "I live in Lyon.", DAY.format(0, 0))
    talk.stop(address="127.0.0.1:1")
    until(lambda: "ConnectionRefusedError" in talk.machine.log)
    broken = {"agent": 5, "session": "x", "project": "", "transcript": "/x"}
    (talk.machine.state / "hooks" / "pending" / "a.1").write_text(json.dumps(broken))
    Talk(talk.machine, talk.machine.checkout("sun"), "two").start()
    until(lambda: turns(talk) == Counter({"User I live in Lyon.": 1}), lambda: talk.machine.log)
    assert "commit of session a: AttributeError" in talk.machine.log


def test_an_agent_without_a_transcript(talk: Talk) -> None:
    """Its prompts and responses are kept in a private file until they are committed."""
    machine = talk.machine
    base = {"session_id": "a/../../b", "cwd": talk.event("Stop")["cwd"], "turn_id": "t"}
    event = {**base, "transcript_path": None}
    prompt = {**event, "hook_event_name": "UserPromptSubmit", "prompt": "I prefer tabs to spaces."}
    machine.hook(prompt, "codex", address="127.0.0.1:1")
    (kept,) = (machine.state / "hooks").glob("*.said")
    assert kept.stat().st_mode & 0o777 == 0o600
    stop = {**event, "hook_event_name": "Stop", "last_assistant_message": "Tabs it is."}
    machine.hook(stop, "codex")
    machine.wait()
    assert turns(talk) == Counter({"User I prefer tabs to spaces.": 1, "Assistant Tabs it is.": 1})


def test_the_rollout_of_codex(talk: Talk) -> None:
    """Its events are the conversation; the records of the model's context are not."""
    path = talk.machine.home / "rollout-2026-03-02.jsonl"
    said = [
        ("event_msg", {"type": "user_message", "message": "I prefer tabs to spaces."}),
        ("response_item", {"type": "message", "role": "user", "content": [{"text": "SECRET"}]}),
        ("event_msg", {"type": "agent_reasoning", "text": "SECRET"}),
        ("event_msg", {"type": "user_message", "message": "# AGENTS.md instructions SECRET"}),
        ("event_msg", {"type": "agent_message", "message": "Tabs it is."}),
        (
            "event_msg",
            {
                "type": "user_message",
                "message": "# Context from my IDE setup:\nSECRET\n## My request for Codex:\nGo on.",
            },
        ),
    ]
    with path.open("w") as file:
        for kind, payload in said:
            line = {"timestamp": DAY.format(0, 0), "type": kind, "payload": payload}
            file.write(json.dumps(line) + "\n")
    event = {"session_id": "two", "cwd": talk.event("Stop")["cwd"], "transcript_path": str(path)}
    talk.machine.hook({**event, "hook_event_name": "Stop", "turn_id": "t"})
    talk.machine.wait()
    assert sorted(turns(talk)) == [
        "Assistant Tabs it is.",
        "User Go on.",
        "User I prefer tabs to spaces.",
    ]
    assert "SECRET" not in str(texts_below(talk.machine.address, "viking://"))


def test_old_files_go(talk: Talk) -> None:
    """What nothing has used for a month is removed, but not what waits."""
    hooks = talk.machine.state / "hooks"
    talk.say("user", "One.", DAY.format(0, 0))
    talk.stop(address="127.0.0.1:1")
    until(lambda: "ConnectionRefusedError" in talk.machine.log)
    old = [hooks / "codex.old.given", hooks / "codex.old.said", hooks / "claude-code.one.given"]
    for path in old:
        path.write_text("")
        os.utime(path, (0, 0))
    talk.stop(address="127.0.0.1:1")
    until(lambda: talk.machine.log.count("ConnectionRefusedError") == 2)
    until(lambda: not old[0].exists())
    assert [path.exists() for path in old] == [False, False, True]
