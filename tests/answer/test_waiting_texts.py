"""The note on texts that wait for their vectors, in each kind of answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ctl_runner
from tests.nodes.reader_helpers import serving
from tests.patience import eventually
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client import DegradationReason, Draft, Passage, find_request
from vikingd.client.messages import MessageClient

LATE, READY = "viking://resources/late", "viking://resources/ready"


@pytest.fixture
def slow(
    tmp_path: Path,
) -> Iterator[tuple[MessageClient, threading.Event]]:
    """Yield a client of a daemon whose embedder holds texts with "slow" until the event is set."""
    go_on = threading.Event()

    def answer(request: Request) -> Reply:
        texts = request.json["input"]
        if any("slow" in text for text in texts):
            go_on.wait(60)
        rows = [
            {"object": "embedding", "index": i, "embedding": [1.0 + text.count(c) for c in "abc"]}
            for i, text in enumerate(texts)
        ]
        return Reply({"object": "list", "model": "letters", "data": rows})

    with (
        ScriptedServer(answer) as endpoint,
        serving(
            tmp_path,
            "--provider",
            "openai",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=f"{endpoint.url}/v1",
            VIKINGD_EMBEDDING__OPENAI_MODEL="letters",
            VIKINGD_EMBEDDING__DIMENSION="3",
        ) as daemon,
    ):
        try:
            yield daemon.client, go_on
        finally:
            go_on.set()


def test_an_answer_says_how_many_texts_of_its_scope_wait(
    slow: tuple[MessageClient, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Find, search, retrieve, recall and context say so, and no more once all have vectors."""
    client, go_on = slow
    blank = Draft(
        f"{READY}/blank.md", content="   ", passages=[Passage("", 0, 3)]
    )  # gets no vector
    client.put([Draft(f"{READY}/a.md", content="A cab."), blank])
    eventually(lambda: not client.stats().embedder.backlog)
    client.put([Draft(f"{LATE}/{name}.md", content=f"A slow cab {name}.") for name in "xyz"])
    client.remember("Takes a slow cab.", "notes")
    waiting = client.stats().embedder.backlog
    asked: dict[str, Callable[[], object]] = {
        "all": lambda: client.find("cab"),
        "late": lambda: client.find("cab", target_uri=LATE),
        "ready": lambda: client.find("cab", target_uri=READY),
        "search": lambda: client.search("cab"),
        "retrieve": lambda: client.retrieve("cab", target_uri=LATE),
        "recall": lambda: client.recall("cab", no_touch=True),
        "context": lambda: client.build_context(find=find_request("cab", target_uri=LATE)),
    }

    def notes() -> dict[str, str]:
        replies = {name: ask() for name, ask in asked.items()}
        return {
            name: "; ".join(note.detail for note in reply.degraded)  # type: ignore[attr-defined]
            for name, reply in replies.items()
        }

    words = "wait for their vectors: until then words alone find them"
    assert notes() == {
        "all": f"{waiting} texts {words}",
        "late": f"{waiting - 1} texts {words}",
        "ready": "",
        "search": f"{waiting} texts {words}",
        "retrieve": f"{waiting - 1} texts {words}",
        "recall": "1 text waits for its vector: until then words alone find them",
        "context": f"{waiting - 1} texts {words}",
    }
    assert client.find("cab").degraded[0].reason == DegradationReason.VECTORS_PENDING
    monkeypatch.setenv("VIKINGCTL_ADDRESS", client.address)
    ctl = ctl_runner(monkeypatch, capsys)
    assert f"\ndegraded: {waiting} texts {words}\n" in ctl("find", "cab")[2]
    go_on.set()
    eventually(lambda: not any(notes().values()))
