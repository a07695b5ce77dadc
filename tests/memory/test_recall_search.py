"""Recall over the wire: search by salience, the budget and refused requests."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.daemons import serving
from tests.memory.recall_helpers import LAMP, NOW, USER, contents, entries, micros, vector
from tests.patience import eventually
from vikingd.client import ClientError, ContextItem, Draft, RecallPath, Rrf, WeightedSum
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.pb.memories_pb2 import (
    RECALL_PATH_HYBRID,
)
from vikingd.pb.retrieval_pb2 import DROP_REASON_BUDGET


@pytest.fixture
def journal(client: MessageClient) -> MessageClient:
    """Return a client of a store with journals of some days and two files that are no journals."""
    days = (1, 3, 4, 6, 8, 9, 10, 11)
    client.put(
        [Draft(f"{USER}/journal/2026-03-{d:02}.md", content=f"- note of day {d}\n") for d in days]
        + [Draft(f"{USER}/journal/2026-03-10-extra.md", content="no day")]
        + [Draft(f"{USER}/journal/2026-03-09.txt", content="no Markdown")]
    )
    return client


def test_a_search_finds_entries_within_the_scope(client: MessageClient) -> None:
    """A search finds only entries, and only those of its scope."""
    client.put(
        [
            entries("Harbour tea at noon.", "Mountain coffee.", abstract="harbour harbour"),
            Draft(f"{LAMP}/notes.md", content="- The harbour lamp.\n"),
            Draft("viking://projects/other/memories/notes.md", content="- harbour of others\n"),
            Draft("viking://resources/harbour.md", content="- harbour\n"),
            Draft("viking://agent/memories/cases.md", content="- Agent at the harbour.\n"),
        ]
    )

    def found(**scope) -> set[str]:
        return set(contents(client.recall("harbour", **scope)))

    assert found() == {"Harbour tea at noon.", "Agent at the harbour."}
    assert found(project="lamp") == {"The harbour lamp."}
    assert found(project="lamp", with_global=True) == found() | found(project="lamp")
    empty = client.recall("harbour", project="nowhere")
    assert "viking://projects/nowhere/memories" in empty.reason
    assert not empty.results


def test_salience_orders_what_fits_alike(client: MessageClient) -> None:
    """Reinforced, accessed and new memories come first, with the parts of their scores."""
    known = [
        Entry(0, 0, 0, micros(NOW - timedelta(days=60))),
        Entry(0, 5, 0, micros(NOW - timedelta(days=60))),
        Entry(0, 0, 0, micros(NOW)),
        Entry(0, 0, 9, micros(NOW - timedelta(days=60))),
    ]
    texts = ("harbour one", "harbour two", "harbour three", "harbour four")
    client.put([entries(*texts, of=lambda i: known[i])])
    salience = {"now": NOW, "no_touch": True, "profile": "salience"}
    reply = client.recall("harbour", **salience)
    assert contents(reply) == ["harbour two", "harbour three", "harbour four", "harbour one"]
    for one in reply.results:
        p = one.parts
        assert one.score == pytest.approx(
            0.5 * p.semantic + 0.2 * p.reinforcement + 0.2 * p.recency + 0.1 * p.access
        )
    assert reply.results[1].parts.recency == 1
    assert reply.results[3].parts.recency == pytest.approx(0.25)
    assert [one.reinforcement for one in reply.results] == [5, 0, 0, 0]
    fast_fading = client.recall("harbour", **salience, half_life_days=1)
    assert fast_fading.results[3].parts.recency == pytest.approx(2**-60)


def test_weights_are_by_profile_or_by_request(client: MessageClient) -> None:
    """The profile or explicit weights decide if relevance or strength comes first."""
    strong = Entry(0, 50, 50, micros(NOW))
    weak = Entry(0, 0, 0, micros(NOW - timedelta(days=900)))
    client.put(
        [entries("harbour and much else beside it", "harbour", of=lambda i: (strong, weak)[i])]
    )

    def first(**weights) -> str:
        return contents(client.recall("harbour", now=NOW, no_touch=True, **weights))[0]

    assert first(profile="salience") == "harbour and much else beside it"
    assert first(paths=[RecallPath.HYBRID]) == first(profile="salience")
    assert first() == first(profile="relevance") == "harbour"
    assert first(weights=(1, 0, 0, 0)) == "harbour"
    assert first(weights=(0, 0, 1, 0)) == "harbour and much else beside it"


@pytest.mark.parametrize("fusion", [None, Rrf(), Rrf(60, 2.0, 1.0), WeightedSum(0.2, 0.8)])
def test_the_best_semantic_score_is_1(
    client: MessageClient, fusion: Rrf | WeightedSum | None
) -> None:
    """The best candidate has the semantic score 1 with each fusion."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- harbour\n", vector=vector(1, 0, 0)),
            Draft(f"{USER}/b.md", content="- mountain\n", vector=vector(0, 1, 0)),
            Draft(f"{USER}/c.md", content="- valley\n", vector=vector(0, 0, 1)),
        ]
    )
    reply = client.recall("harbour", vector=vector(1, 0, 0), fusion=fusion, no_touch=True)
    semantic = [one.parts.semantic for one in reply.results]
    assert contents(reply)[0] == "harbour"
    assert semantic[0] == pytest.approx(1)
    assert all(0 <= s < 1 for s in semantic[1:])


def test_by_rank_who_is_first_on_one_side_only_has_half(client: MessageClient) -> None:
    """A memory that is first in only one of the two rankings has half the best fused score."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- harbour\n", vector=vector(-1, 0.5, 0)),
            Draft(f"{USER}/b.md", content="- mountain\n", vector=vector(1, 0, 0)),
        ]
    )
    reply = client.recall("harbour", vector=vector(1, 0, 0), fusion=Rrf(), no_touch=True)
    assert [one.parts.semantic for one in reply.results] == pytest.approx([0.5, 0.5])


def test_the_search_keeps_to_the_budget(client: MessageClient) -> None:
    """The search ends at the first memory beyond the budget, or skips it on request."""
    texts = ["harbour " + "and more words " * n for n in (0, 30, 1)]
    client.put([entries(*(text.strip() for text in texts))])
    short, long, middle = (text.strip() for text in texts)

    def found(**how) -> list[str]:
        return contents(client.recall("harbour", no_touch=True, **how))

    assert found() == [short, middle, long]
    assert found(max_tokens=1) == []
    ended = client.recall("harbour", max_tokens=60, no_touch=True, weights=(0, 0, 1, 0))
    assert contents(ended) == [short]
    assert "did not fit" in ended.reason
    assert found(max_tokens=60, weights=(0, 0, 1, 0), skip_oversize=True) == [short, middle]
    assert found(top_k=1) == [short]
    tight = client.recall("harbour", max_tokens=1, no_touch=True)
    assert "did not fit, 1 are left" in tight.reason
    assert tight.budget_remaining == 1


def test_equal_texts_are_recalled_once(client: MessageClient) -> None:
    """Equal texts of two files are recalled once."""
    client.put([Draft(f"{USER}/{n}.md", content="- The harbour opens at six.\n") for n in "ab"])
    reply = client.recall("harbour", no_touch=True)
    assert contents(reply) == ["The harbour opens at six."]
    assert reply.results[0].uri == f"{USER}/a.md"


def test_an_identifier_is_found_by_words_alone(client: MessageClient) -> None:
    """An identifier is found by its words, although another memory is nearer by vector."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- error E4711 means empty\n", vector=vector(0, 1, 0)),
            Draft(f"{USER}/b.md", content="- near in meaning\n", vector=vector(1, 0, 0)),
        ]
    )
    reply = client.recall("E4711", vector=vector(1, 0, 0), no_touch=True)
    assert contents(reply) == ["error E4711 means empty"]


def test_a_memory_that_is_only_an_abstract_is_recalled_by_meaning(client: MessageClient) -> None:
    """A file without passages is a memory; the abstract of a file with passages is none."""
    client.put(
        [
            Draft(f"{USER}/a.md", abstract="Likes oolong.", vector=vector(1, 0, 0)),
            Draft(f"{USER}/b.md", abstract="Of oolong.", content="- Oolong at noon, mostly.\n"),
            Draft(f"{USER}/c.md", abstract="Likes sencha.", vector=vector(0.8, 0.6, 0)),
        ]
    )
    reply = client.recall("oolong", vector=vector(1, 0, 0), no_touch=True)
    assert contents(reply)[0] == "Likes oolong."
    assert sorted(contents(reply)[1:]) == ["Likes sencha.", "Oolong at noon, mostly."]


def test_a_search_fills_a_file_of_many_memories(client: MessageClient) -> None:
    """Memories of the file that was read take no places of those that a search adds to it."""
    prefers = "".join(f"- Preferences, preferences: {n}\n" for n in range(60))
    other = "Of all her preferences the first that she names is a walk along the river at dawn."
    client.put(
        [
            Draft(f"{USER}/preferences.md", content=prefers),
            Draft(f"{USER}/notes.md", content=f"- {other}\n"),
        ]
    )
    reply = client.recall("list my preferences", no_touch=True, max_tokens=10_000, top_k=20)
    assert contents(reply) == [prefers, other]


# Accesses


def counts(client: MessageClient) -> list[int]:
    """Return the accesses of the memories of the file of `entries`."""
    return [p.memory.access_count for p in client.get(f"{USER}/notes.md").context.passages]


def test_what_was_used_counts_as_accessed_and_not_what_was_returned(client: MessageClient) -> None:
    """Ids in `used` and reinforced ones count one access each; a recall alone counts none."""
    client.put([entries("harbour one", "harbour two", "harbour three")])
    one, two, three = (p.memory.id for p in client.get(f"{USER}/notes.md").context.passages)
    for _ in range(3):
        assert len(client.recall("harbour").results) == 3
    client.recall("harbour", used=[one], no_touch=True)
    client.reinforce(two, by=4)
    client.reinforce(used=[three])
    client.reinforce(three, used=[two, three])
    client.recall("preferences", used=[one, one + 10**9], without=())
    # Accesses are written in order, so any earlier access is counted by now.
    eventually(lambda: counts(client)[0])
    assert counts(client) == [1, 2, 2]
    assert [p.memory.reinforcement for p in client.get(f"{USER}/notes.md").context.passages] == [
        *(0, 4, 1)
    ]
    assert client.recall("harbour", no_touch=True).results[0].parts.access > 0


def test_what_a_context_places_in_a_prompt_counts_as_accessed(client: MessageClient) -> None:
    """The memories whose text is in a built context count once; those beyond the budget do not."""
    uri = f"{USER}/notes.md"
    client.put([entries("harbour one", "no port", "harbour two " + "and more " * 80)])
    client.build_context("harbour", max_tokens=40, full_text_only=True, no_touch=True)
    built = client.build_context(
        items=[ContextItem(uri, 1, 2.0), ContextItem(uri, 3, 1.0)],
        max_tokens=6,
        full_text_only=True,
    )
    assert "harbour one" in built.text
    assert [piece.reason for piece in built.dropped] == [DROP_REASON_BUDGET]
    eventually(lambda: counts(client)[0])
    assert counts(client) == [1, 0, 0]
    client.build_context(uris=[uri])
    eventually(lambda: counts(client)[1])
    assert counts(client) == [2, 1, 1]


# Refusals

WRONG = [
    ({"query": " "}, "query"),
    ({"max_tokens": 10**7}, "max_tokens"),
    ({"top_k": 501}, "top_k"),
    ({"tokenizer": "nobody"}, "tokenizer"),
    ({"tokenizer": "hf:/dev/zero"}, "tokenizer"),
    ({"tokenizer": "tiktoken:gpt2"}, "tokenizer"),
    ({"weights": (0.5, 0.2, 0.2, 0.2)}, "weights"),
    ({"weights": (1.5, -0.5, 0.0, 0.0)}, "weights.semantic"),
    ({"weights": (1.0, 0.0, 0.0, 0.0), "profile": "relevance"}, "weights"),
    ({"profile": "nice"}, "profile"),
    ({"half_life_days": 0.0}, "half_life_days"),
    ({"half_life_days": float("nan")}, "half_life_days"),
    ({"time_zone": "Mars/Olympus"}, "time_zone"),
    ({"time_zone": "../../etc/passwd"}, "time_zone"),
    ({"project": "a/b"}, "scope.project"),
    ({"project": ".."}, "scope.project"),
    ({"without": tuple(RecallPath)}, "without"),
    ({"fusion": WeightedSum(0.0, 0.0)}, "weighted"),
    ({"fusion": Rrf(60, -1.0, 1.0)}, "rrf.vector_weight"),
    ({"vector": b"\0\0\0\0"}, "vector"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
def test_a_bad_request_is_refused_by_its_field(
    client: MessageClient, fields: dict, field: str
) -> None:
    """A bad field is refused by its name, also for a query that names a known file."""
    with pytest.raises(ClientError) as refused:
        client.recall(**{"query": "preference", **fields})
    assert [v.field for v in refused.value.field_violations] == [field]


def test_a_daemon_without_its_embedder_answers_by_words(client: MessageClient) -> None:
    """A daemon without an embedder answers by words and does not report a degraded answer."""
    client.put([entries("harbour one")])
    reply = client.recall("harbour", no_touch=True)
    assert contents(reply) == ["harbour one"]
    assert not reply.degraded


def test_the_table_of_the_fast_path_is_configuration(tmp_path) -> None:
    """The configuration replaces the triggers and files of the fast path."""
    config = tmp_path / "config.toml"
    config.write_text(
        '[[recall.routes]]\nname = "recipes"\ntriggers = ["菜谱", "recipe"]\n'
        'files = ["viking://user/memories/cook.md"]\n'
    )
    with (
        serving("--provider", "none", "--config", str(config)) as where,
        MessageClient(where) as client,
    ):
        client.put([Draft(f"{USER}/cook.md", content="- soup\n")])
        client.put([Draft(f"{USER}/preferences.md", content="- tea\n")])
        for query in ("a recipe", "看菜谱"):
            assert contents(client.recall(query)) == ["- soup\n"]
        assert client.recall("preference").path == RECALL_PATH_HYBRID
