"""Rows about memories: a recall compared with a retrieval and an echo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from benchmarks import daemon
from benchmarks.bench import QUERIES, RETRIEVE, Bench, echo_of
from benchmarks.daemon import Server, say, temporary_store
from benchmarks.data import Query, Tree
from benchmarks.measure import Load, Row, latency, percentiles
from vikingd.client import Document, Passage, WeightedSum, retrieve_request
from vikingd.client.memory_calls import recall as recall_request
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft

RECALL = "/viking.retrieval.v1.Memories/Recall"
ROOT = "viking://user/memories"
ENTRIES = 20  # entries of a file
MOST_NODES = 100_000
_HALVES = WeightedSum(0.5, 0.5)


def recall(bench: Bench) -> Iterator[Row]:
    """Measure a recall minus a retrieval of as many passages; the baseline is the echo."""
    if bench.tree.nodes > MOST_NODES:
        return
    with temporary_store() as store, daemon.serving(store) as server:
        _load(server, bench.tree)
        queries = bench.tree.queries(QUERIES)
        recalls = Load(server, RECALL, [_recall(query) for query in queries])
        retrievals = Load(server, RETRIEVE, [_retrieve(query) for query in queries])
        echoed = echo_of(bench.nothing, recalls)
        recalled, retrieved, base = latency(bench.seconds, recalls, retrievals, echoed)
        difference = float(np.median(recalled) - np.median(retrieved)) * 1e3
        yield bench.row(
            "recall",
            difference,
            "ms",
            float(np.median(base)) * 1e3,
            **percentiles(recalled),
            remark="minus a retrieval",
        )


def _recall(query: Query) -> bytes:
    request = recall_request(query.text, vector=query.vector, no_touch=True)
    return request.SerializeToString()


def _retrieve(query: Query) -> bytes:
    request = retrieve_request(query.text, vector=query.vector, target_uri=ROOT, fusion=_HALVES)
    return request.SerializeToString()


def _load(server: Server, tree: Tree) -> None:
    """Write the files of a tree as entries of memory files, then compact the index."""
    files = (draft for draft in tree.drafts() if not draft.is_directory)
    with MessageClient(server.address, timeout=None) as client:
        done = 0
        while drafts := [
            _memories(number, some)
            for number in range(done, done + ENTRIES)
            if (some := list(islice(files, ENTRIES)))
        ]:
            client.put(drafts)
            done += len(drafts)
            say(f"{tree.nodes:,} nodes: {done * ENTRIES:,} memories are written")
        client.optimize()


def _memories(number: int, texts: Sequence[Draft]) -> Document:
    content = ""
    passages = []
    for text in texts:
        start = len(content) + len("- ")
        content += f"- {text.content}\n"
        vector = next(iter(text.passages or ())).vector
        passages.append(Passage("", start, len(content) - 1, vector))
    return Document(
        f"{ROOT}/{number % 100}/m{number}.md",
        abstract="Some memories.",
        content=content,
        passages=passages,
        vector=passages[0].vector,
    )
