"""Fixtures of many test files: daemons, clients, endpoints, vikingctl and instruction sets."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import is_hypothesis_test
from viking_kernels import _jit, simd

from tests import tiers
from tests.answer.intent_helpers import Asked, in_turn, planned
from tests.answer.thinking_helpers import House, thinking_daemon, told
from tests.daemons import serving
from tests.gateway.gateway_helpers import Gateway, gateway_of
from tests.models.embed_helpers import Endpoint
from tests.models.pull_helpers import PinnedHub
from tests.postgres_servers import LEFT_OUT, Server, running, shared_store
from tests.scripted import ScriptedServer
from tests.store.store_helpers import opened
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.ctl import main
from vikingd.pb.retrieval_pb2 import RERANK_STATUS_DONE
from vikingd.store import Store
from vikingd.store.store_writes import WritableStore

Ctl = Callable[..., tuple[int, str, str]]

# A shell starts background processes with SIGINT ignored, and children inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)


LONG = (
    "test_chaos",
    "test_cold_start",
    "test_index_damage",
    "test_first_open",
    "test_gateway_serving",
    "test_backup",
    "test_ctl",
)
"""The modules that take longest. They come first, so that no worker ends with one of them alone."""


def pytest_configure(config: pytest.Config) -> None:
    """Set the tier before the tests are imported, without the garbage collector until then."""
    tiers.begin(config.option.markexpr)
    gc.disable()


def pytest_collection_finish() -> None:
    """Take what was collected from the garbage collector.

    Code, modules and items stay to the end. A full collection would go through them for a second.
    """
    gc.freeze()
    gc.enable()


_compiling: list[subprocess.Popen[bytes]] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to compile the kernels while the workers collect the tests."""
    config = session.config
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", 0):
        code = "from vikingd.daemon import kernel_warm_up as warm; warm.compile_kernels(print)"
        _compiling.append(subprocess.Popen([sys.executable, "-c", code]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Wait in a worker until the kernels are compiled: each worker would compile most of them."""
    if hasattr(session.config, "workerinput") and not _jit.is_compiled():
        with _jit.compiling():  # the process of `pytest_sessionstart` holds the lock
            pass


def pytest_sessionfinish() -> None:
    """Report kernels that could not be compiled."""
    for process in _compiling:
        assert process.wait() == 0


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three workers for directories, and none for files, which are easier to debug here.

    Daemons do most of the work, and tests wait for them: two workers leave two cores half idle.
    """
    return 3 if all(map(os.path.isdir, config.option.file_or_dir)) else 0


_cases: Counter[tuple[Path, str]] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put tests with random examples, and further cases of a test, into the deep tier."""
    if tiers.is_deep and is_hypothesis_test(getattr(item, "function", None)):
        item.add_marker("deep")
    if (mark := item.get_closest_marker("deep_after")) is not None:
        test = item.path, getattr(item, "originalname", item.name)
        _cases[test] += 1
        if _cases[test] > mark.args[0]:
            item.add_marker("deep")


@pytest.hookimpl(trylast=True)  # after pytest-randomly
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of a daemon without an embedder."""
    options = ["--provider", "none"]
    if getattr(request, "param", SQLITE) == POSTGRES:
        server: Server = request.getfixturevalue("postgres")
        options += ["--store", server.new_database()]
    with serving(*options) as where:
        yield where


@pytest.fixture(scope="module")
def gateway(daemon: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a gateway of the daemon."""
    with gateway_of(daemon, tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture
def client(daemon: str) -> Iterator[MessageClient]:
    """Yield a client of the daemon with an empty tree."""
    with MessageClient(daemon) as made:
        for context in list(made.list()):
            made.delete(context.uri)
        yield made


def ctl_runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl, which returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vikingctl", *arguments])
        # vikingctl sets this variable; with it later daemons would not be forked.
        with monkeypatch.context() as own:
            own.setenv("GRPC_VERBOSITY", "ERROR")
            with pytest.raises(SystemExit) as ended:
                main.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture
def ctl(daemon: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl on the daemon, which returns exit code, stdout and stderr."""
    monkeypatch.setenv("VIKINGCTL_ADDRESS", daemon)

    return ctl_runner(monkeypatch, capsys)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Yield a well-behaved endpoint, with its key in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Yield a chat endpoint that plans, without a key in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ScriptedServer(in_turn(planned())) as server:
        yield Asked(server)


@pytest.fixture(params=simd.paths()[1:])
def printed_by_another(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return a function that runs code with fewer CPU instructions and returns its stdout.

    With "plain" LLVM compiles for the least processor of the architecture: other widths of vectors,
    and no fused multiplications. The first run compiles for 20 s of processor time, which other
    tests may stretch; the cache has a directory for each path, so later runs load.
    """
    environment = {**os.environ, "VIKING_KERNELS_SIMD": request.param}
    if request.param == "plain":
        environment |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}

    plain = f"from viking_kernels import simd; assert simd.PATH == {request.param!r}"

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", f"{plain}; {code}"],
            cwd=Path(__file__).parents[1],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


SQLITE, POSTGRES = "sqlite", "postgresql"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of modules with the mark `stores` over both stores.

    PostgreSQL is in the deep tier, except for the modules whose mark has `both`.
    """
    marks = list(metafunc.definition.iter_markers("stores"))
    if not marks:
        return
    deep = [] if any("both" in mark.args for mark in marks) else [pytest.mark.deep]
    kinds = [SQLITE] if LEFT_OUT else [SQLITE, pytest.param(POSTGRES, marks=deep)]
    for name, scope in (("store", "function"), ("daemon", "module")):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, kinds, indirect=True, scope=scope)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a PostgreSQL server."""
    with running() as server:
        yield server


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """Yield an open store in SQLite with vectors of two numbers."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WritableStore]:
    """Yield an open store with vectors of two numbers."""
    if getattr(request, "param", SQLITE) == SQLITE:
        with opened(tmp_path) as made:
            yield made
        return
    server: Server = request.getfixturevalue("postgres")
    tenant = f"t{uuid4().hex}"
    with shared_store(server.url, tenant) as shared:
        shared.start(lambda *_: None)
        yield shared


@pytest.fixture
def typed(client: MessageClient) -> Iterator[Client]:
    """Yield a client of the daemon that returns dataclasses; the tree is empty."""
    with Client(client.address) as made:
        yield made


@pytest.fixture(scope="module")
def started_house() -> Iterator[House]:
    """Yield a daemon with a scripted reranker."""
    with thinking_daemon() as made:
        yield made


@pytest.fixture
def house(started_house: House) -> House:
    """Return the daemon with a working reranker and a closed circuit breaker."""
    started_house.reranker.answer = told({})
    assert started_house.think().rerank.status == RERANK_STATUS_DONE
    return started_house


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PinnedHub]:
    """Yield a hub with the model `tiny` of the registry; the cache is empty."""
    with PinnedHub(tmp_path / "tiny", monkeypatch) as made:
        yield made


@pytest.fixture
def offline_ctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl without a daemon; see `ctl`."""
    return ctl_runner(monkeypatch, capsys)
