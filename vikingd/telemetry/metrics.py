"""The metrics of a daemon since its start, for Prometheus and for Stats.

Each daemon has its own object, without a global registry. A new RPC, status code, method or stage
needs no declaration: it appears with its first value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import accumulate
from threading import Lock
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from vikingd.domain.answers import Stage, seconds_of
from vikingd.domain.errors import VikingError
from vikingd.telemetry.metrics_endpoint import Endpoint
from vikingd.telemetry.process_figures import ProcessFigures, summed

_FROM_50_MS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SECONDS = (5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, *_FROM_50_MS)
_BUILD_SECONDS = (*_FROM_50_MS, 60.0, 120.0, 300.0, 600.0)
_SCORES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
_RESULTS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class DescriberFigures(NamedTuple):
    """Counts of descriptions in one engine: contexts by state, and tokens since the start."""

    waiting: int
    described: int
    refused: int
    tokens: int


class Readers(Protocol):
    """The readers that a writer has started; its methods wait for them, on any thread."""

    def metrics(self) -> Mapping[str, Iterable[Metric]]:
        """Return the metrics of each reader by its name."""

    def figures(self) -> Sequence[ProcessFigures]:
        """Return the figures of the readers that answer."""

    @property
    def count(self) -> int:
        """The number of readers that are to run."""


class _Distribution:
    """A histogram: the number of values in each bucket, and their sum.

    A bucket counts the values v with previous bound < v <= own bound. Each find records seven
    values. The histogram of prometheus_client would take four times as long.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds  # upper bounds; the last bucket has none
        self.counts = [0] * (len(bounds) + 1)  # values in each bucket
        self.total = 0.0  # of all values

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> _Distribution:
        other = _Distribution(self.bounds)
        other.counts, other.total = self.counts.copy(), self.total
        return other


class _Counters(dict[tuple[str, ...], int]):
    """A Prometheus counter with labels: a count for each combination of label values."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._shown = (name, about, labels)

    def __missing__(self, labels: tuple[str, ...]) -> int:
        self[labels] = 0
        return 0

    def copied(self) -> _Counters:
        return copy(self)

    def metric(self) -> Metric:
        name, about, labels = self._shown
        family = CounterMetricFamily(name, about, labels=labels)
        for of, value in sorted(self.items()):
            family.add_metric(of, value)
        return family


class _Histograms(dict[tuple[str, ...], _Distribution]):
    """A Prometheus histogram with labels: one for each combination of label values."""

    def __init__(self, name: str, about: str, bounds: tuple[float, ...], *labels: str) -> None:
        self._shown = (name, about, labels)
        self._bounds = bounds

    def __missing__(self, labels: tuple[str, ...]) -> _Distribution:
        self[labels] = _Distribution(self._bounds)
        return self[labels]

    def copied(self) -> _Histograms:
        other = copy(self)
        other.update((labels, values.copy()) for labels, values in self.items())
        return other

    def metric(self) -> Metric:
        name, about, labels = self._shown
        family = HistogramMetricFamily(name, about, labels=labels)
        for of, values in sorted(self.items()):
            upto = accumulate(values.counts)  # Prometheus buckets are cumulative
            bounds = map(floatToGoString, (*self._bounds, float("inf")))
            family.add_metric(of, list(zip(bounds, upto, strict=True)), values.total)
        return family


class Metrics(Collector):
    """All metrics of a daemon; safe for several threads.

    `spans`, if given, is called with the finished stages of each call, for tracing.

    Attributes:
        readers: the readers that this process has started; None without any.
    """

    def __init__(self, spans: Callable[[Sequence[Stage]], None] | None = None) -> None:
        self._spans = spans
        self._lock = Lock()  # held for a few lines only
        self._compaction_lock = Lock()  # separate, so that no answer waits for a writer
        self._calls = _Counters("vikingd_calls", "Calls that ended, by status code.", "rpc", "code")
        self._call_seconds = _Histograms(
            "vikingd_call_seconds",
            "From the parsed request to the reply or the error.",
            _SECONDS,
            "rpc",
        )
        self._answers = _Counters(
            "vikingd_answers", "Answers, by the method of search.", "rpc", "method"
        )
        self._empty = _Counters("vikingd_empty_answers", "Answers without a result.", "rpc")
        self._degraded = _Counters(
            "vikingd_degraded_answers", "Answers with a failed or missing part.", "rpc"
        )
        self._results = _Histograms("vikingd_results", "Results of each answer.", _RESULTS, "rpc")
        self._top_score = _Histograms(
            "vikingd_top_score", "Best score of each answer that has a result.", _SCORES, "rpc"
        )
        self._stages = _Histograms(
            "vikingd_stage_seconds", "Stages of answers.", _SECONDS, "rpc", "stage"
        )
        self._plans = _Counters("vikingd_plans", "Searches, by who planned them.", "source")
        self._reranks = _Counters(
            "vikingd_reranks", "Answers in THINKING, by what became of reranking.", "status"
        )
        self._model_calls = _Counters(
            "vikingd_model_calls", "Calls of planner and rerankers.", "role", "name", "outcome"
        )
        self._model_seconds = _Histograms(
            "vikingd_model_call_seconds", "What these calls took.", _SECONDS, "role", "name"
        )
        self._query_embedding = _Histograms(
            "vikingd_query_embedding_seconds",
            "The embedder, for each query that it was given.",
            _SECONDS,
        )
        self._compaction = _Histograms(
            "vikingd_compaction_seconds", "Compactions of the index.", _BUILD_SECONDS
        )
        for shown in (self._query_embedding, self._compaction):
            shown[()]  # shown before the first one, too
        own = list(vars(self).values())
        self._families = [each for each in own if isinstance(each, _Counters | _Histograms)]
        self._engines: dict[Callable[[], int], Callable[[], tuple[int, int]]] = {}
        self._past_queries = (0, 0)  # (hits, misses) of closed engines
        self._describers: set[Callable[[], DescriberFigures]] = set()
        self._past_describers = DescriberFigures(0, 0, 0, 0)  # of closed engines
        self._opened = self._closed = 0  # tenants
        self._queues: Callable[[], dict[str, tuple[int, int]]] | None = None
        self._process = ProcessCollector(registry=None)  # memory, processor time, open files
        self.readers: Readers | None = None

    # Recording

    def called(self, rpc: str, code: str, seconds: float) -> None:
        """Record the end of a call: its status code and its seconds."""
        with self._lock:
            self._calls[rpc, code] += 1
            self._call_seconds[rpc,].observe(seconds)

    def record_stages(self, rpc: str, stages: Sequence[Stage]) -> None:
        """Record the seconds of the finished stages of a call, and pass the stages to tracing."""
        with self._lock:
            if (rpc,) not in self._results:
                for figures in (self._empty, self._degraded, self._results, self._top_score):
                    figures[rpc,]  # shown from now on, if only as 0
            for stage, seconds in seconds_of(stages).items():
                self._stages[rpc, stage].observe(seconds)
        if self._spans is not None:
            self._spans(stages)

    def answered(
        self, rpc: str, method: str, results: int, top_score: float, *, degraded: bool
    ) -> None:
        """Record an answer: its number of results, the best score, and whether it was degraded."""
        with self._lock:
            of_rpc = (rpc,)
            self._answers[rpc, method] += 1
            self._empty[of_rpc] += not results
            self._degraded[of_rpc] += degraded
            self._results[of_rpc].observe(results)
            if results:
                self._top_score[of_rpc].observe(top_score)

    def planned(self, source: str) -> None:
        """Count a plan of a search by who made it: MODEL, RULES or NONE."""
        with self._lock:
            self._plans[source,] += 1

    def reranked(self, status: str) -> None:
        """Count an answer of the method THINKING by its RerankStatus: DONE, FAILED or OFF."""
        with self._lock:
            self._reranks[status,] += 1

    def model_called(self, role: str, name: str, outcome: str, seconds: float) -> None:
        """Record a call of a model by its role, name and outcome: DONE or FAILED."""
        with self._lock:
            self._model_calls[role, name, outcome] += 1
            self._model_seconds[role, name].observe(seconds)

    def embedded(self, seconds: float) -> None:
        """Record how many seconds the embedder took for a query, failed ones included."""
        with self._lock:
            self._query_embedding[()].observe(seconds)

    def compacted(self, seconds: float) -> None:
        """Record the seconds of a compaction."""
        with self._compaction_lock:
            self._compaction[()].observe(seconds)

    def follow(
        self, backlog: Callable[[], int], query_cache: Callable[[], tuple[int, int]]
    ) -> Callable[[], None]:
        """Add an engine to the totals of waiting texts and of the cache of query vectors.

        Args:
            backlog: returns the number of texts that wait for a vector.
            query_cache: returns (hits, misses) of the cache of query vectors.

        Returns:
            A function to call when the engine closes; its hits and misses stay in the totals.
        """
        with self._lock:
            self._engines[backlog] = query_cache

        def end() -> None:
            with self._lock:
                if self._engines.pop(backlog, None) is not None:
                    (hits, misses), (more, others) = self._past_queries, query_cache()
                    self._past_queries = hits + more, misses + others

        return end

    def follow_describer(self, figures: Callable[[], DescriberFigures]) -> Callable[[], None]:
        """Add an engine's describer to the totals; return a function to call when it closes."""
        with self._lock:
            self._describers.add(figures)

        def end() -> None:
            with self._lock:
                if figures in self._describers:
                    self._describers.remove(figures)
                    past = map(sum, zip(self._past_describers, figures(), strict=True))
                    self._past_describers = DescriberFigures(*past)._replace(waiting=0)

        return end

    def tenant_opened(self) -> None:
        """Count a tenant that was opened."""
        with self._lock:
            self._opened += 1

    def tenant_closed(self) -> None:
        """Count a tenant that was closed."""
        with self._lock:
            self._closed += 1

    def follow_queues(self, queues: Callable[[], dict[str, tuple[int, int]]]) -> None:
        """Set the function that returns (waiting calls, refused calls) of each queue by name."""
        self._queues = queues

    # Reading

    def queues(self) -> dict[str, tuple[int, int]]:
        """Return (waiting calls, refused calls) of each queue of this process by name."""
        return self._queues() if self._queues is not None else {}

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics for Prometheus, those of the readers that this process started, too."""
        if self.readers is None:
            yield from self.own()
        else:
            yield from summed({"writer": self.own(), **self.readers.metrics()})

    def own(self) -> Iterator[Metric]:
        """Yield the metrics of this process."""
        yield from self._process.collect()
        # In this order, so that no answer waits for a writer.
        with self._compaction_lock, self._lock:
            copies = [family.copied() for family in self._families]
            backlogs = list(self._engines)
            caches = [self._past_queries, *(cache() for cache in self._engines.values())]
            describers = [self._past_describers, *(figures() for figures in self._describers)]
            opened, closed = self._opened, self._closed
        yield from (family.metric() for family in copies)
        if backlogs:
            hits, misses = map(sum, zip(*caches, strict=True))
            yield CounterMetricFamily("vikingd_query_cache_hits", "Queries from the cache.", hits)
            yield CounterMetricFamily("vikingd_query_cache_misses", "Queries embedded.", misses)
        yield from _of_describers(DescriberFigures(*map(sum, zip(*describers, strict=True))))
        yield GaugeMetricFamily(
            "vikingd_open_tenants", "Open tenants beside the default one.", opened - closed
        )
        yield CounterMetricFamily("vikingd_opened_tenants", "Tenants that were opened.", opened)
        yield CounterMetricFamily("vikingd_closed_tenants", "Tenants that were closed.", closed)
        if queues := self.queues():
            waiting = GaugeMetricFamily(
                "vikingd_queue_calls", "Calls that wait in a queue.", labels=("queue",)
            )
            refused = CounterMetricFamily(
                "vikingd_refused_calls",
                "Calls that were refused because a queue was full.",
                labels=("queue",),
            )
            for name, (length, full) in queues.items():
                waiting.add_metric((name,), length)
                refused.add_metric((name,), full)
            yield from (waiting, refused)
        if backlogs:
            yield GaugeMetricFamily(
                "vikingd_backlog_texts", "Texts that wait for their vector.", _waiting(backlogs)
            )

    def listen(self, host: str, port: int, token: str = "") -> Endpoint:
        """Serve the metrics to Prometheus over HTTP; port 0 takes a free one.

        Args:
            host: the IP address to listen on.
            port: the port.
            token: the token that each request must have; "": none, and only this machine may ask.

        Raises:
            OSError: the port is taken.
        """
        registry = CollectorRegistry()
        registry.register(self)

        def render(accept: str) -> tuple[str, bytes]:
            encode, content_type = choose_encoder(accept)
            return content_type, encode(registry)

        return Endpoint(render, host, port, token)


def _of_describers(total: DescriberFigures) -> Iterator[Metric]:
    """Yield the Prometheus metrics of descriptions, from the totals of all engines."""
    yield GaugeMetricFamily(
        "vikingd_describer_backlog", "Contexts that wait for their description.", total.waiting
    )
    outcomes = CounterMetricFamily(
        "vikingd_descriptions", "Contexts that a model described.", labels=("outcome",)
    )
    outcomes.add_metric(("described",), total.described)
    outcomes.add_metric(("refused",), total.refused)
    yield outcomes
    yield CounterMetricFamily(
        "vikingd_describer_tokens", "Tokens of questions and answers.", total.tokens
    )


def _waiting(backlogs: Sequence[Callable[[], int]]) -> int:
    """Return the number of texts that wait for a vector; a closed engine counts as 0."""
    total = 0
    for backlog in backlogs:
        with suppress(VikingError):
            total += backlog()
    return total
