"""The possible states of a writer's part of the tree, and the operations that change them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.chaos.daemon import Wrong
from vikingd.client import Draft
from vikingd.client.messages import MessageClient

ROOT = "viking://resources/chaos"
DIMENSION = 16
FILLER = "the harbour light stands over the water and the boats come home before the night "


@dataclass(frozen=True, slots=True)
class Memory:
    """An entry of a writer's memory file; `id` is 0 until a reply has it."""

    id: int
    reinforcement: int


@dataclass(frozen=True, slots=True)
class World:
    """The state of a writer's part of the tree."""

    dirs: frozenset[str] = frozenset()
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # content, number
    links: Mapping[frozenset[str], str] = field(default_factory=dict)
    memories: Mapping[str, Memory] = field(default_factory=dict)  # by their texts

    def differences(self, found: World) -> list[str]:
        """Return the differences from a found state, in lines for people."""
        out = []
        if missing := self.dirs - found.dirs:
            out.append(f"directories missing: {sorted(missing)}")
        if more := found.dirs - self.dirs:
            out.append(f"directories back: {sorted(more)}")
        for name in ("files", "links", "memories"):
            mine, theirs = getattr(self, name), getattr(found, name)
            for key in mine.keys() | theirs.keys():
                expected, value = mine.get(key), theirs.get(key)
                if name == "memories" and expected and value and not expected.id:
                    expected = replace(expected, id=value.id)
                if expected != value:
                    shown = key if isinstance(key, str) else sorted(key)
                    out.append(
                        f"{name} {shown}: {short(value)} was found, {short(expected)} is right"
                    )
        return out

    def words(self) -> dict[str, str]:
        """Return the unique word of each file or memory, with the file's URI ("" for memories)."""
        words = {content.split(maxsplit=2)[1]: uri for uri, (content, _) in self.files.items()}
        return words | {text.split(maxsplit=2)[1]: "" for text in self.memories}


def short(value: object) -> str:
    """Return the repr of a value, shortened for people."""
    text = repr(value)
    return text if len(text) < 160 else f"{text[:100]}... ({len(text):,} characters)"


def within(uri: str, top: str) -> bool:
    """Return whether a URI is another one or below it."""
    return uri == top or uri.startswith(top + "/")


def above(uri: str) -> Iterable[str]:
    """Yield the directories above a URI, below the writers' root."""
    while len(uri := uri.rpartition("/")[0]) > len(ROOT):
        yield uri


class Operation(ABC):
    """A write, with its effect on a state."""

    @abstractmethod
    def send(self, client: MessageClient) -> Any:
        """Send the operation to a daemon."""

    @abstractmethod
    def after(self, world: World, reply: Any, /) -> World:
        """Return the state after the operation; `reply` is None without an answer."""


@dataclass(frozen=True)
class Put(Operation):
    """A put of new or existing files."""

    files: Mapping[str, tuple[str, int]]

    def send(self, client: MessageClient) -> Any:
        """Send all in one batch."""
        return client.put([draft(uri, *value) for uri, value in self.files.items()])

    def after(self, world: World, _: Any, /) -> World:
        """Return the state with the files and the directories above them."""
        dirs = world.dirs.union(*(above(uri) for uri in self.files))
        return replace(world, dirs=dirs, files={**world.files, **self.files})


@dataclass(frozen=True)
class Delete(Operation):
    """A removal of subtrees."""

    uris: tuple[str, ...]

    def send(self, client: MessageClient) -> Any:
        """Send all in one call."""
        return client.delete(*self.uris)

    def after(self, world: World, _: Any, /) -> World:
        """Return the state without the subtrees."""

        def stays(uri: str) -> bool:
            return not any(within(uri, top) for top in self.uris)

        return replace(
            world,
            dirs=frozenset(filter(stays, world.dirs)),
            files={uri: value for uri, value in world.files.items() if stays(uri)},
            links={ends: why for ends, why in world.links.items() if all(map(stays, ends))},
        )


@dataclass(frozen=True)
class Move(Operation):
    """A move of a file or directory."""

    source: str
    destination: str

    def send(self, client: MessageClient) -> Any:
        """Send the move."""
        return client.move(self.source, self.destination)

    def after(self, world: World, _: Any, /) -> World:
        """Return the state with the new names."""

        def name(uri: str) -> str:
            inside = within(uri, self.source)
            return self.destination + uri[len(self.source) :] if inside else uri

        return replace(
            world,
            dirs=frozenset(map(name, world.dirs)).union(above(self.destination)),
            files={name(uri): value for uri, value in world.files.items()},
            links={frozenset(map(name, ends)): why for ends, why in world.links.items()},
        )


@dataclass(frozen=True)
class Link(Operation):
    """A link of two files with a reason, or the removal of their link without one."""

    ends: tuple[str, str]
    reason: str

    def send(self, client: MessageClient) -> Any:
        """Send a link, or an unlink without a reason."""
        if not self.reason:
            return client.unlink(*self.ends)
        return client.link(*self.ends, self.reason)

    def after(self, world: World, _: Any, /) -> World:
        """Return the state with the link, or without it."""
        links = {ends: why for ends, why in world.links.items() if ends != frozenset(self.ends)}
        if self.reason:
            links[frozenset(self.ends)] = self.reason
        return replace(world, links=links)


@dataclass(frozen=True)
class Remember(Operation):
    """A Remember of a new or a known text."""

    uri: str
    text: str

    def send(self, client: MessageClient) -> Any:
        """Send the memory."""
        return client.remember(self.text, uri=self.uri, exact=True)

    def after(self, world: World, reply: Any, /) -> World:
        """Return the state with the memory, or with a raised counter."""
        old = world.memories.get(self.text)
        if old is None:
            new = Memory(reply.id if reply else 0, 0)
        else:
            new = replace(old, reinforcement=old.reinforcement + 1)
        if reply and (reply.id, reply.reinforcement) != (new.id, new.reinforcement):
            raise Wrong(f"{self} was answered with {reply}, {new} is right")
        return replace(world, memories={**world.memories, self.text: new})


@dataclass(frozen=True)
class Reinforce(Operation):
    """A reinforcement of memories."""

    texts: Mapping[str, int]  # with their ids
    by: int

    def send(self, client: MessageClient) -> Any:
        """Send all in one call."""
        return client.reinforce(*self.texts.values(), by=self.by)

    def after(self, world: World, _: Any, /) -> World:
        """Return the state with higher counters."""
        raised = {
            text: replace(memory, reinforcement=memory.reinforcement + self.by)
            for text, memory in world.memories.items()
            if text in self.texts
        }
        return replace(world, memories={**world.memories, **raised})


@dataclass(frozen=True)
class Forget(Operation):
    """A removal of memories by Forget."""

    texts: Mapping[str, int]

    def send(self, client: MessageClient) -> Any:
        """Send all in one call."""
        return client.forget(*self.texts.values())

    def after(self, world: World, _: Any, /) -> World:
        """Return the state without the memories."""
        memories = {t: m for t, m in world.memories.items() if t not in self.texts}
        return replace(world, memories=memories)


def draft(uri: str, content: str, number: int) -> Draft:
    """Return a file; a short one has a vector made from its number."""
    own = vector(number) if len(content) < 300 and number % 3 else b""
    return Draft(uri, content=content, metadata={"n": number}, vector=own)


def vector(number: int) -> bytes:
    """Return a unit vector; the same number gives the same vector."""
    raw = np.random.default_rng(number).normal(size=DIMENSION)
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()
