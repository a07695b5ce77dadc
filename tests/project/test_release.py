"""The packages of a release: pinned dependencies, and the protos of the wheel."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINNED = re.compile(
    r"^([a-z0-9._-]+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)

IMAGE = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.13"}
"""The environment of the image, for which the versions are pinned."""


def test_every_dependency_of_the_daemon_is_pinned_by_hashes() -> None:
    """Each pinned package has hashes, and each dependency allows its pinned version."""
    text = (ROOT / "vikingd" / "deploy" / "requirements.txt").read_text()
    pinned = {name: version for name, version, _ in PINNED.findall(text)}
    names = re.findall(r"^[a-z0-9]", text, re.M)
    assert len(names) == len(PINNED.findall(text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines, wanted = list(project["dependencies"]), {"server", "gateway"} & set(extras)
    while wanted:
        lines += extras[wanted.pop()]
        for line in [line for line in lines if line.startswith("vikingd[")]:
            lines.remove(line)
            wanted |= Requirement(line).extras
    for line in lines:
        needed = Requirement(line)
        if needed.marker and not needed.marker.evaluate(IMAGE):
            continue
        name = re.sub(r"[._]", "-", needed.name.lower())
        assert needed.specifier.contains(pinned[name]), line


PROTOS = ("access", "admin", "contexts", "memories", "retrieval")


def test_the_wheel_has_the_protos() -> None:
    """The build configuration puts all proto files into the wheel."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    [(source, target)] = build["targets"]["wheel"]["force-include"].items()
    assert target == "vikingd/proto/viking"
    names = {path.name for path in (ROOT / source / "retrieval" / "v1").iterdir()}
    assert names == {f"{name}.proto" for name in PROTOS}
