"""Requests beyond the limits of a daemon, and the cost of their refusals."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from tests.commands import serve
from vikingd.client import file_import
from vikingd.client.client_errors import ClientError
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import MAX_TEXT, InvalidField, NotFound
from vikingd.pb.contexts_pb2 import ContextInput, PutRequest

SIZE = 30 << 20
SERVICES = "/viking.retrieval.v1."


class Daemon(NamedTuple):
    """A daemon that takes messages of 32 MiB."""

    pid: int
    address: str
    log: Path

    def seconds(self) -> float:
        """Return the processor seconds of the daemon so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the bytes of the daemon's anonymous memory."""
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found[1]) << 10


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yield the daemon."""
    path = tmp_path_factory.mktemp("large")
    log = path / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(
            serve(path / "store", "--provider", "none"),
            env={**os.environ, "VIKINGD_LIMITS__MAX_MESSAGE_BYTES": str(32 << 20)},
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        yield Daemon(process.pid, process.stdout.readline().split()[-1], log)
        process.kill()


def refuse(daemon: Daemon, method: str, data: bytes) -> grpc.StatusCode:
    """Send bytes, and return the status code that refuses them."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(daemon.address, options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(SERVICES + method)(data)
        return caught.value.code()


@pytest.mark.deep_after(3)
@pytest.mark.parametrize(
    ("method", "element"),
    [
        ("Contexts/Put", b"\x0a\0"),
        ("Contexts/Delete", b"\x0a\0"),
        ("Retrieval/BatchFind", b"\x0a\0"),
        ("Retrieval/Retrieve", b"\x72\0"),
        ("Retrieval/BuildContext", b"\x0a\0"),
        ("Retrieval/Search", b"\x12\0"),
        ("Memories/Forget", b"\x08\1"),
        ("Memories/Recall", b"\x38\1"),
        ("Memories/Remember", b"\xfa\1"),
    ],
)
def test_very_many_empty_elements_cost_next_to_nothing(
    large: Daemon, method: str, element: bytes
) -> None:
    """Millions of empty elements are refused in seconds, while the daemon answers others."""
    before = large.seconds()
    with ThreadPoolExecutor(1) as pool, MessageClient(large.address) as client:
        refused = pool.submit(refuse, large, method, element * (SIZE // 2))
        while not refused.done():
            assert client.get("viking://").context.is_directory
        assert refused.result() is grpc.StatusCode.INVALID_ARGUMENT
    assert large.seconds() - before < 5


@pytest.mark.deep
def test_refused_requests_leave_no_memory_and_no_long_line(large: Daemon) -> None:
    """Refused requests leave no memory behind and no long line in the log."""
    data = PutRequest(contexts=[ContextInput(uri="x" * SIZE)]).SerializeToString()
    refuse(large, "Contexts/Put", data)
    time.sleep(3)
    before = large.memory()
    for _ in range(10):
        refuse(large, "Contexts/Put", data)
    for _ in range(40):
        if large.memory() - before < 4 * SIZE:
            break
        time.sleep(0.5)
    assert large.memory() - before < 4 * SIZE
    assert max(map(len, large.log.read_text().splitlines())) < 4096


def test_errors_never_repeat_a_long_value_whole() -> None:
    """The message and the metadata of an error cut long values."""
    field = InvalidField("f" * 10_000, "v" * 10_000_000).below("contexts[0]")
    for error in (field, NotFound("u" * 10_000_000)):
        assert len(str(error)) < 4 * MAX_TEXT
        assert all(len(value) < 2 * MAX_TEXT for value in error.metadata.values())


def test_a_message_beyond_the_setting_is_refused_by_the_settings_name(
    client: MessageClient,
) -> None:
    """A message above the default of 4 MiB is refused, and the error names the setting."""
    with pytest.raises(ClientError, match=r"limits\.max_message_bytes") as caught:
        client.put([Draft("viking://resources/a.txt", content="x" * (5 << 20))])
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_import_of_more_passages_than_a_request_may_have_goes_in_parts(
    client: MessageClient,
) -> None:
    """An import of more passages than one request may have succeeds in parts."""
    passages = [Passage("", i, i + 1) for i in range(4000)]
    drafts = [
        Draft(f"viking://resources/many/{i}.txt", content="word " * 800, passages=passages)
        for i in range(5)
    ]
    run = file_import.Importer(client, "viking://resources/many")
    run.run(drafts, lambda _: None)
    assert (run.summary.created, run.summary.failed) == (5, [])
