"""Replies as tables and trees for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from vikingd.ctl.progress import time_left
from vikingd.domain import uri as uris
from vikingd.domain.line_numbers import lines_behind
from vikingd.domain.text import join_lines
from vikingd.ingest.limits import as_sent
from vikingd.pb import retrieval_pb2
from vikingd.pb.admin_pb2 import DescriberStats, StatsResponse, VerifyResponse
from vikingd.pb.contexts_pb2 import Context, ContextType

_SNIPPET = 160
_HIDDEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]+")

TYPE_STYLES = {"memory": "magenta", "resource": "cyan", "skill": "green"}


def snippet(text: str, length: int = _SNIPPET) -> str:
    """Return the beginning of a text on one line, without control characters."""
    line = join_lines(_HIDDEN.sub(" ", text[: 4 * length]).splitlines())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def type_name(value: ContextType.ValueType) -> str:
    """Return memory, resource or skill; "" above the typed roots."""
    return value_name(ContextType, value) if value else ""


def value_name(enum: Any, value: int) -> str:
    """Return the name of an enum's value in lower case, without the name of the enum."""
    name: str = enum.Name(value)
    return name.removeprefix(enum.Name(0).removesuffix("UNSPECIFIED")).lower()


def results_table(*names: str, right: int = 0) -> Table:
    """Return a table for results, whose last column folds.

    Args:
        names: of the columns.
        right: so many columns from the left have numbers.
    """
    columns = [
        Column(name, justify="right" if number < right else "left", no_wrap=True)
        for number, name in enumerate(names[:-1])
    ]
    last = Column(names[-1], overflow="fold")
    return Table(*columns, last, box=None, pad_edge=False, header_style="bold")


def by_score(
    reply: retrieval_pb2.FindResponse | retrieval_pb2.SearchResponse,
) -> list[retrieval_pb2.MatchedContext]:
    """Return the three buckets as one list, by falling score, ties by URI."""
    matches = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(matches, key=lambda match: (-match.score, match.uri))


def milliseconds(timing: retrieval_pb2.StageTiming | retrieval_pb2.RerankRound) -> float:
    """Return the duration of a stage in milliseconds."""
    return timing.duration.seconds * 1e3 + timing.duration.nanos / 1e6


def find_table(reply: retrieval_pb2.FindResponse | retrieval_pb2.SearchResponse) -> Table:
    """Return a table with rank, score, type, URI and matching text of each result."""
    table = results_table("#", "score", "type", "context", right=1)
    for rank, match in enumerate(by_score(reply), 1):
        kind = type_name(match.context_type)
        name = Text(match.uri + ("" if match.is_leaf else "/"), "bold", overflow="fold")
        for best in match.passages[:1]:
            name.append(lines_behind(best.first_line, best.last_line), "cyan")
        table.add_row(
            str(rank),
            f"{match.score:.3f}",
            Text(kind, TYPE_STYLES.get(kind, "")),
            Group(name, _matched(match), *_twin(match)),
        )
    return table


def _matched(match: retrieval_pb2.MatchedContext) -> Text:
    if match.passages:
        return passage_line(match.passages[0].section, match.passages[0].text)
    return passage_line("", match.abstract)


def _twin(match: retrieval_pb2.MatchedContext) -> list[Text]:
    """Return a line with the same page in another language or the same text, if there is one."""
    return [Text(f"also: {match.twin}", "dim", overflow="fold")] if match.twin else []


def passage_line(section: str, text: str) -> Text:
    """Return the beginning of a passage on one line, with its heading if there is one."""
    line = Text(style="dim", no_wrap=True, overflow="ellipsis")
    if section:
        line.append(f"{snippet(section)}: ", "italic")
    return line.append(snippet(text))


def confidence_words(reply: Message, nothing: str = "nothing here is about this") -> Text:
    """Return the confidence of a reply in words, on a line of its own; nothing if it is strong."""
    if not reply.HasField("confidence"):
        return Text()
    confidence = reply.confidence  # type: ignore[attr-defined]
    if confidence.strength == retrieval_pb2.STRENGTH_WEAK:
        words = f"\nweak: perhaps {nothing}"
    elif confidence.strength == retrieval_pb2.STRENGTH_NOTHING:
        words = f"\n{nothing}"
    else:
        return Text()
    return Text(f"{words} (confidence {confidence.in_scope:.2f})", "yellow")


def find_footer(reply: retrieval_pb2.FindResponse | retrieval_pb2.SearchResponse) -> Text:
    """Return the count of results, the revision, the duration and the degradations."""
    took = sum(map(milliseconds, reply.timings))
    results = f"{reply.total} result{'' if reply.total == 1 else 's'}"
    footer = Text(f"{results} · revision {reply.revision} · {took:.1f} ms", "dim")
    if reply.rerank.status == retrieval_pb2.RERANK_STATUS_OFF:
        footer.append(f" · not reranked: {reply.rerank.reason}")
    footer.append_text(confidence_words(reply))
    footer.append_text(questions_line(reply.questions))
    return footer.append_text(degraded_lines(reply.degraded))


def questions_line(questions: Sequence[str]) -> Text:
    """Return a line with the questions of a request that asks several."""
    asked = " · ".join(map(snippet, questions))
    return Text(f"\n{len(questions)} questions: {asked}" if questions else "", "dim")


def degraded_lines(degraded: Iterable[retrieval_pb2.Degradation]) -> Text:
    """Return a line for each degradation."""
    return Text("".join(f"\ndegraded: {one.detail}" for one in degraded), "yellow")


def timings_line(timings: Iterable[retrieval_pb2.StageTiming]) -> Text:
    """Return a line with the duration of each stage."""
    stages = " · ".join(f"{t.stage} {milliseconds(t):.2f} ms" for t in timings)
    return Text(stages, "dim")


def add_by_uri(tree: Tree, nodes: Mapping[str, Text], top: str = "") -> None:
    """Add nodes to a tree, each below its nearest ancestor among the nodes.

    Args:
        tree: the parent of nodes without such an ancestor.
        nodes: the text after the name, by URI.
        top: the URI of `tree` itself; "": none.
    """
    made = {top: tree}
    for uri in sorted(nodes, key=lambda uri: uri.split("/")):
        above = next((u for u in reversed(uris.ancestors(uri)) if u in made), "")
        name = uri[len(uris.join(above, "")) :] if above else uri
        text = nodes[uri]
        label = Text(name, no_wrap=text.no_wrap, overflow=text.overflow)
        made[uri] = made[above].add(label.append_text(text))


def context_tree(top: str, contexts: Iterable[Context]) -> Tree:
    """Return a subtree with the abstracts."""
    nodes = {context.uri: _tree_text(context) for context in contexts}
    tree = Tree(Text(top, "bold").append_text(nodes.pop(top, Text())), guide_style="dim")
    add_by_uri(tree, nodes, top)
    return tree


def _tree_text(context: Context) -> Text:
    slash = context.is_directory and context.uri != uris.ROOT
    text = Text("/" if slash else "", no_wrap=True, overflow="ellipsis")
    return text.append(f"  {snippet(context.abstract)}", "dim") if context.abstract else text


def children_table(contexts: Iterable[Context]) -> Table:
    """Return a table of children: name, last change and abstract."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("name", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    table.add_column("abstract")
    for context in contexts:
        name = Text(uris.name(context.uri), "bold" if context.is_directory else "")
        if context.is_directory:
            name.append("/")
        abstract = Text(snippet(context.abstract), "dim", no_wrap=True, overflow="ellipsis")
        table.add_row(name, Text(local_time(context.update_time), "dim"), abstract)
    return table


def _value(value: Value) -> str:
    """Return a value of metadata as text; a list or an object as JSON."""
    found = as_sent(MessageToDict(value))
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def context_details(context: Context) -> Group:
    """Return the fields of one context, its texts without the content, and its links."""
    kind = "directory" if context.is_directory else "file"
    rows = {
        "type": " ".join(filter(None, (type_name(context.context_type), kind))),
        "title": context.title,
        "time": local_time(context.time),
        "created": local_time(context.create_time),
        "updated": f"{local_time(context.update_time)} (revision {context.revision})",
        "used": f"reinforced {context.reinforcement} times, used {context.access_count} times",
        "content": f"{len(context.content)} characters in {len(context.passages)} passages "
        "(--content prints it)"
        if context.content
        else "",
    }
    parts: list[RenderableType] = [Text(context.uri, "bold", overflow="fold"), fields(rows)]
    summaries = {
        "abstract": (context.abstract, context.abstract_by),
        "overview": (context.overview, context.overview_by),
    }
    for heading, (text, maker) in summaries.items():
        if text:
            by = f"  {snippet(maker)}" if maker else ""
            parts.append(Text.assemble("\n", (heading, "bold"), (by, "dim"), "\n", text))
    if len(context.metadata):
        parts.append(Text("\nmetadata", "bold"))
        parts.append(fields({key: _value(one) for key, one in context.metadata.fields.items()}))
    if context.relations:
        parts.append(Text("\nlinked to", "bold"))
        for relation in context.relations:
            line = Text(f"  {relation.uri}", overflow="fold")
            parts.append(line.append(f"  {snippet(relation.reason)}", "dim"))
    return Group(*parts)


def stats_table(stats: StatsResponse) -> Table:
    """Return a table of the state of the daemon, for a terminal."""
    embedder, index = stats.embedder, stats.index
    asked = embedder.query_cache_hits + embedder.query_cache_misses
    left = time_left(embedder.backlog_characters, embedder.characters_per_second)
    rows = {
        "daemon": f"vikingd {stats.version}, since {local_time(stats.start_time)}"
        + (", a reader" if stats.reader else ""),
        "store": f"{stats.store_path} ({size(stats.store_bytes)})",
        "refusing": f"writes: {stats.problem}" if stats.problem else "",
        "revision": f"{stats.revision:,}",
        "contexts": f"{stats.directories:,} directories, {stats.files:,} files, "
        f"{stats.relations:,} links",
        "texts": f"{stats.texts:,}, {stats.vectors:,} with a vector, {embedder.backlog:,} waiting"
        + (f", {left:,.0f} s left" if left is not None and embedder.backlog else ""),
        "embedder": f"{embedder.provider} {embedder.model}, "
        f"{embedder.dimension or 'not yet known'} dimensions",
        "embedded": f"{embedder.embedded:,} texts; {embedder.query_cache_hits:,} of {asked:,} "
        "queries from the cache",
        "stalled": embedder.stalled,
        "failing": embedder.last_error
        + (
            f"; next attempt {local_time(embedder.retry_time)}"
            if embedder.HasField("retry_time")
            else ""
        ),
        "describer": _describer(stats.describer) if stats.describer.model else "",
        "index": f"generation {index.generation}, {index.base_texts:,} texts in the base "
        f"(revision {index.base_revision:,}, {size(index.bytes_on_disk)}), "
        f"{index.tail_texts:,} in the tail, {index.dead_texts:,} dead"
        + (", compacting" if index.compacting else "")
        + (f", {index.old_bases} old bases open" if index.old_bases else ""),
        "rebuilt": index.rebuilt,
        "problem": index.problem,
        "queues": ", ".join(
            f"{queue.waiting:,} {queue.queue} calls wait, {queue.refused:,} were refused"
            for queue in stats.queues
            if queue.waiting or queue.refused
        ),
    }
    return fields(rows)


def _describer(describer: DescriberStats) -> str:
    limit = f" of {describer.tokens_per_day:,}" if describer.tokens_per_day else ""
    parts = [
        f"{describer.model}, {describer.described:,} contexts described, "
        f"{describer.backlog:,} waiting",
        f"{describer.refused:,} refused" if describer.refused else "",
        f"{describer.tokens_today:,}{limit} tokens today",
        describer.last_error,
        f"next attempt {local_time(describer.retry_time)}"
        if describer.HasField("retry_time")
        else "",
    ]
    return "; ".join(filter(None, parts))


def verify_lines(report: VerifyResponse) -> Text:
    """Return the differences between index and store as text."""
    compared = (
        f"{report.contexts:,} contexts, {report.texts:,} texts, {report.vectors:,} vectors "
        f"at revision {report.revision}"
    )
    if report.ok:
        return Text.assemble(("ok", "bold green"), f": index and store agree in {compared}")
    lines = Text.assemble(("not ok", "bold red"), f": of {compared}")
    for problem in report.problems:
        lines.append(f"\n  {problem}")
    return lines


def fields(rows: Mapping[str, str]) -> Table:
    """Return a table of names and values; rows without a value are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def local_time(stamp: Timestamp) -> str:
    """Return a time in the local zone, to the second."""
    at = datetime.fromtimestamp(stamp.seconds, UTC)
    with suppress(OverflowError):  # on the first and the last day of datetime
        at = at.astimezone()
    return at.replace(tzinfo=None).isoformat(" ", "seconds")


def size(count: float) -> str:
    """Return a number of bytes with a fitting unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
