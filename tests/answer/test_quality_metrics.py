"""Measures of rankings, compared with examples worked by hand, and their properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judged import Query, read_queries
from benchmarks.quality import (
    Answer,
    Row,
    _across_languages,
    _by_session,
    _row,
    first_methods,
    sessions_of,
)
from tests.tiers import examples
from vikingd.domain.ranking_metrics import ndcg, recall, reciprocal_rank

MEASURES = (ndcg, recall, reciprocal_rank)

some = examples(100)
names = st.sampled_from("abcdefgh")
rankings = st.lists(names, unique=True)
judgements = st.frozensets(names, min_size=1)
depths = st.integers(1, 10)


def test_ndcg_discounts_by_the_logarithm_of_the_place():
    """The nDCG discounts relevant results by the logarithm of their place.

    Two of three are found, at places 2 and 4: (.6309 + .4307) / (1 + .6309 + .5).
    """
    assert ndcg("xayb", {"a", "b", "c"}, 10) == pytest.approx(0.498189, abs=1e-6)


def test_ndcg_has_the_ideal_of_what_fits():
    """The ideal ranking of nDCG has no more relevant results than k."""
    assert ndcg("axb", {"a", "b"}, 1) == 1.0
    assert ndcg("axb", {"a", "b"}, 3) == pytest.approx(1.5 / 1.6309298, abs=1e-6)


def test_ndcg_ends_at_k():
    """The nDCG ignores results after the k-th place."""
    assert ndcg("xxxa", {"a"}, 3) == 0.0


def test_recall_is_a_share_of_all_that_is_relevant():
    """Recall is the share of all relevant results that is among the first k."""
    assert recall("xayb", {"a", "b", "c"}, 2) == pytest.approx(1 / 3)
    assert recall("xayb", {"a", "b", "c"}, 4) == pytest.approx(2 / 3)


def test_reciprocal_rank_is_of_the_first_relevant():
    """Reciprocal rank is 1 over the place of the first relevant result, or 0 after place k."""
    assert reciprocal_rank("xayb", {"a", "b"}, 10) == 0.5
    assert reciprocal_rank("xayb", {"b"}, 3) == 0.0
    assert reciprocal_rank("xayb", {"b"}, 4) == 0.25


@some
@given(judgements, depths)
def test_all_that_is_relevant_in_front_is_perfect(relevant, k):
    """With all relevant results first, every measure is 1; only recall is limited by k."""
    ranking = [*sorted(relevant), "x", "y"]
    assert ndcg(ranking, relevant, k) == pytest.approx(1.0)
    assert reciprocal_rank(ranking, relevant, k) == 1.0
    assert recall(ranking, relevant, k) == min(1.0, k / len(relevant))


@some
@given(rankings, judgements, depths)
def test_measures_are_shares(ranking, relevant, k):
    """Measures are in [0, 1], and 0 exactly if no relevant result is among the first k."""
    values = [measure(ranking, relevant, k) for measure in MEASURES]
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in values)
    nothing = relevant.isdisjoint(ranking[:k])
    assert [value == 0.0 for value in values] == [nothing] * len(values)


@some
@given(rankings, judgements, depths, st.data())
def test_a_relevant_name_further_in_front_never_costs(ranking, relevant, k, data):
    """A swap of a relevant result with an irrelevant one before it lowers no measure."""
    good = [i for i, name in enumerate(ranking) if name in relevant]
    bad = [i for i, name in enumerate(ranking) if name not in relevant and good and i < good[-1]]
    if not bad:
        return
    i = data.draw(st.sampled_from(bad))
    j = data.draw(st.sampled_from([g for g in good if g > i]))
    better = list(ranking)
    better[i], better[j] = better[j], better[i]
    for measure in MEASURES:
        assert measure(better, relevant, k) >= measure(ranking, relevant, k)


@pytest.fixture
def bilingual(tmp_path: Path) -> Path:
    """Return a set of two paragraphs in two languages, with two judged queries and another."""
    uris = [f"viking://resources/s/{lang}/{n}" for lang in ("en", "zh") for n in (0, 1)]
    documents = [{"uri": uri, "text": "t", "lang": uri[-4:-2]} for uri in uris]
    queries = [
        {"id": lang, "text": f"q {lang}", "scope": "viking://resources/s", "lang": lang}
        for lang in ("en", "zh", "xx")
    ]
    for name, records in (("documents", documents), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    judged = "".join(f"{q}\t{uris[i]}\t1\n" for q in ("en", "zh") for i in (0, 2))
    (tmp_path / "qrels.tsv").write_text("query\turi\tgrade\n" + judged)
    return tmp_path


def test_queries_come_with_their_judgements(bilingual):
    """Only judged queries are read, each with its relevant texts in all languages and its own."""
    english, chinese = read_queries(bilingual)
    assert (english.text, english.scope) == ("q en", "viking://resources/s")
    assert english.relevant == chinese.relevant
    assert english.relevant == {"viking://resources/s/en/0", "viking://resources/s/zh/0"}
    assert english.own_language == {"viking://resources/s/en/0"}
    assert chinese.own_language == {"viking://resources/s/zh/0"}


def test_across_languages_the_own_version_is_neither_found_nor_missed(bilingual):
    """Measures across languages leave out relevant texts in the language of the query."""
    queries = read_queries(bilingual)
    ranking = [f"viking://resources/s/{name}" for name in ("en/0", "en/1", "zh/0")]
    answers = [Answer(ranking, 0.002), Answer(ranking, 0.004)]
    whole = _row("s", "find", queries, answers)
    assert (whole.recall, whole.mrr, whole.hit, whole.queries) == (1.0, 1.0, 1.0, 2)
    assert whole.p50_ms == pytest.approx(3.0)
    english, chinese = _across_languages("s", "find", queries, answers)
    assert (english.set, english.recall, english.mrr) == ("s cross_en", 1.0, 0.5)
    assert (chinese.set, chinese.recall, chinese.mrr) == ("s cross_zh", 1.0, 1.0)
    assert english.queries == chinese.queries == 1


def test_sessions_are_read_of_questions_with_an_answer(tmp_path):
    """A question of a category without answers has no evidence session."""
    (tmp_path / "documents.jsonl").write_text(
        '{"uri": "viking://user/memories/a/0", "text": "t"}\n'
    )
    asked = [
        {"id": i, "text": "q", "scope": "viking://", "category": kind, "sessions": ["a"]}
        for i, kind in (("one", "ssu"), ("two", "abs"))
    ]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    rows = "".join(f"{i}\tviking://user/memories/a/0\t1\n" for i in ("one", "two"))
    (tmp_path / "qrels.tsv").write_text("query\turi\tgrade\n" + rows)
    assert [query.sessions for query in read_queries(tmp_path)] == [{"a"}, set()]


def test_a_session_counts_once_at_its_best_turn():
    """Ten turns of a session leave room for nine other sessions among the first ten."""
    turns = [f"viking://m/s{i}/{turn}" for i, turn in ((1, 0), (2, 5), (1, 3), (3, 1), (2, 0))]
    assert sessions_of(turns) == ["viking://m/s1", "viking://m/s2", "viking://m/s3"]


def test_session_figures_are_shares_of_questions(monkeypatch):
    """One of two questions has its evidence among five, and all of it among ten sessions."""
    rankings = {
        "near": [*[f"s/{i}" for i in range(20)], "a/0", "b/0"],
        "far": [*[f"s{i}/0" for i in range(5)], "a/0", *[f"t{i}/0" for i in range(5)], "b/0"],
    }

    def method(_client, query, _limit=0):
        return [f"viking://{turn}" for turn in rankings[query.text]]

    monkeypatch.setattr("benchmarks.quality.METHODS", (method,))
    evidence = frozenset(("viking://a", "viking://b"))
    asked = [Query(text, "", "", frozenset("x"), frozenset(), evidence) for text in rankings]
    [row] = _by_session(None, "set", asked)
    assert (row.any_of_5, row.all_of_10, row.queries) == (0.5, 0.5, 2)


def test_the_first_method_of_a_set_is_that_of_most_ndcg():
    """Find is first if it ties, else it is behind by the difference."""
    rows = [
        Row(name, method, ndcg, 0.0, 0.0, 0.0, 0.0, 1)
        for name, method, ndcg in (
            ("a", "rrf", 0.5),
            ("a", "find", 0.5),
            ("b", "rrf", 0.6),
            ("b", "find", 0.55),
        )
    ]
    lines = [line.split() for line in first_methods(rows).splitlines()]
    assert lines[1:] == [
        ["a", "find", "0.500", "0.500", "0.000"],
        ["b", "rrf", "0.600", "0.550", "0.050"],
    ]
