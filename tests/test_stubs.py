"""The committed stubs are those of the protos."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[1] / "proto" / "generate.py"


def test_a_fresh_generation_is_identical() -> None:
    """Nobody changes a proto, a comment even, and leaves the stubs behind."""
    done = subprocess.run(
        [sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
