"""Lets benchmarks import the kernels' plain twins, and run one at a time."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))


def pytest_xdist_auto_num_workers() -> int:
    """None: nothing else is to run beside a benchmark."""
    return 0
