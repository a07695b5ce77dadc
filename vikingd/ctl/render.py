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
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from vikingd.ctl.result_rows import Fields, Outline, Row, Rows, Words, tail
from vikingd.domain import uri as uris
from vikingd.domain.line_numbers import lines_behind
from vikingd.domain.text import join_lines
from vikingd.ingest.limits import as_sent
from vikingd.pb import retrieval_pb2
from vikingd.pb.admin_pb2 import DescriberStats, StatsResponse, VerifyResponse
from vikingd.pb.contexts_pb2 import Context, ContextType
from vikingd.pb.memories_pb2 import ExtractedMemory, Memory

_SNIPPET = 160
_HIDDEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]+")

TYPE_STYLES = {"memory": "magenta", "resource": "cyan", "skill": "green"}


def snippet(text: str, length: int = _SNIPPET) -> str:
    """Return the beginning of a text on one line, without control characters."""
    line = join_lines(_HIDDEN.sub(" ", text[: 4 * length]).splitlines())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def type_name(value: ContextType.ValueType) -> str:
    """Return "memory", "resource" or "skill"; "" for the root and others above these types."""
    return value_name(ContextType, value) if value else ""


def value_name(enum: Any, value: int) -> str:
    """Return the name of an enum's value in lower case, without the name of the enum."""
    name: str = enum.Name(value)
    return name.removeprefix(enum.Name(0).removesuffix("UNSPECIFIED")).lower()


def by_score(
    reply: retrieval_pb2.FindResponse | retrieval_pb2.SearchResponse,
) -> list[retrieval_pb2.MatchedContext]:
    """Return the three lists of results as one list, by falling score, ties by URI."""
    matches = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(matches, key=lambda match: (-match.score, match.uri))


def milliseconds(timing: retrieval_pb2.StageTiming | retrieval_pb2.RerankRound) -> float:
    """Return the duration of a stage in milliseconds."""
    return timing.duration.seconds * 1e3 + timing.duration.nanos / 1e6


def find_table(reply: retrieval_pb2.FindResponse | retrieval_pb2.SearchResponse) -> Rows:
    """Return the table of the results of a find or a search.

    On a terminal it has rank, score, type, URI and matching text. In a pipe the fields are score,
    type, URI, lines, text, and the URI of the same page in another language.
    """
    return Rows(
        [_match(rank, match) for rank, match in enumerate(by_score(reply), 1)],
        ("#", "score", "type", "context"),
        right=2,
    )


def _match(rank: int, match: retrieval_pb2.MatchedContext) -> Row:
    kind, score = type_name(match.context_type), f"{match.score:.3f}"
    uri = match.uri + ("" if match.is_leaf else "/")
    passage = match.passages[0] if match.passages else None
    lines = lines_behind(passage.first_line, passage.last_line) if passage else ""
    text = passage_line(*((passage.section, passage.text) if passage else ("", match.abstract)))
    twin = [Text(f"also: {match.twin}", "dim")] if match.twin else []
    return Row(
        (
            str(rank),
            score,
            Text(kind, TYPE_STYLES.get(kind, "")),
            Text(uri, "bold").append(lines, "cyan"),
        ),
        [text, *twin],
        (score, kind, uri, lines.removeprefix(":"), text.plain, match.twin),
    )


def passage_line(section: str, text: str) -> Text:
    """Return the beginning of a passage on one line, with its heading if there is one."""
    line = Text(style="dim", no_wrap=True, overflow="ellipsis")
    if section:
        line.append(f"{snippet(section)}: ", "italic")
    return line.append(snippet(text))


def place_of(memory: Memory | ExtractedMemory) -> Text:
    """Return the URI and the section of a memory in one text."""
    place = Text(memory.uri, "bold")
    return place.append(f" > {memory.section}" if memory.section else "", "dim")


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
    """Return a line with the single questions of a request that asks several; else ""."""
    asked = " · ".join(map(snippet, questions))
    return Text(f"\n{len(questions)} questions: {asked}" if questions else "", "dim")


def degraded_lines(degraded: Iterable[retrieval_pb2.Degradation]) -> Text:
    """Return a line for each degradation."""
    return Text("".join(f"\ndegraded: {one.detail}" for one in degraded), "yellow")


def timings_line(timings: Iterable[retrieval_pb2.StageTiming]) -> Text:
    """Return a line with the duration of each stage."""
    stages = " · ".join(f"{t.stage} {milliseconds(t):.2f} ms" for t in timings)
    return Text(stages, "dim")


def add_by_uri(tree: Outline, nodes: Mapping[str, tuple[Text, Text | None]], top: str = "") -> None:
    """Add nodes to a tree, each below its nearest ancestor among the nodes.

    Args:
        tree: the parent of nodes without such an ancestor.
        nodes: (text after the name, note or None) of each node, by its URI.
        top: the URI of `tree` itself; "": none.
    """
    made = {top: tree}
    for uri in sorted(nodes, key=lambda uri: uri.split("/")):
        above = next((u for u in reversed(uris.ancestors(uri)) if u in made), "")
        name = uri[len(uris.join(above, "")) :] if above else uri
        text, note = nodes[uri]
        made[uri] = made[above].add(Text(name).append_text(text), note)


class ContextTree:
    """A subtree with the abstracts: a tree on a terminal, in a pipe one line for each context."""

    def __init__(self, top: str, contexts: Sequence[Context]) -> None:
        self._top = top
        self._contexts = contexts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tree, or the records."""
        if not console.is_terminal:
            yield Rows(
                Row((one.uri + _slash(one), snippet(one.abstract))) for one in self._contexts
            )
            return
        nodes = {one.uri: (Text(_slash(one)), _abstract(one)) for one in self._contexts}
        slash, note = nodes.pop(self._top, (Text(), None))
        tree = Outline(Text(self._top, "bold").append_text(slash), note)
        add_by_uri(tree, nodes, self._top)
        yield tree


def _slash(context: Context) -> str:
    return "/" if context.is_directory and context.uri != uris.ROOT else ""


def _abstract(context: Context) -> Text | None:
    return Text(snippet(context.abstract), "dim") if context.abstract else None


def children_table(contexts: Iterable[Context]) -> Rows:
    """Return the children: name, last change and abstract."""
    return Rows(
        Row(
            (
                Text(uris.name(one.uri) + _slash(one), "bold" if one.is_directory else ""),
                Text(local_time(one.update_time), "dim"),
                tail(snippet(one.abstract), "dim"),
            )
        )
        for one in contexts
    )


def _value(value: Value) -> str:
    """Return a value of metadata as text; a list or an object as JSON."""
    found = as_sent(MessageToDict(value))
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def context_heading(context: Context) -> Group:
    """Return the heading of a context on a terminal: its URI, and its type, title and time."""
    kind = "directory" if context.is_directory else "file"
    links = len(context.relations)
    facts = (
        " ".join(filter(None, (type_name(context.context_type), kind))),
        snippet(context.title),
        f"updated {local_time(context.update_time)}",
        f"{links} link{'' if links == 1 else 's'}" if links else "",
    )
    return Group(
        Words(Text(context.uri + _slash(context), "bold")),
        Words(Text(" · ".join(filter(None, facts)), "dim")),
    )


def context_details(context: Context) -> Group:
    """Return the fields of one context, its texts without the content, and its links."""
    kind = "directory" if context.is_directory else "file"
    rows = {
        "uri": context.uri,
        "type": " ".join(filter(None, (type_name(context.context_type), kind))),
        "title": context.title,
        "time": local_time(context.time),
        "created": local_time(context.create_time),
        "updated": f"{local_time(context.update_time)} (revision {context.revision})",
        "used": f"reinforced {context.reinforcement} times, used {context.access_count} times",
        "content": f"{len(context.content)} characters in {len(context.passages)} passages"
        if context.content
        else "",
    }
    summaries = {
        "abstract": (context.abstract, context.abstract_by),
        "overview": (context.overview, context.overview_by),
    }
    for heading, (text, maker) in summaries.items():
        rows[heading] = text + (f" ({snippet(maker)})" if text and maker else "")
    metadata = sorted(context.metadata.fields.items())
    rows |= {f"metadata {key}": _value(one) for key, one in metadata}
    parts: list[RenderableType] = [Fields(rows)]
    if context.relations:
        parts.append(
            Rows(
                Row((Text("linked to", "dim"), one.uri, tail(snippet(one.reason), "dim")))
                for one in context.relations
            )
        )
    return Group(*parts)


def stats_table(stats: StatsResponse) -> Fields:
    """Return the state of the daemon."""
    embedder, index = stats.embedder, stats.index
    asked = embedder.query_cache_hits + embedder.query_cache_misses
    from vikingd.ctl.progress import time_left  # it loads the bars of rich

    left = time_left(embedder.backlog_characters, embedder.characters_per_second)
    rows = {
        "daemon": f"vikingd {stats.version}, since {local_time(stats.start_time)}"
        + (", a reader" if stats.reader else ""),
        "processes": f"{stats.answering_processes} of {stats.processes} answer"
        if stats.processes > 1
        else "",
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
    return Fields(rows)


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
