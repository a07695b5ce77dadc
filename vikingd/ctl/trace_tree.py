"""The trace of a Find or a Search as a tree, and its best result in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from vikingd.ctl import render
from vikingd.ctl.result_rows import Outline
from vikingd.domain import uri as uris
from vikingd.domain.find_query import StopReason
from vikingd.pb import retrieval_pb2

_STOPPED: dict[int, str] = {
    StopReason.SCOPE_SCORED: "every file of the scope was scored",
    StopReason.CONVERGED: "the best results did not change for three rounds",
    StopReason.EXHAUSTED: "every directory that the walk reached was opened",
    StopReason.DIRECTORY_LIMIT: "the most directories allowed were opened",
    StopReason.ROUND_LIMIT: "the most rounds allowed were made",
    StopReason.OUT_OF_REACH: "no directory left can hold anything better",
}
_DIRECTORIES_SHOWN = 40
_MANY_FILES = 15  # see FindTrace.files_per_directory
_VISIBLE = 5e-4  # smaller differences do not show in three digits
_EXPLAINED = 3  # results of a trace that is not full
_MORE = "--trace=full shows each directory and each part of the scores"
_ADDED = {
    "feedback": "the meaning of the first results",
    "cover": "its share of the query's words",
    "agreement": "its rank by words and by meaning together",
    "reply": "the question of another speaker before it",
    "date": "its day, which the query names,",
    "kind": "its kind, which is not preferred,",
}
"""The parts of a score that the second stage adds, with their words for people."""


def formula(parts: retrieval_pb2.ScoreParts) -> str:
    """Return the score of a result as a formula with the numbers of its parts."""
    b, w = parts.parent_weight, parts.dense_weight
    if parts.HasField("rerank"):
        return (
            f"{parts.final:.3f} = {1 - b:.2f}·rerank {parts.rerank:.3f} "
            f"+ {b:.2f}·parent {parts.parent:.3f}; by meaning and words {parts.node_score:.3f}"
        )
    amounts = [("title", parts.title), *((name, getattr(parts, name)) for name in _ADDED)]
    added = "".join(
        f" {'-' if amount < 0 else '+'} {name} {abs(amount):.3f}"
        for name, amount in amounts
        if abs(amount) >= _VISIBLE
    )
    return (
        f"{parts.final:.3f} = {1 - b:.2f}·smoothed {parts.smoothed:.3f} "
        f"+ {b:.2f}·parent {parts.parent:.3f}{added}; node {parts.node_score:.3f} = "
        f"{w:.2f}·dense {parts.dense:.3f} + {1 - w:.2f}·lexical {parts.lexical:.3f}"
    )


def trace_tree(reply: retrieval_pb2.FindResponse, target: str = "") -> Outline:
    """Return the trace of a Find as a tree, from its scope to its results."""
    method = render.value_name(retrieval_pb2.Method, reply.trace.method).replace("_", "-")
    tree = Outline(Text(f"{method} over {target or uris.ROOT}", "bold"))
    for trace in (reply.trace, *reply.further_traces):
        asked = tree.add(Text(trace.question, "bold")) if trace.question else tree
        _add_walk(asked, trace)
    if reply.HasField("rerank"):
        add_rerank(tree, reply.rerank)
    results = tree.add(f"results: {reply.total}")
    for match in render.by_score(reply):
        results.add(Text(match.uri, "bold")).add(formula(match.parts))
    tree.add(render.timings_line(reply.timings))
    return tree


def search_tree(query: str, reply: retrieval_pb2.SearchResponse) -> Outline:
    """Return the trace of a Search as a tree: plan, walk and reranking of each query, merge."""
    tree = Outline(Text(query, "bold"))
    tree.attach(plan_tree(reply.query_plan))
    for result in reply.query_results:
        found = tree.add(Text(typed(result.query), "bold"))
        if result.HasField("trace"):
            _add_walk(found, result.trace)
        if result.HasField("rerank"):
            add_rerank(found, result.rerank)
        hits = found.add(f"found: {len(result.hits)}")
        for hit in result.hits:
            hits.add(Text(f"{hit.score:.3f}  {hit.uri}"))
        found.add(render.timings_line(result.timings))
    merged = tree.add(
        f"merge: {reply.total} of {sum(len(r.hits) for r in reply.query_results)}, "
        "each once, with its best score"
    )
    for match in render.by_score(reply):
        below = merged.add(Text(f"{match.score:.3f}  {match.uri}", "bold"))
        if match.HasField("parts"):
            below.add(formula(match.parts))
    tree.add(render.timings_line(reply.timings))
    return tree


def find_reasons(reply: retrieval_pb2.FindResponse) -> Outline:
    """Return an outline that explains the scores of the first results and the search."""
    tree = Outline(Text("why", "bold"))
    for match in render.by_score(reply)[:_EXPLAINED]:
        about = tree.add(Text(f"{match.score:.3f}  {match.uri}", "bold"))
        about.add(reason(match, identifiers=reply.trace.identifiers))
    for trace in (reply.trace, *reply.further_traces):
        asked = tree.add(Text(trace.question, "bold")) if trace.question else tree
        _add_scope(asked, trace)
    if reply.HasField("rerank"):
        add_rerank(tree, reply.rerank)
    tree.add(render.timings_line(reply.timings))
    tree.add(Text(_MORE, "dim"))
    return tree


def search_steps(query: str, reply: retrieval_pb2.SearchResponse) -> Outline:
    """Return the plan of a Search, and what each of its queries found."""
    tree = Outline(Text(query, "bold"))
    tree.attach(plan_tree(reply.query_plan))
    for result in reply.query_results:
        found = tree.add(Text(f"{typed(result.query)}  found {len(result.hits)}", "bold"))
        for hit in result.hits[:_EXPLAINED]:
            found.add(Text(f"{hit.score:.3f}  {hit.uri}"))
        if result.HasField("rerank"):
            add_rerank(found, result.rerank)
    tree.add(render.timings_line(reply.timings))
    tree.add(Text(_MORE, "dim"))
    return tree


def plan_tree(plan: retrieval_pb2.QueryPlan) -> Outline:
    """Return the plan of a Search with its source."""
    source = render.value_name(retrieval_pb2.PlanSource, plan.source)
    by = f"plan by {plan.model or source}" if source == "model" else f"plan: {source}"
    node = Outline(f"{by}; {plan.reason}" if plan.reason else by)
    for query in plan.queries:
        intent = f"; {query.intent}" if query.intent else ""
        node.add(f"{query.priority}  {typed(query)}{intent}")
    for note in plan.notes:
        node.add(Text(note, "yellow"))
    return node


def add_rerank(tree: Outline, rerank: retrieval_pb2.Rerank) -> None:
    """Add the calls of the reranker to a tree."""
    status = render.value_name(retrieval_pb2.RerankStatus, rerank.status)
    about = "; ".join(filter(None, (f"rerank: {status}", rerank.model, rerank.reason)))
    node = tree.add(Text(about, "yellow" if status == "failed" else ""))
    for one in rerank.rounds:
        what = f"round {one.round}: {one.opened:,} opened" if one.round else "start points"
        rest = {
            "known from before": one.cached,
            "without an abstract": one.without_abstract,
            "left out": one.left_out,
        }
        counts = "".join(f", {count:,} {name}" for name, count in rest.items() if count)
        node.add(
            f"{what}; {one.documents:,} abstracts read{counts}; {render.milliseconds(one):.1f} ms"
        )


def typed(query: retrieval_pb2.TypedQuery) -> str:
    """Return a planned query as a text: its context type, a colon and its words."""
    return f"{render.type_name(query.context_type) or 'everything'}: {query.query}"


def _add_walk(tree: Outline, trace: retrieval_pb2.FindTrace) -> None:
    _add_scope(tree, trace)
    if trace.lexical_rescale > 1:
        tree.add(
            f"words: few of the query's are in any text, so their scores are raised by "
            f"{trace.lexical_rescale:.2f}"
        )
    if trace.dates:
        days = ", ".join(day.replace("/", " to ") for day in trace.dates)
        tree.add(Text(f"days that the query names: {days}"))
    if trace.other_script_cap:
        tree.add(
            f"other scripts: capped at {trace.other_script_cap:.3f}, the best score in the script "
            "of the query"
        )
    for mean in trace.means:
        prior = ", mixed with the model's prior" if mean.with_prior else ""
        tree.add(f"mean {mean.script}: of {mean.vectors:,} vectors below {mean.uri}{prior}")
    weight = "nothing, the files tell themselves apart"
    if trace.gate:
        weight = f"{trace.gate:.0%} of what they may"
        if trace.files_per_directory > _MANY_FILES:
            share = _MANY_FILES / trace.files_per_directory
            weight += (
                f"; {trace.files_per_directory:.1f} files per directory, so parents for "
                f"{share:.0%} of that"
            )
    tree.add(
        f"icc {trace.icc:.3f} over a sample of {trace.sample_files:,} files gives gate "
        f"{trace.gate:.2f}: parents and neighbours count for {weight}"
    )
    if trace.directories:
        _add_directories(tree, trace)
    if trace.stop_reason:
        # A newer daemon may send an unknown reason.
        tree.add(f"stopped: {_STOPPED.get(trace.stop_reason, trace.stop_reason)}")


def _add_scope(tree: Outline, trace: retrieval_pb2.FindTrace) -> None:
    tree.add(
        f"scope: {trace.scope_directories:,} directories, {trace.scope_files:,} files, "
        f"{trace.scope_texts:,} texts; {trace.scored_texts:,} scored, "
        f"{trace.rescored:,} of them again in fp32"
    )
    identifiers = "; identifiers, so text alone counts" if trace.identifiers else ""
    terms = " ".join(trace.terms) or "none"
    tree.add(Text(f"query: {trace.query_script}; terms: {terms}{identifiers}"))


def reason(match: retrieval_pb2.MatchedContext, *, identifiers: bool = False) -> str:
    """Return one sentence that explains the score of a traced result."""
    return ", ".join(_clauses(match.parts, match.uri, identifiers=identifiers)) + "."


def _clauses(parts: retrieval_pb2.ScoreParts, uri: str, *, identifiers: bool) -> Iterator[str]:
    w, b, own = parts.dense_weight, parts.parent_weight, f"{parts.node_score:.3f}"
    if identifiers and w == 0:
        yield f"The query names an identifier, so words alone count, which makes {own}"
    elif w == 1:
        yield f"Its meaning is close to the query's, which alone makes {own}"
    elif w == 0:
        yield f"It has the query's words, which alone makes {own}"
    elif parts.lexical == 0:
        yield f"Its meaning is close to the query's ({parts.dense:.3f}), which makes {own}"
    elif parts.dense == 0:
        yield f"It has the query's words ({parts.lexical:.3f}), which makes {own}"
    else:
        yield (
            f"Its meaning is close to the query's ({parts.dense:.3f}) and it has the query's "
            f"words ({parts.lexical:.3f}), which makes {own}"
        )
    if abs(parts.smoothed - parts.node_score) >= _VISIBLE:
        moved = "raise" if parts.smoothed > parts.node_score else "lower"
        yield f"its neighbours {moved} that to {parts.smoothed:.3f}"
    untitled = (1 - b) * parts.smoothed + b * parts.parent
    if abs(untitled - parts.smoothed) >= _VISIBLE:
        yield (
            f"and the directory above, {uris.parent(uri)}, counts for {b:.0%} with its "
            f"{parts.parent:.3f}: {untitled:.3f}"
        )
    if parts.title >= _VISIBLE:
        titled = min(1.0, untitled + parts.title)
        yield f"and the words of its title add {parts.title:.3f}: {titled:.3f}"
    amounts = {name: getattr(parts, name) for name in _ADDED}
    shown = [name for name, amount in amounts.items() if abs(amount) >= _VISIBLE]
    for name in shown:
        moved = "adds" if amounts[name] > 0 else "takes"
        total = f": {parts.final:.3f}" if name == shown[-1] else ""
        yield f"{_ADDED[name]} {moved} {abs(amounts[name]):.3f}{total}"


def _add_directories(tree: Outline, trace: retrieval_pb2.FindTrace) -> None:
    shown = trace.directories[:_DIRECTORIES_SHOWN]
    title = "directories"
    if trace.rounds:
        title += f": {trace.opened:,} opened in {trace.rounds} rounds"
    if len(trace.directories) > len(shown):
        title += f", the first {len(shown)} of {len(trace.directories)} (--json has all)"
    render.add_by_uri(tree.add(title), {d.uri: (_directory(d), None) for d in shown})


def _directory(directory: retrieval_pb2.TracedDirectory) -> Text:
    text = Text(f"  {formula(directory.parts)}", "dim")
    text.append(f"; files {directory.files:,}")
    if directory.round:
        text.append(f"; round {directory.round}")
    if directory.start_point:
        text.append("; start point", "bold")
    return text
