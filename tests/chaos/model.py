"""A model of acknowledged writes: writers that know the states a daemon may hold.

Each writer has its own subtree and its own file of memories, and sends one operation after the
other. So the writer knows the state that a daemon must hold, its world. An unanswered operation
leaves two worlds, without the operation and with all of it.
"""

from __future__ import annotations

import copy
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence

from tests.chaos.daemon import Wrong
from tests.chaos.worlds import (
    FILLER,
    ROOT,
    Delete,
    Forget,
    Link,
    Memory,
    Move,
    Operation,
    Put,
    Reinforce,
    Remember,
    World,
    short,
    within,
)
from vikingd.client import ClientError, Mode, NotFound, retrieval_calls
from vikingd.client.messages import MessageClient

_LETTERS = "bcdfghjklm"  # no vowels or digits, at which a tokenizer could split a word
_MOST_FINDS = 200  # finds in one batch
UNANSWERED = {"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"}
FULL = {"RESOURCE_EXHAUSTED"}


class Writer:
    """A writer that knows every state which a daemon may hold of its writes.

    Attributes:
        worlds: the possible states; the first one has all acknowledged writes.
        since: (revision, state) of each acknowledged write since the last `checkpoint`.
        revision: the highest acknowledged revision.
        requests: the number of sent operations.
        trace: the last operations, for people.
        dead: words of deleted and overwritten texts.
    """

    def __init__(self, number: int, seed: object) -> None:
        self.number = number
        self.root = f"{ROOT}/w{number}"
        self.notes = f"viking://projects/w{number}/memories/notes.md"
        self.dice = random.Random(f"{seed}/writer/{number}")
        self.worlds = [World()]
        self.since: list[tuple[int, World]] = [(0, World())]
        self.revision = 0
        self.requests = self.acknowledged = 0
        self.trace: deque[str] = deque(maxlen=40)
        self.dead: deque[str] = deque(maxlen=60)
        self._count = 0

    @property
    def world(self) -> World:
        """Return the acknowledged state."""
        return self.worlds[0]

    def _word(self, kind: str) -> tuple[str, int]:
        self._count += 1
        number = self.number * 1_000_000 + self._count
        return kind + "".join(_LETTERS[int(digit)] for digit in f"{number:08d}") + "x", number

    def _uri(self) -> str:
        deep = self.dice.choice(("", "/e", "/e/g"))
        return f"{self.root}/d{self.dice.randrange(4)}{deep}/f{self.dice.randrange(10)}.md"

    def choose(self) -> Operation:
        """Return the next operation."""
        dice, world = self.dice, self.world
        files, texts = sorted(world.files), sorted(t for t, m in world.memories.items() if m.id)
        roll = dice.random()
        if roll < 0.15 and files:
            some = dice.sample(files, min(len(files), dice.choice((1, 1, 2, 4))))
            tops = [dice.choice([f, f, f, f.rpartition("/")[0]]) for f in some]
            return Delete(tuple(dict.fromkeys(tops)))
        if roll < 0.23 and files:
            source = dice.choice(files)
            if dice.random() < 0.4:
                source = source.rpartition("/")[0]
            self._count += 1
            suffix = ".md" if source in world.files else ""
            destination = f"{self.root}/d{dice.randrange(4)}/m{self._count}{suffix}"
            if not within(destination, source):
                return Move(source, destination)
        if roll < 0.31 and len(files) > 1:
            a, b = dice.sample(files, 2)
            if world.links and dice.random() < 0.3:
                a, b = sorted(dice.choice(sorted(map(sorted, world.links))))
                return Link((a, b), "")
            return Link((a, b), f"reason {dice.randrange(1000)}")
        if roll < 0.43:
            if texts and dice.random() < 0.3:
                return Remember(self.notes, dice.choice(texts))
            return Remember(self.notes, f"memory {self._word('m')[0]} of the tide")
        if roll < 0.5 and texts:
            some = dice.sample(texts, min(len(texts), 3))
            return Reinforce({t: world.memories[t].id for t in some}, dice.choice((1, 1, 7)))
        if roll < 0.54 and texts:
            some = dice.sample(texts, min(len(texts), dice.choice((1, 2))))
            return Forget({t: world.memories[t].id for t in some})
        batch = {}
        for _ in range(dice.choice((1, 1, 1, 2, 5))):
            word, number = self._word("z")
            length = dice.choice((0, 0, 0, 40, 40, 600, 6000))
            filler = (FILLER * (length // len(FILLER) + 1))[:length]
            batch[self._uri()] = (f"note {word} about {filler}".strip(), number)
        return Put(batch)

    def step(self, client: MessageClient) -> bool:
        """Send one operation, and return False if it was not answered.

        Raises:
            Wrong: the operation was refused, or its reply is impossible.
        """
        operation = self.choose()
        world = self.world
        self.trace.append(short(operation))
        self.requests += 1
        self.worlds = [world, operation.after(world, None)]
        try:
            reply = operation.send(client)
        except ClientError as error:
            self.trace.append(f"  {error.code.name} {short(error.message)}")
            if error.code.name in UNANSWERED:
                return False
            if error.code.name in FULL:
                self.worlds = [world]
                return True
            raise Wrong(f"{operation} was refused: {error}") from None
        done = operation.after(world, reply)
        self.worlds = [done]
        self.acknowledged += 1
        self.dead.extend(world.words().keys() - done.words().keys())
        if reply.revision < self.revision:
            raise Wrong(f"{operation} has revision {reply.revision} after {self.revision}")
        self.revision = reply.revision
        self.since.append((reply.revision, done))
        return True

    def work(self, client: MessageClient, stop: threading.Event) -> None:
        """Send operations until the stop event, or until one is not answered."""
        while not stop.is_set() and self.step(client):
            pass

    def read(self, client: MessageClient) -> World:
        """Return the state that a daemon holds of this writer."""
        try:
            contexts = list(client.tree(self.root))
        except NotFound:
            contexts = []
        dirs = {c.uri for c in contexts if c.is_directory}
        if contexts:
            dirs.add(self.root)
        files, links = {}, {}
        for context in contexts:
            if context.is_directory:
                continue
            whole = client.get(context.uri).context
            if whole.uri != context.uri:
                raise Wrong(f"Get of {context.uri} answers {whole.uri}")
            files[whole.uri] = (whole.content, int(whole.metadata["n"]))
            for relation in whole.relations:
                links[frozenset((whole.uri, relation.uri))] = relation.reason
        return World(frozenset(dirs), files, links, self._memories(client))

    def _memories(self, client: MessageClient) -> dict[str, Memory]:
        try:
            file = client.get(self.notes).context
        except NotFound:
            return {}
        return {
            file.content[p.start : p.end].lstrip("-*+ ").strip(): Memory(
                p.memory.id, p.memory.reinforcement
            )
            for p in file.passages
        }

    def check(self, client: MessageClient) -> None:
        """Compare the state of a daemon with the possible worlds, and keep only the found one.

        Raises:
            Wrong: the daemon holds another state.
        """
        found = self.read(client)
        faults = [world.differences(found) for world in self.worlds]
        if all(faults):
            lines = "\n  ".join(min(faults, key=len)[:12])
            which = "the world" if len(faults) == 1 else "the nearest of two worlds"
            raise Wrong(f"writer {self.number}: against {which} that may be:\n  {lines}")
        before, after = self.worlds[0].words().keys(), found.words().keys()
        self.dead.extend(before - after)
        self.worlds = [found]
        self.checkpoint()

    def copy(self) -> Writer:
        """Return a copy that changes independently."""
        other = copy.copy(self)
        other.worlds, other.since = list(self.worlds), list(self.since)
        other.dead, other.trace = self.dead.copy(), self.trace.copy()
        return other

    def checkpoint(self) -> None:
        """Forget the states before the present one."""
        self.since = [(self.revision, self.world)]


def check(client: MessageClient, writers: Sequence[Writer], dice: random.Random) -> None:
    """Compare the whole state of a daemon with the model.

    Raises:
        Wrong: a text is lost, restored, not found, or found in a wrong place.
    """
    newest = max(writer.revision for writer in writers)
    revision = client.stats().revision
    if revision < newest:
        raise Wrong(f"revision {revision} after {newest} was acknowledged")
    for writer in writers:
        writer.check(client)
    check_words(client, writers, dice)
    report = client.verify()
    if not report.ok:
        raise Wrong(f"verify: {list(report.problems)[:10]}")


def check_words(client: MessageClient, writers: Sequence[Writer], dice: random.Random) -> None:
    """Find some living texts by their unique words, and no deleted ones."""
    words: dict[str, str | None] = {}
    for writer in writers:
        words |= {word: uri or writer.notes for word, uri in writer.world.words().items()}
        words |= dict.fromkeys(set(writer.dead) - words.keys())
    some = dice.sample(sorted(words), min(len(words), _MOST_FINDS))
    for at in range(0, len(some), 50):
        asked = some[at : at + 50]
        for word, uris in zip(asked, _found(client, asked), strict=True):
            if uris[:1] != ([words[word]] if words[word] else []):
                raise Wrong(f"find {word} gives {uris}, {words[word] or 'nothing'} is right")


def _found(client: MessageClient, words: Sequence[str]) -> list[list[str]]:
    """Return the best contexts for each word, by words alone, because vectors match any word."""
    if client.stats().embedder.provider != "none":
        replies = [client.retrieve(word, mode=Mode.KEYWORD, top_k=3) for word in words]
        return [[item.uri for item in reply.items] for reply in replies]
    batch = client.batch_find([retrieval_calls.find(word, limit=3) for word in words])
    return [
        [m.uri for m in (*answer.memories, *answer.resources, *answer.skills)]
        for answer in batch.responses
    ]


class Load:
    """Writers at work on a daemon, each in a thread with its own connection."""

    def __init__(self, writers: Sequence[Writer], connect: Callable[[], MessageClient]) -> None:
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(writer, connect()), daemon=True)
            for writer in writers
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, writer: Writer, client: MessageClient) -> None:
        try:
            with client:
                writer.work(client, self._stop)
        except BaseException as error:
            self._faults.append(error)

    def end(self) -> None:
        """Wait for operations in progress, and raise the error of a writer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
            if thread.is_alive():
                raise Wrong("a write is not answered")
        if self._faults:
            raise self._faults[0]
