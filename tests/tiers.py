"""The two tiers of the tests: `pytest` runs the quick one, `pytest -m deep` the deep one.

A test with the mark `deep` is in the deep tier alone. A test with random examples is in both: the
deep tier has up to sixteen times as many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

_QUICK_SHARE, _DEEP_FACTOR = 8, 2
_FEWEST = 5

is_deep = False
"""True in a run of the deep tier; `conftest` sets it before it imports the tests."""


def begin(expression: str) -> None:
    """Set the tier by the expression of `-m`, and the default settings of Hypothesis."""
    global is_deep
    is_deep = "deep" in expression.replace("not deep", "")
    settings.register_profile("tier", examples(100))
    settings.load_profile("tier")


def examples(count: int, **more: Any) -> settings:
    """Return Hypothesis settings: an eighth of `count` in the quick tier, twice it in the deep one.

    No example has a limit of time, because the machine may be busy.
    """
    number = _DEEP_FACTOR * count if is_deep else max(_FEWEST, count // _QUICK_SHARE)
    return settings(max_examples=number, deadline=None, print_blob=True, **more)


def seeds(quick: int, deep: int) -> Sequence[Any]:
    """Return the seeds of a random test: the first ones are quick, the others deep."""
    rest = (pytest.param(seed, marks=pytest.mark.deep) for seed in range(quick, deep))
    return [*range(quick), *rest]
