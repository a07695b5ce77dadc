"""The README's blocks, in their order, in a directory that has a clone of the repository alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.guide_commands import ROOT, lines

INSTALLS = ("python3 -m venv", "python3 -m pip", ". .venv/bin/activate", "pytest")
"""Beginnings of commands that are not run: the test has an environment and is a test."""

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script() -> str:
    """Return the blocks as one shell script that ends with the first failure."""
    parts = ["set -eux"]
    for language, text in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        if language == "sh":
            parts += [line for line in lines(text) if not line.startswith(INSTALLS)]
        else:
            parts.append(f"python3 - <<'END'\n{text}END\n")
    return "\n".join(parts)


@pytest.mark.deep
def test_the_blocks_run_in_a_clone_by_a_new_user(tmp_path: Path) -> None:
    """Each command ends with 0, and the answers are those that the README tells."""
    clone, home = tmp_path / "clone", tmp_path / "home"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    shutil.copy(ROOT / "README.md", clone)
    home.mkdir(mode=0o700)
    kept = {name: os.environ[name] for name in ("LANG", "XDG_CACHE_HOME") if name in os.environ}
    kept.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # compiled kernels
    environment = {
        **kept,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "XDG_RUNTIME_DIR": str(home),
    }
    done = subprocess.run(
        ["sh", "-c", script()],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Drinks coffee black.\nnothing is known about that\n" in done.stdout
    assert re.search(
        r"^0\.\d{3}\tresource\tviking://resources/guides/README.md\t", done.stdout, re.M
    )
    assert not (home / ".claude" / "settings.json").exists()
