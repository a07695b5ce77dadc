"""A store with the service of memories in process, asked by callers with rights."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vikingd.config import Settings
from vikingd.domain.contexts import Draft, Entry, Passage
from vikingd.domain.rights import CALLER, Caller, Grant, Right
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import check, prepare
from vikingd.lanes.call_pools import Threads
from vikingd.models.chat.chat_model import ChatModel
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.extract.extractor import Extractor
from vikingd.pb import memories_pb2 as pb
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.memories_service import MemoriesService

USER = "viking://user/memories"
AGENT = "viking://agent/memories"
ANA = "viking://users/ana/memories"
BOB = "viking://users/bob/memories"
LAMP = "viking://projects/lamp/memories"
NOW = 1_772_600_000  # 2026-03-04, in seconds

_REPLIES = {
    "Recall": pb.RecallResponse,
    "Remember": pb.RememberResponse,
    "Reinforce": pb.ReinforceResponse,
    "Forget": pb.ForgetResponse,
}


def caller(user: str = "", *read: str, write: Sequence[str] = (), key: str = "k") -> Caller:
    """Return a caller that may read below some URIs and write below others."""
    grants = [Grant(Right.READ, uri) for uri in read] + [Grant(Right.WRITE, uri) for uri in write]
    return Caller(key, "default", user, grants)


def vector(of: random.Random) -> bytes:
    """Return a random unit vector of 8 numbers, in bytes."""
    numbers = [of.gauss(0.3, 1) for _ in range(8)]
    length = sum(number * number for number in numbers) ** 0.5
    return array("f", [number / length for number in numbers]).tobytes()


class _Call:
    """The context of a call without a deadline."""

    def peer(self) -> str:
        return "test"

    def time_remaining(self) -> None:
        return None


class World:
    """A store, and its service of memories."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine(EngineSettings(path, EmbedSettings(provider="none")))
        self._threads = Threads()
        self._service = MemoriesService(
            self.engine,
            self._threads,
            Metrics(),
            Settings(),
            Extractor(ChatModel(PlannerSettings())),
        )
        self._runner = asyncio.Runner()

    def close(self) -> None:
        """End the calls and close the store."""
        self._runner.close()
        self._threads.shutdown()
        self.engine.close()

    def put(self, uri: str, *entries: str, of: random.Random | None = None, **fields: Any) -> None:
        """Put a file with one entry a line; `of` gives vectors and counters."""
        content, passages = "", []
        for text in entries:
            start = len(content) + 2
            content += f"- {text}\n"
            entry = (
                Entry(reinforcement=of.randrange(9), access_count=of.randrange(9)) if of else None
            )
            made = vector(of) if of else b""
            passages.append(Passage("", start, start + len(text), made, entry))
        draft = Draft(uri, content=content, passages=tuple(passages), **fields)
        self.engine.writable_store.put([prepare(check(draft))]).result()

    def ask(self, who: Caller, rpc: str, request: Any) -> Any:
        """Return the reply to a call of `who`."""

        async def answer() -> Any:
            CALLER.set(who)
            return await getattr(self._service, rpc)(request, _Call())

        reply = self._runner.run(answer())
        return _REPLIES[rpc].FromString(reply) if isinstance(reply, bytes) else reply

    def recall(self, who: Caller, query: str, **fields: Any) -> pb.RecallResponse:
        """Recall; unless `no_touch` is False, without counting accesses."""
        request = pb.RecallRequest(query=query, **{"no_touch": True, **fields})
        reply: pb.RecallResponse = self.ask(who, "Recall", request)
        return reply

    def remember(self, who: Caller, text: str, **fields: Any) -> pb.RememberResponse:
        """Remember a text by its wording."""
        request = pb.RememberRequest(text=text, exact=True, **fields)
        reply: pb.RememberResponse = self.ask(who, "Remember", request)
        return reply

    def reinforce(self, who: Caller, *ids: int, **fields: Any) -> pb.ReinforceResponse:
        """Reinforce memories."""
        reply: pb.ReinforceResponse = self.ask(
            who, "Reinforce", pb.ReinforceRequest(ids=ids, **fields)
        )
        return reply

    def forget(self, who: Caller, *ids: int, **fields: Any) -> pb.ForgetResponse:
        """Forget memories."""
        reply: pb.ForgetResponse = self.ask(who, "Forget", pb.ForgetRequest(ids=ids, **fields))
        return reply

    def entries(self, root: str = "viking://") -> dict[int, tuple[str, str, int]]:
        """Return (URI, text, reinforcement) of all memories below a directory, by id."""
        return {
            one.entry.id: (one.uri, one.passage, one.entry.reinforcement)
            for one in self.engine.store.memories_below(root)
        }

    def id_of(self, uri: str) -> int:
        """Return the id of the only memory of a file."""
        (found,) = [i for i, (of, _, _) in self.entries().items() if of == uri]
        return found


@contextmanager
def opened(path: Path) -> Iterator[World]:
    """Yield a world, and close it."""
    world = World(path)
    try:
        yield world
    finally:
        world.close()
