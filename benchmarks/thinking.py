"""Rows about THINKING and Search, with models of a fixed response time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np

from benchmarks import daemon, models
from benchmarks.bench import Bench
from benchmarks.measure import Row, interleaved, percentiles
from vikingd.client import SearchMode, find_request
from vikingd.client.conversation import Session
from vikingd.client.retrieval_calls import search as search_request
from vikingd.pb.retrieval_pb2 import FindResponse, RerankStatus, SearchResponse
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

RERANK_SECONDS = 0.05
PLANNED = 3
_SECONDS = 5.0  # least time of the measurement; a call takes a fifth of a second


def thinking(bench: Bench) -> Iterator[Row]:
    """Measure a find in THINKING, and a Search whose plan has three queries.

    The baselines are a find in QUICK, and the slowest of the three queries alone. No question is
    asked twice, because the daemon caches scores.
    """
    texts = [query.text for query in bench.tree.queries(PLANNED)]
    with models.serving(RERANK_SECONDS, texts) as asked:
        config = Path(bench.store.parent, f"{bench.store.name}.toml")
        config.write_text(models.configuration(asked))
        with (
            daemon.serving(bench.store, config=config) as server,
            grpc.insecure_channel(server.address) as channel,
        ):
            stub = RetrievalStub(channel)
            calls: list[int] = []
            session = Session()
            session.add("user", "There is a lot to find.")

            def think(text: str, place: int) -> Callable[[int], FindResponse]:
                def call(number: int) -> FindResponse:
                    query = f"{text} {place}x{number}"
                    reply = stub.Find(find_request(query, mode=SearchMode.THINKING))
                    assert reply.rerank.status == RerankStatus.RERANK_STATUS_DONE
                    calls.append(sum(r.documents > 0 for r in reply.rerank.rounds))
                    return reply

                return call

            def search(number: int) -> SearchResponse:
                reply = stub.Search(search_request(f"Find it #{number}", session=session))
                assert reply.rerank.status == RerankStatus.RERANK_STATUS_DONE
                assert len(reply.query_results) == PLANNED
                return reply

            def quick(number: int) -> FindResponse:
                return stub.Find(find_request(f"{texts[0]} {number}"))

            single = [think(text, place) for place, text in enumerate(texts)]
            seconds = max(bench.seconds, _SECONDS)
            plain, searched, *found = interleaved(seconds, quick, search, *single)
        config.unlink()
    all_found = np.concatenate(found)
    yield bench.row(
        "thinking",
        float(np.median(all_found)) * 1e3,
        "ms",
        float(np.median(plain)) * 1e3,
        **percentiles(all_found),
        remark=f"at most {max(calls)} calls of 50 ms",
    )
    slowest = max(float(np.median(samples)) for samples in found)
    yield bench.row(
        "search_3",
        float(np.median(searched)) * 1e3,
        "ms",
        slowest * 1e3,
        **percentiles(searched),
        remark="compared with the slowest of its queries",
    )
