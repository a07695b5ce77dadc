"""A daemon of several processes: a writer and the readers that it starts, on one port."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.metrics_helpers import Daemon, running, samples
from tests.nodes.reader_helpers import answer, note, uris
from tests.patience import eventually
from vikingd.client import ClientError, Method
from vikingd.client.messages import MessageClient
from vikingd.config import ConfigError, Settings
from vikingd.daemon.reader_processes import process_count
from vikingd.system import platform

CONNECTIONS = 12  # the kernel gives all of them to one of two processes once in 2,000 runs
TWO = ("--provider", "none", "--processes", "2")
PATIENT = 60.0  # seconds of a call on a busy machine


def _plain(target: str, options: Any) -> grpc.Channel:
    return grpc.insecure_channel(target, (*options, ("grpc.use_local_subchannel_pool", 1)))


class Alone(MessageClient):
    """A client with a connection of its own, so that the kernel chooses its process.

    It sends no points of a session, as a client in another language.
    """

    _plain = staticmethod(_plain)

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
    return samples(daemon.url).get(("vikingd_calls_total", (("code", "OK"), ("rpc", rpc))), 0)


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


def test_a_memory_that_any_process_recalls_counts_as_accessed(tmp_path: Path) -> None:
    """A recall answered by a reader counts the accesses of its memories, as one of the writer."""
    with running(tmp_path / "store", *TWO) as daemon, spread(daemon) as clients:
        clients[0].remember("Prefers oolong to coffee.", type="preferences")
        for one in clients:
            reply = one.recall("oolong or coffee")
            assert reply.memories
            assert not reply.degraded
        eventually(
            lambda: (
                clients[0].recall("oolong", no_touch=True).memories[0].access_count == CONNECTIONS
            )
        )


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
def test_a_signal_ends_all_processes_after_their_calls(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The calls that run at the signal get their answers, also if readers get the signal, too."""
    failed: list[BaseException] = []
    is_over = threading.Event()

    def work(client: Alone, which: int) -> None:
        for turn in range(10_000):
            try:
                client.put([note(1000 * which + turn)])
                done.add(which)
            except ClientError as error:
                # A call that begins after the stop.
                if error.code is not grpc.StatusCode.UNAVAILABLE:
                    failed.append(error)
                return
            if is_over.is_set():
                return

    done: set[int] = set()
    daemon = Daemon(tmp_path / "store", tmp_path / "log", *TWO)
    with spread(daemon) as clients:
        (reader,) = readers(daemon)
        threads = [threading.Thread(target=work, args=(one, n)) for n, one in enumerate(clients, 1)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(done) == CONNECTIONS)
        os.kill(reader, signal.SIGTERM if number == signal.SIGTERM else number)
        daemon.process.send_signal(number)
        assert daemon.process.wait(60) == 0
        is_over.set()
        for thread in threads:
            thread.join()
    daemon.client.close()
    assert not failed
    assert platform.parent_of(reader) is None
    assert daemon.stderr.count("event=stopped") == 2
    assert "takes too long" not in daemon.stderr
    assert "Traceback" not in daemon.stderr


@pytest.mark.deep
def test_keys_tenants_and_limits_hold_in_every_process(tmp_path: Path) -> None:
    """A new key works at once and a revoked one fails at once, whichever process is asked.

    A limit of calls is that of all processes together. A tenant that was made again is empty.
    """
    with running(tmp_path / "store", *TWO) as daemon:
        with spread(daemon) as clients:
            key = clients[0].create_key(operator=True).text
        made = [Alone(daemon.address, key=key) for _ in range(CONNECTIONS)]
        for turn in range(3):
            for one in made:
                user = one.create_key(read=["viking://resources"]).text
                with Alone(daemon.address, key=user) as theirs:
                    theirs.find("note")
                    one.revoke_key(user.split("_")[1])
                    with pytest.raises(ClientError) as refused:
                        theirs.find("note")
                    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
            made[turn].put_tenant("acme")
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
