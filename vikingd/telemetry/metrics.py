"""The metrics of a daemon since its start, for Prometheus and for Stats.

Each daemon has its own object, without a global registry. A new RPC, status code, method or stage
needs no declaration: it exists from its first record on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from threading import Lock

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

from vikingd.telemetry.scrape import Endpoint

_SECONDS = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
_BUILD_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_SCORES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
_RESULTS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class Distribution:
    """Values in buckets, each from above the bound before it up to its own, included.

    Each find observes seven values. The histogram of prometheus_client takes four times as long.

    Attributes:
        bounds: [n] rising upper bounds of all buckets but the last, which is open.
        counts: [n + 1] values in each bucket.
        total: the sum of all values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add one value; one thread at a time."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Distribution:
        """Return a copy that no longer changes."""
        other = Distribution(self.bounds)
        other.counts, other.total = self.counts.copy(), self.total
        return other


@dataclass(slots=True)
class CallFigures:
    """The calls of one RPC: counts by status code, and their seconds."""

    codes: Counter[str] = field(default_factory=Counter)
    seconds: Distribution = field(default_factory=lambda: Distribution(_SECONDS))


@dataclass(slots=True)
class AnswerFigures:
    """The answers of one RPC; each answer of a batch counts.

    `degraded` counts answers that lacked a model. `top_score` is of answers with a result.
    """

    methods: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    degraded: int = 0
    results: Distribution = field(default_factory=lambda: Distribution(_RESULTS))
    top_score: Distribution = field(default_factory=lambda: Distribution(_SCORES))
    stages: dict[str, Distribution] = field(
        default_factory=lambda: defaultdict(lambda: Distribution(_SECONDS))
    )


@dataclass(slots=True)
class ModelFigures:
    """The calls of one model: counts by outcome, DONE or FAILED, and their seconds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: Distribution = field(default_factory=lambda: Distribution(_SECONDS))


class Metrics(Collector):
    """The figures, safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()  # held for a few lines only
        self._compaction_lock = Lock()  # separate, so that no answer waits for a writer
        self._calls: dict[str, CallFigures] = defaultdict(CallFigures)
        self._answers: dict[str, AnswerFigures] = defaultdict(AnswerFigures)
        self._plans: Counter[str] = Counter()
        self._reranks: Counter[str] = Counter()
        self._models: dict[tuple[str, str], ModelFigures] = defaultdict(ModelFigures)
        self._query_embedding = Distribution(_SECONDS)
        self._compaction = Distribution(_BUILD_SECONDS)
        self._backlog: Callable[[], int] | None = None
        self._query_cache: Callable[[], tuple[int, int]] | None = None
        self._queues: Callable[[], dict[str, tuple[int, int]]] | None = None

    # Recording

    def called(self, rpc: str, code: str, seconds: float) -> None:
        """Record a call that ended with a status code."""
        with self._lock:
            figures = self._calls[rpc]
            figures.codes[code] += 1
            figures.seconds.observe(seconds)

    def took(self, rpc: str, stages: Mapping[str, float]) -> None:
        """Record the seconds of an answer's stages."""
        with self._lock:
            of_rpc = self._answers[rpc].stages
            for stage, seconds in stages.items():
                of_rpc[stage].observe(seconds)

    def answered(
        self, rpc: str, method: str, results: int, top_score: float, *, degraded: bool
    ) -> None:
        """Record an answer; `top_score` counts if there are results."""
        with self._lock:
            figures = self._answers[rpc]
            figures.methods[method] += 1
            figures.empty += not results
            figures.degraded += degraded
            figures.results.observe(results)
            if results:
                figures.top_score.observe(top_score)

    def planned(self, source: str) -> None:
        """Record a plan by its source: MODEL, RULES or NONE."""
        with self._lock:
            self._plans[source] += 1

    def reranked(self, status: str) -> None:
        """Record an answer in THINKING by the status of reranking."""
        with self._lock:
            self._reranks[status] += 1

    def model_called(self, role: str, name: str, outcome: str, seconds: float) -> None:
        """Record a call of a planner or reranker by its outcome: DONE or FAILED."""
        with self._lock:
            figures = self._models[role, name]
            figures.outcomes[outcome] += 1
            figures.seconds.observe(seconds)

    def embedded(self, seconds: float) -> None:
        """Record the seconds of a query at the embedder, which answered or failed."""
        with self._lock:
            self._query_embedding.observe(seconds)

    def compacted(self, seconds: float) -> None:
        """Record the seconds of a compaction."""
        with self._compaction_lock:
            self._compaction.observe(seconds)

    def follow(
        self, backlog: Callable[[], int], query_cache: Callable[[], tuple[int, int]]
    ) -> None:
        """Show the number of waiting texts, and (hits, misses) of the query cache."""
        self._backlog, self._query_cache = backlog, query_cache

    def follow_queues(self, queues: Callable[[], dict[str, tuple[int, int]]]) -> None:
        """Show (waiting calls, refused calls) of each queue by name."""
        self._queues = queues

    # Reading

    def calls(self) -> dict[str, CallFigures]:
        """Return the calls by RPC."""
        with self._lock:
            return {
                rpc: CallFigures(figures.codes.copy(), figures.seconds.copy())
                for rpc, figures in sorted(self._calls.items())
            }

    def queues(self) -> dict[str, tuple[int, int]]:
        """Return (waiting calls, refused calls) of each queue by name."""
        return self._queues() if self._queues is not None else {}

    def answers(self) -> dict[str, AnswerFigures]:
        """Return the answers by RPC."""
        with self._lock:
            return {
                rpc: replace(
                    figures,
                    methods=figures.methods.copy(),
                    results=figures.results.copy(),
                    top_score=figures.top_score.copy(),
                    stages={stage: took.copy() for stage, took in figures.stages.items()},
                )
                for rpc, figures in sorted(self._answers.items())
            }

    def plans(self) -> dict[str, int]:
        """Searches by who planned them."""
        with self._lock:
            return dict(sorted(self._plans.items()))

    def reranks(self) -> dict[str, int]:
        """Answers in THINKING by what became of reranking."""
        with self._lock:
            return dict(sorted(self._reranks.items()))

    def models(self) -> dict[tuple[str, str], ModelFigures]:
        """The calls of each planner and reranker, by (role, name)."""
        with self._lock:
            return {
                key: ModelFigures(figures.outcomes.copy(), figures.seconds.copy())
                for key, figures in sorted(self._models.items())
            }

    def query_embedding(self) -> Distribution:
        """Return the seconds of queries at the embedder."""
        with self._lock:
            return self._query_embedding.copy()

    def compaction(self) -> Distribution:
        """Return the seconds of compactions."""
        with self._compaction_lock:
            return self._compaction.copy()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics for Prometheus."""
        calls, answers = self.calls(), self.answers()
        yield _counter(
            "vikingd_calls",
            "Calls that ended, by status code.",
            ("rpc", "code"),
            {(rpc, code): n for rpc, of in calls.items() for code, n in of.codes.items()},
        )
        yield _histogram(
            "vikingd_call_seconds",
            "From the parsed request to the reply or the error.",
            ("rpc",),
            {(rpc,): of.seconds for rpc, of in calls.items()},
        )
        yield _counter(
            "vikingd_answers",
            "Answers, by the method of search.",
            ("rpc", "method"),
            {(rpc, method): n for rpc, of in answers.items() for method, n in of.methods.items()},
        )
        yield _counter(
            "vikingd_empty_answers",
            "Answers without a result.",
            ("rpc",),
            {(rpc,): of.empty for rpc, of in answers.items()},
        )
        yield _counter(
            "vikingd_degraded_answers",
            "Answers that had to do without something.",
            ("rpc",),
            {(rpc,): of.degraded for rpc, of in answers.items()},
        )
        yield _histogram(
            "vikingd_results",
            "Results of each answer.",
            ("rpc",),
            {(rpc,): of.results for rpc, of in answers.items()},
        )
        yield _histogram(
            "vikingd_top_score",
            "Best score of each answer that has a result.",
            ("rpc",),
            {(rpc,): of.top_score for rpc, of in answers.items()},
        )
        yield _histogram(
            "vikingd_stage_seconds",
            "Stages of answers.",
            ("rpc", "stage"),
            {(rpc, stage): s for rpc, of in answers.items() for stage, s in of.stages.items()},
        )
        yield _counter(
            "vikingd_plans",
            "Searches, by who planned them.",
            ("source",),
            {(source,): n for source, n in self.plans().items()},
        )
        yield _counter(
            "vikingd_reranks",
            "Answers in THINKING, by what became of reranking.",
            ("status",),
            {(status,): n for status, n in self.reranks().items()},
        )
        models = self.models()
        yield _counter(
            "vikingd_model_calls",
            "Calls of planner and rerankers.",
            ("role", "name", "outcome"),
            {
                (*key, outcome): n
                for key, of in models.items()
                for outcome, n in of.outcomes.items()
            },
        )
        yield _histogram(
            "vikingd_model_call_seconds",
            "What these calls took.",
            ("role", "name"),
            {key: of.seconds for key, of in models.items()},
        )
        yield _histogram(
            "vikingd_query_embedding_seconds",
            "The embedder, for each query that it was given.",
            (),
            {(): self.query_embedding()},
        )
        yield _histogram(
            "vikingd_compaction_seconds",
            "Compactions of the index.",
            (),
            {(): self.compaction()},
        )
        if self._query_cache is not None:
            hits, misses = self._query_cache()
            yield _counter("vikingd_query_cache_hits", "Queries from the cache.", (), {(): hits})
            yield _counter("vikingd_query_cache_misses", "Queries embedded.", (), {(): misses})
        if queues := self.queues():
            waiting = GaugeMetricFamily(
                "vikingd_queue_calls", "Calls that wait in a queue.", labels=("queue",)
            )
            for name, (length, _) in queues.items():
                waiting.add_metric((name,), length)
            yield waiting
            yield _counter(
                "vikingd_refused_calls",
                "Calls that were refused because a queue was full.",
                ("queue",),
                {(name,): refused for name, (_, refused) in queues.items()},
            )
        if self._backlog is not None:
            yield GaugeMetricFamily(
                "vikingd_backlog_texts", "Texts that wait for their vector.", self._backlog()
            )

    def listen(self, host: str, port: int) -> Endpoint:
        """Serve the metrics to Prometheus over HTTP; port 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)  # memory, processor time, open files

        def render(accept: str) -> tuple[str, bytes]:
            encode, content_type = choose_encoder(accept)
            return content_type, encode(registry)

        return Endpoint(render, host, port)


def _counter(
    name: str, about: str, labels: tuple[str, ...], values: dict[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for of, value in values.items():
        family.add_metric(of, value)
    return family


def _histogram(
    name: str, about: str, labels: tuple[str, ...], values: dict[tuple[str, ...], Distribution]
) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    for of, value in values.items():
        upto = accumulate(value.counts)  # Prometheus buckets are cumulative
        bounds = map(floatToGoString, (*value.bounds, float("inf")))
        family.add_metric(of, list(zip(bounds, upto, strict=True)), value.total)
    return family
