"""The commands for applications: passages by a strategy, and the text of a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from vikingd.client import (
    CitationStyle,
    ContextOrder,
    Mode,
    Rrf,
    WeightedSum,
    find_request,
    retrieve_request,
)
from vikingd.ctl import render
from vikingd.ctl.command_session import Session
from vikingd.ctl.empty_store_hint import tell_if_empty
from vikingd.ctl.output import Form
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ctl.search_read_commands import Floor, Target, Tokenizer, Where
from vikingd.domain.line_numbers import lines_behind, shown_lines
from vikingd.pb.retrieval_pb2 import (
    BuildContextResponse,
    Outcome,
    RetrievedItem,
    RetrieveResponse,
)

# The enums of the client, by their names on the command line.
ModeName = StrEnum("ModeName", ["VECTOR", "KEYWORD", "HYBRID"])
StrategyName = StrEnum("StrategyName", ["FIND", "VECTOR", "KEYWORD", "HYBRID"])
CitationName = StrEnum("CitationName", ["NONE", "NUMBERED", "URI"])
OrderName = StrEnum("OrderName", ["SCORE", "TREE"])


def retrieve(
    session: Session,
    query: Annotated[
        str, typer.Argument(help="The question; none with --mode keyword --where: list all.")
    ] = "",
    mode: Annotated[ModeName, typer.Option(help="Search by meaning, by words or by both.")] = (
        ModeName.HYBRID
    ),
    weights: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Fuse by score: weights of meaning and words; else by rank."),
    ] = None,
    target: Target = "",
    where: Where = None,
    top_k: Annotated[
        int,
        typer.Option(
            *("--top-k", "--limit", "-n"),
            min=0,
            max=1000,
            help="Show at most this many; 0: the daemon's default.",
        ),
    ] = 0,
    threshold: Annotated[
        float | None, typer.Option(help="Only items above this score, on the mode's scale.")
    ] = None,
    group: Annotated[
        bool, typer.Option("--group", help="The best passage of each context only.")
    ] = False,
    diversity: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of maximal marginal relevance.")
    ] = 0.0,
    degrade: Annotated[
        bool, typer.Option("--degrade", help="Answer by words alone when the embedder fails.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show the parts of each score.")] = False,
) -> None:
    """Retrieve passages by a strategy, best first.

    RPC: viking.retrieval.v1.Retrieval/Retrieve

    Example: vikingctl retrieve "how hot for oolong?" --mode hybrid --group
    """
    reply = session.client.retrieve(
        query,
        mode=Mode[mode.name],
        fusion=WeightedSum(*weights) if weights else Rrf(),
        target_uri=target,
        where=where,
        top_k=top_k,
        score_threshold=threshold,
        group_by_context=group,
        diversity=diversity,
        degrade=degrade,
        trace=trace,
    )
    shown = _items_table(reply, trace) if reply.items else None
    session.show(reply, shown, footer=_items_footer(reply))
    if not reply.items:
        tell_if_empty(session, target)


def context(
    session: Session,
    query: Annotated[str, typer.Argument(help="The question, in any language.")],
    max_tokens: Annotated[
        int, typer.Option(min=0, help="The model's window; 0: the daemon's default.")
    ] = 0,
    reserve: Annotated[
        int | None, typer.Option(min=0, help="Tokens of it kept free for question and answer.")
    ] = None,
    tokenizer: Tokenizer = "",
    strategy: Annotated[StrategyName, typer.Option(help="Search method.")] = StrategyName.FIND,
    target: Target = "",
    where: Where = None,
    citation: Annotated[CitationName, typer.Option(help="The style of the markers.")] = (
        CitationName.NUMBERED
    ),
    order: Annotated[OrderName, typer.Option(help="The order of passages.")] = OrderName.SCORE,
    floor: Floor = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole passages only, no abstracts in their place.")
    ] = False,
) -> None:
    """Print the text for a prompt, built from results, within a budget of tokens.

    The text goes to stdout; its sources, tokens and time go to stderr.

    RPC: viking.retrieval.v1.Retrieval/BuildContext

    Example: vikingctl context "how hot for oolong?" --max-tokens 500
    """
    find = retrieval = None
    if strategy is StrategyName.FIND:
        find = find_request(query, target_uri=target, where=where)
    else:
        retrieval = retrieve_request(
            query, target_uri=target, where=where, mode=Mode[strategy.name], degrade=True
        )
    reply = session.client.build_context(
        find=find,
        retrieve=retrieval,
        max_tokens=max_tokens,
        reserve_tokens=reserve,
        tokenizer=tokenizer,
        citation=CitationStyle[citation.name],
        order=ContextOrder[order.name],
        full_text_only=full,
        floor=floor,
    )
    if session.form is not Form.TEXT:
        session.show(reply)
        return
    if reply.text:
        session.write(f"{reply.text}\n")
    if not session.quiet:
        session.err.print(_sources(reply))
    if not reply.text:
        tell_if_empty(session, target)


def _items_table(reply: RetrieveResponse, trace: bool) -> Rows:
    """Return the table of the retrieved items.

    On a terminal it has rank, score, parts of the score (`trace`), URI and text. In a pipe the
    fields are score, parts, URI, lines, passage, text, and the other contexts with this text.
    """
    names = ("#", "score", *(("dense", "lexical") if trace else ()), "passage")
    items = (_item(rank, item, trace) for rank, item in enumerate(reply.items, 1))
    return Rows(items, names, right=len(names) - 1)


def _item(rank: int, item: RetrievedItem, trace: bool) -> Row:
    parts = (f"{item.trace.dense:.3f}", f"{item.trace.lexical:.3f}") if trace else ()
    scores = (f"{item.score:.4f}", *parts)
    place = f" #{item.passage}" if item.passage else ""
    lines = lines_behind(item.first_line, item.last_line)
    text = render.passage_line(item.section, item.text)
    others = [one.plain for one in _copies(item)]
    return Row(
        (str(rank), *scores, Text(item.uri, "bold").append(lines, "cyan").append(place, "dim")),
        [text, *_copies(item)],
        (
            *(*scores, item.uri, lines.removeprefix(":"), str(item.passage or "")),
            *(text.plain, *others),
        ),
    )


def _copies(item: RetrievedItem) -> Iterator[Text]:
    """Yield a line that names the other contexts with the text of an item."""
    if item.copies:
        more = f" and {item.more_copies:,} more" if item.more_copies else ""
        yield Text(f"also in: {', '.join(item.copies)}{more}", "dim")


def _items_footer(reply: RetrieveResponse) -> Text:
    took = sum(map(render.milliseconds, reply.timings))
    count = f"{len(reply.items)} item{'' if len(reply.items) == 1 else 's'}"
    if not reply.items:
        why = render.value_name(Outcome, reply.outcome).replace("_", " ")
        count = f"no item: {why}"
    footer = Text(f"{count} · revision {reply.revision} · {took:.1f} ms", "dim")
    if reply.relaxed_clauses:
        footer.append(f"\nsearched without: {', '.join(reply.relaxed_clauses)}", "yellow")
    if reply.next_page_token:
        footer.append(f"\nmore: page token {reply.next_page_token}")
    footer.append_text(render.confidence_words(reply))
    return footer.append_text(render.degraded_lines(reply.degraded))


def _sources(reply: BuildContextResponse) -> Text:
    tokens = f"{reply.used_tokens} of {reply.budget_tokens} tokens"
    if reply.approximate:
        tokens += " (estimated)"
    took = sum(map(render.milliseconds, reply.timings))
    shown = Text(f"{tokens} · {reply.from_items} pieces · {took:.1f} ms", "dim")
    dropped = len(reply.dropped)
    if dropped:
        shown.append(f" · {dropped} dropped")
    for marker, uri in dict.fromkeys((one.marker, one.uri) for one in reply.citations):
        places = [one for one in reply.citations if one.uri == uri and one.first_line]
        places.sort(key=lambda one: (one.first_line, one.last_line))
        lines = ",".join(shown_lines(one.first_line, one.last_line) for one in places)
        name = f"{uri}:{lines}" if lines else uri
        shown.append(f"\n{marker} {name}" if marker != f"[{uri}]" else f"\n{name}")
    shown.append_text(render.confidence_words(reply))
    if reply.left_out:
        shown.append(f"\n{reply.left_out} pieces are left out; --floor 0 shows them", "yellow")
    return shown.append_text(render.degraded_lines(reply.degraded))
