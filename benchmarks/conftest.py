"""Settings of `pytest benchmarks`: one benchmark at a time, over trees of some sizes."""

import pytest

SIZES = (10_000, 100_000)
SIZED = ("prepared", "calls", "nodes")
"""Fixtures and arguments that take the size of a tree."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the sizes of the trees."""
    parser.addoption(
        "--nodes", type=int, action="append", help="size of a tree (10k, 100k); may be repeated"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each benchmark of trees over each size."""
    for name in set(SIZED).intersection(metafunc.fixturenames):
        sizes = metafunc.config.getoption("nodes") or SIZES
        indirect = [] if name == "nodes" else [name]
        metafunc.parametrize(name, sizes, indirect=indirect, scope="module")


def pytest_xdist_auto_num_workers() -> int:
    """Return 0, so that no other benchmark runs at the same time."""
    return 0
