"""THINKING with a failed, slow or missing reranker, and refused requests."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tests.answer.thinking_helpers import (
    FAULTS,
    THINKING,
    TOP,
    House,
    broken,
    matches,
    scored,
    told,
    vector,
)
from tests.scripted import Reply, Request
from vikingd.client import (
    ClientError,
    Draft,
    Method,
    TimedOut,
    find_request,
)
from vikingd.client.messages import MessageClient
from vikingd.pb.retrieval_pb2 import (
    RERANK_STATUS_FAILED,
    RERANK_STATUS_OFF,
)


@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_any_round_gives_quicks_scores_and_says_so(
    house: House, fault: str, call: int
) -> None:
    """A fault in the first, second or third call gives QUICK's answer and a note."""
    query = house.question()
    house.reranker.answer = broken(call, FAULTS[fault])
    reply = house.think(query)
    assert len(house.reranker.requests) == call + 1
    assert reply.rerank.status == RERANK_STATUS_FAILED
    assert reply.rerank.reason
    assert len(reply.rerank.rounds) == call  # only complete rounds count
    assert any(reply.rerank.reason in note.detail for note in reply.degraded)
    assert scored(reply) == scored(house.client.find(query))


@pytest.mark.deep
@pytest.mark.parametrize(("finds", "seconds"), [(3, 4.0), (60, 10.0)])
def test_a_slow_reranker_holds_up_nobody_and_no_deadline(
    house: House, finds: int, seconds: float
) -> None:
    """Other finds are answered during one in THINKING, which keeps its deadline."""
    waiting = threading.Event()

    def slow(request: Request) -> Reply:
        waiting.set()
        return Reply(told({})(request).body, after=60)

    house.reranker.answer = slow
    query = house.question()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):  # on a busy machine gRPC's own deadline may come first
            waiting.clear()
            started = time.monotonic()
            find = house.client.with_timeout(seconds).find
            thinking = pool.submit(find, query, mode=THINKING)
            assert waiting.wait(10)
            for _ in range(finds):
                assert house.client.find("tea").total
            assert not thinking.done()
            with suppress(TimedOut):
                reply = thinking.result()
                break
        assert time.monotonic() - started < 30  # the reranker takes 60 s
        assert reply.rerank.status == RERANK_STATUS_FAILED
        assert scored(reply) == scored(house.client.find(query))


def test_quick_never_asks_the_reranker(house: House) -> None:
    """QUICK does not call a configured reranker."""
    house.reranker.requests.clear()
    reply = house.client.find(house.question())
    assert reply.total
    assert not house.reranker.requests
    assert not reply.HasField("rerank")


def test_where_nothing_has_an_abstract_the_answer_is_quicks(house: House) -> None:
    """Without abstracts the reply has QUICK's answer and the status OFF."""
    top = "viking://resources/bare"
    house.client.put([Draft(f"{top}/{i}", vector=vector(1, i)) for i in range(3)])
    reply = house.think(vector=vector(1, 0), target_uri=top)
    assert not house.reranker.requests
    assert reply.rerank.status == RERANK_STATUS_OFF
    assert "abstract" in reply.rerank.reason
    assert reply.total == 3
    house.client.delete(top)


def test_identifiers_are_left_to_words(house: House) -> None:
    """A query of identifiers is not reranked, because abstracts need not have them."""
    house.client.put([Draft(f"{TOP}/errors.md", content="E4102 means that the fuse is out.")])
    reply = house.think("E4102")
    assert not house.reranker.requests
    assert reply.rerank.status == RERANK_STATUS_OFF
    assert "identifiers" in reply.rerank.reason
    assert matches(reply)[0].uri == f"{TOP}/errors.md"
    house.client.delete(f"{TOP}/errors.md")


def test_without_a_reranker_the_answer_is_quicks(client: MessageClient) -> None:
    """Without a reranker the reply has QUICK's answer and the reason."""
    client.put([Draft(f"{TOP}/tea.md", content="Tea stands on the shelf.")])
    reply = client.find("where is the tea", mode=THINKING)
    assert reply.rerank.status == RERANK_STATUS_OFF
    assert "no reranker" in reply.rerank.reason
    assert not reply.degraded
    assert scored(reply) == scored(client.find("where is the tea"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 101}, "limit"),
        ({"query": " ", "vector": vector(1, 0)}, "query"),
        ({"max_directories": 4}, "max_directories"),
        ({"method": Method.EXACT}, "method"),
    ],
)
def test_what_thinking_does_not_take(house: House, fields: dict[str, Any], field: str) -> None:
    """A field that THINKING does not take is refused by its name."""
    with pytest.raises(ClientError) as refused:
        house.client.find(**{"query": "tea", **fields}, mode=THINKING)
    assert refused.value.field_violations[0].field == field


def test_a_batch_does_not_think_and_there_is_no_third_mode(house: House) -> None:
    """A batch refuses THINKING and unknown modes with their field."""
    requests = [find_request("tea"), find_request("tea", mode=THINKING)]
    with pytest.raises(ClientError) as refused:
        house.client.batch_find(requests)
    assert refused.value.field_violations[0].field == "requests[1].mode"
    requests[1].mode = 3  # type: ignore[assignment]
    with pytest.raises(ClientError) as refused:
        house.client.batch_find(requests)
    assert refused.value.message == "requests[1].mode: 3 is not a mode of search"
