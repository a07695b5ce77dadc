"""Code: do subjects of commits find the files that they changed, and names their definitions?

    python -m benchmarks.code CHECKOUTS

CHECKOUTS has a git checkout with its whole history for each pinned repository, by its name:
httpx, fd, cobra and hono.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks.code_questions import (
    REPOSITORIES,
    Defined,
    Questions,
    Repository,
    export,
    questions_of,
)
from benchmarks.daemon import say, serving, temporary_store
from vikingd.client import Client
from vikingd.index.lexicon.tokens import terms

HALVES = ("dev", "test")
ROOT = "viking://resources"
FORMS = ("{}", "where is {} defined")
"""The questions for a definition."""

_LISTED = 10
_CUT = 100  # passages of a Retrieve, which hold ten files or more

Find = Callable[[str], list[str]]
"""Returns the paths of the best files for a question."""


def main(
    arguments: Sequence[str] | None = None, repositories: Sequence[Repository] = REPOSITORIES
) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.code",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkouts", type=Path, metavar="CHECKOUTS")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0], help="the subjects to ask")
    parser.add_argument("--provider", default="e5", help="the embedder (default: e5)")
    parser.add_argument("--store", type=Path, help="keep the store here for the next run")
    parser.add_argument(
        "--repositories", default="", metavar="A,B", help="ask over these alone (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args(arguments)
    wanted = options.repositories.split(",") if options.repositories else None
    asked = [
        questions_of(one, options.checkouts / one.name)
        for one in repositories
        if wanted is None or one.name in wanted
    ]
    with temporary_store() as scratch:
        store = options.store or scratch / "store"
        with serving(store, options.provider) as server, Client(server.address) as client:
            figures = _asked(client, asked, options, scratch)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _asked(
    client: Client, asked: Sequence[Questions], options: argparse.Namespace, scratch: Path
) -> dict[str, list[float]]:
    """Import the trees, ask all questions, print the tables and return their figures."""
    corpora = {}
    for one in asked:
        name = one.repository.name
        tree = scratch / name
        export(options.checkouts / name, one.tree, tree)
        summary = client.import_path(str(tree), f"{ROOT}/{name}", delete=True)
        say(f"{name}: {summary.created + summary.unchanged + summary.updated:,} contexts")
        corpora[name] = _Corpus(tree)
    while backlog := client.stats().embedder.backlog:
        say(f"{backlog:,} texts without a vector")
        time.sleep(5)
    figures: dict[str, list[float]] = {}
    ranks: dict[str, list[list[int]]] = defaultdict(list)
    print("\n| repository | method | subjects | first | among 5 | among 10 |")
    print("|---|---|---|---|---|---|")
    for one in asked:
        name = one.repository.name
        subjects = [subject for subject in one.subjects if subject.half == options.half]
        for method, find in _methods(client, f"{ROOT}/{name}", corpora[name]).items():
            found = [_rank(find(subject.text), subject.answers) for subject in subjects]
            ranks[method].append(found)
            figures[f"{name}, {method}"] = _row(name, method, found)
    for method, of_each in ranks.items():
        figures[f"all, {method}"] = _row("all", method, [rank for one in of_each for rank in one])
    print("\n| question | names | file first | definition first |")
    print("|---|---|---|---|")
    for form in FORMS:
        outcomes = [
            _definition(client, f"{ROOT}/{one.repository.name}", form, defined)
            for one in asked
            for defined in one.names
        ]
        shares = [float(np.mean(column)) for column in zip(*outcomes, strict=True)]
        text = form.format("X")
        print(f"| {text} | {len(outcomes)} | {shares[0]:.3f} | {shares[1]:.3f} |")
        figures[text] = shares
    return figures


def _row(repository: str, method: str, ranks: Sequence[int]) -> list[float]:
    """Print and return the shares of answers that are first, among five and among ten."""
    shares = [sum(0 <= rank < cut for rank in ranks) / len(ranks) for cut in (1, 5, 10)]
    cells = " | ".join(f"{share:.3f}" for share in shares)
    print(f"| {repository} | {method} | {len(ranks)} | {cells} |", flush=True)
    return shares


def _methods(client: Client, root: str, corpus: _Corpus) -> dict[str, Find]:
    def paths(uris: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(uri.removeprefix(f"{root}/") for uri in uris))

    def found(prefer: str) -> Find:
        return lambda text: paths(
            hit.uri for hit in client.find(text, target_uri=root, limit=_LISTED, prefer=prefer)
        )

    return {
        "BM25 over whole files": corpus.best,
        "HYBRID": lambda text: paths(
            hit.uri for hit in client.retrieve(text, target_uri=root, top_k=_CUT)
        ),
        "find": found("none"),
        "find, prefer=code": found("code"),
    }


def _rank(found: Sequence[str], answers: frozenset[str]) -> int:
    """Return the index of the first right path in a result; -1 if there is none."""
    return next((place for place, path in enumerate(found) if path in answers), -1)


def _definition(client: Client, root: str, form: str, defined: Defined) -> tuple[bool, bool]:
    """Return (True if the file comes first, True if its first passage has the definition)."""
    found = client.find(form.format(defined.name), target_uri=root, limit=1)
    if not found or found[0].uri != f"{root}/{defined.path}":
        return False, False
    return True, any(defined.line in passage.text for passage in found[0].passages[:1])


class _Corpus:
    """A BM25 index over the whole text files of a tree, with vikingd's terms."""

    def __init__(self, tree: Path) -> None:
        texts = {}
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                if b"\0" not in data:
                    texts[path.relative_to(tree).as_posix()] = terms(data.decode(errors="replace"))
        self._paths = list(texts)
        self._scorer = BM25Okapi([words or [""] for words in texts.values()])

    def best(self, text: str) -> list[str]:
        """Return the paths of the best files."""
        scores = self._scorer.get_scores(terms(text))
        return [self._paths[i] for i in np.argsort(-scores, kind="stable")[:_LISTED]]


if __name__ == "__main__":
    main()
