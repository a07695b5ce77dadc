"""The trace of a Find or a Search as a tree, and its best result in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from rich.text import Text
from rich.tree import Tree

from vikingd.ctl.render import add_by_uri, by_score, timings_line, type_name
from vikingd.domain import uri as uris
from vikingd.domain.find import StopReason
from vikingd.pb.retrieval_pb2 import (
    FindResponse,
    FindTrace,
    MatchedContext,
    Method,
    PlanSource,
    QueryPlan,
    Rerank,
    RerankStatus,
    ScoreParts,
    SearchResponse,
    TracedDirectory,
    TypedQuery,
)

_STOPPED = {
    StopReason.SCOPE_SCORED: "every file of the scope was scored",
    StopReason.CONVERGED: "the best results did not change for three rounds",
    StopReason.EXHAUSTED: "every directory that the walk reached was opened",
    StopReason.DIRECTORY_LIMIT: "the most directories allowed were opened",
    StopReason.ROUND_LIMIT: "the most rounds allowed were made",
    StopReason.OUT_OF_REACH: "no directory left can hold anything better",
}
_DIRECTORIES_SHOWN = 40
_VISIBLE = 5e-4  # differences below it vanish in three digits


def formula(parts: ScoreParts) -> str:
    """Return a score as its formula."""
    b, w = parts.parent_weight, parts.dense_weight
    if parts.HasField("rerank"):
        return (
            f"{_n(parts.final)} = {1 - b:.2f}·rerank {_n(parts.rerank)} "
            f"+ {b:.2f}·parent {_n(parts.parent)}; by meaning and words {_n(parts.node_score)}"
        )
    title = f" + title {_n(parts.title)}" if parts.title >= _VISIBLE else ""
    return (
        f"{_n(parts.final)} = {1 - b:.2f}·smoothed {_n(parts.smoothed)} "
        f"+ {b:.2f}·parent {_n(parts.parent)}{title}; node {_n(parts.node_score)} = "
        f"{w:.2f}·dense {_n(parts.dense)} + {1 - w:.2f}·lexical {_n(parts.lexical)}"
    )


def trace_tree(reply: FindResponse, target: str = "") -> Tree:
    """Return the trace of a Find as a tree, from its scope to its results."""
    title = f"{_method(reply.trace)} over {target or uris.ROOT}"
    tree = Tree(Text(title, "bold"), guide_style="dim")
    _add_walk(tree, reply.trace)
    if reply.HasField("rerank"):
        add_rerank(tree, reply.rerank)
    results = tree.add(f"results: {reply.total}")
    for match in by_score(reply):
        results.add(Text(match.uri, "bold", overflow="fold")).add(formula(match.parts))
    tree.add(timings_line(reply.timings))
    return tree


def search_tree(query: str, reply: SearchResponse) -> Tree:
    """Return the trace of a Search as a tree: plan, walk and reranking of each query, merge."""
    tree = Tree(Text(query, "bold", overflow="fold"), guide_style="dim")
    add_plan(tree, reply.query_plan)
    for result in reply.query_results:
        found = tree.add(Text(typed(result.query), "bold", overflow="fold"))
        if result.HasField("trace"):
            _add_walk(found, result.trace)
        if result.HasField("rerank"):
            add_rerank(found, result.rerank)
        hits = found.add(f"found: {len(result.hits)}")
        for hit in result.hits:
            hits.add(Text(f"{_n(hit.score)}  {hit.uri}", overflow="fold"))
        found.add(timings_line(result.timings))
    merged = tree.add(
        f"merge: {reply.total} of {sum(len(r.hits) for r in reply.query_results)}, "
        "each once, with its best score"
    )
    for match in by_score(reply):
        below = merged.add(Text(f"{_n(match.score)}  {match.uri}", "bold", overflow="fold"))
        if match.HasField("parts"):
            below.add(formula(match.parts))
    tree.add(timings_line(reply.timings))
    return tree


def add_plan(tree: Tree, plan: QueryPlan) -> None:
    """Add the plan and its source."""
    source = PlanSource.Name(plan.source).removeprefix("PLAN_SOURCE_").lower()
    by = f"plan by {plan.model or source}" if source == "model" else f"plan: {source}"
    node = tree.add(Text(f"{by}; {plan.reason}" if plan.reason else by, overflow="fold"))
    for query in plan.queries:
        intent = f"; {query.intent}" if query.intent else ""
        node.add(Text(f"{query.priority}  {typed(query)}{intent}", overflow="fold"))
    for note in plan.notes:
        node.add(Text(note, "yellow", overflow="fold"))


def add_rerank(tree: Tree, rerank: Rerank) -> None:
    """Add the calls of the reranker."""
    status = RerankStatus.Name(rerank.status).removeprefix("RERANK_STATUS_").lower()
    about = "; ".join(filter(None, (f"rerank: {status}", rerank.model, rerank.reason)))
    node = tree.add(Text(about, "yellow" if status == "failed" else "", overflow="fold"))
    for one in rerank.rounds:
        what = f"round {one.round}: {one.opened:,} opened" if one.round else "start points"
        rest = {
            "known from before": one.cached,
            "without an abstract": one.without_abstract,
            "left out": one.left_out,
        }
        counts = "".join(f", {count:,} {name}" for name, count in rest.items() if count)
        node.add(
            f"{what}; {one.documents:,} abstracts read{counts}; "
            f"{one.duration.seconds * 1e3 + one.duration.nanos / 1e6:.1f} ms"
        )


def typed(query: TypedQuery) -> str:
    """Return a query of a plan with its type."""
    return f"{type_name(query.context_type) or 'everything'}: {query.query}"


def _add_walk(tree: Tree, trace: FindTrace) -> None:
    """Add scope, query, means, gate, directories and stop reason."""
    tree.add(
        f"scope: {trace.scope_directories:,} directories, {trace.scope_files:,} files, "
        f"{trace.scope_texts:,} texts; {trace.scored_texts:,} scored, "
        f"{trace.rescored:,} of them again in fp32"
    )
    tree.add(_query(trace))
    if trace.lexical_rescale > 1:
        tree.add(
            f"words: few of the query's are in any text, so their scores are raised by "
            f"{trace.lexical_rescale:.2f}"
        )
    for mean in trace.means:
        prior = ", mixed with the model's prior" if mean.with_prior else ""
        tree.add(f"mean {mean.script}: of {mean.vectors:,} vectors below {mean.uri}{prior}")
    tree.add(
        f"icc {trace.icc:.3f} over a sample of {trace.sample_files:,} files gives gate "
        f"{trace.gate:.2f}: {_gate_says(trace.gate)}"
    )
    if trace.directories:
        _add_directories(tree, trace)
    if trace.stop_reason:
        tree.add(f"stopped: {_stopped(trace.stop_reason)}")


def reason(match: MatchedContext, *, identifiers: bool = False) -> str:
    """Return one sentence that explains the score of a traced result."""
    return ", ".join(_clauses(match.parts, match.uri, identifiers=identifiers)) + "."


def _clauses(parts: ScoreParts, uri: str, *, identifiers: bool) -> Iterator[str]:
    w, b, own = parts.dense_weight, parts.parent_weight, _n(parts.node_score)
    if identifiers and w == 0:
        yield f"The query names an identifier, so words alone count, which makes {own}"
    elif w == 1:
        yield f"Its meaning is close to the query's, which alone makes {own}"
    elif w == 0:
        yield f"It has the query's words, which alone makes {own}"
    elif parts.lexical == 0:
        yield f"Its meaning is close to the query's ({_n(parts.dense)}), which makes {own}"
    elif parts.dense == 0:
        yield f"It has the query's words ({_n(parts.lexical)}), which makes {own}"
    else:
        yield (
            f"Its meaning is close to the query's ({_n(parts.dense)}) and it has the query's "
            f"words ({_n(parts.lexical)}), which makes {own}"
        )
    if abs(parts.smoothed - parts.node_score) >= _VISIBLE:
        moved = "raise" if parts.smoothed > parts.node_score else "lower"
        yield f"its neighbours {moved} that to {_n(parts.smoothed)}"
    untitled = (1 - b) * parts.smoothed + b * parts.parent
    if abs(untitled - parts.smoothed) >= _VISIBLE:
        yield (
            f"and the directory above, {uris.parent(uri)}, counts for {b:.0%} with its "
            f"{_n(parts.parent)}: {_n(untitled)}"
        )
    if parts.title >= _VISIBLE:
        yield f"and the words of its title add {_n(parts.title)}: {_n(parts.final)}"


def _n(score: float) -> str:
    return f"{score:.3f}"


def _stopped(reason: int) -> str:
    with suppress(ValueError):
        return _STOPPED[StopReason(reason)]
    return str(reason)  # of a newer daemon


def _method(trace: FindTrace) -> str:
    return Method.Name(trace.method).removeprefix("METHOD_").lower().replace("_", "-")


def _query(trace: FindTrace) -> Text:
    text = Text(f"query: {trace.query_script}; terms: {' '.join(trace.terms) or 'none'}")
    if trace.identifiers:
        text.append("; identifiers, so text alone counts")
    return text


def _gate_says(gate: float) -> str:
    if gate == 0:
        return "parents and neighbours count for nothing, the files tell themselves apart"
    return f"parents and neighbours count for {gate:.0%} of what they may"


def _add_directories(tree: Tree, trace: FindTrace) -> None:
    shown = trace.directories[:_DIRECTORIES_SHOWN]
    title = "directories"
    if trace.rounds:
        title += f": {trace.opened:,} opened in {trace.rounds} rounds"
    if len(trace.directories) > len(shown):
        title += f", the first {len(shown)} of {len(trace.directories)} (--json has all)"
    add_by_uri(tree.add(title), {d.uri: _directory(d) for d in shown})


def _directory(directory: TracedDirectory) -> Text:
    text = Text(f"  {formula(directory.parts)}", "dim")
    text.append(f"; files {directory.files:,}")
    if directory.round:
        text.append(f"; round {directory.round}")
    if directory.start_point:
        text.append("; start point", "bold")
    return text
