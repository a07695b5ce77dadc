"""The figures of several processes of one daemon, added up for Prometheus and for Stats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

_GAUGE = "gauge"
_PROCESS = "process"
"""The label with the process's name; gauges have it, since their sums would mean nothing."""


Families: TypeAlias = tuple[Metric, ...]
"""Metrics for Prometheus, each with its samples."""


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """The figures of one process.

    Attributes:
        metrics: its metrics for Prometheus.
        queues: (waiting calls, refused calls) of each queue by name.
        query_caches: (hits, misses) of the cache of query vectors of each open tenant.
        idle_seconds: the time since its last call ended; 0 while calls run.
    """

    metrics: Families = ()
    queues: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    query_caches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    idle_seconds: float = 0.0


def summed(of: Mapping[str, Iterable[Metric]]) -> Iterator[Metric]:
    """Yield the metrics of several processes as those of one.

    Counters and histograms are added. Gauges have the name of their process as a label.

    Args:
        of: the metrics of each process by its name.
    """
    families: dict[str, Metric] = {}
    totals: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for process, metrics in of.items():
        for metric in metrics:
            family = families.setdefault(
                metric.name, Metric(metric.name, metric.documentation, metric.type, metric.unit)
            )
            if metric.type == _GAUGE:
                family.samples += [
                    one._replace(labels={**one.labels, _PROCESS: process}) for one in metric.samples
                ]
                continue
            total = totals.setdefault(metric.name, {})
            for one in metric.samples:
                key = (one.name, tuple(one.labels.items()))
                total[key] = total.get(key, 0.0) + one.value
    for name, total in totals.items():
        families[name].samples = [Sample(n, dict(labels), v) for (n, labels), v in total.items()]
    yield from families.values()


def without_gauges(metrics: Iterable[Metric]) -> Families:
    """Return the metrics that stay true after their process has ended."""
    return tuple(metric for metric in metrics if metric.type != _GAUGE)


def added(pairs: Iterable[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Add pairs of numbers by name."""
    total: dict[str, tuple[int, int]] = {}
    for each in pairs:
        for name, (one, other) in each.items():
            before = total.get(name, (0, 0))
            total[name] = (before[0] + one, before[1] + other)
    return total
