"""What may stand in a writer's part of the tree, and the operations that change it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chaos.daemon import Wrong
from vikingd.client import Draft
from vikingd.client.messages import MessageClient

ROOT = "viking://resources/chaos"
DIMENSION = 16
FILLER = "the harbour light stands over the water and the boats come home before the night "


@dataclass(frozen=True, slots=True)
class Memory:
    """An entry of a writer's file of memories; `id` 0: not told yet."""

    id: int
    reinforcement: int


@dataclass(frozen=True, slots=True)
class World:
    """What stands in a writer's part of the tree."""

    dirs: frozenset[str] = frozenset()
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # content, number
    links: Mapping[frozenset[str], str] = field(default_factory=dict)
    memories: Mapping[str, Memory] = field(default_factory=dict)  # by their texts

    def differences(self, found: World) -> list[str]:
        """Where what was found is not this world, in lines for people."""
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
        """The word that each file or memory alone has, with the file's URI ("": of memories)."""
        words = {content.split(maxsplit=2)[1]: uri for uri, (content, _) in self.files.items()}
        return words | {text.split(maxsplit=2)[1]: "" for text in self.memories}


def short(value: object) -> str:
    """A value for people."""
    text = repr(value)
    return text if len(text) < 160 else f"{text[:100]}... ({len(text):,} characters)"


def within(uri: str, top: str) -> bool:
    """Whether a URI is another one or below it."""
    return uri == top or uri.startswith(top + "/")


def above(uri: str) -> Iterable[str]:
    """The directories above a URI, below the writers' root."""
    while len(uri := uri.rpartition("/")[0]) > len(ROOT):
        yield uri


class Operation(ABC):
    """A write, with what it makes of a world."""

    @abstractmethod
    def send(self, client: MessageClient) -> Any:
        """Asks a daemon for it."""

    @abstractmethod
    def after(self, world: World, reply: Any, /) -> World:
        """The world with it; `reply` is None where there was none."""


@dataclass(frozen=True)
class Put(Operation):
    """Writes files, new or anew."""

    files: Mapping[str, tuple[str, int]]

    def send(self, client: MessageClient) -> Any:
        """Sends all in one batch."""
        return client.put([draft(uri, *value) for uri, value in self.files.items()])

    def after(self, world: World, _: Any, /) -> World:
        """With the files and the directories above them."""
        dirs = world.dirs.union(*(above(uri) for uri in self.files))
        return replace(world, dirs=dirs, files={**world.files, **self.files})


@dataclass(frozen=True)
class Delete(Operation):
    """Removes what stands at URIs and below."""

    uris: tuple[str, ...]

    def send(self, client: MessageClient) -> Any:
        """Sends all in one call."""
        return client.delete(*self.uris)

    def after(self, world: World, _: Any, /) -> World:
        """Without them."""

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
    """Gives a file or directory another name."""

    source: str
    destination: str

    def send(self, client: MessageClient) -> Any:
        """Moves it."""
        return client.move(self.source, self.destination)

    def after(self, world: World, _: Any, /) -> World:
        """With the new names."""

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
    """Links two files; without a reason it takes the link back."""

    ends: tuple[str, str]
    reason: str

    def send(self, client: MessageClient) -> Any:
        """Links or unlinks."""
        if not self.reason:
            return client.unlink(*self.ends)
        return client.link(*self.ends, self.reason)

    def after(self, world: World, _: Any, /) -> World:
        """With the link, or without."""
        links = {ends: why for ends, why in world.links.items() if ends != frozenset(self.ends)}
        if self.reason:
            links[frozenset(self.ends)] = self.reason
        return replace(world, links=links)


@dataclass(frozen=True)
class Remember(Operation):
    """Says something, or says it again."""

    uri: str
    text: str

    def send(self, client: MessageClient) -> Any:
        """Remembers it."""
        return client.remember(self.text, uri=self.uri, exact=True)

    def after(self, world: World, reply: Any, /) -> World:
        """With the memory, or with one that counts one more."""
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
    """Raises the counters of memories."""

    texts: Mapping[str, int]  # with their ids
    by: int

    def send(self, client: MessageClient) -> Any:
        """Reinforces all in one call."""
        return client.reinforce(*self.texts.values(), by=self.by)

    def after(self, world: World, _: Any, /) -> World:
        """With higher counters."""
        raised = {
            text: replace(memory, reinforcement=memory.reinforcement + self.by)
            for text, memory in world.memories.items()
            if text in self.texts
        }
        return replace(world, memories={**world.memories, **raised})


@dataclass(frozen=True)
class Forget(Operation):
    """Removes memories."""

    texts: Mapping[str, int]

    def send(self, client: MessageClient) -> Any:
        """Forgets all in one call."""
        return client.forget(*self.texts.values())

    def after(self, world: World, _: Any, /) -> World:
        """Without them."""
        memories = {t: m for t, m in world.memories.items() if t not in self.texts}
        return replace(world, memories=memories)


def draft(uri: str, content: str, number: int) -> Draft:
    """A file; a short one has a vector that its number makes."""
    own = vector(number) if len(content) < 300 and number % 3 else b""
    return Draft(uri, content=content, metadata={"n": number}, vector=own)


def vector(number: int) -> bytes:
    """A unit vector, the same for the same number."""
    raw = np.random.default_rng(number).normal(size=DIMENSION)
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()
