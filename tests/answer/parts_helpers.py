"""Random stores that are equal below some areas, and the service Retrieval over a store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.store.store_helpers import directory, file
from tests.wire.wire_helpers import to_struct
from vikingd.answer.search_answer import Models
from vikingd.config import Settings
from vikingd.domain.contexts import Prepared
from vikingd.domain.errors import NotFound, VikingError
from vikingd.domain.rights import CALLER, Caller, Grant, Right
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.lanes.call_pools import Threads
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.intent.planner import Planner
from vikingd.models.rerank.rerankers import Reranked, Rerankers
from vikingd.pb import retrieval_pb2 as pb
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.retrieval_service import RetrievalService

DIMENSION = 8
ONE_FILE = "viking://resources/b/one.md"
AREAS = (
    "viking://agent/skills/s",
    "viking://projects/p/memories",
    "viking://resources/a",
    "viking://resources/a-b",
    "viking://resources/b/c",
    "viking://user/memories/x",
)
"""Directories below which both stores of a pair are equal, as they are in ONE_FILE."""

TARGETS = (
    "viking://",
    "viking://resources",
    "viking://resources/b",
    "viking://user",
    "viking://agent",
    "viking://nothing",
    "viking://resources/q",
    ONE_FILE,
    *AREAS,
    *(f"{area}/d" for area in AREAS),
)
_OUTSIDE = (
    "viking://resources/q",
    "viking://resources/a!",
    "viking://resources/a-b0",
    "viking://resources/b",
    "viking://resources/b/c2",
    "viking://resources",
    "viking://user/memories",
    "viking://user/memories/x0",
    "viking://agent/skills",
    "viking://agent/memories",
)
_ABOVE = (
    "viking://resources",
    "viking://resources/b",
    "viking://user/memories",
    "viking://agent/skills",
)
_WORDS = [
    "status",
    "codes",
    "harbour",
    "memory",
    "E4102",
    "src/main.c",
    "世界",
    "代码",
    "部署",
    "42",
]
_REPLIES = {
    "Find": pb.FindResponse,
    "BatchFind": pb.BatchFindResponse,
    "Search": pb.SearchResponse,
    "Retrieve": pb.RetrieveResponse,
    "BuildContext": pb.BuildContextResponse,
}
REQUESTS = {
    "Find": pb.FindRequest,
    "BatchFind": pb.BatchFindRequest,
    "Search": pb.SearchRequest,
    "Retrieve": pb.RetrieveRequest,
    "BuildContext": pb.BuildContextRequest,
}

Change = list[Prepared] | tuple[str, str] | str
"""Contexts to write, two URIs to link, or one to delete."""


def reader(*prefixes: str) -> Caller:
    """Return a caller that may read below some prefixes alone."""
    return Caller("key", "default", "", [Grant(Right.READ, prefix) for prefix in prefixes])


class HashedScores(Rerankers):
    """A reranker without a model: a document's score is a hash of it and of the query."""

    def __init__(self) -> None:
        super().__init__([])

    def named(self, *_: object) -> str:
        """Return the name of the model."""
        return "hash"

    async def rerank(
        self, query: str, documents: Sequence[str], *_: object, **__: object
    ) -> Reranked:
        """Return the scores of documents."""
        scores = [blake2b(f"{query}\0{one}".encode()).digest()[0] / 255 for one in documents]
        return Reranked(tuple(scores), len(documents), 0)


class Store:
    """An engine with the service Retrieval over it."""

    def __init__(self, path: Path, exhaustive_texts: int = 150_000) -> None:
        self.engine = Engine(
            EngineSettings(
                path,
                EmbedSettings(provider="none"),
                IndexSettings(ivf_rows=100),
                exhaustive_texts=exhaustive_texts,
            )
        )
        self._threads = Threads()
        self._loop = asyncio.Runner()
        models = Models(Planner(PlannerSettings()), HashedScores())
        settings = Settings(path=path)
        self.service = RetrievalService(self.engine, self._threads, Metrics(), settings, models)

    def close(self) -> None:
        """End the engine and the threads."""
        self._loop.close()
        self._threads.shutdown()
        self.engine.close()

    def change(self, change: Change) -> None:
        """Make a change. What it names may not exist: then nothing is changed."""
        store = self.engine.writable_store
        with suppress(NotFound):
            if isinstance(change, tuple):
                store.link(*change, "see").result()
            elif isinstance(change, str):
                store.delete([change]).result()
            else:
                store.put(change).result()

    def ask(self, caller: Caller, rpc: str, request: Any) -> Any:
        """Return the reply without revision and times, or what a caller sees of an error."""
        try:
            reply = self.ask_whole(caller, rpc, request)
        except VikingError as error:
            return type(error).__name__, str(error), error.metadata
        _forget(reply)
        return reply

    def ask_whole(self, caller: Caller, rpc: str, request: Any) -> Any:
        """Return the reply."""

        async def call() -> Any:
            CALLER.set(caller)
            return await getattr(self.service, rpc)(request, NoDeadline())

        return _REPLIES[rpc].FromString(self._loop.run(call(), context=copy_context()))


class NoDeadline:
    """A call without a deadline."""

    def peer(self) -> str:
        """Return the other end of the connection."""
        return "test"

    def time_remaining(self) -> None:
        """Return None: there is no deadline."""


def _forget(message: Any) -> None:
    """Clear what may differ between equal answers: revisions and times."""
    for field, value in message.ListFields():
        if field.name in ("revision", "timings", "duration"):
            message.ClearField(field.name)
        elif field.name == "icc":  # its last bits depend on the order of sums
            message.icc = round(value, 9)
        elif field.message_type is not None and field.message_type.name != "Struct":
            if field.name == "directories":  # ties stand in the order of rows
                value.sort(key=lambda one: (-one.parts.final, one.uri))
            for one in value if field.is_repeated else [value]:
                _forget(one)


class Writer:
    """A random writer of changes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._centre = self._numbers.normal(size=(2, DIMENSION)) * 0.5
        self.uris: list[str] = []

    def text(self) -> str:
        """Return some words."""
        return " ".join(self._random.choices(_WORDS, k=self._random.randint(1, 7)))

    def vector(self, text: str) -> bytes:
        """Return a vector near those of the text's script."""
        centre = self._centre[int(text.isascii())]
        vector = centre + self._numbers.normal(size=DIMENSION) * 0.4
        return (vector / np.linalg.norm(vector)).astype("<f4").tobytes()

    def written(self, tops: Sequence[str], count: int) -> list[Prepared]:
        """Return random files and directories below some directories."""
        out: dict[str, Prepared] = {}
        for _ in range(count):
            top = self._random.choice(tops)
            folder = self._random.choice(("", "/d", "/d/e", "/f"))
            text = self.text()
            if self._random.random() < 0.25:
                uri = top + folder
                fields: dict[str, Any] = {"abstract": text, "vector": self.vector(text)}
                out[uri] = directory(uri, **fields)
            else:
                uri = f"{top}{folder}/{self._random.randint(0, 12)}.md"
                out[uri] = self.file(uri)
        self.uris += out
        return list(out.values())

    def file(self, uri: str) -> Prepared:
        """Return a random file of some lines, with vectors."""
        text = self.text()
        lines = [self.text() + "\n" for _ in range(self._random.randint(1, 3))]
        metadata = {"year": self._random.randint(2020, 2023), "lang": self._random.choice("ab")}
        made = file(uri, "".join(lines), abstract=text, title=self.text(), metadata=metadata)
        for i, one in enumerate(made.texts):
            object.__setattr__(made.texts[i], "vector", self.vector(one.text))
        return made

    def link(self, others: Sequence[str] = ()) -> tuple[str, str]:
        """Return two URIs to link; one of `others` if there are any."""
        one = self._random.choice(self.uris)
        return one, self._random.choice([uri for uri in others or self.uris if uri != one])

    def removed(self) -> str:
        """Return the URI of a file to delete."""
        return self._random.choice([uri for uri in self.uris if uri.endswith(".md")])


def inside(seed: int) -> tuple[list[Change], list[str]]:
    """Return changes below the areas, and the URIs that they write."""
    writer = Writer(seed)
    changes: list[Change] = [[writer.file(ONE_FILE)]]
    for _ in range(4):
        changes.append(writer.written(AREAS, 14))
        changes += [writer.link() for _ in range(6)]
        changes += [writer.removed() for _ in range(3)]
    return changes, writer.uris


def outside(seed: int, linked: Sequence[str]) -> list[Change]:
    """Return changes beside and above the areas, with links to those URIs."""
    writer, random = Writer(seed), Random(seed)
    changes: list[Change] = []
    for _ in range(random.randint(1, 5)):
        changes.append(writer.written(_OUTSIDE, random.randint(2, 30)))
        above = random.choice(_ABOVE)
        text = writer.text()
        changes.append([directory(above, abstract=text, vector=writer.vector(text))])
        changes += [writer.link(linked) for _ in range(5)]
        changes += [writer.removed() for _ in range(3)]
    return changes


def fill(store: Store, seed: int, variant: int) -> list[str]:
    """Write what is inside by `seed` alone, and the rest by both; return the URIs inside.

    Their order is that of the variant, too. With an even seed the index is compacted at other
    times in each variant, with an odd one after the same changes inside.
    """
    random, shared = Random(1000 * seed + variant), Random(seed)
    changes, uris = inside(seed)
    others = outside(7919 * seed + variant + 1, uris)
    while changes or others:
        takes_inside = bool(changes) and (not others or random.random() < 0.5)
        store.change((changes if takes_inside else others).pop(0))
        by_itself = seed % 2 == 0 and random.random() < 0.04
        if by_itself or (seed % 2 and takes_inside and shared.random() < 0.08):
            store.engine.optimize()
    return uris


class Asker:
    """A random maker of callers and requests.

    With an even seed none asks for a walk, in which a compaction can change ties and the order.
    """

    def __init__(self, seed: int, uris: Sequence[str]) -> None:
        self._walks = bool(seed % 2)
        self._random = Random(seed)
        self._writer = Writer(seed)
        self._uris = [
            *self._random.choices(uris, k=20),
            *(f"{top}/{i}.md" for top in _OUTSIDE for i in range(3)),
            *_ABOVE,
            ONE_FILE,
        ]

    def caller(self) -> Caller:
        """Return a caller that may read some of the areas."""
        areas = (*AREAS, *AREAS, ONE_FILE, "viking://resources/no", f"{AREAS[2]}/d")
        return reader(*self._random.sample(areas, self._random.choice((0, 1, 1, 2, 2, 3, 5))))

    def request(self, rpc: str) -> Any:
        """Return a request."""
        made = getattr(self, f"_{rpc.lower()}")()
        if rpc == "BuildContext":  # Accesses are counted later, by a commit of their own.
            made["no_touch"] = True
        return REQUESTS[rpc](**made)

    def _may(self, chance: float) -> bool:
        return self._random.random() < chance

    def _query(self) -> str:
        kind = self._random.random()
        return "E4102" if kind < 0.1 else self._writer.text()

    def _target(self) -> str:
        return self._random.choice(TARGETS) if self._may(0.6) else ""

    def _where(self) -> dict[str, Any]:
        return self._random.choice(
            [
                {"year": {"$gte": 2021}},
                {"lang": "a"},
                {"lang": {"$ne": "b"}, "year": 2022},
                {"year": {"$bad": 1}},
                {"title": {"$exists": False}},
            ]
        )

    def _common(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"target_uri": self._target(), "trace": self._may(0.3)}
        fields["query"] = self._query()
        if self._may(0.7):
            fields["vector"] = self._writer.vector(fields["query"])
        if self._may(0.2):
            fields["context_types"] = self._random.sample((1, 2, 3), 2)
        if self._may(0.25):
            fields["where"] = to_struct(self._where())
        if self._may(0.2):
            fields["score_threshold"] = self._random.choice((0.05, 0.2, 0.4))
        return fields

    def _find(self) -> dict[str, Any]:
        fields = self._common() | {
            "levels": self._random.randint(0, 3),
            "limit": self._random.choice((0, 1, 3, 100)),
        }
        if self._may(0.2):
            fields["alpha"] = self._random.random()
        if not self._walks:
            fields["method"] = self._random.choice((0, 1, 3))
        elif self._may(0.3):
            fields["mode"] = pb.SEARCH_MODE_THINKING
        else:
            fields["method"] = self._random.choice((0, 1, 2, 3))
            fields["max_directories"] = self._random.choice((0, 0, 1, 2))
            if "vector" in fields and self._may(0.2):  # an inverted file may propose files
                fields |= {"query": "", "method": 2, "max_directories": 1}
        return fields

    def _batchfind(self) -> dict[str, Any]:
        # One of them cannot fail: which error of several comes first is up to the threads.
        find = pb.FindRequest(**(self._find() | {"mode": 0}))
        return {"requests": [find, pb.FindRequest(query=self._query())]}

    def _search(self) -> dict[str, Any]:
        fields = self._common()
        fields.pop("vector", None)
        fields["mode"] = self._random.choice((1, 2)) if self._walks else 1
        if self._may(0.5):
            fields["query"] = "Help me write " + fields["query"]
        fields["session"] = pb.SearchSession(summary=self._writer.text())
        return fields

    def _retrieve(self) -> dict[str, Any]:
        fields = self._common() | {
            "top_k": self._random.choice((0, 1, 4, 200)),
            "group_by_context": self._may(0.3),
            "diversity": self._random.choice((0, 0, 0, 0.4)),
            "include": self._random.choice(([], [1], [1, 2], [1, 2, 3])),
            "degrade": True,
            "mode": self._random.choice((0, 1, 2, 3)),
        }
        if self._may(0.2):
            fields["weighted"] = pb.WeightedSum(vector_weight=0.7, keyword_weight=0.3)
        if self._may(0.2):
            fields["boosts"] = [
                pb.Boost(factor=1.7, uri_prefix=self._random.choice(AREAS)),
                pb.Boost(factor=0.7, where=to_struct({"lang": "a"})),
            ]
        if "where" in fields and self._may(0.4):
            fields["optional_clauses"] = list(fields["where"])[:1]
        if self._may(0.15):
            fields |= {"query": "", "vector": b"", "mode": 2}
            fields["where"] = to_struct({"year": {"$gte": 2021}})
            fields.pop("optional_clauses", None)
        return fields

    def _buildcontext(self) -> dict[str, Any]:
        kind = self._random.randint(0, 3)
        fields: dict[str, Any] = {"max_tokens": self._random.choice((50, 400, 4000))}
        chosen = self._random.choices(self._uris, k=6)
        if kind == 0:
            fields["uris"] = pb.ContextUris(uris=chosen)
        elif kind == 1:
            items = [
                pb.ContextItem(uri=uri, passage=self._random.randint(0, 3), score=i)
                for i, uri in enumerate(chosen)
            ]
            fields["items"] = pb.ContextItems(items=items)
        elif kind == 2:
            fields["find"] = pb.FindRequest(**self._find())
        else:
            fields["retrieve"] = pb.RetrieveRequest(**self._retrieve())
        return fields
