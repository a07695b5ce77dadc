"""The stages of an answer and their times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Stage(NamedTuple):
    """A part of the work on an answer; from when to when, by `time.perf_counter`."""

    name: str
    started: float
    ended: float


def seconds_of(stages: Iterable[Stage]) -> dict[str, float]:
    """How long each stage took, by name; one that was gone through again, in all."""
    seconds: dict[str, float] = {}
    for name, started, ended in stages:
        seconds[name] = seconds.get(name, 0.0) + ended - started
    return seconds
