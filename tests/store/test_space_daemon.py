"""Forgotten text and free pages of a daemon's directory, and kills while it optimizes."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.nodes.reader_helpers import serving
from tests.patience import eventually
from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft

DOCS = "viking://resources/docs"
SECRET = "secret7391word"
ROUNDS = 15


def holders(path: Path) -> set[str]:
    """Return the names of the files and directories below a path that have the secret."""
    found = set()
    for one in path.rglob("*"):
        with suppress(FileNotFoundError):  # an old base goes away
            if one.is_file() and SECRET.encode() in one.read_bytes():
                found.add(one.relative_to(path).parts[0])
    return found


@pytest.mark.deep
def test_forgotten_text_leaves_the_directory(tmp_path: Path) -> None:
    """A forgotten memory leaves the store within a moment, and the index with Optimize."""
    with serving(tmp_path) as daemon:
        client = daemon.client
        client.put([Draft(f"{DOCS}/{n}.md", content=f"note word{n}") for n in range(100)])
        other = client.remember("Drinks oolong in the morning.", "preferences").id
        said = client.remember(f"The password is {SECRET}.", "preferences").id
        client.put([Draft(f"{DOCS}/secret.md", content=f"also {SECRET}")])
        client.optimize()
        assert client.recall(SECRET).results[0].id == said
        assert holders(tmp_path) == {"store.sqlite3", "index"}
        client.forget(said)
        client.delete(f"{DOCS}/secret.md")
        eventually(lambda: holders(tmp_path) <= {"index"})
        client.optimize()
        assert holders(tmp_path) == set()
        data = b"".join(piece.data for piece in client.backup())
        assert SECRET.encode() not in data
        assert [memory.id for memory in client.recall("oolong").results] == [other]
        assert client.verify().ok


def optimize(client: MessageClient) -> None:
    """Optimize until the daemon ends."""
    with suppress(ClientError):
        while True:
            client.optimize(remove_empty_directories=True)


@pytest.mark.deep
def test_a_kill_while_it_optimizes_loses_nothing(tmp_path: Path) -> None:
    """After SIGKILL during Optimize with writes beside it, the acknowledged state is there."""
    seed = int(os.environ.get("TEST_SEED", "42"))
    print(f"TEST_SEED={seed}")
    dice = random.Random(seed)
    living: dict[str, str] = {}
    store = tmp_path / "store"
    for number in range(ROUNDS):
        with serving(store) as daemon:
            client = daemon.client
            assert {c.uri for c in client.list(DOCS)} == set(living) if living else True
            for n in range(40):
                text = f"{number} {n} " + "x" * dice.choice((10, 30_000))
                client.put([Draft(uri := f"{DOCS}/{number}-{n}.md", content=text)])
                living[uri] = text
            for uri in dice.sample(sorted(living), 30):
                client.delete(uri)
                del living[uri]

            thread = threading.Thread(target=optimize, args=(client,))
            thread.start()
            for n in range(dice.randrange(1, 30)):
                uri = f"{DOCS}/beside{n}.md"
                client.put([Draft(uri, content=f"{number} beside {n}")])
                living[uri] = f"{number} beside {n}"
            daemon.kill()
            thread.join()
    with serving(store) as daemon:
        assert daemon.client.verify().ok
        found = {uri: daemon.client.get(uri).context.content for uri in living}
        assert found == living
        assert {c.uri for c in daemon.client.list(DOCS)} == set(living)
