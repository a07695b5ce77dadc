"""The compose file, and the dashboard of the metrics that there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.programs import needed
from vikingd.config import load
from vikingd.domain.answers import Stage
from vikingd.telemetry.metrics import Metrics

COMPOSE = Path(__file__).parents[2] / "vikingd" / "deploy" / "compose"
DASHBOARD = json.loads((COMPOSE / "grafana" / "vikingd.json").read_text())
FILE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
HOST = "vikingd.example.org"


def expressions() -> list[str]:
    """Return the queries of all panels."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Return the labels of each sample that Prometheus reads, by name, once all is recorded."""
    metrics = Metrics()
    metrics.called("Find", "OK", 0.1)
    metrics.record_stages("Find", [Stage("score", 0.0, 0.1)])
    metrics.answered("Find", "AUTO", 1, 0.5, degraded=False)
    metrics.planned("RULES")
    metrics.reranked("DONE")
    metrics.model_called("planner", "model", "DONE", 0.1)
    metrics.embedded(0.1)
    metrics.compacted(0.1)
    metrics.follow(lambda: 1, lambda: (1, 1))
    metrics.follow_queues(lambda: {"find": (1, 1)})
    endpoint = metrics.listen("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as reply:
            text = reply.read().decode()
    finally:
        endpoint.close()
    labels: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return labels


def test_the_dashboard_shows_metrics_and_labels_that_there_are(
    exported: dict[str, set[str]],
) -> None:
    """The daemon exports each metric of a query, with the labels that it selects and sums by."""
    for expression in expressions():
        names = set(re.findall(r"\b(?:vikingd|process)_\w+", expression))
        assert names
        assert names <= set(exported), expression
        used = set(re.findall(r"(\w+)!?=", expression))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used |= set(group.split(", "))
        for name in names:
            assert used <= exported[name], expression


def test_the_dashboard_shows_every_metric_of_the_daemon(exported: dict[str, set[str]]) -> None:
    """No metric of its own is left out; a histogram is shown by one of its parts."""
    shown = " ".join(expressions())
    for name in exported:
        whole = re.sub(r"_(bucket|sum|count)$", "", name)
        if name.startswith("vikingd_") and not name.endswith("_created"):
            assert re.search(rf"\b{whole}(_bucket|_sum|_count)?\b", shown), name


def test_each_legend_names_a_label_of_its_query() -> None:
    """A legend has no label that the query does not keep."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            kept = set(", ".join(re.findall(r"by \(([^)]*)\)", target["expr"])).split(", "))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_prometheus_reads_its_configuration_and_the_queries(tmp_path: Path) -> None:
    """Promtool parses the configuration, and each query of the dashboard as a rule."""
    promtool = needed("promtool")
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", expression)}
        for number, expression in enumerate(expressions())
    ]
    written = tmp_path / "rules.yml"
    written.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    text = (COMPOSE / "prometheus.yml").read_text()
    configuration = tmp_path / "prometheus.yml"
    assert "/run/secrets/metrics_token" in text
    (tmp_path / "token").touch()
    configuration.write_text(text.replace("/run/secrets/metrics_token", f"{tmp_path}/token"))
    for command in (("rules", written), ("config", configuration)):
        done = subprocess.run(
            [promtool, "check", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_panel_has_a_place_of_its_own() -> None:
    """Panels do not overlap, and each has its own number."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_bounded_and_checked(name: str) -> None:
    """A service has limits, a health check, a read-only root and no rights; its files exist."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit", "healthcheck"} <= set(service)
    assert set(service.get("secrets", ())) <= set(FILE["secrets"])
    read = re.findall(r"/run/secrets/([\w.]+)", json.dumps(service))
    assert set(read) <= set(service["secrets"])
    assert set(service["networks"]) <= set(FILE["networks"])
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (COMPOSE / source).is_file(), source
        else:
            assert source in FILE["volumes"]
    assert set(service.get("depends_on", ())) <= set(SERVICES)


def composed(**environment: str) -> subprocess.CompletedProcess[str]:
    """Let Docker Compose resolve the file."""
    own = {name: os.environ[name] for name in ("HOME", "PATH")}
    return subprocess.run(
        [needed("docker-compose"), "--file", COMPOSE / "compose.yaml", "config", "--format=json"],
        env=own | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_docker_compose_reads_the_file() -> None:
    """It knows each field, and puts the name of the host where it belongs."""
    done = composed(VIKINGD_HOST=HOST)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert set(services) == set(SERVICES)
    assert services["daemon"]["networks"]["outside"]["aliases"] == [HOST]
    assert services["gateway"]["environment"]["VIKINGD_GATEWAY__HOSTS"] == HOST
    assert {service["read_only"] for service in services.values()} == {True}


def test_docker_compose_asks_for_the_host() -> None:
    """Without the name of the host nothing starts, and the error names the variable."""
    done = composed()
    assert done.returncode != 0
    assert "VIKINGD_HOST is missing a value: the name in the certificate" in done.stderr


def test_no_secret_is_in_an_environment() -> None:
    """Secrets are files that others of the machine need not be able to read."""
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("TOKEN|PASSWORD|KEY$", name) and not name.endswith("_ENV"):
                assert str(value).startswith("/run/secrets/"), name
    assert all(set(secret) == {"file"} for secret in FILE["secrets"].values())


@pytest.mark.parametrize("name", ["daemon", "gateway"])
def test_the_environment_is_a_configuration(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The daemon and its gateway accept their settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("METRICS_TOKEN", "0123456789abcdef")
    for variable, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(variable, re.sub(r"\${VIKINGD_HOST[^}]*}", HOST, value))
    settings = load().settings
    if name == "daemon":
        assert settings.listen == ("unix:/tmp/vikingd/socket", "vikings://0.0.0.0:7716")
        [target] = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"][0][
            "static_configs"
        ][0]["targets"]
        assert target == settings.metrics_listen.replace("0.0.0.0", "daemon")
    else:
        assert settings.gateway.daemon == f"vikings://{HOST}:7716"
        assert settings.gateway.hosts == (HOST,)
