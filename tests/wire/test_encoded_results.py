"""Replies joined from encoded results, compared with messages that are built the plain way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from viking_kernels.arrays import SCRIPTS, is_file

from vikingd.answer.find_answer import find
from vikingd.answer.find_hits import FindHits
from vikingd.answer.retrieve_answer import RetrieveHits, retrieve
from vikingd.answer.search_answer import SearchHits
from vikingd.answer.texts_by_row import name_of, shown
from vikingd.domain.answers import MESSAGE_BYTES, UNBOUNDED, ReplyBudget, Stage, size_of
from vikingd.domain.contexts import ContextType, Draft, Passage
from vikingd.domain.errors import VikingError
from vikingd.domain.find_query import FindQuery, Levels, Rerank, RerankStatus
from vikingd.domain.retrieve_query import Mode, RetrieveQuery
from vikingd.domain.rights import LOCAL
from vikingd.domain.search_query import PlanSource, QueryPlan, TypedQuery
from vikingd.domain.store_changes import IndexedText, Upsert
from vikingd.domain.text import LATIN
from vikingd.engine import Engine, EngineSettings
from vikingd.index.index import Index
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb.retrieval_pb2 import (
    BatchFindResponse,
    FindResponse,
    MatchedContext,
    RetrievedItem,
    RetrieveResponse,
    ScoreParts,
    SearchResponse,
)
from vikingd.plan.find_plan import compile_find
from vikingd.plan.retrieve_plan import compile_retrieve
from vikingd.wire.messages import encoded_results
from vikingd.wire.messages.common_messages import fields_of
from vikingd.wire.messages.encoded_results import EncodedResults, batched
from vikingd.wire.messages.find_reply import find_reply
from vikingd.wire.messages.retrieve_reply import retrieve_reply
from vikingd.wire.messages.search_messages import search_reply

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


def asked(world: World, query: FindQuery, snapshot: Snapshot) -> FindHits:
    """Return the hits of a find on a snapshot."""
    return find(compile_find(world.engine, query, LOCAL, (), snapshot))


def plain(found: FindHits, most: int) -> tuple[FindResponse, int, int]:
    """Return the results as messages, in the plain way, with the numbers of what is missing.

    Contexts take their room first, then the passages of each, as far as they fit.
    """
    snapshot, budget, reply = found.snapshot, ReplyBudget(most), FindResponse()
    shown, left = 0, most
    for hit in found.hits:
        uri, abstract = snapshot.uri(hit.row), snapshot.abstract(hit.row)
        left -= encoded_results.RESULT + size_of(uri + abstract)
        for one in found.linked.get(hit.row, ()):
            left -= MESSAGE_BYTES + size_of(one.uri + one.abstract + one.reason)
        if left < 0:
            budget.left_out = len(found.hits) - shown
            break
        budget.left, shown = left, shown + 1
    for hit in found.hits[:shown]:
        match = MatchedContext(
            uri=snapshot.uri(hit.row),
            context_type=snapshot.type_of(hit.row),  # type: ignore[arg-type]  # same numbers
            is_leaf=is_file(hit.row),
            level=hit.level,
            abstract=snapshot.abstract(hit.row),
            score=hit.score,
        )
        for one in found.linked.get(hit.row, ()):
            match.relations.add(uri=one.uri, abstract=one.abstract, reason=one.reason)
        for text, score in hit.passages:
            if budget.left:
                ordinal = int(snapshot.text_ordinal[text])
                passage = snapshot.contents.passage(text, budget)
                match.passages.add(ordinal=ordinal, score=score, **passage._asdict())
        budget.shortened += len(hit.passages) - len(match.passages)
        if hit.parts is not None:
            match.parts.CopyFrom(ScoreParts(**fields_of(hit.parts)))
        buckets: dict[int, Any] = {
            ContextType.MEMORY: reply.memories,
            ContextType.RESOURCE: reply.resources,
            ContextType.SKILL: reply.skills,
        }
        if match.context_type in buckets:
            buckets[match.context_type].append(match)
    return reply, budget.left_out, budget.shortened


def same(
    world: World, query: FindQuery, snapshot: Snapshot, most: int, made: EncodedResults
) -> bool:
    """Compare the results of both ways within a budget; return whether they are whole."""
    found, budget = asked(world, query, snapshot), ReplyBudget(most)
    expected, left_out, shortened = plain(found, most)
    encoded = made.results(found, budget)
    assert FindResponse.FromString(encoded.data) == expected
    results = [*expected.memories, *expected.resources, *expected.skills]
    assert encoded.total == len(results)
    assert encoded.top_score == max((one.score for one in results), default=0.0)
    assert (budget.left_out, budget.shortened) == (left_out, shortened)
    return not left_out and not shortened


def least_room(world: World, query: FindQuery, snapshot: Snapshot) -> int:
    """Return the smallest budget in which no reply is cut."""
    found = asked(world, query, snapshot)
    low, high = 0, 1 << 20
    while low < high:
        middle = (low + high) // 2
        _, left_out, shortened = plain(found, middle)
        if left_out or shortened:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.deep_after(1)
def test_joined_replies_are_the_plain_ones(world: World) -> None:
    """Joined replies equal the plain ones, also with pieces of older revisions and generations."""
    made, seen, used = EncodedResults(), list[Snapshot](), 0
    for number in range(60):
        world.step()
        seen.append(world.engine.snapshot)
        if number % 3 == 0:
            for snapshot in (seen[-1], world.random.choice(seen[-8:])):
                with suppress(VikingError):  # the target is missing
                    used += same(world, world.query(), snapshot, UNBOUNDED, made)
    assert used > 10


@pytest.mark.deep_after(1)
def test_a_budget_cuts_joined_replies_as_it_does_plain_ones(world: World) -> None:
    """A budget cuts joined and plain replies at the same byte."""
    made = EncodedResults()
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


@pytest.mark.deep_after(1)
def test_pieces_are_dropped_when_there_are_too_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many pieces are dropped, and made again when they are needed."""
    monkeypatch.setattr(encoded_results, "MOST_KEPT", 2000)
    made = EncodedResults()
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
    made, used, cut, copies = EncodedResults(), 0, 0, 0
    equal = [Draft(f"{ROOTS[0]}/copies/{i}.md", content=" ".join(WORDS)) for i in range(9)]
    world.engine.writable_store.put([prepare(draft) for draft in equal]).result()
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
        )
        found = retrieve(compile_retrieve(world.engine, query, LOCAL), None)
        for most in (UNBOUNDED, 0, 300, 600, 1200):
            whole = retrieve_reply(found, EMBED, made, most)
            joined = made.items(found.snapshot, found.hits, ReplyBudget(most))
            assert joined is None or not whole.is_cut  # it may leave large texts to the plain way
            expected = plain_items(found, most)
            assert items(whole.data) == expected
            assert whole.total == len(expected)
            used, cut = used + (joined is not None), cut + whole.is_cut
            copies += sum(len(item.copies) for item in expected)
    assert used > 10
    assert cut > 10
    assert copies > 10


def plain_items(found: RetrieveHits, most: int) -> list[RetrievedItem]:
    """Return the items as messages, in the plain way: first they take their room, then texts."""
    budget, snapshot, out = ReplyBudget(most), found.snapshot, list[RetrievedItem]()
    for hit in found.hits:
        uri, passage = name_of(snapshot, hit.row)
        copies = [snapshot.file_uri(file) for file in hit.copies]
        if not budget.take(encoded_results.ITEM + sum(map(size_of, [uri, *copies[:5]]))):
            break
        more = max(0, len(copies) - 5)
        fields: dict[str, Any] = {"copies": copies[:5], "more_copies": more}
        out.append(RetrievedItem(uri=uri, passage=passage, score=hit.score, **fields))
    for item, hit in zip(out, found.hits, strict=False):
        item.MergeFrom(RetrievedItem(**shown(snapshot, hit.row, budget)._asdict()))
    return out


def items(data: bytes) -> list[RetrievedItem]:
    """Return the items of a reply."""
    return list(RetrieveResponse.FromString(data).items)


def test_an_item_has_the_abstract_of_its_snapshot(tmp_path: Path) -> None:
    """An item has the abstract of its snapshot, even if the indexed text did not change."""
    index = Index(tmp_path, "", np.zeros((SCRIPTS, 0), np.float32), IndexSettings())
    text, made = IndexedText(1, 0, LATIN, "harbour\nlight", b"", True), EncodedResults()
    snapshots = []
    for revision, (title, abstract) in enumerate([("harbour", "light"), ("", "harbour\nlight")], 1):
        file = Upsert(1, "viking://a.md", False, title, abstract, {}, (text,))
        index.apply([file], revision)
        snapshots.append(index.snapshot)
    index.close()
    for snapshot, abstract in zip(
        [*snapshots, *snapshots], ["light", "harbour\nlight"] * 2, strict=True
    ):
        hit = SimpleNamespace(row=0, score=0.5, copies=())
        data = made.items(snapshot, [hit], ReplyBudget(UNBOUNDED))  # type: ignore[list-item]
        assert data is not None
        (item,) = items(data)
        assert (item.text, item.score) == (abstract, 0.5)


@pytest.mark.deep_after(1)
def test_a_reply_stands_in_a_batch_as_it_is(world: World) -> None:
    """A reply of any length has the same bytes in a batch."""
    for _ in range(20):
        world.step()
    snapshot, made = world.engine.snapshot, EncodedResults()
    replies = [
        find_reply(
            asked(world, FindQuery(world.words(4), limit=limit), snapshot), EMBED, made, UNBOUNDED
        ).data
        for limit in (1, 50)
    ]
    batch = BatchFindResponse.FromString(b"".join(map(batched, [*replies, b""])))
    assert list(batch.responses) == [FindResponse.FromString(reply) for reply in (*replies, b"")]


def test_a_cut_search_names_the_hits_of_each_query(tmp_path: Path) -> None:
    """Results that do not fit leave room for the names of hits, and each lack has its note."""
    world = World(tmp_path / "store", 3)
    drafts = [
        Draft(f"viking://resources/{i}.md", content=f"harbour {i} " * 400, abstract="harbour")
        for i in range(8)
    ]
    world.engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    query = FindQuery("harbour", limit=8, trace=True)
    found = tuple(asked(world, query, world.engine.snapshot) for _ in range(3))
    typed = (TypedQuery("harbour", ContextType.UNSPECIFIED),) * 3
    plan = QueryPlan(PlanSource.RULES, "", typed)
    rerank = Rerank(RerankStatus.OFF)
    hits = SearchHits(plan, found, found[0].snapshot.revision, rerank, (EMBED,))
    for most, is_cut in ((1 << 20, False), (12_000, True)):
        reply = SearchResponse.FromString(search_reply(hits, 8, EncodedResults(), most).data)
        assert [len(one.hits) for one in reply.query_results] == [8, 8, 8]
        assert bool(reply.degraded) == is_cut
        assert len(reply.SerializeToString()) < most + 8000
    reply = SearchResponse.FromString(search_reply(hits, 8, EncodedResults(), 300).data)
    assert not any(one.HasField("trace") for one in reply.query_results)
    said = " ".join(note.detail for note in reply.degraded)
    assert "no room for 3 traces and for the names of 24 hits" in said
    world.engine.close()
