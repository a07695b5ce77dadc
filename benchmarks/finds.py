"""Rows about finds: one at a time, many in flight, in batches, with the embedder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import numpy as np

from benchmarks import daemon
from benchmarks.bench import FIND, QUERIES, Bench, Questions, echo_of, recall, uris
from benchmarks.daemon import Server, say, temporary_store
from benchmarks.data import HARD, MEDIUM, TOP
from benchmarks.measure import Load, Row, drive, interleaved, latency, percentiles, throughput
from benchmarks.writes import load_tree
from vikingd.access.keys import HAD_KEY
from vikingd.access.keys_file import FILE
from vikingd.client import Document, Method, Mode, find_request
from vikingd.client.messages import MessageClient
from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider_choice import open_provider
from vikingd.pb.retrieval_pb2 import BatchFindRequest, BatchFindResponse, FindRequest

BATCH_FIND = "/viking.retrieval.v1.Retrieval/BatchFind"
BATCH = 32
SMALL_SHARE = 0.01
IN_FLIGHT = (1, 8, 64)
CPU_IN_FLIGHT = 8
MANY_QUERIES = 10_000
EMBEDDED_QUERIES = 1000
EMBEDDED_NODES = 10_000  # larger trees add only the find, which other rows measure
LEAST_LAGS = 50
_LOADING = 1.5  # seconds in which a new daemon loads the kernels of writes
READER_CONNECTIONS = 32  # the OS spreads connections at random; a few would be uneven


def find_exact(bench: Bench) -> Iterator[Row]:
    """Measure finds that score all files: from int8 codes, the best again in fp32."""
    yield from _finds(bench, "find_exact", Method.EXHAUSTIVE)


def find_best_first(bench: Bench) -> Iterator[Row]:
    """Measure finds that open the best directories first."""
    yield from _finds(bench, "find_best_first", Method.BEST_FIRST)


def _finds(bench: Bench, name: str, method: Method) -> Iterator[Row]:
    with bench.serving() as server:
        questions = Questions(server, bench.tree, MEDIUM)
        yield _beside_echo(bench, name, questions, method)
        if not bench.tree.given:
            hard = Questions(server, bench.tree, HARD)
            yield _beside_echo(bench, f"{name}_hard", hard, method)
        for in_flight in IN_FLIGHT:
            yield from _in_flight(bench, f"{name}_{in_flight}", questions, method, in_flight)


def find_scoped_1pct(bench: Bench) -> Iterator[Row]:
    """Measure finds below the directory whose subtree has nearly 1% of the nodes."""
    with bench.serving() as server:
        below = bench.tree.directory_with(SMALL_SHARE)
        questions = Questions(server, bench.tree, target=below)
        yield _beside_echo(bench, "find_scoped_1pct", questions, Method.AUTO)


def find_with_key(bench: Bench) -> Iterator[Row]:
    """Measure finds with a key; the baseline is the same find without one, on the same daemon."""
    with TemporaryDirectory() as scratch:
        config = Path(scratch) / "config.toml"
        config.write_text("allow_local = true\n")  # calls with and without a key are accepted
        with daemon.serving(bench.store, config=config) as server:
            with MessageClient(server.address) as client:
                client.create_key(operator=True)
                secret = client.create_key(user="ana", read=("viking://",)).secret
            load = Questions(server, bench.tree, MEDIUM).load(Method.AUTO)
            keyed = replace(load, metadata=(("authorization", f"Bearer {secret}"),))
            ours, base = latency(bench.seconds, keyed, load)
            shown = percentiles(ours)
            median = float(np.median(base)) * 1e3
            yield bench.row("find_with_key", shown["p50"], "ms", median, **shown)
    # The other measurements have no key.
    for path in (*bench.store.glob(f"{FILE}*"), bench.store / HAD_KEY):
        path.unlink()


def retrieve_keyword(bench: Bench) -> Iterator[Row]:
    """Measure retrievals by words alone over the whole tree."""
    with bench.serving() as server:
        load = Questions(server, bench.tree).retrievals(Mode.KEYWORD)
        ours, base = latency(bench.seconds, load, echo_of(bench.nothing, load))
        shown = percentiles(ours)
        median = float(np.median(base)) * 1e3
        yield bench.row("retrieve_keyword", shown["p50"], "ms", median, **shown)


def _beside_echo(bench: Bench, name: str, questions: Questions, method: Method) -> Row:
    load = questions.load(method)
    ours, base = latency(bench.seconds, load, echo_of(bench.nothing, load))
    found = questions.recall(load.replies())
    shown = percentiles(ours)
    return bench.row(name, shown["p50"], "ms", float(np.median(base)) * 1e3, recall=found, **shown)


def _in_flight(
    bench: Bench, name: str, questions: Questions, method: Method, in_flight: int
) -> Iterator[Row]:
    load = questions.load(method)
    other = echo_of(bench.nothing, load)
    ours, base = throughput(bench.loader, bench.seconds, (load, in_flight), (other, in_flight))
    found = questions.recall(load.replies())
    shown = percentiles(ours.calls)
    yield bench.row(name, ours.rate, "calls/s", base.rate, recall=found, **shown)
    if in_flight == CPU_IN_FLIGHT:
        yield bench.row(f"{name}_cpu", ours.cpu, "ms", base.cpu, recall=found)


def batch_find_32(bench: Bench) -> Iterator[Row]:
    """Measure queries per second in batches; the baseline is single calls with 8 in flight."""
    with bench.serving() as server:
        questions = Questions(server, bench.tree)
        single = questions.load(Method.AUTO)
        asked = [FindRequest.FromString(request) for request in single.requests]
        starts = range(0, len(asked) - BATCH + 1, BATCH)
        batches = Load(
            server,
            BATCH_FIND,
            [BatchFindRequest(requests=asked[i : i + BATCH]).SerializeToString() for i in starts],
        )
        batched, singles = throughput(bench.loader, bench.seconds, (batches, 1), (single, 8))
        answers = [
            answer.SerializeToString()
            for reply in batches.replies()
            for answer in BatchFindResponse.FromString(reply).responses
        ]
        yield bench.row(
            "batch_find_32",
            batched.rate * BATCH,
            "queries/s",
            singles.rate,
            recall=questions.recall(answers),
        )


def find_text(bench: Bench) -> Iterator[Row]:
    """Measure a find by text minus the embedding of the text; the baseline is the echo."""
    if bench.tree.nodes > EMBEDDED_NODES:
        return
    try:
        embedder = open_provider(EmbedSettings())
    except EmbedderFailed as error:
        say(f"find_text is skipped: {error}")
        return
    # A store keeps its embedder, so this measurement needs another store.
    with temporary_store() as store, daemon.serving(store, EmbedSettings().provider) as server:
        load_tree(server, bench.tree)
        texts = [query.text for query in bench.tree.queries(EMBEDDED_QUERIES, seed=2)]
        asked = Load(server, FIND, [find_request(t).SerializeToString() for t in texts])
        other = echo_of(bench.nothing, Load(server, FIND, asked.requests[-20:]))
        with (
            grpc.insecure_channel(server.address) as channel,
            grpc.insecure_channel(other.server.address) as nothing,
        ):
            # Blocks of one call compare the same text. No text is sent twice, because the daemon
            # caches query vectors.
            alone, whole, base = interleaved(
                2 * bench.seconds,
                lambda i: embedder.embed_query(texts[i % len(texts)]),
                asked.sender(channel),
                other.sender(nothing),
                size=1,
            )
        exact = [find_request(t, method=Method.EXACT).SerializeToString() for t in texts[:QUERIES]]
        truth = map(uris, Load(server, FIND, exact).replies())
        found = map(uris, Load(server, FIND, asked.requests[:QUERIES]).replies())
        shares = [recall(a, b) for a, b in zip(found, truth, strict=True)]
        overhead = np.median(whole - alone) * 1e3
        yield bench.row(
            "find_text",
            float(overhead),
            "ms",
            float(np.median(base)) * 1e3,
            recall=float(np.mean(shares)),
            **percentiles(whole),
            remark="minus the embedding",
        )


def resident_bytes(bench: Bench) -> Iterator[Row]:
    """Measure the memory of a new daemon after 10,000 queries."""
    with bench.serving() as server:
        questions = Questions(server, bench.tree)
        load = questions.load(Method.BEST_FIRST)
        bench.loader.submit(drive, load, 8, 0.0, MANY_QUERIES).result()
        yield bench.row("resident_bytes", server.resident_bytes(), "bytes")
        yield bench.row("anonymous_bytes", server.resident_bytes("RssAnon"), "bytes")


def start_seconds(bench: Bench) -> Iterator[Row]:
    """Measure the seconds from the start of the process to SERVING; median of three."""
    taken = []
    for _ in range(3):
        with bench.serving() as server:
            taken.append(server.start_seconds)
    yield bench.row("start_seconds", float(np.median(taken)), "s")


def two_processes(bench: Bench) -> Iterator[Row]:
    """Measure calls per second of a writer and a reader; the baseline is the writer alone."""
    if not daemon.knows_readers():
        say("two_processes is skipped: this vikingd has no serve --reader")
        return
    method = Method.EXHAUSTIVE if bench.tree.nodes <= 10_000 else Method.BEST_FIRST
    alone: list[tuple[float, float]] = []
    both: list[tuple[float, float]] = []
    with bench.serving() as writer:
        questions = Questions(writer, bench.tree)
        load = questions.load(method)

        def drive_it(seconds: float, *servers: Server) -> tuple[float, float]:
            """Drive the servers.

            Return calls per second, and their CPU time for each call in ms.
            """
            before = sum(server.cpu_seconds() for server in servers)
            driven = bench.loader.submit(drive, load, READER_CONNECTIONS, seconds).result()
            spent = sum(server.cpu_seconds() for server in servers) - before
            return driven.rate, spent / (len(driven.calls) + READER_CONNECTIONS) * 1e3

        drive_it(_LOADING, writer)
        for _ in range(3):
            alone.append(drive_it(bench.seconds / 2, writer))
            with daemon.serving(bench.store, listen=writer.address, reader=True) as reader:
                drive_it(_LOADING, writer, reader)
                both.append(drive_it(bench.seconds / 2, writer, reader))
                found = questions.recall(load.replies())
        one, two = np.median(alone, axis=0).tolist(), np.median(both, axis=0).tolist()
        yield bench.row("two_processes", two[0], "calls/s", one[0], recall=found)
        yield bench.row("two_processes_cpu", two[1], "ms", one[1], recall=found)


def reader_lag(bench: Bench) -> Iterator[Row]:
    """Measure the time from the reply to a put until a reader finds the file."""
    if not daemon.knows_readers():
        say("reader_lag is skipped: this vikingd has no serve --reader")
        return
    below = f"{TOP}/reader-lag"
    lags: list[float] = []
    with (
        bench.serving() as server,
        daemon.serving(bench.store, reader=True) as other,
        MessageClient(server.address) as writer,
        MessageClient(other.address) as reader,
    ):
        writer.put([Document(below, is_directory=True)])
        end = time.perf_counter() + bench.seconds
        while time.perf_counter() < end or len(lags) < LEAST_LAGS:
            draft = Document(f"{below}/{len(lags)}.md", content=f"lagging{len(lags)}")
            revision = writer.put([draft]).revision
            acknowledged = time.perf_counter()
            while reader.find(draft.content, limit=1).revision < revision:
                pass
            lags.append(time.perf_counter() - acknowledged)
    shown = percentiles(np.array(lags))
    yield bench.row("reader_lag", shown["p50"], "ms", **shown)
