"""The daemon and other programs and users: private files, connections, endpoint."""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from grpc._cython import cygrpc

from tests.metrics_helpers import running
from vikingd.client import Client, Draft
from vikingd.ctl.demo import serving
from vikingd.daemon import kernel_warm_up, logs
from vikingd.system import descriptors
from vikingd.system.private_files import keep_private
from vikingd.system.scratch import scratch
from vikingd.telemetry.metrics_endpoint import Endpoint


def mode(path: Path) -> int:
    """Return the permissions of a path."""
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    """All files are private with any umask, and one line of the log says that some were public."""
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    store.chmod(0o777)
    (store / "lock").touch()
    (store / "lock").chmod(0o666)
    before = os.umask(0)
    try:
        with running(store, "--provider", "none") as daemon:
            with Client(daemon.address) as client:
                client.put([Draft("viking://resources/a.md", content="a text")])
                client.optimize()
            said = daemon.stderr
            paths = [store, *store.rglob("*")]
            assert len(paths) > 20
            assert {path: oct(mode(path)) for path in paths if mode(path) & 0o077} == {}
    finally:
        os.umask(before)
    assert f"other users had access to {store} and to 1 more below it;" in said


def test_links_out_of_the_directory_are_left_alone(tmp_path: Path) -> None:
    """The target of a symbolic link keeps its permissions."""
    foreign, store = tmp_path / "foreign", tmp_path / "store"
    foreign.touch(0o644)
    foreign.chmod(0o644)
    store.mkdir(0o700)
    (store / "link").symlink_to(foreign)
    assert keep_private(store) == []
    assert mode(foreign) == 0o644


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Yield an endpoint with one metric."""
    with closing(
        Endpoint(lambda accept: ("text/plain", f"figure {accept}".encode()), "127.0.0.1", 0)
    ) as made:
        yield made


def status(endpoint: Endpoint, path: str = "/metrics", **headers: str) -> int:
    """Return the status of a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 200),
        ("localhost:9716", 200),
        ("[::1]:9716", 200),
        ("127.8.8.8", 200),
        ("example.org", 421),
        ("127.0.0.1.example.org", 421),
        ("[::1", 421),
        ("10.0.0.1", 421),
    ],
)
def test_metrics_are_for_this_machine_alone(endpoint: Endpoint, host: str, code: int) -> None:
    """A request with the name of another host is refused, against DNS rebinding."""
    assert status(endpoint, Host=host) == code


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("Bearer hunter2hunter2hunter2", 200),
        ("bearer hunter2hunter2hunter2", 200),
        ("Bearer hunter2hunter2hunter", 401),
        ("Bearer hunter2hunter2hunter22", 401),
        ("Basic hunter2hunter2hunter2", 401),
        ("hunter2hunter2hunter2", 401),
        ("Bearer \u00e4", 401),
        ("Bearer ", 401),
        ("", 401),
    ],
)
def test_with_a_token_metrics_are_for_those_who_have_it(authorization: str, code: int) -> None:
    """A token replaces the check of the host; without it nothing is told, not even of paths."""
    token = "hunter2hunter2hunter2"
    with closing(Endpoint(lambda _: ("text/plain", b"figure"), "127.0.0.1", 0, token)) as endpoint:
        for path in ("/metrics", "/healthz", "/nothing"):
            endpoint.healthy = lambda: True
            found = status(endpoint, path, Authorization=authorization, Host="example.org")
            assert found == (404 if path == "/nothing" and code == 200 else code)
        request = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}/metrics")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.headers["WWW-Authenticate"] == "Bearer"
        refused.value.close()


def test_health_is_200_or_503(endpoint: Endpoint) -> None:
    """The path /healthz tells whether the daemon serves, which it does not before its start."""
    assert status(endpoint, "/healthz") == 503
    endpoint.healthy = lambda: True
    assert status(endpoint, "/healthz") == 200
    assert status(endpoint, "/healthz", Host="example.org") == 421


def test_a_request_for_metrics_names_its_host(endpoint: Endpoint) -> None:
    """A request without a host is refused."""
    with socket.create_connection(("127.0.0.1", endpoint.port)) as raw:
        raw.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert raw.makefile("rb").readline().split()[1] == b"421"


def test_metrics_have_one_path_and_one_method(endpoint: Endpoint) -> None:
    """Another path gives 404, and another method gives 405."""
    assert status(endpoint, "/metrics?name=x") == 200
    assert status(endpoint, "/") == 404
    with socket.create_connection(("127.0.0.1", endpoint.port)) as raw:
        raw.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.makefile("rb").readline().split()[1] == b"405"


def test_half_open_connections_take_no_thread_and_hold_nobody_up(endpoint: Endpoint) -> None:
    """Many incomplete requests use no thread and do not delay a complete one."""
    threads = threading.active_count()
    with ExitStack() as stack:
        for number in range(20):
            slow = socket.create_connection(("127.0.0.1", endpoint.port))
            stack.enter_context(slow)
            slow.sendall(b"GET /metrics HTTP/1.1\r\n"[: number % 24])
        assert status(endpoint) == 200
        assert threading.active_count() == threads


def test_an_endless_head_is_broken_off(endpoint: Endpoint) -> None:
    """A connection with an endless request head is closed."""
    with (
        socket.create_connection(("127.0.0.1", endpoint.port)) as raw,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        raw.sendall(b"x" * (40 << 20))


def test_the_limit_of_open_files_is_raised() -> None:
    """The limit rises to its hard limit, and connections may use only a part of it."""
    code = (
        "import resource; from vikingd.system.platform import raise_file_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 2000));"
        "print(raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2000", "2000"]
    assert descriptors.connections(2000, 10) < descriptors.connections(2000, 0) < 2000
    assert 0 < descriptors.connections(100, 10) < 100


@pytest.mark.deep
def test_idle_connections_leave_descriptors_to_compactions(tmp_path: Path) -> None:
    """A daemon with more open connections than its limit still compacts and answers."""
    serve = f"{sys.executable} -m vikingd.daemon.server serve --listen 127.0.0.1:0 --provider none"
    with (
        subprocess.Popen(
            [
                "sh",
                "-c",
                f"ulimit -n 400; exec {serve} --config {os.devnull} --path {tmp_path / 's'}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as daemon,
        ExitStack() as stack,
    ):
        stack.callback(daemon.terminate)
        assert daemon.stdout is not None
        address = daemon.stdout.readline().split()[-1]
        host, port = address.split(":")
        client = stack.enter_context(Client(address))
        client.put([Draft("viking://resources/a.md", content="a text")])
        for _ in range(500):
            stack.enter_context(socket.create_connection((host, int(port))))
        client.optimize()
        assert client.find("text").total == 1


def test_scratch_of_a_killed_process_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next user of scratch deletes the old directory of a dead process, and no other directory.

    The store of a user may have a similar name.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leave = (
        "import os; from vikingd.system.scratch import scratch\n"
        "with scratch('warm') as path: print(path.parent, flush=True); os._exit(1)"
    )
    dead, new = (
        Path(
            subprocess.run(
                [sys.executable, "-c", leave],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "TMPDIR": str(tmp_path)},
                check=False,
            ).stdout.strip()
        )
        for _ in range(2)
    )
    others = [tmp_path / name for name in ("vikingd-scratch-c", "vikingd-my-store")]
    for path in others:
        path.mkdir()
        (path / "store.sqlite3").touch()
    for path in (dead, *others):
        os.utime(path, (0, 0))
    with scratch("warm") as living:
        os.utime(living.parent, (0, 0))
        with scratch("demo"):
            assert living.exists()
            assert not dead.exists()
            assert new.exists()
            assert all(path.exists() for path in others)
    assert not living.exists()
    assert not living.parent.exists()


@pytest.mark.parametrize(
    ("step", "calls"),
    [("tempfile.mkdtemp", "real, kill"), ("tempfile._shutil.rmtree", "kill, real")],
)
def test_a_signal_leaves_no_half_of_a_scratch_directory(
    tmp_path: Path, step: str, calls: str
) -> None:
    """A process that SIGTERM ends amid the creation or the deletion leaves no directory."""
    code = (
        "import os, signal, sys, tempfile, threading\n"
        "from vikingd.system.scratch import scratch\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"  # may take it
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "def kill(*args, **options): os.kill(os.getpid(), signal.SIGTERM)\n"
        f"real = {step}\n"
        f"{step} = lambda *args, **options: next(\n"
        f"    filter(None, [call(*args, **options) for call in ({calls})]), None)\n"
        "with scratch('warm'): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_new_processes_do_not_look_into_the_working_directory(tmp_path: Path) -> None:
    """Python leaves the working directory out, by an option of each command."""
    (tmp_path / "numba.py").write_text("raise SystemExit('foreign code ran')")
    for python, option, *_ in kernel_warm_up.BESIDE:
        command = (python, option, "-c", "import sys; assert '' not in sys.path")
        subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.deep
def test_nothing_of_the_working_directory_is_run(tmp_path: Path) -> None:
    """The compiling processes import no module from the working directory."""
    (tmp_path / "numba.py").write_text("raise SystemExit('foreign code ran')")
    for command in kernel_warm_up.BESIDE:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.deep
def test_a_daemon_of_vikingctl_runs_nothing_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that vikingctl starts imports no module from the working directory."""
    (tmp_path / "numba.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.chdir(tmp_path)
    with serving("--provider", "none", quiet=True) as address, Client(address) as client:
        assert client.stats().revision


def test_no_value_makes_a_line_of_the_log_long() -> None:
    """A value in the log has at most 1,024 characters, and a traceback stays short."""
    code = (
        "import logging, structlog\n"
        "from vikingd.daemon.logs import configure_logs\n"
        "configure_logs('info')\n"
        "long = 'x' * 1_000_000\n"
        "structlog.stdlib.get_logger('vikingd.wire').info(long, value=long, of=[long])\n"
        "logging.getLogger('library').warning('%s', long)\n"
        "try: raise ValueError(long)\n"
        "except ValueError: logging.getLogger('library').exception('failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all("xxx" in line for line in lines)
    event, value, of, message = re.findall("x+", "".join(lines[:2]))
    assert max(map(len, (event, value, of, message))) == 1024
    assert len(lines[2]) < 10_000


def test_a_caller_that_is_gone_is_no_fault_of_the_daemon() -> None:
    """A gRPC error of a lost client is no fault in the log, and any other error is one."""

    def record(error: Exception) -> logging.LogRecord:
        info = (type(error), error, None)
        return logging.LogRecord("grpc", logging.ERROR, "", 0, "raised", None, info)

    assert not logs._is_fault(record(cygrpc.ExecuteBatchError("the peer went away")))
    assert logs._is_fault(record(ValueError("a fault")))
    assert logs._is_fault(logging.LogRecord("grpc", logging.ERROR, "", 0, "said", None, None))
