"""The stages of an answer and their times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Stage(NamedTuple):
    """A part of the work on an answer, with its start and end by `time.perf_counter`."""

    name: str
    started: float
    ended: float


def seconds_of(stages: Iterable[Stage]) -> dict[str, float]:
    """Return the seconds of each stage by name; equal names are summed."""
    seconds: dict[str, float] = {}
    for name, started, ended in stages:
        seconds[name] = seconds.get(name, 0.0) + ended - started
    return seconds
