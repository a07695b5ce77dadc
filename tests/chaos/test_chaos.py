"""The chaos harness: a minute of all that ends a daemon, and some seconds of silent damage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import damage
from tests.chaos.common import Run
from tests.chaos.daemon import Nursery
from tests.chaos.strict import NOT_CHECKED

SEED = 20261124
_MINUTE = ("kills", "power", "damage", "files", "disk", "fuzz", "doors")
_SILENT = ("logs", "rows", "bits", "older")
_STEPS = 30  # of each
_ROOT = Path(__file__).parents[2]


def chaos(scratch: Path, *options: str) -> dict[str, str]:
    """Run the harness, which must end without a failure; return its counters by kind."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), *options],
        cwd=_ROOT,
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.deep
def test_a_damaged_directory_finds_nothing_wrong(tmp_path: Path) -> None:
    """A step of the harness makes its stores, damages a copy, and compares all answers."""
    with Nursery() as nursery:
        run = Run(nursery, SEED, tmp_path, steps=1)
        damage.run(run)
    assert not run.failures
    assert run.counts[damage.KIND]["directories"] == 1


@pytest.mark.deep
def test_a_minute_of_harm_finds_nothing_wrong(tmp_path: Path) -> None:
    """The chaos harness ends without a failure and prints a counter for each kind of fault."""
    kinds = [option for kind in _MINUTE for option in ("--only", kind)]
    assert chaos(tmp_path, "--minutes", "1", *kinds).keys() >= set(_MINUTE)


@pytest.mark.deep
def test_damage_is_never_silent(tmp_path: Path) -> None:
    """Damage of logs, rows and bits, and older copies, change no answer that is not told."""
    kinds = [option for kind in _SILENT for option in ("--only", kind)]
    limits = ("--steps", str(_STEPS), "--minutes", "30", "--vaults", "1")
    found = chaos(tmp_path, *kinds, *limits)
    assert all(f"steps {_STEPS}" in found[kind] for kind in _SILENT), found


def test_what_is_not_checked_is_in_the_readme() -> None:
    """Each exception from the strict rule quotes the README of the store."""
    readme = (_ROOT / "vikingd" / "store" / "README.md").read_text()
    assert [entry for entry in NOT_CHECKED if entry.quote not in " ".join(readme.split())] == []


@pytest.mark.deep
def test_a_short_churn_ends(tmp_path: Path) -> None:
    """The churn harness ends with a table of descriptors, memory, files and bytes."""
    found = chaos(tmp_path, "churn", "--minutes", "0.05")
    assert "too short to judge" in found[f"seed {SEED}"]
