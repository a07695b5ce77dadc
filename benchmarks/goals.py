"""The goals of the rows: `python -m benchmarks.goals FILE...` prints a Markdown table.

FILE is the output of --json. The column `baseline` has the figure of the echo, the quiet p99 or
another baseline of the row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Row, number


class Goal(NamedTuple):
    """A limit for a row's `value`, for its `ratio`, or for value minus baseline (`beyond`)."""

    name: str
    nodes: int
    of: str
    bound: float
    at_least: bool = False
    recall: float | None = None
    peer: str = ""  # prefix of the peers' rows of the same task


GOALS = (
    Goal("find_exact", 10_000, "ratio", 1.35),
    Goal("find_exact_8", 10_000, "ratio", 0.65, at_least=True),
    Goal("find_exact_8_cpu", 10_000, "beyond", 0.2),
    Goal("find_exact", 100_000, "ratio", 3.5, recall=1.0, peer="vector_"),
    Goal("find_best_first", 100_000, "ratio", 1.5, recall=0.98, peer="vector_"),
    Goal("find_best_first_hard", 100_000, "ratio", 2.0, recall=0.98),
    Goal("find_best_first", 1_000_000, "ratio", 2.5, recall=0.97, peer="vector_"),
    Goal("find_best_first_hard", 1_000_000, "ratio", 3.0, recall=0.97),
    Goal("find_scoped_1pct", 100_000, "ratio", 1.2, recall=1.0, peer="scoped_"),
    Goal("find_with_key", 10_000, "ratio", 1.05),
    Goal("retrieve_keyword", 100_000, "ratio", 2.0),
    Goal("keyword", 100_000, "ratio", 2.0, at_least=True, recall=1.0, peer="keyword_"),
    Goal("scan_int8", 100_000, "ratio", 8.0, at_least=True, recall=0.999, peer="vector_"),
    Goal("batch_find_32", 10_000, "ratio", 4.0, at_least=True),
    Goal("find_text", 10_000, "ratio", 1.5),
    Goal("recall", 100_000, "ratio", 1.5),
    Goal("thinking", 10_000, "value", 300),
    Goal("search_3", 10_000, "ratio", 1.3),
    Goal("put_batch_500", 100_000, "value", 10_000, at_least=True),
    Goal("put_single_16", 100_000, "value", 2_500, at_least=True),
    Goal("find_during_import_p99", 100_000, "ratio", 2.0),
    Goal("find_during_compaction_p99", 100_000, "ratio", 2.0),
    Goal("start_seconds", 1_000_000, "value", 2.0),
    Goal("anonymous_bytes", 1_000_000, "value", 200e6),
    Goal("two_processes", 10_000, "ratio", 1.3, at_least=True),
    Goal("two_processes", 100_000, "ratio", 1.3, at_least=True),
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.goals", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    rows = [Row(**r) for file in parser.parse_args().files for r in json.loads(file.read_text())]
    print("| row | nodes | goal | figure | baseline | quickest peer | recall@10 | reached |")
    print("|---|---|---|---|---|---|---|---|")
    for goal in GOALS:
        for cells in _lines(goal, rows):
            print(f"| {' | '.join(cells)} |")


def _lines(goal: Goal, rows: list[Row]) -> Iterator[tuple[str, ...]]:
    found = [row for row in rows if (row.name, row.nodes) == (goal.name, goal.nodes)]
    aim = ("≥ " if goal.at_least else "≤ ") + _shown(goal.bound, goal.of)
    if goal.recall is not None:
        aim += f", recall {goal.recall}"
    if not found:
        yield goal.name, f"{goal.nodes:,}", aim, "not measured", "", "", "", ""
    for row in found:
        peers = [
            peer
            for peer in rows
            if goal.peer
            and peer.name.startswith(goal.peer)
            and peer.baseline is not None
            and (peer.nodes, peer.data) == (row.nodes, row.data)
        ]
        figure: Any = getattr(row, goal.of, None)
        if goal.of == "beyond" and row.baseline is not None:
            figure = row.value - row.baseline
        reached = (figure >= goal.bound) == goal.at_least or figure == goal.bound
        reached &= goal.recall is None or (row.recall or 0.0) >= goal.recall
        quickest = min(peers, key=lambda peer: peer.baseline or 0.0, default=None)
        yield (
            goal.name if row.data == "synthetic" else f"{goal.name}, {row.data}",
            f"{row.nodes:,}",
            aim,
            f"{_shown(figure, goal.of)}: {number(row.value)} {row.unit}",
            f"{number(row.baseline)} {row.unit}" if row.baseline else "",
            f"{quickest.name}: {number(quickest.baseline)} ms, {quickest.baseline_recall:.3f}"
            if quickest
            else "",
            "" if row.recall is None else f"{row.recall:.3f}",
            "yes" if reached else "**no**",
        )


def _shown(figure: float, of: str) -> str:
    return f"{figure:.3g} x" if of == "ratio" else number(figure)


if __name__ == "__main__":
    main()
