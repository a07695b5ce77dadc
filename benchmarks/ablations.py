"""The quality of a find when one part of its score is left out.

`python -m benchmarks.ablations --datasets DIR` reads the store of `python -m benchmarks.quality`,
recomputes all scores in float64 (see recompute.py) and measures the rankings.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.daemon import say
from benchmarks.data import cache
from benchmarks.judged import Query, read_queries
from benchmarks.quality import K, store_name
from benchmarks.recompute import PARTS, Recomputation
from benchmarks.stored import F64, Stored, read_store
from vikingd.domain.ranking_metrics import ndcg, recall
from vikingd.models.embed.e5 import E5

Figures = tuple[float, float]
"""Mean nDCG@10 and R@10."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.ablations", description=__doc__)
    parser.add_argument(
        "--datasets",
        type=Path,
        required=True,
        metavar="DIR",
        help="holds one directory for each set",
    )
    parser.add_argument("--sets", metavar="A,B", help="select sets (default: all)")
    parser.add_argument("--parts", metavar="A,B", help="leave out these parts (default: each)")
    parser.add_argument("--store", type=Path, metavar="DIR", help="the store of benchmarks.quality")
    arguments = parser.parse_args()
    store = arguments.store or cache(store_name(arguments.datasets, E5.name))
    if not (store / "store.sqlite3").exists():
        parser.error(f"no store at {store}: run benchmarks.quality first")
    names = sorted(path.parent.name for path in arguments.datasets.glob("*/queries.jsonl"))
    chosen = arguments.sets.split(",") if arguments.sets else names
    stored, embedder = read_store(store), E5(2)
    print("| without | " + " | ".join(chosen) + " |")
    print("|---|" + "---|" * len(chosen))
    asked = {}
    for name in chosen:
        queries = read_queries(arguments.datasets / name)
        say(f"{name}: embedding {len(queries)} queries")
        asked[name] = [(q, embedder.embed_query(q.text).astype(np.float64)) for q in queries]
    parts = arguments.parts.split(",") if arguments.parts else PARTS
    for part in ("nothing", *parts):
        found = {name: _measured(stored, asked[name], part) for name in chosen}
        print(f"| {part} | " + " | ".join(map(_shown, found.values())) + " |", flush=True)


def _measured(stored: Stored, asked: list[tuple[Query, F64]], part: str) -> Figures:
    scopes: dict[str, Recomputation] = {}
    gains, recalls = [], []
    for query, vector in asked:
        if query.scope not in scopes:
            scopes[query.scope] = Recomputation(stored, query.scope, (part,))
        ranking = list(_ranked(scopes[query.scope].scores(query.text, vector).files))
        gains.append(ndcg(ranking, query.relevant, K))
        recalls.append(recall(ranking, query.relevant, K))
    return statistics.fmean(gains), statistics.fmean(recalls)


def _ranked(files: Mapping[str, float]) -> Iterator[str]:
    best = sorted((-score, uri) for uri, score in files.items() if score > 0)
    return (uri for _, uri in best[:K])


def _shown(figures: Figures) -> str:
    return " / ".join(f"{figure:.3f}".lstrip("0") for figure in figures)


if __name__ == "__main__":
    main()
