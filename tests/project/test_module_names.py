"""The names of modules."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import vikingd

ROOT = Path(vikingd.__file__).parents[1]
OTHERS = {ROOT / "vikingd" / name for name in ("pb", "demo_tree")}  # generated, and sample data


def test_no_two_modules_have_one_name() -> None:
    """A module's own name tells it from all other modules of the daemon and of the kernels."""
    found = defaultdict(list)
    for package in ("vikingd", "kernels"):
        for path in (ROOT / package).rglob("*.py"):
            if path.stem != "__init__" and OTHERS.isdisjoint(path.parents):
                found[path.stem].append(str(path.relative_to(ROOT)))
    assert len(found) > 600
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
