"""A daemon with a describer: its RPC, its command, its figures, and kills in the middle."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import serve
from tests.daemons import start
from tests.engine.describing_helpers import NOTES, Asked, data_of, obedient, prose
from tests.patience import eventually
from tests.scripted import Reply, Request
from vikingd.client import Client, ClientError, Draft

Ctl = Callable[..., tuple[int, str, str]]


@contextmanager
def daemon(
    path: Path, asked: Asked, *options: str
) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """Run a daemon whose describer asks a scripted model; yield its client and its process."""
    variables = {
        "VIKINGD_DESCRIBER__MODEL": "scribe",
        "VIKINGD_DESCRIBER__BASE_URL": asked.settings.base_url,
    }
    command = serve(path, "--provider", "none", *options)
    env = {**os.environ, **variables}
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    try:
        with Client(process.stdout.readline().split()[-1]) as client:
            yield client, process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def test_the_command_counts_queues_and_waits(
    tmp_path: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stats, metrics and vikingctl show the work; a stop ends a model that hangs."""
    asked, port = Asked(), free_port()
    metrics = f"127.0.0.1:{port}"
    with asked.server, daemon(tmp_path, asked, "--metrics-listen", metrics) as (client, process):
        monkeypatch.setenv("VIKINGCTL_ADDRESS", client.address)
        files = [Draft(f"{NOTES}/{n}.md", content=prose(f"thing {n}")) for n in range(5)]
        client.put(files)
        eventually(lambda: client.stats().describer.described == 8)
        assert client.get(f"{NOTES}/1.md").abstract_by == "scribe"
        assert ctl("describe", "--dry-run")[1].startswith("0 contexts would be described")
        code, out, _ = ctl("describe", NOTES, "--again", "--dry-run")
        assert (code, out[:16]) == (0, "6 contexts would")
        assert len(asked.server.requests) == 8
        code, out, _ = ctl("describe", f"{NOTES}/1.md", "--again", "--wait")
        assert (code, out.partition(",")[0]) == (0, "1 context waits for its description")
        assert len(asked.server.requests) == 9
        found = json.loads(ctl("describe", NOTES, "--again", "--json")[1])
        assert found["contexts"] == "6"
        eventually(lambda: not client.stats().describer.backlog)
        assert re.search(r"describer\tscribe, 15 contexts described, 0 waiting", ctl("stats")[1])
        assert ctl("describe", "viking://resources/none")[0] == 4
        with urllib.request.urlopen(f"http://{metrics}/metrics") as reply:
            text = reply.read().decode()
        assert 'vikingd_descriptions_total{outcome="described"} 15.0' in text
        assert "vikingd_describer_backlog 0.0" in text
        assert 'vikingd_model_calls_total{name="scribe",outcome="DONE",role="describer"} 15' in text
        asked.answer = lambda _: Reply(after=60.0)
        client.put([Draft(f"{NOTES}/new.md", content=prose("news"))])
        eventually(lambda: len(asked.server.requests) == 16)
        began = time.monotonic()
        process.terminate()
        assert process.wait(60) == 0
        assert time.monotonic() - began < 15


def test_a_daemon_without_a_model_names_the_setting(client: Client, ctl: Ctl) -> None:
    """The refusal says which setting to set; Stats names no model."""
    with pytest.raises(ClientError) as refused:
        client.describe()
    assert refused.value.code.name == "INVALID_ARGUMENT"
    assert "VIKINGD_DESCRIBER__MODEL" in str(refused.value)
    assert ctl("describe")[0] == 2
    assert ctl("describe", "--dry-run", "--wait")[0] == 2
    assert client.stats().describer.model == ""
    assert "describer" not in ctl("stats")[1]


@pytest.mark.deep
def test_kills_in_the_middle_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    """After kills all is described; what was written is not asked about again."""
    rng, lock = random.Random(49), threading.Lock()
    answered: Counter[str] = Counter()

    def script(request: Request) -> Reply:
        data = data_of(request)
        with lock:
            if data["kind"] == "file":
                answered[data["text"].splitlines()[0]] += 1
        reply = obedient(request)
        return Reply(reply.body, after=0.05)

    asked = Asked(script)
    count, kills = 60, 4
    with asked.server:
        with daemon(tmp_path, asked) as (client, process):
            client.put(
                [
                    Draft(f"{NOTES}/{n % 5}/{n}.md", content=prose(f"thing {n}"))
                    for n in range(count)
                ]
            )
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        for _ in range(kills):
            with daemon(tmp_path, asked) as (client, process):
                until = len(asked.server.requests) + rng.randint(4, 12)
                eventually(lambda: len(asked.server.requests) > until)  # noqa: B023
                process.send_signal(signal.SIGKILL)
                process.wait(60)
        with daemon(tmp_path, asked) as (client, process):
            eventually(lambda: client.stats().describer.described)
            eventually(lambda: not client.stats().describer.backlog)
            for n in range(count):
                context = client.get(f"{NOTES}/{n % 5}/{n}.md")
                assert context.abstract == f"It tells of Thing {n}"
                assert context.abstract_by == context.overview_by == "scribe"
            for directory in (NOTES, *(f"{NOTES}/{n}" for n in range(5))):
                assert client.get(directory).abstract_by == "scribe"
            assert client.verify().ok
    assert len(answered) == count
    # Only the questions in flight at a kill are asked again: at most four, and four being written.
    assert sum(answered.values()) <= count + 8 * (kills + 1)
