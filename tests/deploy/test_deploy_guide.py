"""The commands of the guide that need another machine: their files, their values, their form.

`test_guide.py` runs the commands of a container.
"""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml

from tests.programs import package
from tests.project.test_documents import BLOCK, ROOT

DEPLOY = ROOT / "vikingd" / "deploy"
TEXT = (DEPLOY / "README.md").read_text(encoding="utf-8")
COMMANDS = {
    heading: found[2]
    for heading, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    for found in BLOCK.finditer(section)
}


def words(heading: str, program: str) -> list[list[str]]:
    """Return the words of each call of a program in a section."""
    lines = COMMANDS[heading].replace("\\\n", " ").splitlines()
    calls = [shlex.split(line.removeprefix("sudo ")) for line in lines]
    found = [call for call in calls if call[0] == program]
    assert found
    return found


@pytest.mark.parametrize("heading", COMMANDS)
def test_the_shell_parses_each_block(heading: str) -> None:
    """The commands have no error of syntax, and nothing that bash warns of."""
    done = subprocess.run(
        ["bash", "-n"], input=COMMANDS[heading], text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_each_secret_of_compose_is_made() -> None:
    """The guide makes every file that the compose file reads, and no other."""
    block = COMMANDS["Compose"]
    made = set(re.findall(r"> secrets/(\w+)", block))
    [copied] = words("Compose", "cp")
    made |= {path.rpartition("/")[2] for path in copied[1:-1]}
    file = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    assert {f"secrets/{name}" for name in made} == {
        secret["file"] for secret in file["secrets"].values()
    }
    assert "mkdir -m 700 secrets\n" in block
    assert "chmod 644 secrets/*\n" in block  # containers have users of their own
    asked = re.findall(r"\${(\w+):\?", (DEPLOY / "compose" / "compose.yaml").read_text())
    assert set(asked) == set(re.findall(r"export (\w+)=", block))


def test_the_files_of_systemd_are_there_and_their_places_are_those_of_the_units() -> None:
    """The guide installs each file, where the units and the configuration look for it."""
    placed: dict[str, str] = {}
    for call in words("systemd", "install"):
        *sources, target = [word for word in call[1:] if not word.startswith("-")]
        placed |= dict.fromkeys(sources, target)
    files = {path.name for path in (DEPLOY / "systemd").iterdir()}
    assert {name for name in placed if "/" not in name} == files
    configuration = (DEPLOY / "systemd" / "vikingd.toml").read_text()
    for name in ("cert.pem", "key.pem"):
        assert f'"{placed[f"~/tls/{name}"]}/{name}"' in configuration
    for unit in (DEPLOY / "systemd").glob("*.service"):
        [started] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)
        program, *arguments = started.split()
        assert program.startswith(words("systemd", "python3")[0][-1] + "/bin/")
        assert arguments[1:] == ["--config", placed["vikingd.toml"]]


def test_the_values_of_helm_are_those_of_the_chart() -> None:
    """The chart has the values that the guide sets, and its objects have the names of the guide."""
    [call] = words("Kubernetes", "helm")
    given = [call[at + 1] for at, word in enumerate(call) if word == "--set"]
    helm_python = package("helm_python", "helm-python-sdk")
    values = helm_python.parse_set_string(",".join(given))
    chart = helm_python.Chart.load(DEPLOY / "chart")
    chart.validate_schema(values)
    secrets = {made[4]: made[5:] for made in words("Kubernetes", "kubectl") if made[1] == "create"}
    assert set(secrets) == {values["tls"]["secret"], values["metrics"]["secret"]}
    rendered = yaml.safe_load_all(
        "\n---\n".join(
            text
            for name, text in chart.render(values, name=call[2]).items()
            if name.endswith(".yaml")
        )
    )
    names = {(made["kind"], made["metadata"]["name"]) for made in rendered if made}
    [execution] = [made for made in words("Kubernetes", "kubectl") if made[1] == "exec"]
    assert ("StatefulSet", execution[2].removesuffix("-0")) in names
    for name in re.findall(r"`([\w-]+)\.NAMESPACE\.svc`", TEXT):
        assert ("Service", name) in names
    keys = {word.split("=")[1] for word in secrets[values["tls"]["secret"]]}
    assert keys == {"tls.crt", "tls.key", "ca.crt"}
