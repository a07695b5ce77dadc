"""Measures of rankings, compared with examples worked by hand, and their properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judged import read_queries
from benchmarks.quality import Answer, _across_languages, _row
from benchmarks.quality_metrics import ndcg, recall, reciprocal_rank
from tests.tiers import examples

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
