"""A daemon of several processes: a writer and the readers that it starts, on one port."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from tests.access.tls_helpers import Authority
from tests.metrics_helpers import Daemon, free_address, running, sample, samples
from tests.nodes.reader_helpers import answer, note, uris
from tests.patience import eventually
from tests.vikingctl import piped
from vikingd.client import ClientError, Method
from vikingd.client.messages import MessageClient
from vikingd.config import ConfigError, Settings
from vikingd.daemon.passed_on_calls import Readers
from vikingd.daemon.reader_processes import process_count
from vikingd.daemon.writer_link import WriterLink
from vikingd.system import platform
from vikingd.telemetry.process_figures import ProcessFigures

CONNECTIONS = 12  # the kernel gives all of them to one of two processes once in 2,000 runs
TWO = ("--provider", "none", "--processes", "2")
PATIENT = 60.0  # seconds of a call on a busy machine


def _plain(target: str, options: Any) -> grpc.Channel:
    return grpc.insecure_channel(target, (*options, ("grpc.use_local_subchannel_pool", 1)))


class Alone(MessageClient):
    """A client with a connection of its own, so that the kernel chooses its process.

    It sends no points of a session, as a client in another language.
    """

    _plain = staticmethod(_plain)  # type: ignore[assignment]

    def __init__(self, address: str, **more: Any) -> None:
        super().__init__(address, PATIENT, consistent=False, **more)


def all_answer(daemon: Daemon, **more: Any) -> None:
    """Wait until all processes of a daemon answer."""
    with Alone(daemon.address, **more) as client:
        eventually(lambda: (seen := client.stats()).answering_processes == seen.processes)


@contextmanager
def spread(daemon: Daemon) -> Iterator[list[Alone]]:
    """Wait for all processes, and yield clients whose connections the kernel spreads over them."""
    all_answer(daemon)
    made = [Alone(daemon.address) for _ in range(CONNECTIONS)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def readers(daemon: Daemon) -> list[int]:
    """Return the ids of the living readers that the daemon has logged."""
    lines = [line for line in daemon.stderr.splitlines() if 'event="reader started"' in line]
    pids = [int(line.rpartition("pid=")[2].split()[0]) for line in lines]
    return [pid for pid in pids if platform.parent_of(pid) is not None]


def calls(daemon: Daemon, rpc: str) -> float:
    """Return how many calls all processes have answered, by the metrics."""
    return float(sample(daemon.url, "vikingd_calls_total", code="OK", rpc=rpc))


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    return platform.processor_seconds(pid) or 0.0


def test_two_processes_answer_as_one(tmp_path: Path) -> None:
    """Any client writes by any process, sees it in every process at once, and figures are summed.

    Each write is read by all connections right after it, without a revision.
    """
    with running(tmp_path / "store", *TWO) as daemon, spread(daemon) as clients:
        (reader_id,) = readers(daemon)
        before = processor_seconds(reader_id)
        for number, writer in enumerate(clients):
            revision = writer.put([note(number)]).revision
            for reader in clients:
                assert uris(reader.find(f"word{number}", limit=1)) == [note(number).uri]
            answers = [answer(one, number, revision, Method.EXHAUSTIVE) for one in clients]
            assert len(set(answers)) == 1
        for deleter in clients[:3]:
            uri = note(clients.index(deleter)).uri
            deleter.delete(uri)
            for reader in clients:
                with pytest.raises(ClientError) as gone:
                    reader.get(uri)
                assert gone.value.reason == "NOT_FOUND"
        assert calls(daemon, "Put") == CONNECTIONS
        assert calls(daemon, "Find") == 2 * CONNECTIONS**2
        labelled = {dict(labels).get("process") for (_, labels) in samples(daemon.url)}
        assert labelled == {None, "writer", "reader-1"}
        assert processor_seconds(reader_id) > before  # it has answered, too
        stats = [one.stats() for one in clients]
        assert {(one.reader, one.processes, one.answering_processes) for one in stats} == {
            (False, 2, 2)
        }
        assert {one.health("viking.reader-1") for one in clients} == {"SERVING"}
        assert b"2 of 2 answer" in piped("--address", daemon.address, "health")
        assert b"2 of 2 answer" in piped("--address", daemon.address, "doctor")


def test_a_memory_that_any_process_recalls_counts_as_accessed(tmp_path: Path) -> None:
    """A recall answered by a reader counts the accesses of its memories, as one of the writer."""
    with running(tmp_path / "store", *TWO) as daemon, spread(daemon) as clients:
        id_ = clients[0].remember("Prefers oolong to coffee.", memory_type="preferences").id
        for one in clients:
            reply = one.recall("oolong or coffee", used=[id_])
            assert reply.results
            assert not reply.degraded
        eventually(
            lambda: (
                clients[0].recall("oolong", no_touch=True).results[0].access_count == CONNECTIONS
            )
        )


@pytest.mark.deep
def test_calls_of_readers_hold_an_idle_daemon(tmp_path: Path) -> None:
    """A daemon stops when no process had a call for stop_when_idle, and all processes end."""
    daemon = Daemon(tmp_path / "store", tmp_path / "log", *TWO, "--stop-when-idle", "5s")
    with spread(daemon) as clients:
        (reader,) = readers(daemon)
        for _ in range(40):  # longer than the time, by readers and the writer
            for one in clients:
                one.find("note")
            time.sleep(0.2)
        assert daemon.process.poll() is None
    assert daemon.process.wait(60) == 0
    daemon.client.close()
    eventually(lambda: platform.parent_of(reader) is None)
    assert "no call came for stop_when_idle" in daemon.stderr


@pytest.mark.deep
def test_a_killed_reader_is_started_again(tmp_path: Path) -> None:
    """The log and health tell of a killed reader; calls go on, and no counter goes down."""
    with running(tmp_path / "store", *TWO) as daemon:
        with spread(daemon) as clients:
            for one in clients:
                one.put([note(clients.index(one))])
                one.find("note")
            assert calls(daemon, "Find") == CONNECTIONS
            (killed,) = readers(daemon)
            os.kill(killed, signal.SIGKILL)
            eventually(lambda: 'event="reader-1 ended"' in daemon.stderr)
            assert calls(daemon, "Find") == CONNECTIONS
            with Alone(daemon.address) as other:
                assert uris(other.find("word3", limit=1)) == [note(3).uri]
        with spread(daemon) as clients:
            (again,) = readers(daemon)
            assert again != killed
            for one in clients:
                assert uris(one.find("word3", limit=1)) == [note(3).uri]
            assert calls(daemon, "Find") == 2 * CONNECTIONS + 1


@pytest.mark.deep
def test_a_killed_writer_takes_its_readers_with_it(tmp_path: Path) -> None:
    """After a kill of the writer no reader is left, and a new start serves the address."""
    said = tmp_path / "log"
    daemon = Daemon(tmp_path / "store", said, *TWO)
    all_answer(daemon)
    (reader,) = readers(daemon)
    daemon.client.put([note(1)])
    daemon.process.kill()
    daemon.process.wait()
    eventually(lambda: platform.parent_of(reader) is None)
    daemon.client.close()
    with running(tmp_path / "store", *TWO) as daemon, spread(daemon) as clients:
        assert all(uris(one.find("word1", limit=1)) == [note(1).uri] for one in clients)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_all_processes_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """At a signal to all processes each stops in order, and what was acknowledged is there."""
    acknowledged: list[str] = []
    failed: list[ClientError] = []

    def work(client: Alone, which: int) -> None:
        for turn in count(1000 * which):
            try:
                client.put([note(turn)])
            except ClientError as error:
                failed.append(error)
                return
            acknowledged.append(note(turn).uri)

    daemon = Daemon(tmp_path / "store", tmp_path / "log", *TWO)
    with spread(daemon) as clients:
        (reader,) = readers(daemon)
        threads = [threading.Thread(target=work, args=(one, n)) for n, one in enumerate(clients, 1)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(acknowledged) > 5 * CONNECTIONS)
        os.kill(reader, number)  # as a terminal, or a manager of services
        daemon.process.send_signal(number)
        assert daemon.process.wait(60) == 0
        for thread in threads:
            thread.join()
    daemon.client.close()
    ended = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert all(error.code in ended for error in failed), failed
    assert platform.parent_of(reader) is None
    assert daemon.stderr.count("event=stopped") == 2
    assert "takes too long" not in daemon.stderr
    assert "Traceback" not in daemon.stderr
    with running(tmp_path / "store", "--provider", "none") as again:
        for uri in acknowledged:
            again.client.get(uri)


@pytest.mark.deep
def test_the_writer_knows_who_calls_a_reader(tmp_path: Path) -> None:
    """A certificate counts in every process, and no caller can name another address as its own."""
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.signed("localhost", "DNS:localhost", "IP:127.0.0.1")
    options: tuple[str, ...] = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    options += ("--tls-client-ca", str(authority.certificate), "--listen", "vikings://127.0.0.1:0")
    with running(tmp_path / "store", *TWO, *options) as daemon:
        all_answer(daemon)
        secure = daemon.process.stdout.readline().split()[-1]
        operator = daemon.client.create_key(operator=True).secret
        with Alone(daemon.address, key=operator) as client:
            client.create_key(write=["viking://resources"], certificate_subject="CN=ana")
        for name in ("ana", "eve"):
            names = (f"DNS:host-{number}.of.a.large.mesh.example" for number in range(60))
            files = authority.signed(name, *names)
            for number in range(CONNECTIONS):
                with Alone(
                    secure,
                    ca=authority.certificate,
                    certificate=files[0],
                    private_key=files[1],
                    retries=False,
                ) as client:
                    client._metadata = (*(client._metadata or ()), ("vikingd-peer", "unix:/forged"))
                    if name == "ana":
                        client.put([note(number)])
                        assert uris(client.find(f"word{number}", limit=1)) == [note(number).uri]
                        continue
                    with pytest.raises(ClientError) as put:
                        client.put([note(1)])
                    with pytest.raises(ClientError) as find:
                        client.find("word1")
                    codes = {put.value.code, find.value.code}
                    assert codes == {grpc.StatusCode.UNAUTHENTICATED}
        audit = [line for line in daemon.stderr.splitlines() if "logger=vikingd.audit" in line]
        assert sum("Put" in line and "code=OK" in line for line in audit) == CONNECTIONS
        assert "forged" not in daemon.stderr


@pytest.mark.deep
def test_watches_of_health_hold_up_no_write(tmp_path: Path) -> None:
    """Callers without a key may watch the health as often as connections allow."""
    with running(tmp_path / "store", *TWO) as daemon, spread(daemon) as clients, ExitStack() as end:
        for number in range(CONNECTIONS):
            channel = end.enter_context(_plain(daemon.address, (("number", number),)))
            watch = channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            for _ in range(300):
                watched = watch(health_pb2.HealthCheckRequest())
                end.callback(watched.cancel)
            next(watched)
        for number, writer in enumerate(clients):
            writer.put([note(number)])


@pytest.mark.deep
def test_a_reader_that_hangs_neither_holds_up_the_writer_nor_outlives_it(tmp_path: Path) -> None:
    """The writer answers on its own address, however often it asks for figures, and alone."""
    own = free_address()
    said = tmp_path / "log"
    code = "import sys; del sys.argv[1:4]\n"  # the command that `before` begins
    code += "from vikingd.daemon import reader_processes; reader_processes._PATIENCE = 0.001\n"
    code += "from vikingd.daemon.server import main; main()"
    before = (sys.executable, "-c", code)
    daemon = Daemon(
        tmp_path / "store", said, *TWO, "--writer-listen", own, before=before, fresh=True
    )
    eventually(lambda: len(readers(daemon)) == 1)
    (reader,) = readers(daemon)
    try:
        os.kill(reader, signal.SIGSTOP)
        with Alone(own) as client:
            for _ in range(500):  # more questions than there is room for
                assert client.stats().answering_processes == 1
            client.put([note(1)])
            os.kill(reader, signal.SIGCONT)
            eventually(lambda: client.stats().answering_processes == 2)
            os.kill(reader, signal.SIGSTOP)
    finally:
        daemon.process.kill()
        daemon.process.wait()
        daemon.client.close()
    eventually(lambda: platform.parent_of(reader) is None)


def _fail() -> ProcessFigures:
    raise RuntimeError("no figures today")


def _linked(pipe: Connection) -> None:
    """Be a reader whose figures fail; this is the main function of a child."""
    WriterLink("unix:/nowhere", pipe).figures = _fail
    time.sleep(PATIENT)


def test_a_reader_without_figures_still_notices_the_end_of_its_writer() -> None:
    """A failure in the figures is answered as none, and the link goes on."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_linked, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    for number in range(2):
        ours.send(number)
        assert ours.poll(PATIENT)
        assert ours.recv() == (number, None)
    ours.close()
    process.join(PATIENT)
    assert process.exitcode == 1


def test_a_directory_too_deep_for_a_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the path and says what to set; nothing is left of the directory."""
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    parts: Any = (None, None)

    async def make() -> None:
        Readers(1, Settings(), *parts)

    with pytest.raises(ConfigError, match=r"processes: .* is too long: set TMPDIR to a shorter"):
        asyncio.run(make())
    assert not list(deep.iterdir())


def test_processors_are_those_of_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota of a control group, or of one above it, limits the processors; at least one is left.

    Both versions of control groups count.
    """
    monkeypatch.setattr(platform, "PROC", tmp_path)
    monkeypatch.setattr(platform, "CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(platform, "processors", lambda: 8)
    (tmp_path / "self").mkdir()
    own = tmp_path / "self" / "cgroup"
    assert platform.usable_processors() == 8
    own.write_text("0::/above/own\n")
    group = tmp_path / "groups" / "above" / "own"
    group.mkdir(parents=True)
    for quota, above, usable in (
        ("max 100000", "max 100000", 8),
        ("350000 100000", "max 100000", 3),
        ("350000 100000", "200000 100000", 2),
        ("50000 100000", "max 100000", 1),
    ):
        (group / "cpu.max").write_text(f"{quota}\n")
        (group.parent / "cpu.max").write_text(f"{above}\n")
        assert platform.usable_processors() == usable
    own.write_text("3:memory:/other\n2:cpu,cpuacct:/own\n")
    old = tmp_path / "groups" / "cpu" / "own"
    old.mkdir(parents=True)
    (old / "cpu.cfs_period_us").write_text("100000\n")
    for quota, usable in (("-1", 8), ("400000", 4)):
        (old / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        assert platform.usable_processors() == usable


@pytest.mark.deep
def test_a_limit_is_that_of_all_processes(tmp_path: Path) -> None:
    """A key of one call a second gets no more, however many processes it asks."""
    with running(tmp_path / "store", *TWO) as daemon:
        all_answer(daemon)
        key = daemon.client.create_key(operator=True).secret
        with Alone(daemon.address, key=key) as operator:
            limited = operator.create_key(
                read=["viking://resources"], limits={"calls_per_second": 1}
            ).secret
        made = [Alone(daemon.address, key=limited, retries=False) for _ in range(CONNECTIONS)]
        began, answered = time.monotonic(), 0
        for one in made:
            with suppress(ClientError):
                one.find("note")
                answered += 1
            one.close()
        assert answered <= 1 + (time.monotonic() - began)


@pytest.mark.deep
def test_keys_and_tenants_hold_in_every_process(tmp_path: Path) -> None:
    """A new key works at once and a revoked one fails at once, whichever process is asked.

    So do tenants, and one that was made again is empty.
    """
    with running(tmp_path / "store", *TWO) as daemon:
        with spread(daemon) as clients:
            key = clients[0].create_key(operator=True).secret
        made = [Alone(daemon.address, key=key) for _ in range(CONNECTIONS)]
        for turn in range(3):
            for one in made:
                user = one.create_key(read=["viking://resources"]).secret
                with Alone(daemon.address, key=user) as theirs:
                    theirs.find("note")
                    one.revoke_key(user.split("_")[1])
                    with pytest.raises(ClientError) as refused:
                        theirs.find("note")
                    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
            made[turn].put_tenant("acme", create=True)
            acme = [Alone(daemon.address, key=key, tenant="acme") for _ in range(CONNECTIONS)]
            assert all(not one.find("word7").resources for one in acme)
            acme[turn].put([note(7)])
            assert all(uris(one.find("word7", limit=1)) == [note(7).uri] for one in acme)
            made[turn].delete_tenant("acme")
            for one in acme:
                with pytest.raises(ClientError) as gone:
                    one.find("word7")
                assert gone.value.reason == "NOT_FOUND"
                one.close()
        for one in made:
            one.close()


def test_what_cannot_share_a_port_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of processes that cannot work is an error that says why; `auto` is one there."""
    unix = f"unix:{tmp_path / 'socket'}"
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"listen": (unix,)}, "listen on HOST:PORT"),
        ({"store": "postgresql://localhost/x"}, "a shared store has nodes"),
    )
    for more, why in cases:
        with pytest.raises(ConfigError, match=why):
            process_count(Settings(processes=2, **more))
        assert process_count(Settings(processes="auto", **more)) == 1
        assert process_count(Settings(processes=1, **more)) == 1
    assert process_count(Settings(processes=3)) == 3
    monkeypatch.setattr(platform, "spreads_connections", lambda: False)
    with pytest.raises(ConfigError, match="must be 1 here, not 2, because this system gives"):
        process_count(Settings(processes=2))
    assert process_count(Settings(processes="auto")) == 1
