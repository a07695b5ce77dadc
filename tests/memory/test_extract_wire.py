"""Extract over gRPC: limits, rights, users, dry runs, named calls, and vikingctl extract."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.memory.extract_helpers import PREFERENCES, PROFILE, ROOT, files, session, texts
from tests.nodes.reader_helpers import serving
from vikingd.client import (
    AsyncClient,
    Client,
    ClientError,
    Draft,
    ExtractSource,
    InvalidField,
    SearchSession,
)
from vikingd.client.client_errors import PermissionDenied, QuotaExceeded, ReadOnly
from vikingd.client.messages import MessageClient
from vikingd.domain.spoken_text import without_speaker
from vikingd.pb import memories_pb2, retrieval_pb2

NOW = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
Ctl = Callable[..., tuple[int, str, str]]
SAID = session("I live in Paris. I love tea.", ("assistant", "I live in Rome."))
BOTH = [
    ("PROFILE", "ADDED", "The user lives in Paris."),
    ("PREFERENCES", "ADDED", "The user loves tea."),
]


def faulty(client: Client | MessageClient, *args: object, **fields: object) -> str:
    """Return the field that an InvalidField of extract names."""
    with pytest.raises(InvalidField) as error:
        client.extract(*args, **fields)  # type: ignore[arg-type]
    return error.value.field_violations[0].field


def test_extract_writes_what_the_user_says(typed: Client) -> None:
    """Without a model the rules answer, with evidence, URIs and ids."""
    result = typed.extract(SAID, time=NOW)
    assert texts(result) == BOTH
    assert result.source is ExtractSource.RULES
    assert result.reason.startswith("no model is configured")
    assert (result.degraded, result.refused) == ((), ())
    assert [(one.uri, one.evidence, one.met) for one in result] == [
        (PROFILE, (0,), ""),
        (PREFERENCES, (0,), ""),
    ]
    memory = typed.get(PROFILE).passages[0].memory
    assert memory is not None
    assert (memory.id, memory.time) == (result.memories[0].id, NOW)
    assert result.revision == typed.get(PREFERENCES).revision
    again = typed.extract(SAID, time=NOW)
    assert [(one.outcome.name, one.id) for one in again] == [
        ("REINFORCED", one.id) for one in result
    ]


def test_a_dry_run_writes_nothing(typed: Client) -> None:
    """A dry run shows the outcomes of a real call, over several memories of one file too."""
    typed.extract(session("I live in Paris."))
    before, revision = files(typed), typed.verify().revision
    said = session("I moved to Lyon. My name is Ann. I moved to Rome. My name is Ann!")
    planned = typed.extract(said, dry_run=True)
    assert (files(typed), typed.verify().revision) == (before, revision)
    assert [one.id for one in planned] == [0, 0, 0]
    assert planned.revision == revision
    done = typed.extract(said)
    assert texts(done) == texts(planned)
    assert [one.met for one in done] == [one.met for one in planned]
    assert [one.outcome.name for one in done] == ["REPLACED", "REPLACED", "ADDED"]
    assert typed.verify().ok


def test_nothing_to_read_gives_no_memory(typed: Client) -> None:
    """A session without new messages gives no memory; a question is no fact, but a turn."""
    assert typed.extract(session()).source is ExtractSource.NONE
    assert typed.extract(SAID, first=2).source is ExtractSource.NONE
    assert files(typed) == {}
    result = typed.extract(session("What time is it?"))
    assert (result.source, len(result)) == (ExtractSource.RULES, 0)
    assert result.episode is not None
    assert set(files(typed)) == {result.episode.uri}


def test_the_fields_are_checked(client: MessageClient, typed: Client) -> None:
    """A bad field is named, and nothing is written."""
    assert faulty(typed, SAID, first=3) == "first"
    assert faulty(typed, SAID, time_zone="Mars/Base") == "time_zone"
    assert faulty(typed, SAID, time=datetime(1, 6, 1, tzinfo=UTC)) == "time"
    assert faulty(typed, SAID, request_id="é") == "request_id"
    assert faulty(typed, SAID, project="a/b") == "scope.project"
    many = session(*["I love tea."] * 1001)
    assert faulty(typed, many) == "session.messages"
    early = session("I love tea.", "I love salt.")
    early.add("user", "Hm.", -62_130_000_000_000_000)
    assert faulty(typed, early) == "session.messages[2].time"
    assert faulty(typed, SearchSession(id="a/b")) == "session.id"
    stub = client._stubs.memories
    both = memories_pb2.MemoryScope(with_global=True, project="lamp")
    late = retrieval_pb2.SessionMessage(role="user", content="x")
    late.time.seconds = 1 << 40
    for request, field in (
        (memories_pb2.ExtractRequest(scope=both), "scope"),
        (
            memories_pb2.ExtractRequest(
                session=retrieval_pb2.SearchSession(
                    messages=[retrieval_pb2.SessionMessage(role="boss", content="x")]
                )
            ),
            "session.messages[0].role",
        ),
        (
            memories_pb2.ExtractRequest(session=retrieval_pb2.SearchSession(messages=[late])),
            "session.messages[0].time",
        ),
    ):
        with pytest.raises(Exception, match=field.replace("[", r"\[")):
            stub.Extract(request)
    assert files(typed) == {}


def test_a_project_and_the_day_of_its_journal(typed: Client) -> None:
    """A project's memories stay in the project; a change is noted on the day of the zone."""
    lamp = "viking://projects/lamp/memories"
    typed.extract(session("I live in Paris."), project="lamp", time=NOW)
    said = session("I moved to Lyon.")
    done = typed.extract(said, project="lamp", time=NOW, time_zone="Asia/Tokyo")
    assert done.memories[0].uri == f"{lamp}/profile.md"
    assert done.episode is not None
    assert done.episode.uri == f"{lamp}/journal/2026-03-11/session-{said.id}.md"
    assert {uri for uri in files(typed) if "/session-" not in uri} == {
        f"{lamp}/profile.md",
        f"{lamp}/journal/2026-03-11.md",
    }


def test_a_named_call_counts_once(typed: Client) -> None:
    """A repetition gets the first answer; the same name with other fields is refused."""
    first = typed.extract(SAID, time=NOW, request_id="one")
    assert typed.extract(SAID, time=NOW, request_id="one") == first
    state = typed.get(PROFILE).passages[0].memory
    assert state is not None
    assert state.reinforcement == 0
    assert faulty(typed, session("I love tea."), time=NOW, request_id="one") == "request_id"
    planned = typed.extract(session("I hate tea."), request_id="two", dry_run=True)
    assert typed.extract(session("I hate tea."), request_id="three").memories[0].id
    assert planned.memories[0].outcome.name == "REPLACED"


def test_equal_named_calls_at_once_count_once(typed: Client) -> None:
    """Sixteen equal calls with one name leave one entry that was said once."""
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: typed.extract(SAID, time=NOW, request_id="x"), range(16)))
    assert len({one.memories for one in found}) == 1
    assert len(typed.get(PROFILE).passages) == 1
    memory = typed.get(PROFILE).passages[0].memory
    assert memory is not None
    assert memory.reinforcement == 0


def test_a_file_without_a_place_refuses_its_memory_alone(typed: Client) -> None:
    """An open code block, or a directory in the place of a file, costs no other memory."""
    day = f"{ROOT}/journal/2026-03-10.md"
    typed.put([Draft(PREFERENCES, content="```\n"), Draft(f"{ROOT}/entities.md/x.md", content="x")])
    said = session("I live in Paris. I love tea. My dog is called Rex.")
    for dry_run in (True, False):
        result = typed.extract(said, time=NOW, dry_run=dry_run)
        assert texts(result) == BOTH[:1]
        assert [one.reason[:50] for one in result.refused] == [
            f"{ROOT}/entities.md cannot be a file in the tree"[:50],
            f"{PREFERENCES} has no place: the file has only"[:50],
        ]
    typed.put([Draft(day, content="```\n")])
    moved = typed.extract(session("I moved to Lyon."), time=NOW)
    assert [one.outcome.name for one in moved] == ["REPLACED"]
    assert f"a change is not noted: {day} has no place" in moved.reason
    assert typed.get(PREFERENCES).content == typed.get(day).content == "```\n"
    nothing = typed.extract(session("I love tea."), request_id="n")
    assert (len(nothing), len(nothing.refused)) == (0, 1)
    assert typed.verify().ok


def test_the_other_clients_extract_too(daemon: str, client: MessageClient) -> None:
    """AsyncClient and MessageClient have the method."""

    async def run() -> list[tuple[str, str, str]]:
        async with AsyncClient(daemon) as other:
            return texts(await other.extract(SAID))

    assert asyncio.run(run()) == BOTH
    reply = client.extract(SAID)
    assert [one.outcome for one in reply.memories] == [memories_pb2.REMEMBER_OUTCOME_REINFORCED] * 2


def test_users_have_memories_of_their_own(home: tuple[str, Client]) -> None:
    """The memories of a user go below its own root; those of another user are not compared."""
    address, operator = home
    operator.put_tenant("users", create=True)
    made = operator.with_key(operator._credentials.key, "users")  # type: ignore[attr-defined]
    for name in ("ann", "bob"):
        key = made.create_key(user=name, write=(f"viking://users/{name}",)).secret
        with Client(address, key=key) as client:
            result = client.extract(session("I live in Paris.", "I like tea."), time=NOW)
            root = f"viking://users/{name}/memories"
            assert [one.uri for one in result] == [f"{root}/profile.md", f"{root}/preferences.md"]
            assert [one.outcome.name for one in result] == ["ADDED", "ADDED"]
            client.extract(session("I moved to Lyon."), time=NOW)
            assert f"{root}/journal/2026-03-10.md" in files(client)


def test_a_key_without_the_right_is_refused(home: tuple[str, Client]) -> None:
    """Without a right to write, nothing is written; the rest of a partial right is refused."""
    address, operator = home
    operator.put_tenant("rights", create=True)
    made = operator.with_key(operator._credentials.key, "rights")  # type: ignore[attr-defined]
    reader = made.create_key(read=("viking://",)).secret
    with Client(address, key=reader) as client:
        with pytest.raises(PermissionDenied):
            client.extract(SAID)
        with pytest.raises(PermissionDenied):
            client.extract(session("Hello."), dry_run=True)
    part = made.create_key(read=("viking://",), write=(PROFILE,)).secret
    with Client(address, key=part) as client:
        result = client.extract(SAID)
        assert [one.uri for one in result] == [PROFILE]
        (refused,) = result.refused
        assert refused.reason == f"the caller may not write {PREFERENCES}"
        again = client.extract(session("I moved to Lyon."))
        assert "changes are not noted: the caller may not write the journal" in again.reason
        (changed,) = again.memories
        assert changed.outcome.name == "REPLACED"
        assert set(files(client)) == {PROFILE}  # it may not write the journal


def test_a_tenant_that_is_full_takes_no_memory(home: tuple[str, Client]) -> None:
    """At the limit of contexts an Extract is refused as a Remember is."""
    address, operator = home
    operator.put_tenant("full", limits={"contexts": 1}, create=True)
    made = operator.with_key(operator._credentials.key, "full")  # type: ignore[attr-defined]
    key = made.create_key(write=("viking://",)).secret
    with Client(address, key=key, retries=False) as client:
        with pytest.raises(QuotaExceeded):
            client.extract(SAID)
        assert files(client) == {}


@pytest.mark.deep
def test_a_reader_takes_no_memory(tmp_path: Path) -> None:
    """A reader refuses the call."""
    with serving(tmp_path, "--provider", "none") as writer:
        with (
            serving(tmp_path, "--provider", "none", "--reader") as reader,
            Client(reader.address) as client,
            pytest.raises(ReadOnly),
        ):
            client.extract(SAID)
        assert writer.address


@pytest.mark.deep
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    """A reply means that all memories of the call are on disk."""
    with serving(tmp_path, "--provider", "none") as daemon:
        with Client(daemon.address) as client:
            client.extract(session("I live in Paris."), time=NOW)
            client.extract(session("I moved to Lyon. I love tea."), time=NOW)
        daemon.kill()
    with serving(tmp_path, "--provider", "none") as daemon, Client(daemon.address) as client:
        day = f"{ROOT}/journal/2026-03-10"
        kept = files(client)
        sessions = {uri for uri in kept if uri.startswith(f"{day}/session-")}
        assert set(kept) - sessions == {PROFILE, PREFERENCES, f"{day}.md"}
        turns = [one.text for one in client.memories() if one.uri in sessions]
        assert len(sessions) == 2
        assert len(turns) == 2
        assert {without_speaker(turn) for turn in turns} == {
            "I live in Paris.",
            "I moved to Lyon. I love tea.",
        }
        assert "## Earlier\n\n- The user lives in Paris." in client.get(PROFILE).content
        assert client.verify().ok


def test_vikingctl_extract(
    typed: Client, ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command shows kind, outcome, evidence and text; a dry run writes nothing."""
    file = tmp_path / "session.json"
    SAID.save(file)
    code, out, err = ctl("extract", "--session", str(file), "--dry-run")
    assert (code, out.count("\n")) == (0, 2)
    assert "would write 2 memories and 2 turns, refused 0; rules" in err
    assert f"session-{SAID.id}.md" in err
    assert files(typed) == {}
    code, out, _ = ctl("extract", "--session", str(file), "--time", "2026-03-01", "--json")
    assert code == 0
    episode = json.loads(out)["episode"]
    assert [turn.get("message", 0) for turn in episode["turns"]] == [0, 1]
    told = json.loads(out)["memories"]
    assert [(one["kind"], one["text"], one["evidence"]) for one in told] == [
        ("MEMORY_KIND_PROFILE", "The user lives in Paris.", [0]),
        ("MEMORY_KIND_PREFERENCES", "The user loves tea.", [0]),
    ]
    text = json.dumps({"messages": [{"role": "user", "content": "I moved to Lyon."}]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = ctl("extract", "--session", "-")
    assert code == 0
    assert all(
        one in out
        for one in ("profile", "replaced", "The user lives in Lyon.", "The user lives in Paris.")
    )


def test_vikingctl_extract_shows_what_is_forgotten(typed: Client, ctl: Ctl, tmp_path: Path) -> None:
    """The command shows what is gone, the doubts, and the command that forgets these."""
    texts = ("The user lives in Rome.", "The user's car is red.", "The user sold the car.")
    home, red, sold = (typed.remember(text, "profile", exact=True).id for text in texts)
    file = tmp_path / "session.json"
    session("Forget that I live in Rome.", "Please forget my car.").save(file)
    code, out, err = ctl("extract", "--session", str(file), "--dry-run")
    assert code == 0
    place = "viking://user/memories/profile.md\tProfile"
    assert f"{home}\twould forget\t{place}\tThe user lives in Rome.\n" in out
    plain = " ".join((out + err).split())
    assert "in doubt, nothing was forgotten: Please forget my car." in plain
    assert "several different memories match (message 1)" in plain
    assert f"vikingctl forget {sold} {red}" in plain
    assert "would forget 1" in plain
    code, out, _ = ctl("extract", "--session", str(file), "--json")
    told = json.loads(out)
    assert [one["id"] for one in told["forgotten"]] == [str(home)]
    [doubt] = told["toForget"]
    assert (doubt["request"], doubt["message"]) == ("Please forget my car.", 1)
    assert [one["id"] for one in doubt["memories"]] == [str(sold), str(red)]


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("{", (), "is not JSON"),
        ('{"messages": [{"role": "boss", "content": "x"}]}', (), "role is 'boss'"),
        ('{"messages": []}', ("--first", "1"), "first: is 1, but the session has 0 messages"),
    ],
)
def test_vikingctl_extract_refuses(
    ctl: Ctl, tmp_path: Path, text: str, options: tuple[str, ...], why: str
) -> None:
    """A bad file or option is a usage error."""
    file = tmp_path / "session.json"
    file.write_text(text)
    code, _, err = ctl("extract", "--session", str(file), *options)
    assert code == 2
    assert why in " ".join(err.replace("│", "").split())
    assert ctl("extract")[0] == 2
    assert ctl("extract", "--session", str(tmp_path / "none"))[0] == 2


def test_errors_are_client_errors(typed: Client) -> None:
    """An error of the call is a ClientError."""
    with pytest.raises(ClientError):
        typed.extract(SAID, first=9)
