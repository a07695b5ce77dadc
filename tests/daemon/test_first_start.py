"""The first line of the first start of all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.commands import serve


def test_the_first_start_tells_at_once_how_long_it_takes(tmp_path: Path) -> None:
    """Before anything slow is loaded, a log line tells what is done, and for how long."""
    process = subprocess.Popen(
        serve(tmp_path / "store", "--provider", "none"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    assert "the first start" in said
    assert "half a minute" in said
