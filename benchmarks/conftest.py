"""Settings of `pytest benchmarks`: import the plain twins, run one benchmark at a time."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))


def pytest_xdist_auto_num_workers() -> int:
    """Return 0, so that no other benchmark runs at the same time."""
    return 0
