"""Relations in results: the linked contexts with the best scores for the query."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import find as kernel

from tests.index.find_helpers import find
from tests.kernels import naive
from tests.kernels.trees import LARGE, asked, build, room, sampled, shapes, terms_of
from tests.tiers import examples
from vikingd.client import Levels, Method
from vikingd.client.client_errors import InvalidField as ClientInvalidField
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import MAX_RELATIONS, ContextType, Draft, Prepared
from vikingd.domain.find_query import FindQuery
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb.contexts_pb2 import ContextInput
from vikingd.pb.retrieval_pb2 import FindResponse, MatchedContext

pytestmark = pytest.mark.stores

TOP = "viking://resources/r"
HUB = f"{TOP}/hub.md"
SKILL = "viking://agent/skills/s.md"
ALL = 1000


def matches(reply: FindResponse) -> dict[str, MatchedContext]:
    """Return all results by URI."""
    return {found.uri: found for found in (*reply.memories, *reply.resources, *reply.skills)}


def shown(
    client: MessageClient, uri: str = HUB, query: str = "harbour", **fields: object
) -> list[str]:
    """Return the URIs of the relations that a find shows for a context."""
    reply = client.find(query, **({"limit": ALL, "levels": Levels.BOTH} | fields))  # type: ignore[arg-type]
    return [relation.uri for relation in matches(reply)[uri].relations]


def put(client: MessageClient, contents: dict[str, str]) -> None:
    """Write files by their path below TOP or by their URI."""
    client.put(
        [
            Draft(path if "://" in path else f"{TOP}/{path}", content=content)
            for path, content in contents.items()
        ]
    )


def best_of(ends: Iterable[str], scores: Mapping[str, float]) -> list[str]:
    """Return the linked URIs in the order of relations; a URI without a score has 0."""
    return sorted(ends, key=lambda uri: (-scores.get(uri, 0.0), uri))[:MAX_RELATIONS]


@pytest.fixture
def linked(client: MessageClient) -> MessageClient:
    """Link a hub to nine contexts; a file with a later name has more words of the query."""
    put(client, {"hub.md": "harbour ship"})
    for i, words in enumerate((1, 2, 2, 2, 3, 4, 5)):
        put(client, {f"{i}/{i}.md": "harbour " * words + "ship " * (6 - words)})
        client.link(HUB, f"{TOP}/{i}/{i}.md", f"reason {i}")
    put(client, {"none.md": "tea", SKILL: "harbour " * 6})
    client.link(f"{TOP}/none.md", HUB)
    client.link(SKILL, HUB)
    return client


def test_the_best_for_the_query_come_first(linked: MessageClient) -> None:
    """Relations are ordered by the score of the linked context, then by URI."""
    ends = [relation.uri for relation in linked.get(HUB).context.relations]
    assert len(ends) == 9
    orders = []
    for query in ("harbour", "ship", "harbour ship"):
        for alpha in (None, 0.5, 1.0):
            found = matches(linked.find(query, limit=ALL, alpha=alpha))
            best = best_of(ends, {uri: match.score for uri, match in found.items()})
            assert [relation.uri for relation in found[HUB].relations] == best, (query, alpha)
            orders.append(best)
    assert orders[2][0] == SKILL
    assert orders[5][:4] == [f"{TOP}/{i}/{i}.md" for i in range(4)]
    first = matches(linked.find("harbour", alpha=1.0, target_uri=TOP))[HUB].relations[0]
    assert (first.uri, first.reason) == (f"{TOP}/6/6.md", "reason 6")
    assert first.abstract.startswith("harbour harbour")


def test_equal_scores_are_ordered_by_uri(client: MessageClient) -> None:
    """Relations with equal scores are ordered by URI, whichever order they were written in."""
    put(client, {"hub.md": "harbour"})
    names = [f"{TOP}/{name}.txt" for name in "gchbfaed"]
    for at, name in enumerate(names):
        put(client, {name: "ship"})
        client.link(*((HUB, name) if at % 2 else (name, HUB)))
    assert shown(client, alpha=1.0) == sorted(names)[:MAX_RELATIONS]
    client.optimize()
    assert shown(client, alpha=1.0) == sorted(names)[:MAX_RELATIONS]


def test_what_is_out_of_scope_is_not_shown(linked: MessageClient) -> None:
    """A link out of the target's subtree is not shown, also if its URI has the same prefix."""
    put(linked, {"viking://resources/r2/x.md": "harbour harbour", "in/x.md": "harbour"})
    linked.link(HUB, "viking://resources/r2/x.md")
    linked.link(f"{TOP}/in/x.md", HUB)
    linked.link(f"{TOP}/in/x.md", TOP)
    linked.link(f"{TOP}/in/x.md", f"{TOP}/in")
    wide, below = f"{TOP}/in/x.md", f"{TOP}/in"
    assert all(uri.startswith(f"{TOP}/") for uri in shown(linked, target_uri=TOP))
    assert set(shown(linked, wide, target_uri=TOP)) == {HUB, TOP, below}
    assert shown(linked, wide, target_uri=below) == [below]
    linked.optimize()
    assert set(shown(linked, wide, target_uri=TOP)) == {HUB, TOP, below}
    assert shown(linked, wide, target_uri=below) == [below]


def test_filters_do_not_hide_relations(linked: MessageClient) -> None:
    """Filters, types, levels, thresholds and limits choose results, but hide no relations."""
    everything = shown(linked)
    assert SKILL in everything
    linked.put([Draft(HUB, content="harbour", metadata={"n": 1})])
    score = matches(linked.find("harbour", limit=ALL))[HUB].score
    for fields in (
        {"where": {"n": 1}},
        {"context_types": [ContextType.RESOURCE]},
        {"levels": Levels.FILES},
        {"where": {"n": 1}, "limit": 1},
        {"score_threshold": score - 1e-9},
    ):
        assert shown(linked, **fields) == everything, fields


def test_links_follow_a_move_and_end_with_a_removal(linked: MessageClient) -> None:
    """A relation follows a move and ends with a removal, of either end or of a directory above."""

    def seen(hub: str) -> list[str]:
        return [
            uri.removeprefix(f"{TOP}/") for uri in shown(linked, hub, target_uri=TOP, alpha=1.0)
        ]

    assert seen(HUB) == ["6/6.md", "5/5.md", "4/4.md", "1/1.md", "2/2.md"]
    linked.move(f"{TOP}/6/6.md", f"{TOP}/6/z.md")
    linked.move(f"{TOP}/5", f"{TOP}/a/b")
    linked.move(f"{TOP}/1", f"{TOP}/z")
    assert seen(HUB) == ["6/z.md", "a/b/5.md", "4/4.md", "2/2.md", "3/3.md"]
    hub = f"{TOP}/h/hub.md"
    linked.move(HUB, hub)
    assert seen(hub) == ["6/z.md", "a/b/5.md", "4/4.md", "2/2.md", "3/3.md"]
    linked.delete(f"{TOP}/6/z.md", f"{TOP}/a")
    assert seen(hub) == ["4/4.md", "2/2.md", "3/3.md", "z/1.md", "0/0.md"]
    linked.unlink(f"{TOP}/4/4.md", hub)
    put(linked, {"6/z.md": "harbour"})
    assert seen(hub) == ["2/2.md", "3/3.md", "z/1.md", "0/0.md", "none.md"]


def test_directories_are_ends_too(client: MessageClient) -> None:
    """A directory can be an end of a relation, with the score that a find gives it."""
    client.put(
        [
            Draft(f"{TOP}/{name}", is_directory=True, abstract=words)
            for name, words in (("a", "ship"), ("b", "harbour harbour"), ("c", "harbour ship"))
        ]
    )
    put(client, {"hub.md": "harbour", "a/1.md": "ship", "b/1.md": "tea", "c/1.md": "harbour"})
    for name in ("a", "b", "c", "c/1.md"):
        client.link(HUB, f"{TOP}/{name}", name)
    client.link(f"{TOP}/b", f"{TOP}/a")
    found = matches(client.find("harbour", levels=Levels.BOTH, limit=ALL))
    ends = [f"{TOP}/{name}" for name in ("a", "b", "c", "c/1.md")]
    scores = {uri: found[uri].score if uri in found else 0.0 for uri in ends}
    best = sorted(ends, key=lambda uri: (-scores[uri], uri))
    assert [relation.uri for relation in found[HUB].relations] == best
    assert best[0] != ends[0]
    assert {r.uri: r.abstract for r in found[HUB].relations}[f"{TOP}/c"] == "harbour ship"
    assert set(shown(client, f"{TOP}/b")) == {HUB, f"{TOP}/a"}
    assert shown(client, f"{TOP}/b", levels=Levels.DIRECTORIES) == shown(client, f"{TOP}/b")


def test_the_order_hangs_on_no_method_limit_compaction_or_restart(tmp_path: Path) -> None:
    """The order depends on exact scores, not on method, limit, compaction or restart."""
    rng = np.random.default_rng(7)
    near = rng.normal(size=16)

    def prepared(uri: str, words: str, noise: float) -> Prepared:
        drawn = near + noise * rng.normal(size=16)
        vector = (drawn / np.linalg.norm(drawn)).astype("<f4").tobytes()
        return prepare(Draft(uri, content=words, vector=vector))

    hubs = [f"{TOP}/hub{i}.md" for i in range(3)]
    ends = [f"{TOP}/{i % 7}/{i}.md" for i in range(60)]

    def check(engine: Engine) -> dict[str, list[str]]:
        def ask(limit: int, method: Method) -> dict[str, MatchedContext]:
            query = FindQuery("harbour", TOP, limit=limit, method=method, max_directories=1)
            found = find(engine, query, near.astype(np.float32))
            return {match.uri: match for match in found.matches}

        scores = {uri: match.score for uri, match in ask(ALL, Method.EXACT).items()}
        assert len(scores) == 63
        expected = {hub: best_of(ends[i::3], scores) for i, hub in enumerate(hubs)}
        for method in (Method.EXHAUSTIVE, Method.EXACT, Method.BEST_FIRST):
            for limit in (5, ALL):
                found = ask(limit, method)
                seen = {hub: [r.uri for r in found[hub].relations] for hub in hubs if hub in found}
                assert seen
                assert seen == {hub: expected[hub] for hub in seen}, (method, limit)
        return expected

    settings = EngineSettings(tmp_path, EmbedSettings(provider="none"))
    with closing(Engine(settings)) as engine:
        engine.writable_store.put([prepared(hub, "harbour harbour", 0.1) for hub in hubs]).result()
        engine.writable_store.put(
            [prepared(end, "ship in a harbour", 2.0) for end in ends[:30]]
        ).result()
        engine.optimize()
        engine.writable_store.put(
            [prepared(end, "ship in a harbour", 2.0) for end in ends[30:]]
        ).result()
        for link in [
            engine.writable_store.link(hubs[i % 3], end, "") for i, end in enumerate(ends)
        ]:
            link.result()
        before = check(engine)
        engine.optimize()
        assert check(engine) == before
    with closing(Engine(settings)) as engine:
        assert check(engine) == before


@examples(30)
@given(shapes, st.sampled_from([-1.0, 0.0, 0.3, 1.0]), st.sampled_from([1.0, 0.5, 0.001]))
@example(LARGE, 0.3, 0.001)
@example(replace(LARGE, seed=24), 0.3, 0.5)  # a walk scores directories from codes
@example(replace(LARGE, seed=6), -1.0, 0.5)  # an open gate
def test_nodes_have_the_scores_that_a_find_gives_them(shape, alpha, sample):
    """All nodes of a scope get exact scores after a find of one result by any method."""
    world = build(shape)
    world.compact()
    world.step(4)
    top, query, snapshot = world.random_directory(), world.query(), world.snapshot
    scope, centroids, _ = snapshot.scope(snapshot.find(top.uri))
    terms, scratch = terms_of(snapshot, query), room(snapshot)
    stats = sampled(snapshot, scope.root, sample)
    bundles = (snapshot.tree, snapshot.vectors, stats, asked(query, centroids), scope)

    def ask(method: int, k: int) -> kernel.Found:
        plan = kernel.Plan(method, 0.0, alpha, 1, 1, False, k, 1, 10**6, 1, keeps_words=True)
        return kernel.find(*bundles, terms, plan, scratch)

    whole = ask(kernel.EXACT, 10**4)
    kernel.forget(snapshot.tree.texts, scope, terms, scratch)
    plain = naive.find(
        top, query, world.prior.astype(float), None if alpha < 0 else alpha, whole.gate
    )
    contexts = [*naive.walk(top), *naive.files_below(top)]
    expected = naive.score_nodes(contexts, plain)
    nodes = np.array([snapshot.find(context.uri) for context in contexts], np.int32)
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = ask(method, 1)
        scores = kernel.score_nodes(nodes, *bundles, found.weights, scratch)
        kernel.forget(snapshot.tree.texts, scope, terms, scratch)
        assert not scratch.lexical.any()
        assert not scratch.titles.any()
        assert scores.tolist() == pytest.approx(expected, abs=1e-5)
    world.close()


@pytest.mark.deep
def test_a_hub_with_5000_links_is_found_at_once(tmp_path: Path) -> None:
    """A find shows the relations of a hub with 5000 links in under 0.1 seconds."""
    ends = [f"{TOP}/{i % 50}/{i}.md" for i in range(5000)]
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        drafts = [Draft(end, content="ship " * (i % 7) + "harbour") for i, end in enumerate(ends)]
        engine.writable_store.put(
            [prepare(draft) for draft in [Draft(HUB, content="zebra"), *drafts]]
        ).result()
        for link in [engine.writable_store.link(HUB, end, "") for end in ends]:
            link.result()
        for query, first in (("zebra harbour", ends[::7]), ("zebra", ends)):
            taken = []
            for _ in range(5):
                started = time.perf_counter()
                (found, *_) = find(engine, FindQuery(query, alpha=1.0), None).matches
                taken.append(time.perf_counter() - started)
                assert found.uri == HUB
                assert [r.uri for r in found.relations] == sorted(first)[:MAX_RELATIONS]
            assert min(taken) < 0.1


def test_a_reason_has_no_nul(client: MessageClient) -> None:
    """PostgreSQL cannot hold the character, so no store takes it."""
    for name in "ab":
        client.put([ContextInput(uri=f"viking://resources/{name}.md", content=name)])
    with pytest.raises(ClientInvalidField, match="reason: has a NUL"):
        client.link("viking://resources/a.md", "viking://resources/b.md", "a\0b")
