"""Memories over restarts, in readers, and after any sequence of calls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.extract_helpers import PROFILE, session
from tests.memory.remember_helpers import (
    NOTES,
    REINFORCED,
    USER,
    known,
    recalled,
    verified,
)
from tests.nodes.reader_helpers import serving as on_store
from vikingd.client import ClientError, Draft
from vikingd.client.messages import MessageClient
from vikingd.memory.entry_comparison import normalized
from vikingd.memory.numbered_files import MOST_ENTRIES, file_of, number_of


@pytest.fixture
def client(client: MessageClient) -> Iterator[MessageClient]:
    """Yield a client of the daemon, and check afterwards that index and store agree."""
    yield client
    assert verified(client)


# Restarts, readers


def test_a_restart_and_a_kill_keep_all_that_was_answered(tmp_path: Path) -> None:
    """Memories outlive a kill and a restart, and the id of a forgotten one is not used again."""
    with on_store(tmp_path) as daemon:
        for text in ("a", "b", "c", "A!", "d"):
            last = daemon.client.remember(text, uri=NOTES)
        daemon.client.forget(last.id)
        before = known(daemon.client)
        assert list(before.values()) == [("A!", 1), ("b", 0), ("c", 0)]
        daemon.client.extract(session("I live in Paris."))
        daemon.kill()
    with on_store(tmp_path) as daemon:
        assert known(daemon.client) == before
        assert "lives in Paris" in daemon.client.get(PROFILE).context.content
        assert verified(daemon.client)
    with on_store(tmp_path) as daemon:
        assert known(daemon.client) == before
        assert daemon.client.remember("e", uri=NOTES).id > last.id
        assert verified(daemon.client)


def test_a_reader_recalls_and_refuses_to_remember(tmp_path: Path) -> None:
    """A reader counts no access, and its READ_ONLY errors have the writer's address."""
    with on_store(tmp_path, "--writer-listen", "127.0.0.1:0") as writer:
        reply = writer.client.remember("The harbour.", uri=NOTES)
        with on_store(tmp_path, "--reader", "--writer-listen", writer.alone) as reader:
            found = reader.client.recall("harbour", min_revision=reply.revision)
            assert [memory.content for memory in found.results] == ["The harbour."]
            assert not found.degraded
            for counted in (
                reader.client.recall("harbour", used=[reply.id]),
                reader.client.build_context("harbour"),
            ):
                assert [note.detail for note in counted.degraded] == [
                    "accesses are not counted: this process is a reader"
                ]
            client = reader.client
            for call, args in (
                (client.remember, ("x", "notes")),
                (client.reinforce, (reply.id,)),
                (client.forget, (reply.id,)),
                (client.forget, (987_654_321,)),
                (client.extract, (session("I live in Paris."),)),
            ):
                with pytest.raises(ClientError) as error:
                    call(*args)
                assert error.value.reason == "READ_ONLY"
                assert writer.alone in error.value.message
            (would,) = client.forget(reply.id, dry_run=True).forgotten
            assert would.content == "The harbour."
            gone = writer.client.forget(reply.id)
            assert not client.recall("harbour", min_revision=gone.revision).results
        assert verified(writer.client)


# Random sequences of calls

WORDINGS = ("Alpha tea.", "alpha tea", "Beta tea", "Beta tea!", "γ 茶", "delta\ntea", "Epsilon tea")
NAMES = [f"{USER}/{name}.md" for name in "pqr"]
AWAY = "viking://resources/away.md"


@pytest.mark.parametrize(
    ("parts", "steps", "most"),
    [(1, 15, 9), pytest.param(6, 60, MOST_ENTRIES, marks=pytest.mark.deep)],
)
def test_any_sequence_leaves_what_a_dict_would(
    tmp_path: Path, parts: int, steps: int, most: int
) -> None:
    """Random calls, restarts and kills leave the entries that a plain dict has.

    In the deep tier two files are nearly full, so that some calls go on in the next one.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    files: dict[str, dict[int, tuple[str, int]]] = {}
    seen: set[int] = set()
    for part in range(parts):
        with on_store(tmp_path) as daemon:
            for uri, missing in zip(NAMES[:2] if not part else (), (1, 3), strict=False):
                lines = [f"- tea {number}\n" for number in range(most - missing)]
                daemon.client.put([Draft(uri, content="".join(lines))])
                files[uri] = known(daemon.client, uri)
                seen.update(files[uri])
            for _ in range(steps):
                step(daemon.client, draw, files, seen)
            for uri in {*NAMES, AWAY, *files}:
                assert list(known(daemon.client, uri).items()) == list(files.get(uri, {}).items())
            there = {text for uri in files if uri != AWAY for text, _ in files[uri].values()}
            assert recalled(daemon.client, "tea 茶") == there
            assert verified(daemon.client)
            if part % 2:
                daemon.kill()


def step(
    client: MessageClient,
    draw: random.Random,
    files: dict[str, dict[int, tuple[str, int]]],
    seen: set[int],
) -> None:
    """Make one random call, and apply it to the dict."""
    uri = draw.choice(sorted({*NAMES, *files} - {AWAY}))
    there = files.get(uri, {})
    match draw.choice(
        ["remember", "remember", "remember", "reinforce", "forget", "hand", "move", "delete"]
    ):
        case "remember":
            first = draw.choice(NAMES)
            text = draw.choice(WORDINGS) if draw.random() < 0.7 else f"tea {draw.random()}"
            reply = client.remember(text, uri=first)
            series = sorted((n, of) for of in files if (n := number_of(first, of)))
            same = [
                (of, i)
                for _, of in series
                for i, (old, _) in files[of].items()
                if normalized(old) == normalized(text)
            ]
            assert bool(same) == (reply.outcome == REINFORCED)
            if same:
                assert (reply.uri, reply.id) == same[0]
                files[reply.uri][reply.id] = (text, files[reply.uri][reply.id][1] + 1)
            else:
                assert reply.id > max(seen, default=0)
                seen.add(reply.id)
                last, of = series[-1] if series else (0, "")
                is_next = not last or len(files[of]) >= MOST_ENTRIES
                assert reply.uri == (file_of(first, last + 1) if is_next else of)
                files.setdefault(reply.uri, {})[reply.id] = (text, 0)
        case "reinforce" if there:
            ids = draw.sample(list(there), draw.randint(1, len(there)))
            client.reinforce(*ids, by=2)
            there.update({i: (there[i][0], there[i][1] + 2) for i in ids})
        case "forget" if there:
            ids = draw.sample(list(there), draw.randint(1, len(there)))
            client.forget(*ids)
            for i in ids:
                del there[i]
            if not there:
                del files[uri]
        case "hand" if there:
            kept = draw.sample(list(there), draw.randint(1, len(there)))
            new = f"{draw.choice(WORDINGS[2:5])} by hand {len(seen)}"
            lines = [there[i][0].replace("\n", "\n  ") for i in kept]
            eol = draw.choice(["\n", "\r\n"])
            text = "".join(f"- {line}\n" for line in [*lines, new]).replace("\n", eol)
            client.put([Draft(uri, content=text)])
            added = set(known(client, uri)) - set(there)
            assert len(added) == 1
            assert min(added) > max(seen)
            seen.update(added)
            files[uri] = {i: there[i] for i in kept} | dict.fromkeys(added, (new, 0))
        case "move":
            target = draw.choice([*NAMES, AWAY])
            source = AWAY if AWAY in files and draw.random() < 0.5 else uri
            if source in files and target not in files:
                client.move(source, target)
                files[target] = files.pop(source)
        case "delete" if there and draw.random() < 0.3:
            client.delete(uri)
            del files[uri]
