"""A daemon whose reranker is scripted, and readers of its answers."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.daemons import serving
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client import (
    Draft,
    SearchMode,
)
from vikingd.client.messages import MessageClient
from vikingd.pb.retrieval_pb2 import (
    FindResponse,
    MatchedContext,
)

TOP = "viking://resources/house"
THINKING = SearchMode.THINKING


def vector(*numbers: float) -> bytes:
    """Return a vector in bytes, as on the wire."""
    return array("f", numbers).tobytes()


def told(scores: dict[str, float], other: float = 0.1) -> Callable[[Request], Reply]:
    """Return the script of a reranker that has a score for each abstract."""

    def answer(request: Request) -> Reply:
        documents = request.json["documents"]
        results = [
            {"index": i, "relevance_score": scores.get(text, other)}
            for i, text in enumerate(documents)
        ]
        return Reply({"results": results})

    return answer


class House:
    """A daemon with its reranker."""

    def __init__(self, client: MessageClient, reranker: ScriptedServer) -> None:
        self.client = client
        self.reranker = reranker
        self._asked = 0

    def think(self, query: str = "", **fields: Any) -> FindResponse:
        """Find in mode THINKING, by default with a new query whose scores are not cached."""
        self.reranker.requests.clear()
        return self.client.find(query or self.question(), mode=THINKING, **fields)

    def question(self) -> str:
        """Return a question in new words, with the same meaning each time."""
        self._asked += 1
        return f"where are tea and spades in the house {'really ' * self._asked}"

    def documents(self) -> list[list[str]]:
        """Return the abstracts that the last find sent to the reranker, by call."""
        return [request.json["documents"] for request in self.reranker.requests]


def matches(reply: FindResponse) -> list[MatchedContext]:
    """Return all results, best first."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(found, key=lambda match: (-match.score, match.uri))


def scored(reply: FindResponse) -> dict[str, float]:
    """Return the scores by URI, best first."""
    return {match.uri: match.score for match in matches(reply)}


@contextmanager
def thinking_daemon() -> Iterator[House]:
    """Start a daemon with a few contexts and a scripted reranker."""
    with ScriptedServer(told({})) as reranker, ExitStack() as stack:
        backend = {"kind": "http", "form": "vllm", "url": reranker.url, "model": "m", "timeout": 5}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VIKINGD_RERANK__BACKENDS", json.dumps([backend]))
            address = stack.enter_context(serving("--provider", "none"))
        with MessageClient(address) as client:
            client.put(
                [
                    Draft("viking://resources", is_directory=True, abstract="All there is"),
                    Draft(TOP, is_directory=True, abstract="The house"),
                    Draft(f"{TOP}/kitchen", is_directory=True, abstract="The kitchen and its tea"),
                    Draft(f"{TOP}/kitchen/tea.md", content="Tea stands on the shelf."),
                    Draft(f"{TOP}/kitchen/pan.md", content="The pan hangs by the tea."),
                    Draft(f"{TOP}/kitchen/blank.md", vector=vector(1, 0)),
                    Draft(f"{TOP}/shed", is_directory=True, abstract="The shed"),
                    Draft(
                        f"{TOP}/shed/spade.md",
                        content="Two spades are in the shed.",
                        metadata={"sharp": True},
                    ),
                    Draft(f"{TOP}/shed/box", is_directory=True, abstract="A box in the shed"),
                    Draft(f"{TOP}/shed/box/nail.md", content="Nails of all kinds."),
                    Draft(f"{TOP}/shed/box/bag", is_directory=True, abstract="A bag in the box"),
                    Draft(f"{TOP}/shed/box/bag/screw.md", content="Screws of brass."),
                    Draft("viking://user/memories/tea.md", content="She likes green tea."),
                ]
            )
            yield House(client, reranker)


def broken(call: int, how: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """Return the script of a reranker that fails in one call of a find."""
    calls = iter(range(10))
    well = told({}, 0.3)
    return lambda request: (how if next(calls) == call else well)(request)


FAULTS: dict[str, Callable[[Request], Reply]] = {
    "nothing": lambda _: Reply({"results": []}),
    "one too few": lambda r: Reply(
        {
            "results": [
                {"index": i, "relevance_score": 0.5} for i in range(len(r.json["documents"]) - 1)
            ]
        }
    ),
    "NaN": lambda r: Reply(
        json.dumps(
            {
                "results": [
                    {"index": i, "relevance_score": float("nan")}
                    for i in range(len(r.json["documents"]))
                ]
            }
        ).encode()
    ),
    "an error": lambda _: Reply({"error": "no"}, status=500),
    "a reset": lambda _: Reply(reset=True),
    "half an answer": lambda _: Reply({"results": ["x" * 100]}, cut=20),
}
