"""Collections with relevance judgements; README.md describes their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNANSWERABLE = frozenset(("abs", "abstention"))
"""The categories of questions without an answer."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its relevant URIs below `scope`; `own_language` are those in its language.

    `sessions` are the directories of the evidence, if the set names them. A question without an
    answer has none.
    """

    text: str
    scope: str
    lang: str
    relevant: frozenset[str]
    own_language: frozenset[str]
    sessions: frozenset[str] = frozenset()


def read_queries(source: Path) -> list[Query]:
    """Return the queries of a set that have judgements."""
    lang = {d["uri"]: d.get("lang", "") for d in read_documents(source)}
    relevant = read_relevant(source)
    return [
        Query(
            q["text"],
            q["scope"],
            q.get("lang", ""),
            frozenset(relevant[q["id"]]),
            frozenset(u for u in relevant[q["id"]] if q.get("lang") and lang[u] == q["lang"]),
            frozenset(() if q.get("category") in UNANSWERABLE else q.get("sessions", ())),
        )
        for q in read_lines(source / "queries.jsonl")
        if q["id"] in relevant
    ]


def read_relevant(source: Path) -> dict[str, set[str]]:
    """Return the relevant URIs of a set by the id of the query."""
    relevant: dict[str, set[str]] = {}
    with (source / "qrels.tsv").open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            query, uri, _ = line.rstrip("\n").split("\t")
            relevant.setdefault(query, set()).add(uri)
    return relevant


def read_documents(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a set, in their order."""
    return read_lines(source / "documents.jsonl")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
