"""Requests that ask several questions: Find, BatchFind and Search by a daemon without a model."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vikingd.answer.find_hits import rounds, taking_turns
from vikingd.client import ContextType, Levels, SearchMode, find_request
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.pb.retrieval_pb2 import FindResponse

TOP = "viking://resources/home"
BOILER, RENT = "Who repairs the boiler?", "when is the rent due?"
BOTH = f"{BOILER} Also, {RENT}"


def ranked(reply: FindResponse) -> list[tuple[str, float]]:
    """Return (name, score) of all results in the order of every client."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    found.sort(key=lambda match: (-match.score, match.uri))
    return [(match.uri.rpartition("/")[2], match.score) for match in found]


@pytest.fixture
def home(client: MessageClient) -> MessageClient:
    """Write many files about a boiler, and few about rent."""
    client.put(
        [
            *(
                Draft(
                    f"{TOP}/boiler-{i}.md", content=f"The boiler. Repairs of boiler {i}." * (i + 1)
                )
                for i in range(8)
            ),
            Draft(f"{TOP}/rent.md", content="The rent is due on Monday, says the long letter."),
            Draft(f"{TOP}/lease.md", content="A lease sets the rent and many other things there."),
            Draft("viking://user/memories/rent.md", content="I pay the rent by standing order."),
        ]
    )
    return client


def test_each_question_has_its_best_result_in_the_first_round(home: MessageClient) -> None:
    """The hits of both questions take turns, and scores fall in the order of the rounds."""
    alone = [ranked(home.find(text, target_uri=TOP)) for text in (BOILER, RENT)]
    reply = home.find(BOTH, target_uri=TOP, limit=5)
    found = ranked(reply)
    assert list(reply.questions) == [BOILER, RENT]
    assert {name for name, _ in found[:2]} == {one[0][0] for one in alone}
    assert {name for name, _ in found[2:4]} == {one[1][0] for one in alone}
    assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)
    assert found[0][1] == max(one[0][1] for one in alone)
    assert found[1][1] == pytest.approx(found[0][1])
    assert found[0][0] == max((one[0] for one in alone), key=lambda best: best[1])[0]
    assert len(found) == reply.total == 5


def test_one_question_is_answered_as_before(home: MessageClient) -> None:
    """A reply to one question names no parts."""
    assert not home.find(BOILER).questions
    assert not home.search(BOILER).questions


def test_a_context_that_answers_both_comes_once(home: MessageClient) -> None:
    """A list without a new result does not end the others."""
    reply = home.find("Who pays the rent letter? Also, when is the rent due?", target_uri=TOP)
    names = [name for name, _ in ranked(reply)]
    assert len(reply.questions) == 2
    assert len(names) == len(set(names)) == reply.total


def test_a_threshold_asks_each_question_for_its_own_scores(home: MessageClient) -> None:
    """A result below the threshold does not come in with the score of its round."""
    weak = ranked(home.find(RENT, target_uri=TOP))
    threshold = (weak[0][1] + weak[1][1]) / 2
    found = ranked(home.find(BOTH, target_uri=TOP, score_threshold=threshold, limit=50))
    assert weak[0][0] in dict(found)
    assert weak[1][0] not in dict(found)


def test_a_question_without_results_does_not_make_the_answer_nothing(client: MessageClient) -> None:
    """The confidence is that of the question that has results, if the other is surer of itself."""
    due, kettle = "was the rent letter due in May 2026?", "where is the kettle?"
    boilers = (f"The boiler. Repairs of boiler {i}." * (i + 1) for i in range(8))
    long = "The kettle. " + "And so many more words that the pot has. " * 5
    client.put(
        [
            *(Draft(f"{TOP}/boiler-{i}.md", content=text) for i, text in enumerate(boilers)),
            Draft(
                f"{TOP}/rent.md",
                content="The rent is due, says the long letter.",
                time="2026-05-08",
            ),
            Draft(f"{TOP}/tea.md", content=long),
        ]
    )
    alone = {text: client.find(text, target_uri=TOP) for text in (due, kettle)}
    assert alone[kettle].confidence.in_scope > alone[due].confidence.in_scope
    best, other = (ranked(alone[text])[0][1] for text in (due, kettle))
    assert other < best
    threshold = (best + other) / 2
    reply = client.find(f"{kettle} Also, {due}", target_uri=TOP, score_threshold=threshold)
    assert list(reply.questions) == [kettle, due]
    assert [name for name, _ in ranked(reply)] == ["rent.md"]
    assert reply.confidence == alone[due].confidence


def test_the_trace_has_each_question(home: MessageClient) -> None:
    """Each question has a trace with its own terms."""
    reply = home.find(BOTH, trace=True)
    traces = [reply.trace, *reply.further_traces]
    assert [trace.question for trace in traces] == [BOILER, RENT]
    assert ["boiler" in trace.terms for trace in traces] == [True, False]
    assert ["rent" in trace.terms for trace in traces] == [False, True]
    assert not home.find(BOILER, trace=True).further_traces


def test_a_batch_splits_each_of_its_requests(home: MessageClient) -> None:
    """A find in a batch has the answer of a find."""
    replies = home.batch_find([find_request(BOTH), find_request(RENT)]).responses
    assert ranked(replies[0]) == ranked(home.find(BOTH))
    assert [list(reply.questions) for reply in replies] == [[BOILER, RENT], []]


def test_types_and_levels_hold_for_each_question(home: MessageClient) -> None:
    """A filter of the request is that of its questions."""
    reply = home.find(BOTH, context_types=[ContextType.MEMORY], levels=Levels.BOTH)
    assert not reply.resources
    assert [one.uri for one in reply.memories if one.is_leaf] == ["viking://user/memories/rent.md"]


def test_a_search_without_a_model_plans_a_query_for_each_question(home: MessageClient) -> None:
    """The plan has the questions, and the order is that of a find."""
    reply = home.search(BOTH, mode=SearchMode.QUICK)
    assert list(reply.questions) == [BOILER, RENT]
    assert [query.query for query in reply.query_plan.queries] == [BOILER, RENT]
    assert ranked(reply) == ranked(home.find(BOTH))


def test_a_context_for_a_prompt_has_sources_of_both(home: MessageClient) -> None:
    """A context built from a find has the evidence for each question."""
    built = home.build_context(find=find_request(BOTH, limit=2), max_tokens=400)
    assert "rent.md" in " ".join(one.uri for one in built.citations)
    assert "boiler" in " ".join(one.uri for one in built.citations)


def test_scores_fall_strictly_by_rounds() -> None:
    """In a round the better item is first, and equal rounds stay apart."""
    lists = [[("a", 0.2), ("b", 0.2)], [("c", 0.5), ("d", 0.2), ("e", 0.1)]]
    turns = list(taking_turns(lists, lambda one: one[0], lambda one: one[1]))
    assert [name for (name, _), _ in turns] == ["c", "a", "b", "d", "e"]
    scores = [score for _, score in turns]
    assert all(low < high for high, low in pairwise(scores))
    assert scores == pytest.approx([0.5, 0.5, 0.2, 0.2, 0.1])


def test_rounds_take_the_next_new_item_of_each_list() -> None:
    """A repeated item does not cost a list its turn."""
    assert list(rounds([[1, 2, 3], [1, 4], []], lambda item: item)) == [[1, 4], [2], [3]]
    assert list(rounds([], lambda item: item)) == []
