"""The chaos harness for one minute, with kills, power failures, damage and full disks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SEED = 20261124


def test_a_minute_of_harm_finds_nothing_wrong(tmp_path: Path) -> None:
    """The chaos harness ends without a failure and prints a counter for each kind of fault."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--minutes", "1", "--seed", str(SEED)],
        cwd=Path(__file__).parent,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said.keys() >= {"kills", "power", "damage", "files", "disk", "fuzz", "doors"}, (
        done.stdout
    )
