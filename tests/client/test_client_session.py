"""The client's session in memory and as a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vikingd.client import Session, SessionMessage


def test_messages_are_kept_in_order() -> None:
    """A session keeps all messages in order, or the last `keep` of them."""
    session = Session("before")
    for n in range(2000):
        session.add("user" if n % 2 else "assistant", str(n))
    assert session.summary == "before"
    assert len(session.messages) == 2000
    assert (session.messages[1].role, session.messages[1].content) == ("user", "1")
    short = Session("", session.messages, keep=3)
    assert [message.content for message in short.messages] == ["1997", "1998", "1999"]
    short.add("tool", "x")
    assert [message.content for message in short.messages] == ["1998", "1999", "x"]


@pytest.mark.parametrize(
    ("role", "content", "fault"), [("bot", "x", "role is 'bot'"), ("user", "", "content is empty")]
)
def test_what_no_daemon_takes_is_refused_at_once(role: str, content: str, fault: str) -> None:
    """An invalid message is refused when it is added, not when it is sent."""
    session = Session()
    with pytest.raises(ValueError, match=fault):
        session.add(role, content)
    assert session.messages == ()


def test_at_least_one_message_is_kept() -> None:
    """A session with keep=0 is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        Session(keep=0)


def test_a_session_survives_its_file(tmp_path: Path) -> None:
    """A session in any script survives a save and a load, in the documented JSON form.

    A message that was given without a time has none; others have theirs, to the microsecond.
    """
    file = tmp_path / "session.json"
    session = Session(
        "用户 drinks tea.", [SessionMessage("user", "Mehr Tee? 茶 \N{TEACUP WITHOUT HANDLE}")]
    )
    session.save(file)
    session.add("assistant", "yes", "2026-03-10T09:30:00.000001+02:00")
    session.save(str(file))
    again = Session.load(file)
    assert (again.id, again.summary) == (session.id, session.summary)
    assert again.messages == session.messages
    said, replied = session.messages
    assert json.loads(file.read_bytes()) == {
        "id": session.id,
        "summary": session.summary,
        "messages": [
            {"role": "user", "content": said.content},
            {"role": "assistant", "content": "yes", "time": "2026-03-10T07:30:00.000001+00:00"},
        ],
    }
    assert replied.time == 1_773_127_800_000_001
    assert [message.content for message in Session.load(file, keep=1).messages] == ["yes"]
    assert list(tmp_path.iterdir()) == [file]


def test_both_parts_of_a_file_are_optional(tmp_path: Path) -> None:
    """A session file may lack the messages, or both messages and summary."""
    file = tmp_path / "session.json"
    file.write_text("{}")
    assert (Session.load(file).summary, Session.load(file).messages) == ("", ())
    file.write_text('{"summary": "s"}')
    assert Session.load(file).summary == "s"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff", "decode"),
        (b"[" * 100_000, "recursion"),
        (b"[]", "a session is an object, not []"),
        (b'{"mesages": []}', "a session has no 'mesages'"),
        (b'{"summary": 1}', "summary is no string"),
        (b'{"messages": {}}', "messages is no list"),
        (b'{"messages": ["x"]}', 'messages[0]: a message is an object, not "x"'),
        (b'{"messages": [{"role": "user"}]}', "messages[0]: content is no string, or not there"),
        (b'{"messages": [{"role": 1, "content": "x"}]}', "messages[0]: role is no string"),
        (
            b'{"messages": [{"role": "user", "content": "x"}, {"role": "bot", "content": "x"}]}',
            "messages[1]: role is 'bot', not one of user, assistant, system, tool",
        ),
        (b'{"messages": [{"role": "user", "content": ""}]}', "messages[0]: content is empty"),
        (b'{"messages": [{"role": "user", "content": "x", "at": 1}]}', "a message has no 'at'"),
        (b'{"messages": [{"role": "user", "content": "x", "time": 1}]}', "time is no string"),
        (b'{"messages": [{"role": "user", "content": "x", "time": "y"}]}', "time is 'y'"),
        (b'{"id": 1}', "id is no string"),
        (b'{"id": "a/b"}', "id is 'a/b', not 1 to 64 letters"),
    ],
)
def test_a_file_that_is_no_session_is_refused_by_name(
    tmp_path: Path, text: bytes, fault: str
) -> None:
    """A file that is no session raises an error with the file's name and the fault."""
    file = tmp_path / "session.json"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=r"session\.json") as caught:
        Session.load(file)
    assert fault in str(caught.value)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    """A missing file raises FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        Session.load(tmp_path / "none.json")


def test_a_session_has_an_id() -> None:
    """Each session has an id of its own or the given one; bad ones are refused."""
    assert Session().id != Session().id
    assert Session(id="A-1_b").id == "A-1_b"
    for bad in ("a b", "a/b", "x" * 65, "é"):
        with pytest.raises(ValueError, match="id is"):
            Session(id=bad)


def test_a_file_of_before_has_one_id(tmp_path: Path) -> None:
    """A file without an id and times loads, with the same id each time: that of its beginning."""
    file = tmp_path / "session.json"
    file.write_text('{"messages": [{"role": "user", "content": "Hi."}]}')
    first = Session.load(file)
    assert first.messages == (SessionMessage("user", "Hi."),)
    assert Session.load(file).id == first.id != Session.loads("{}").id
    first.save(file)
    assert Session.load(file).id == first.id


def test_a_message_has_its_time() -> None:
    """A message is said now, or at the given time."""
    began = datetime.now(UTC)
    session = Session()
    session.add("user", "now")
    session.add("user", "then", began)
    now, then = session.messages
    assert now.time is not None
    assert then.time is not None
    assert began == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=then.time)
    assert then.time <= now.time <= then.time + 60_000_000
    with pytest.raises(ValueError, match="time is 'soon'"):
        session.add("user", "x", "soon")
