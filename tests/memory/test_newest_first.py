"""The newest of memories that speak of the same thing comes first."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.recall_helpers import NOW, USER, contents, micros, vector
from tests.tiers import examples
from vikingd.client import Draft, Passage, RecallPath
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.memory_calls.newest_first import newest_first

SAME, OTHER = (1.0, 0.1), (0.0, 1.0)
some = examples(200)


def order(*memories: tuple[float, int | None, tuple[float, float]]) -> list[int]:
    """Return the order of memories, each with its score, time and vector."""
    scores, times, vectors = zip(*memories, strict=True)
    return newest_first(scores, times, np.array(vectors, np.float32))


def test_the_newer_of_the_same_comes_before_the_older() -> None:
    """A newer memory that is near in meaning and fits nearly as well comes before the older."""
    assert order((1.0, 1, SAME), (0.9, 2, SAME)) == [1, 0]
    assert order((1.0, 2, SAME), (0.9, 1, SAME)) == [0, 1]
    assert order((1.0, 1, SAME), (0.95, 9, OTHER), (0.9, 2, SAME)) == [2, 0, 1]


def test_the_newer_of_another_thing_stays_behind() -> None:
    """A memory far in meaning, far worse, of no time or of no vector stays in its place."""
    assert order((1.0, 1, SAME), (0.9, 2, OTHER)) == [0, 1]
    assert order((1.0, 1, SAME), (0.7, 2, SAME)) == [0, 1]
    assert order((1.0, None, SAME), (0.9, 2, SAME)) == [0, 1]
    assert order((1.0, 1, SAME), (0.9, None, SAME)) == [0, 1]
    assert order((1.0, 1, SAME), (0.9, 2, (0.0, 0.0))) == [0, 1]


@some
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.none() | st.integers(-5, 5),
            st.sampled_from([SAME, OTHER, (0.7, 0.7), (0.0, 0.0)]),
        ),
        min_size=1,
    )
)
def test_nothing_comes_in_or_drops_out(memories: list) -> None:
    """Any memories keep their number, and those of one time keep their order."""
    best_first = sorted(memories, key=lambda one: -one[0])
    found = order(*best_first)
    assert sorted(found) == list(range(len(memories)))
    alike = [(score, 0, of) for score, _, of in best_first]
    assert order(*alike) == list(range(len(memories)))


def _put(client: MessageClient) -> None:
    for name, days, of in (("old", 90, (1, 0, 0)), ("new", 30, (1, 0.05, 0)), ("x", 1, (0, 0, 1))):
        content = f"- harbour {name}\n"
        said = Entry(0, 0, 0, micros(NOW - timedelta(days=days)))
        passage = Passage("", 2, len(content) - 1, vector=vector(*of), entry=said)
        client.put([Draft(f"{USER}/{name}.md", content=content, passages=[passage])])


def test_a_recall_tells_the_present_before_the_past(client: MessageClient) -> None:
    """By default the newer wording of a fact comes first; the strict form orders by salience."""
    _put(client)
    how = {"vector": vector(1, 0, 0), "now": NOW, "no_touch": True}
    by_score = contents(client.recall("harbour", **how, weights=(1, 0, 0, 0)))
    assert by_score == ["harbour old", "harbour new", "harbour x"]
    assert contents(client.recall("harbour", **how)) == ["harbour new", "harbour old", "harbour x"]
    strict = client.recall("harbour", **how, paths=[RecallPath.HYBRID], profile="salience")
    assert {one.content for one in strict.results} == set(by_score)
    assert [one.time.seconds for one in strict.results] == [
        round((NOW - timedelta(days={"old": 90, "new": 30, "x": 1}[one.content[8:]])).timestamp())
        for one in strict.results
    ]
    assert sorted(-one.score for one in strict.results) == [-one.score for one in strict.results]
