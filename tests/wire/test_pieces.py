"""Replies joined from encoded pieces, compared with messages that are built the plain way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from viking_kernels.arrays import SCRIPTS

from vikingd.answer.find import Find
from vikingd.answer.retrievals import Retrievals
from vikingd.domain.answers import UNBOUNDED, Stage
from vikingd.domain.changes import IndexedText, Upsert
from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import VikingError
from vikingd.domain.find import FindQuery, FindResult, Levels
from vikingd.domain.retrieve import Mode, RetrieveQuery, RetrieveResult
from vikingd.domain.rights import LOCAL
from vikingd.domain.text import LATIN
from vikingd.engine import Engine, EngineSettings
from vikingd.index.index import Index
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.masks import Masked
from vikingd.ingest.prepare import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb.retrieval_pb2 import BatchFindResponse, FindResponse, RetrieveResponse
from vikingd.wire.calls import as_sent
from vikingd.wire.messages import pieces
from vikingd.wire.messages.encode import find_response
from vikingd.wire.messages.pieces import Pieces, batched
from vikingd.wire.messages.retrieve import response_of

WORDS = ("harbour", "light", "winter", "API_KEY", "status", "港口", "冬天", "代码", "灯塔", "é")
ROOTS = ("viking://resources", "viking://user/memories", "viking://agent/skills")
EMBED = Stage("embed", 0.0, 0.0)


class World:
    """An engine that changes at random."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.engine = Engine(EngineSettings(path, EmbedSettings(provider="none")))

    def words(self, most: int) -> str:
        """Return some words of both languages, in lines."""
        chosen = self.random.choices(WORDS, k=self.random.randint(1, most))
        return "".join(word + self.random.choice(" \n") for word in chosen)

    def uri(self, *, of_file: bool) -> str:
        """Return the URI of one of a few files or directories."""
        names = self.random.choices(["a", "b", "文"], k=self.random.randint(1, 2))
        last = self.random.choice(["1.md", "2.md", "é.md"])
        return "/".join([self.random.choice(ROOTS), *names, *([last] * of_file)])

    def draft(self) -> Draft:
        """Return a directory, or a file with some passages, some of them below a heading."""
        if self.random.random() < 0.2:
            return Draft(self.uri(of_file=False), is_directory=True, abstract=self.words(8))
        content = self.words(40)
        count = min(len(content), self.random.randint(1, 3))
        ends = sorted(self.random.sample(range(1, len(content) + 1), count))
        passages = [
            Passage(self.random.choice(["", "Heading > 港口"]), start, end)
            for start, end in zip([0, *ends], ends, strict=False)
            if content[start:end].strip()
        ]
        abstract = self.random.choice(["", self.words(8)])
        return Draft(
            self.uri(of_file=True), content=content, abstract=abstract, passages=passages or None
        )

    def step(self) -> None:
        """Put, delete, move, link, write an abstract or compact, at random."""
        engine, chance = self.engine, self.random.random()
        of_file = self.random.random() < 0.7
        try:
            if chance < 0.6:
                drafts = {draft.uri: draft for draft in (self.draft() for _ in range(3))}
                engine.writable_store.put([prepare(draft) for draft in drafts.values()]).result()
            elif chance < 0.7:
                engine.writable_store.delete([self.uri(of_file=of_file)]).result()
            elif chance < 0.8:
                engine.writable_store.move(
                    self.uri(of_file=of_file), self.uri(of_file=of_file)
                ).result()
            elif chance < 0.85:
                engine.writable_store.link(
                    self.uri(of_file=True), self.uri(of_file=True), "beside"
                ).result()
            elif chance < 0.95:
                mask = frozenset({"abstract"})
                draft = Draft(self.uri(of_file=True), abstract=self.words(8), update_mask=mask)
                engine.writable_store.put([Masked.of(draft)]).result()
            else:
                engine.optimize()
        except VikingError:
            pass  # the context is missing, or its place is taken

    def query(self) -> FindQuery:
        """Return a query over the whole tree, or below one of the roots."""
        return FindQuery(
            self.words(4),
            target_uri=self.random.choice(["viking://", *ROOTS]),
            levels=self.random.choice(list(Levels)),
            limit=self.random.choice([1, 3, 10, 50]),
            trace=self.random.random() < 0.1,
        )


@pytest.fixture(params=range(15))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Yield one of several random worlds."""
    world = World(tmp_path / "store", request.param)
    yield world
    world.engine.close()


def parsed(result: FindResult) -> FindResponse:
    """Return the reply without its timings."""
    reply = FindResponse.FromString(find_response(result, EMBED).data)
    reply.ClearField("timings")
    return reply


def asked(world: World, query: FindQuery, snapshot: Snapshot) -> Find:
    """Return a find on a snapshot."""
    return Find(world.engine, query, None, snapshot=snapshot)


def same(world: World, query: FindQuery, snapshot: Snapshot, most: int, made: Pieces) -> bool:
    """Compare the replies of both ways within a budget; return whether pieces were used."""
    plain = asked(world, query, snapshot).answer(most)
    quick = asked(world, query, snapshot).answer(most, made.matches)
    assert parsed(quick) == parsed(plain)
    assert find_response(quick, EMBED)[1:] == find_response(plain, EMBED)[1:]
    assert (quick.left_out, quick.shortened) == (plain.left_out, plain.shortened)
    assert quick.gathered is None or not plain.is_cut
    return quick.gathered is not None


def least_room(world: World, query: FindQuery, snapshot: Snapshot) -> int:
    """Return the smallest budget in which no reply is cut."""
    low, high = 0, 1 << 20
    while low < high:
        middle = (low + high) // 2
        if asked(world, query, snapshot).answer(middle).is_cut:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.deep_after(1)
def test_joined_replies_are_the_plain_ones(world: World) -> None:
    """Joined replies equal the plain ones, also with pieces of older revisions and generations."""
    made, seen, used = Pieces(), list[Snapshot](), 0
    for number in range(60):
        world.step()
        seen.append(world.engine.snapshot)
        if number % 3 == 0:
            for snapshot in (seen[-1], world.random.choice(seen[-8:])):
                with suppress(VikingError):  # the target is missing
                    used += same(world, world.query(), snapshot, UNBOUNDED, made)
    assert used > 10


@pytest.mark.deep_after(3)
def test_a_budget_cuts_joined_replies_as_it_does_plain_ones(world: World) -> None:
    """A budget cuts joined and plain replies at the same byte."""
    made = Pieces()
    for _ in range(40):
        world.step()
    snapshot, used = world.engine.snapshot, 0
    for _ in range(5):
        query = FindQuery(world.words(4), levels=Levels.BOTH, limit=world.random.choice([3, 50]))
        least = least_room(world, query, snapshot)
        used += same(world, query, snapshot, least, made)
        for most in (0, least // 3, least - 1):
            assert not same(world, query, snapshot, max(most, 0), made) or not least
    assert used


@pytest.mark.deep_after(4)
def test_pieces_are_dropped_when_there_are_too_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many pieces are dropped, and made again when they are needed."""
    monkeypatch.setattr(pieces, "MOST_KEPT", 2000)
    made = Pieces()
    for _ in range(30):
        world.step()
    snapshot = world.engine.snapshot
    same(world, FindQuery("harbour 港口", levels=Levels.BOTH, limit=3), snapshot, UNBOUNDED, made)
    for _ in range(10):
        same(world, FindQuery(world.words(4), limit=50), snapshot, UNBOUNDED, made)
        assert made._kept[snapshot.contents].size <= 2000


@pytest.mark.deep_after(1)
def test_joined_items_are_the_plain_ones(world: World) -> None:
    """Joined items equal the plain ones in keyword and hybrid mode, with any budget."""
    made, used, cut = Pieces(), 0, 0
    for number in range(60):
        world.step()
        if number % 3:
            continue
        query = RetrieveQuery(
            world.words(3),
            top_k=world.random.choice([1, 5, 50]),
            mode=world.random.choice([Mode.KEYWORD, Mode.HYBRID]),
            group_by_context=world.random.random() < 0.3,
            diversity=world.random.choice([0.0, 0.3]),
            trace=world.random.random() < 0.1,
        )
        for most in (UNBOUNDED, 0, 300, 600, 1200):
            plain, quick = retrieved(world, query, most, None), retrieved(world, query, most, made)
            assert items(quick) == items(plain)
            assert (quick.is_cut, quick.outcome) == (plain.is_cut, plain.outcome)
            assert quick.gathered is None or not (quick.items or plain.is_cut)
            if quick.gathered is not None:
                assert quick.gathered.total == len(plain.items)
            used, cut = used + (quick.gathered is not None), cut + plain.is_cut
    assert used > 10
    assert cut > 10


def retrieved(world: World, query: RetrieveQuery, most: int, made: Pieces | None) -> RetrieveResult:
    """Return the answer to a query within a budget."""
    retrieval = Retrievals.bound(world.engine, query, LOCAL)
    retrieval.most_bytes = most
    return retrieval.answer(None, (), made and made.items)


def items(result: RetrieveResult) -> RetrieveResponse:
    """Return the reply without its timings."""
    data: Any = as_sent(response_of(result, EMBED), result.gathered)
    reply = RetrieveResponse.FromString(data)
    reply.ClearField("timings")
    return reply


def test_an_item_has_the_abstract_of_its_snapshot(tmp_path: Path) -> None:
    """An item has the abstract of its snapshot, even if the indexed text did not change."""
    index = Index(tmp_path, "", np.zeros((SCRIPTS, 0), np.float32), IndexSettings())
    text, made = IndexedText(1, 0, LATIN, "harbour\nlight", b"", True), Pieces()
    snapshots = []
    for revision, (title, abstract) in enumerate([("harbour", "light"), ("", "harbour\nlight")], 1):
        file = Upsert(1, "viking://a.md", False, title, abstract, {}, (text,))
        index.apply([file], revision)
        snapshots.append(index.snapshot)
    index.close()
    for snapshot, abstract in zip(
        [*snapshots, *snapshots], ["light", "harbour\nlight"] * 2, strict=True
    ):
        gathered = made.items(snapshot, [(0, 0.5)], UNBOUNDED)
        assert gathered is not None
        (item,) = RetrieveResponse.FromString(gathered.data).items
        assert (item.text, item.score) == (abstract, 0.5)


@pytest.mark.deep_after(4)
def test_a_reply_stands_in_a_batch_as_it_is(world: World) -> None:
    """A reply of any length has the same bytes in a batch."""
    for _ in range(20):
        world.step()
    snapshot, made = world.engine.snapshot, Pieces()
    results = [
        asked(world, FindQuery(world.words(4), limit=limit), snapshot).answer(
            UNBOUNDED, made.matches
        )
        for limit in (1, 50)
    ]
    replies = [find_response(result, EMBED).data for result in results]
    batch = BatchFindResponse.FromString(b"".join(map(batched, [*replies, b""])))
    assert list(batch.responses) == [FindResponse.FromString(reply) for reply in (*replies, b"")]
