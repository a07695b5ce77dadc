"""THINKING over the wire, with a scripted reranker: the walk and its scores."""

from __future__ import annotations

import pytest

from tests.answer.thinking_helpers import TOP, House, matches, scored, told, vector
from vikingd.client import (
    ContextType,
    Draft,
    Levels,
    Session,
)
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.domain.find_query import StopReason


def test_start_points_are_read_first_then_the_children_of_each_round(house: House) -> None:
    """The rounds in the reply are the calls of the reranker; each abstract is sent once."""
    reply = house.think()
    starts, *rounds = house.documents()
    assert {"The house", "All there is"} <= set(starts)
    directories = {
        "All there is",
        "The house",
        "The kitchen and its tea",
        "The shed",
        "A box in the shed",
        "A bag in the box",
    }
    assert set(starts) <= directories
    assert "Tea stands on the shelf." in rounds[0]
    read = [text for call in house.documents() for text in call]
    assert len(read) == len(set(read))
    assert len(rounds) <= 3
    assert [r.round for r in reply.rerank.rounds] == [*range(len(rounds) + 1)]
    assert [r.documents for r in reply.rerank.rounds] == [*map(len, house.documents())]
    assert reply.rerank.model.endswith("/m")


def test_scores_are_the_rerankers_blended_with_the_parents(house: House) -> None:
    """A score is the reranker's, blended with the final score of the parent."""
    house.reranker.answer = told(
        {"Two spades are in the shed.": 0.9, "The shed": 0.7, "The house": 0.4, "Tea": 0.2}
    )
    reply = house.think(trace=True, levels=Levels.BOTH, alpha=0.75)
    final = {one.uri: one.parts.final for one in reply.trace.directories}
    assert len(matches(reply)) > 5
    for match in matches(reply):
        parts = match.parts
        if match.uri != f"{TOP}/kitchen/blank.md" and parts.HasField("rerank"):
            given = {"Two spades are in the shed.": 0.9, "The shed": 0.7, "The house": 0.4}
            assert parts.rerank == pytest.approx(given.get(match.abstract, 0.1))
            assert parts.parent == pytest.approx(final[uris.parent(match.uri)])
            below_root = uris.parent(match.uri) == uris.ROOT  # the root has no text
            assert parts.parent_weight == (0 if below_root else 0.25)
            blended = (1 - parts.parent_weight) * parts.rerank + parts.parent_weight * parts.parent
            assert match.score == pytest.approx(blended)
    assert matches(reply)[0].uri == f"{TOP}/shed/spade.md"
    assert matches(reply)[0].passages[0].text == "Two spades are in the shed."


def test_alpha_1_is_the_rerankers_score_and_0_the_parents(house: House) -> None:
    """Alpha 1 gives the reranker's score, and alpha 0 the score of the parent."""
    house.reranker.answer = told({"Two spades are in the shed.": 0.9, "The shed": 0.6})
    own = scored(house.think(alpha=1.0))
    assert own[f"{TOP}/shed/spade.md"] == pytest.approx(0.9)
    above = house.think(alpha=0.0, trace=True)
    final = {one.uri: one.parts.final for one in above.trace.directories}
    for match in matches(above):
        if uris.parent(match.uri) != uris.ROOT:
            assert match.score == pytest.approx(final[uris.parent(match.uri)])


def test_what_has_no_abstract_is_not_sent_and_keeps_its_score(house: House) -> None:
    """A file without an abstract is not sent and keeps its node score."""
    reply = house.think(vector=vector(1, 0), trace=True, alpha=1.0)
    assert all(all(call) for call in house.documents())
    blank = next(m for m in matches(reply) if m.uri == f"{TOP}/kitchen/blank.md")
    assert not blank.parts.HasField("rerank")
    assert blank.score == pytest.approx(blank.parts.node_score, abs=1e-3) != pytest.approx(0.1)
    assert sum(one.without_abstract for one in reply.rerank.rounds) >= 2  # blank.md and viking://


def test_what_quick_finds_is_always_among_what_is_read(house: House) -> None:
    """Each result of QUICK is sent to the reranker, so the limit is filled if QUICK fills it."""
    query = house.question()
    quick = house.client.find(query, limit=100)
    found = house.think(query, limit=100)
    assert quick.total > 3
    assert set(scored(quick)) <= set(scored(found))
    assert house.think(house.question(), limit=2).total == 2


def test_threshold_filters_and_levels_hold(house: House) -> None:
    """Threshold, filters, types, levels and target hold as without a reranker."""
    house.reranker.answer = told({"Two spades are in the shed.": 0.5, "Nails of all kinds.": 0.6})
    reply = house.think(alpha=1.0, score_threshold=0.5, vector=vector(0, 1))
    assert [*scored(reply)] == [f"{TOP}/shed/box/nail.md"]  # the threshold is exclusive
    sharp = house.think(where={"sharp": True})
    assert [*scored(sharp)] == [f"{TOP}/shed/spade.md"]
    assert scored(sharp) == scored(house.think(where={"sharp": True}, levels=Levels.BOTH))
    memories = house.think(context_types=[ContextType.MEMORY])
    assert memories.total == len(memories.memories) == 1
    directories = matches(house.think(levels=Levels.DIRECTORIES))
    assert directories
    assert not any(match.is_leaf for match in directories)
    assert f"{TOP}/shed" not in scored(house.think(target_uri=f"{TOP}/shed", levels=Levels.BOTH))
    below = house.think(target_uri=f"{TOP}/shed")
    assert all(uris.is_within(uri, f"{TOP}/shed") for uri in scored(below))
    assert set(house.documents()[0]) <= {"The shed", "A box in the shed", "A bag in the box"}


def test_known_scores_are_not_asked_for_again(house: House) -> None:
    """A repeated query takes all scores from the cache and sends nothing."""
    query = house.question()
    first = house.think(query)
    again = house.think(query)
    assert not house.reranker.requests
    assert scored(again) == scored(first)
    assert [r.cached for r in again.rerank.rounds] == [r.documents for r in first.rerank.rounds]


def test_what_quick_finds_is_read_though_each_stands_deep_in_a_directory_of_its_own(
    house: House,
) -> None:
    """Results of QUICK are reranked even if more directories are above them than a round opens."""
    top = "viking://resources/shelves"
    drafts = [
        draft
        for i in range(100)
        for draft in (
            Draft(f"{top}/{i}", is_directory=True, abstract=f"Shelf {i}"),
            Draft(f"{top}/{i}/box", is_directory=True, abstract=f"Box {i}"),
            Draft(f"{top}/{i}/box/tea.md", content=f"Black tea of harvest {i}"),
        )
    ]
    house.client.put(drafts)
    query = house.question()
    quick = house.client.find(query, target_uri=top, limit=100)
    found = house.think(query, target_uri=top, limit=100, trace=True)
    assert quick.total == 100
    assert set(scored(found)) == set(scored(quick))
    assert [one.documents for one in found.rerank.rounds[:2]] == [100, 100]
    assert len(house.reranker.requests) == len(found.rerank.rounds) <= 4
    house.client.delete(top)


def test_an_abstract_of_blanks_is_not_sent(house: House) -> None:
    """A directory with a blank abstract is not sent."""
    blank = "viking://resources/blank"
    house.client.put(
        [
            Draft(blank, is_directory=True, abstract=" \n "),
            Draft(f"{blank}/tea.md", content="White tea."),
        ]
    )
    house.think(target_uri=blank)
    assert house.documents() == [["White tea."]]
    house.client.delete(blank)


def test_all_directories_opened_in_a_round_are_counted(house: House) -> None:
    """Opened directories without children count too."""
    top = "viking://resources/chests"
    chests = [Draft(f"{top}/{i}", is_directory=True, abstract=f"Chest {i}") for i in range(20)]
    house.client.put([*chests, Draft(f"{top}/19/lid.md", content="A lid of oak.")])
    house.reranker.answer = told({"Chest 19": 0.01}, 0.5)
    reply = house.think("which tea is in the chests", target_uri=top, trace=True)
    assert [one.opened for one in reply.rerank.rounds if one.round == 2] == [
        sum(one.round == 2 for one in reply.trace.directories)
    ]
    assert sum(one.opened for one in reply.rerank.rounds) == reply.trace.opened
    house.client.delete(top)


def test_the_walk_goes_on_while_something_deeper_could_be_better(house: House) -> None:
    """The walk continues while the upper bound of a subtree is above the best score."""
    top = "viking://resources/stairs"
    house.client.put(
        [
            Draft(top, is_directory=True, abstract="Stairs"),
            Draft(f"{top}/note.md", content="Tea on the stairs."),
            *(Draft(f"{top}/{i}", is_directory=True, abstract=f"Tea {i}") for i in range(3)),
            Draft(f"{top}/hall", is_directory=True, abstract="A hall"),
            Draft(f"{top}/hall/room", is_directory=True, abstract="A room"),
            Draft(f"{top}/hall/room/cup.md", content="A cup."),
        ]
    )
    house.reranker.answer = told(
        {"Stairs": 0.6, "Tea on the stairs.": 1, "A room": 1, "A cup.": 1}, 0.1
    )
    found = house.think("where is tea", target_uri=top, alpha=0.5, limit=1, trace=True)
    # The note has .8. The hall has .35, so its room has at most .675 and the cup at most .8375.
    assert scored(found) == {f"{top}/hall/room/cup.md": pytest.approx(0.8375)}
    house.reranker.answer = told({"Stairs": 1, "Tea on the stairs.": 1}, 0.1)
    found = house.think("where is the tea", target_uri=top, alpha=0.5, limit=1, trace=True)
    assert scored(found) == {f"{top}/note.md": pytest.approx(1.0)}
    assert found.trace.stop_reason == StopReason.OUT_OF_REACH
    assert len(found.rerank.rounds) == 2
    house.client.delete(top)


def test_ties_are_by_uri_and_a_score_of_nothing_is_no_result(house: House) -> None:
    """Ties are by URI, and a score of 0 is no result."""
    top = "viking://resources/ties"
    for name in ("ash", "beech", "cedar"):
        house.client.put([Draft(f"{top}/{name}.md", content=f"Tea in a box of {name}.")])
    house.reranker.answer = told({"Tea in a box of cedar.": 0.0}, 0.5)
    assert [*scored(house.think(target_uri=top, limit=1))] == [f"{top}/ash.md"]
    assert [*scored(house.think(target_uri=top, alpha=1.0))] == [f"{top}/ash.md", f"{top}/beech.md"]
    house.client.delete(top)


def test_a_root_without_a_text_counts_for_nothing(house: House) -> None:
    """A target without a text has no share in its children's scores."""
    top = "viking://resources/bare"
    house.client.put(
        [
            Draft(f"{top}/a", is_directory=True, abstract="Tea"),
            Draft(f"{top}/a/tea.md", content="Tea of the day."),
        ]
    )
    house.reranker.answer = told({"Tea": 0.8}, 0.4)
    reply = house.think(target_uri=top, alpha=0.5, levels=Levels.BOTH)
    assert scored(reply) == {
        f"{top}/a": pytest.approx(0.8),
        f"{top}/a/tea.md": pytest.approx(0.6),
    }
    house.client.delete(top)


def test_what_does_not_fit_into_a_round_is_left_out_but_never_what_quick_found(
    house: House,
) -> None:
    """A full round leaves out children with a better node score before any result of QUICK."""
    top = "viking://resources/drawers"
    house.client.put(
        [
            Draft(top, is_directory=True, abstract="Where tea and spades are in the house"),
            *(
                Draft(f"{top}/{i}", is_directory=True, abstract=f"where tea, spades, house {i}")
                for i in range(120)
            ),
            Draft(f"{top}/z.md", content="Nothing of the sort."),
        ]
    )
    reply = house.think(target_uri=top, alpha=0.0)
    assert [*scored(reply)] == [f"{top}/z.md"]
    first, second = reply.rerank.rounds[:2]
    assert second.documents == 100
    assert second.left_out == 122 - first.documents - second.documents
    house.client.delete(top)


def test_three_rounds_of_eight_directories_are_the_most(house: House) -> None:
    """A walk opens the start points, then eight directories in each of two more rounds."""
    top = "viking://resources/tower"
    floors = [f"{top}/{'/'.join(str(i) for i in range(n + 1))}" for n in range(6)]
    house.client.put(
        [
            *(Draft(uri, is_directory=True, abstract=f"Floor {n}") for n, uri in enumerate(floors)),
            *(Draft(f"{top}/x{i}/y", is_directory=True, abstract=f"Cell {i}") for i in range(20)),
            *(Draft(f"{top}/x{i}", is_directory=True, abstract=f"Row {i}") for i in range(20)),
            *(Draft(f"{top}/tea{i}", is_directory=True, abstract=f"Tea {i}") for i in range(3)),
        ]
    )
    house.reranker.answer = told({f"Floor {n}": 0.9 for n in range(6)})
    reply = house.think(target_uri=top, levels=Levels.DIRECTORIES, limit=100, trace=True)
    assert [one.round for one in reply.rerank.rounds] == [0, 1, 2, 3]
    assert [one.opened for one in reply.rerank.rounds][2:] == [8, 8]
    assert [uri for uri in floors if uri in scored(reply)] == floors[:3]
    assert reply.trace.rounds == 3
    assert reply.trace.stop_reason == StopReason.ROUND_LIMIT
    house.client.delete(top)


def test_a_search_for_a_type_of_which_there_is_nothing_is_empty(client: MessageClient) -> None:
    """A search for a type without any context gives an empty answer."""
    client.put([Draft(f"{TOP}/tea.md", content="Tea stands on the shelf.")])
    reply = client.search("Create an RFC document", session=Session("A new service."))
    assert ContextType.SKILL in [one.query.context_type for one in reply.query_results]
    assert not reply.skills


def test_the_best_children_are_read_and_none_that_is_gone(house: House) -> None:
    """A full round sends the children with the best node scores, and no deleted one."""
    top = "viking://resources/heap"
    house.client.put([Draft(f"{top}/{i}.md", content=f"Paper {i}") for i in range(110)])
    house.client.put([Draft(f"{top}/{i}.md", content=f"Tea, paper {i}") for i in range(110, 120)])
    house.client.put([Draft(f"{top}/gone.md", content="Tea in the house.")])
    house.client.delete(f"{top}/gone.md")
    house.think(target_uri=top, limit=1)
    (read,) = house.documents()
    assert {f"Tea, paper {i}" for i in range(110, 120)} < set(read)
    assert "Tea in the house." not in read
    house.client.delete(top)
