"""What a serving daemon imports, and in which threads."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from tests.access.random_calls import Walker
from tests.answer.parts_helpers import AREAS
from tests.commands import VIKINGD, serve
from vikingd.client import Client, Draft, SearchSession, SessionMessage
from vikingd.client.method_declarations import Stubs
from vikingd.daemon import kernel_warm_up
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

RECORDER = Path(__file__).parent / "recorder"
CALLS = 400
TOP = "viking://resources/notes"
UNUSED = {
    *("cffi.api", "httpx", "openai", "opentelemetry", "psycopg", "rich.console"),
    *("starlette", "uvicorn"),
    "numba.misc.cffiimpl",  # one of the registries of the compiler
}
"""Modules that a plain start does not use."""


class Import(NamedTuple):
    """A module that was imported after the first thread of a process had started."""

    time: float
    thread: str
    name: str
    importers: str


class Daemon:
    """A daemon that records its imports."""

    def __init__(self, path: Path, *options: str, command: tuple[str, ...] = VIKINGD) -> None:
        self._record = path / f"imports-{time.time_ns()}"
        python = os.pathsep.join([str(RECORDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [*command, *serve(path / "store", *options)[len(VIKINGD) :]],
            stdout=subprocess.PIPE,
            stderr=(path / "log").open("w"),
            text=True,
            env={**os.environ, "PYTHONPATH": python, "TEST_IMPORTS": str(self._record)},
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split(" ")[-1].strip()
        self.served = time.time()

    def imports(self) -> list[Import]:
        """Return what was imported so far."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        parts = [line.split(" ", 3) for line in lines]
        return [Import(float(at), thread, name, where) for at, thread, name, where in parts]


@contextmanager
def recorded(path: Path, *options: str) -> Iterator[Daemon]:
    """Yield a daemon that serves, and terminate it at the end."""
    daemon = Daemon(path, *options)
    try:
        assert daemon.address, (path / "log").read_text()
        yield daemon
    finally:
        daemon.process.terminate()
        daemon.process.wait()


class Everything(Walker):
    """Makes random calls without a key, and counts the RPCs that succeeded."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        where = ("viking://", *AREAS)
        super().__init__(Stubs(self._channel), "vk_none_none", 1, 1, AREAS, where)
        self._metadata = ()

    def walk(self) -> None:
        """Make all calls."""
        while len(self.told) < CALLS:
            self.step()


def each_rpc(address: str) -> set[str]:
    """Call each RPC with requests that succeed and some that fail; return the former's names."""
    walker = Everything(address)
    with Client(address) as client:
        client.put(
            Draft(f"{TOP}/{n}.md", content=f"---\nyear: {n}\n---\n# Part\n\nkettle {n}\n")
            for n in range(30)
        )
        said = SearchSession("", (SessionMessage("user", "I like green tea."),))
        client.search("tea", session=said, trace=True)
        client.retrieve("kettle", where={"year": {"$gte": 3}})
    walker.walk()
    tea = retrieval_pb2.FindRequest(query="tea", trace=True)
    written = contexts_pb2.ContextInput(uri=f"{TOP}/5.md", content="tea")
    one, other = f"{TOP}/3.md", f"{TOP}/4.md"
    calls: list[tuple[str, str, Any]] = [
        ("contexts", "Put", contexts_pb2.PutRequest(contexts=[written])),
        ("contexts", "Get", contexts_pb2.GetRequest(uri=one)),
        ("contexts", "List", contexts_pb2.ListRequest(uri=TOP)),
        ("contexts", "Tree", contexts_pb2.TreeRequest(uri=TOP)),
        ("contexts", "Glob", contexts_pb2.GlobRequest(pattern="**")),
        ("contexts", "Grep", contexts_pb2.GrepRequest(pattern="a+")),
        ("contexts", "Link", contexts_pb2.LinkRequest(uri=one, other_uri=other, reason="same")),
        ("contexts", "Unlink", contexts_pb2.UnlinkRequest(uri=one, other_uri=other)),
        (
            "contexts",
            "Move",
            contexts_pb2.MoveRequest(source_uri=one, destination_uri=f"{TOP}/moved.md"),
        ),
        ("contexts", "Delete", contexts_pb2.DeleteRequest(uris=[other])),
        ("memories", "Recall", memories_pb2.RecallRequest(query="tea")),
        (
            "memories",
            "Extract",
            memories_pb2.ExtractRequest(
                session=retrieval_pb2.SearchSession(
                    messages=[retrieval_pb2.SessionMessage(role="user", content="I like tea.")]
                )
            ),
        ),
        ("retrieval", "Find", tea),
        (
            "retrieval",
            "BatchFind",
            retrieval_pb2.BatchFindRequest(requests=[tea]),
        ),
        ("retrieval", "BuildContext", retrieval_pb2.BuildContextRequest(find=tea)),
        ("admin", "Stats", admin_pb2.StatsRequest()),
        ("admin", "Verify", admin_pb2.VerifyRequest()),
        ("admin", "Optimize", admin_pb2.OptimizeRequest()),
        ("admin", "Reembed", admin_pb2.ReembedRequest(target_uri=TOP)),
        ("admin", "Describe", admin_pb2.DescribeRequest(target_uri=TOP)),
        ("admin", "Backup", admin_pb2.BackupRequest()),
        ("access", "PutTenant", access_pb2.PutTenantRequest(name="globex", create=True)),
        ("access", "ListTenants", access_pb2.ListTenantsRequest()),
        ("access", "DeleteTenant", access_pb2.DeleteTenantRequest(name="globex")),
        ("access", "ListKeys", access_pb2.ListKeysRequest()),
    ]
    for call in calls:
        walker.call(*call)
    key = access_pb2.CreateKeyRequest(operator=True)
    made = walker.call("access", "CreateKey", key)
    if made is not None:
        walker.call("access", "RotateKey", access_pb2.RotateKeyRequest(id=made.key.id))
        walker.call("access", "RevokeKey", access_pb2.RevokeKeyRequest(id=made.key.id))
    return {one.rpc for one in walker.told if one.code == "OK"}


def named_in_the_api() -> set[str]:
    """Return the names of all RPCs."""
    files = (access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2)
    services = [s for file in files for s in file.DESCRIPTOR.services_by_name.values()]
    return {method.name for service in services for method in service.methods}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("options", "refused"),
    [(["--provider", "none"], {"Reembed", "Describe"}), ([], {"Describe"})],
    ids=["without an embedder", "with the default one"],
)
def test_no_request_and_no_other_thread_imports(
    tmp_path: Path, options: list[str], refused: set[str]
) -> None:
    """The main thread imports all modules before it serves, so no thread meets half of one."""
    with recorded(tmp_path, *options, "--allow-local") as daemon:
        assert each_rpc(daemon.address) == named_in_the_api() - refused
        late = [i for i in daemon.imports() if i.thread != "MainThread" or i.time > daemon.served]
    assert not late


def test_a_start_imports_nothing_that_it_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start without an embedder loads no optional package and no registry of the compiler."""
    kernel_warm_up.compile_kernels(print)
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with recorded(tmp_path, "--provider", "none"):
        lines = (tmp_path / "log").read_text().splitlines()
    imported = {line.split("|")[-1].strip() for line in lines if line.startswith("import time:")}
    assert "numba" in imported
    assert not imported & UNUSED
