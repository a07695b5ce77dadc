"""The command that an error names for a missing package, by the way of vikingd's installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vikingd.system import install_command

ROOT = Path(__file__).parents[2]
SOURCE = install_command.__file__


def said(place: Path, direct_url: str | None) -> str:
    """Return the command that a copy of the module says, installed in a place."""
    (place / "vikingd" / "system").mkdir(parents=True)
    shutil.copy(SOURCE, place / "vikingd" / "system" / "install_command.py")
    information = place / "vikingd-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: vikingd\nVersion: 0.1.0\n")
    if direct_url is not None:
        (information / "direct_url.json").write_text(direct_url)
    code = (
        f"import sys; sys.path[:0] = [{str(place)!r}];"
        "from vikingd.system.install_command import install_command;"
        "print(install_command('gateway'))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_of_a_checkout_it_is_a_command_for_its_directory() -> None:
    """A checkout on the path of imports, or installed as editable, is named."""
    assert install_command.install_command("a,b") == f"pip install '.[a,b]' in {ROOT}"


@pytest.mark.parametrize("editable", [True, False])
def test_of_an_installed_checkout_it_names_the_sources(tmp_path: Path, editable: bool) -> None:
    """`pip install .` leaves the directory of the sources in the metadata."""
    url = json.dumps({"url": ROOT.as_uri(), "dir_info": {"editable": True} if editable else {}})
    assert said(tmp_path, url) == f"pip install '.[gateway]' in {ROOT}"


@pytest.mark.parametrize(
    "direct_url",
    [
        None,
        '{"url": "file:///tmp/vikingd-0.1.0-py3-none-any.whl", "archive_info": {}}',
        '{"url": "file:///nowhere", "dir_info": {}}',
    ],
)
def test_of_a_wheel_it_has_the_name(tmp_path: Path, direct_url: str | None) -> None:
    """Without sources the name of the package is what there is."""
    assert said(tmp_path, direct_url) == "pip install 'vikingd[gateway]'"
