"""A daemon under many requests: it serves others, refuses the excess and bounds replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from tests.daemons import serving
from tests.metrics_helpers import free_address, sample
from tests.patience import SECONDS, eventually
from vikingd.client.messages import MessageClient
from vikingd.client.method_declarations import Stubs
from vikingd.domain.contexts import Draft, Passage
from vikingd.pb import contexts_pb2, memories_pb2, retrieval_pb2

FILES = 3000
TREE = "viking://resources/tree"
LONG = "viking://resources/long"
LONG_FILES = 6
LETTERS = 400_000  # characters of a long passage
MOST = 256 << 10  # bytes of a reply
DEFAULT_MOST = 4 << 20  # bytes of a reply that a client accepts by default


@pytest.fixture(scope="module")
def metrics() -> str:
    """Return the URL of the daemon's metrics."""
    return f"http://{free_address()}/metrics"


@pytest.fixture(scope="module")
def address(metrics: str) -> Iterator[str]:
    """Yield the address of a daemon with small files, long passages and memories."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIKINGD_LIMITS__MAX_REPLY_BYTES", str(MOST))
        listen = metrics.split("/")[2]
        with serving("--provider", "none", "--metrics-listen", listen) as where:
            with MessageClient(where) as client:
                for start in range(0, FILES, 500):
                    client.put([small(i) for i in range(start, start + 500)])
                for i in range(LONG_FILES):
                    client.put([long(f"{LONG}/{i}.txt", i)])
                entries = "\n\n".join(f"- entry {i}: {'tea ' * 100}" for i in range(900))
                client.put([Draft("viking://user/memories/m.md", content=entries)])
                client.put([Draft("viking://user/memories/tasks.md", content="- do it")])
            yield where


def small(i: int) -> Draft:
    """Return a file that a find of `word` returns."""
    meta = {"name": f"name{i:06}", "pad": "x" * 1000}
    return Draft(f"{TREE}/{i}.txt", content=f"word number{i}", metadata=meta)


def long(uri: str, i: int) -> Draft:
    """Return a file of one long passage, which a find of `long` returns."""
    content = f"long {i} 界 " + "word " * (LETTERS // 5)
    return Draft(uri, content=content, passages=[Passage("", 0, len(content))])


@pytest.fixture
def stubs(address: str) -> Iterator[Stubs]:
    """Yield the stubs of a client with the default limits."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Stubs(channel)


def find(**fields: Any) -> retrieval_pb2.FindRequest:
    """Return a request for a find of the small files."""
    return retrieval_pb2.FindRequest(**{"query": "word", "target_uri": TREE, **fields})


def batch(limit: int, count: int = 256) -> retrieval_pb2.BatchFindRequest:
    """Return a request for the same find many times."""
    return retrieval_pb2.BatchFindRequest(requests=[find(limit=limit)] * count)


def boosted() -> retrieval_pb2.RetrieveRequest:
    """Return a request with as many clauses as are allowed."""
    request = retrieval_pb2.RetrieveRequest(query="word", target_uri=TREE, top_k=10)
    for i in range(24):
        clauses = [{"name": {"$gte": f"name{i * 245 + j:06}x"}} for j in range(245)]
        request.boosts.add(factor=1.5).where.update({"$or": clauses})
    return request


def test_what_does_not_fit_into_the_queue_is_refused_at_once(stubs: Stubs) -> None:
    """Calls beyond the queue are refused with a retry delay, and light calls still succeed."""
    calls: list[Any] = [stubs.retrieval.BatchFind.future(batch(1000)) for _ in range(120)]
    refused: list[Any] = []

    def looked() -> bool:
        refused[:] = [
            call
            for call in calls
            if call.done() and call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        ]
        return len(refused) >= 40

    eventually(looked)
    assert sum(not call.done() for call in calls) > 10  # refused while other calls wait
    status = rpc_status.from_call(refused[0])
    assert status is not None
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    assert retry.retry_delay.ToTimedelta().total_seconds() > 0
    assert "repeat the call after" in refused[0].details()
    assert stubs.retrieval.Find(find(limit=1), timeout=SECONDS).total == 1
    for call in calls:
        call.cancel()


@pytest.mark.deep
def test_one_who_sends_many_does_not_keep_another_waiting(address: str, stubs: Stubs) -> None:
    """A heavy call of one client is answered before half of another client's flood."""
    calls: list[Any] = [stubs.retrieval.BatchFind.future(batch(1000)) for _ in range(60)]
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        Stubs(channel).retrieval.Find(find(limit=1000), timeout=SECONDS)
    assert sum(call.done() for call in calls) < len(calls) / 2
    for call in calls:
        call.cancel()


def test_a_batch_that_is_cancelled_is_not_answered_further(metrics: str, stubs: Stubs) -> None:
    """A cancelled batch stops: the count of its answered queries no longer grows."""

    def answered() -> int:
        return int(sample(metrics, "vikingd_results_count", rpc="BatchFind"))

    eventually(lambda: _stands(answered))
    before = answered()
    call: Any = stubs.retrieval.BatchFind.future(batch(1000))
    eventually(lambda: answered() > before)
    call.cancel()
    eventually(lambda: _stands(answered))
    assert before < answered() < before + 256


def _stands(count: Any) -> bool:
    seen = count()
    time.sleep(0.3)
    return bool(count() == seen)


def test_filters_of_boosts_do_not_stop_the_event_loop(address: str, stubs: Stubs) -> None:
    """Health checks are answered while the filters of boosts are evaluated."""
    done, told = threading.Event(), list[float]()
    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(1) as pool:
        health: Any = health_pb2_grpc.HealthStub(channel)
        health.Check(health_pb2.HealthCheckRequest())

        def ask() -> None:
            while not done.is_set():
                started = time.perf_counter()
                health.Check(health_pb2.HealthCheckRequest())
                told.append(time.perf_counter() - started)

        asking = pool.submit(ask)
        started = time.perf_counter()
        stubs.retrieval.Retrieve(boosted(), timeout=SECONDS)
        took = time.perf_counter() - started
        done.set()
        asking.result()
    assert max(told) < took / 2


REPLIES = {
    "Find": find(query="long", target_uri=LONG, limit=10),
    "Find small": find(limit=1000),
    "BatchFind": retrieval_pb2.BatchFindRequest(
        requests=[find(query="long", target_uri=LONG, limit=10)] * 64
    ),
    "BatchFind small": batch(100),
    "Search": retrieval_pb2.SearchRequest(query="long", target_uri=LONG, limit=10),
    "Retrieve": retrieval_pb2.RetrieveRequest(query="long", target_uri=LONG),
    "Retrieve metadata": retrieval_pb2.RetrieveRequest(
        query="word", target_uri=TREE, top_k=1000, include=[1, 2]
    ),
    "BuildContext": retrieval_pb2.BuildContextRequest(
        uris={"uris": [f"{LONG}/0.txt"]}, max_tokens=4_000_000
    ),
    "Recall": memories_pb2.RecallRequest(
        query="entry tea", top_k=500, max_tokens=1_000_000, without=[1, 2]
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", REPLIES)
def test_replies_keep_within_their_bytes_and_say_what_they_lack(stubs: Stubs, name: str) -> None:
    """A reply stays within its limit of bytes, and names what it omits."""
    reply = sent(stubs, name.split()[0], REPLIES[name])
    assert reply.ByteSize() <= MOST
    replies = getattr(reply, "responses", [reply])
    assert any("limits.max_reply_bytes" in note.detail for one in replies for note in one.degraded)


def sent(stubs: Stubs, rpc: str, request: Message) -> Any:
    """Send a request, and return the reply."""
    service = stubs.memories if rpc == "Recall" else stubs.retrieval
    return getattr(service, rpc)(request, timeout=SECONDS)


def test_what_is_left_of_a_find_is_its_beginning(stubs: Stubs) -> None:
    """A bounded find names every result, but only the first has a passage, which is cut."""
    request = find(query="long", target_uri=LONG, limit=LONG_FILES)
    found = stubs.retrieval.Find(request, timeout=SECONDS).resources
    assert len(found) == LONG_FILES
    first = found[0].passages[0]
    whole = long("", int(found[0].uri[len(LONG) + 1])).content
    assert 0 < len(first.text) < len(whole)
    assert whole.startswith(first.text)
    assert (first.start, first.end) == (0, len(whole))
    assert not any(one.passages for one in found[1:])


def test_a_find_that_has_room_is_the_same_as_ever(stubs: Stubs) -> None:
    """A find has the same results alone, in a batch and with a larger limit."""
    alone = stubs.retrieval.Find(find(limit=10), timeout=SECONDS)
    more = stubs.retrieval.Find(find(limit=60), timeout=SECONDS)
    (batched,) = stubs.retrieval.BatchFind(batch(10, 1), timeout=SECONDS).responses
    assert not alone.degraded
    assert list(alone.resources) == list(batched.resources) == list(more.resources)[:10]


def test_listings_of_much_come_in_pages(stubs: Stubs) -> None:
    """Each page of a listing fits a client, and all pages together have every context."""
    seen, token = 0, ""
    while True:
        page = stubs.contexts.List(
            contexts_pb2.ListRequest(uri=TREE, page_size=10_000, page_token=token)
        )
        assert page.ByteSize() < DEFAULT_MOST
        seen, token = seen + len(page.contexts), page.next_page_token
        if not token:
            break
    assert seen == FILES


def test_a_forget_says_how_many_it_does_not_name(stubs: Stubs) -> None:
    """A reply to Forget without room for all memories gives the number of the others."""
    request = memories_pb2.ForgetRequest(dry_run=True)
    request.older_than.FromSeconds(int(time.time()) + 1000)
    reply = stubs.memories.Forget(request, timeout=SECONDS)
    assert reply.ByteSize() <= MOST
    assert len(reply.forgotten) + reply.left_out == 901
