"""The tools that retrieve by meaning."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from vikingd.client import (
    AsyncClient,
    BuiltContext,
    ContextType,
    DropReason,
    MatchedContext,
    Memory,
    PlanSource,
    Session,
    SessionMessage,
    find_request,
)
from vikingd.domain.line_numbers import shown_lines
from vikingd.ingest.file_kinds import KEY, FileKind
from vikingd.mcp import arguments, tool_answers
from vikingd.mcp.budget import ENVELOPE, beginning, cost, fill, tokens

_ABSTRACT = 400  # characters of an abstract in a result
_GONE = 5  # missing files that an answer names
_SAID = 60  # characters of an abstract that show whether a passage begins with it


async def find(
    client: AsyncClient,
    query: arguments.Query,
    target_uri: arguments.Target = "",
    types: arguments.Kinds = [],  # noqa: B006  pydantic copies it
    kind: arguments.FileKindName = "",
    prefer: arguments.Prefer = "none",
    limit: arguments.Limit = 10,
    max_tokens: arguments.MaxTokens = 2000,
) -> tool_answers.FoundFiles:
    """Return the files that match a question, with their best passages."""
    found = await client.find(
        query,
        target_uri=target_uri,
        context_types=_types(types),
        where={KEY: kind} if kind else None,
        limit=limit,
        prefer=prefer,
    )
    results, rest = _fitted(tuple(found), max_tokens - sum(map(tokens, found.questions)))
    return tool_answers.FoundFiles(
        results=results,
        confidence=tool_answers.strength_of(found.confidence),
        queries=list(found.questions),
        rest=rest,
        note=tool_answers.lines(
            "" if results else _unknown_kind(kind), tool_answers.note_of(found.degraded)
        ),
    )


def _unknown_kind(kind: str) -> str:
    """Return a note if `kind` is not a kind that imports give to files; "" otherwise."""
    if not kind or kind in list(FileKind):
        return ""
    return f"An import gives files no kind {kind!r}, but one of: {', '.join(FileKind)}."


async def search(
    client: AsyncClient,
    query: Annotated[
        str,
        Field(
            min_length=1,
            description="The task or the last request.",
        ),
    ],
    messages: Annotated[
        list[arguments.Message],
        Field(description="The last messages before it, the oldest first."),
    ] = [],  # noqa: B006
    target_uri: arguments.Target = "",
    types: arguments.Kinds = [],  # noqa: B006
    limit: arguments.Limit = 10,
    max_tokens: arguments.MaxTokens = 2000,
) -> tool_answers.FoundFiles:
    """Return the files that a task needs, given the conversation before it."""
    session = Session(messages=[SessionMessage(one.role, one.content) for one in messages])
    found = await client.search(
        query,
        session=session,
        target_uri=target_uri,
        context_types=_types(types),
        limit=limit,
    )
    queries = [planned.query for planned in found.query_plan.queries][:10]
    results, rest = _fitted(tuple(found), max_tokens - sum(map(tokens, queries)))
    unread = ""
    if messages and found.query_plan.source is PlanSource.RULES:
        unread = f"The messages were not read ({found.query_plan.reason}): say it all in the query."
    return tool_answers.FoundFiles(
        results=results,
        queries=[] if queries == [query] else queries,
        confidence=tool_answers.strength_of(found.confidence),
        rest=rest,
        note=tool_answers.lines(unread, tool_answers.note_of(found.degraded)),
    )


_KINDS: dict[ContextType, arguments.Kind] = {
    ContextType.MEMORY: "memory",
    ContextType.RESOURCE: "resource",
    ContextType.SKILL: "skill",
}


def _types(names: Iterable[arguments.Kind]) -> list[ContextType]:
    return [kind for kind, name in _KINDS.items() if name in names]


def _fitted(
    matches: tuple[MatchedContext, ...], max_tokens: int
) -> tuple[list[tool_answers.FoundFile], str]:
    """Return the results that fit into the token budget, and a note on what does not fit."""
    by_uri = {match.uri: match for match in matches}

    def with_passages(result: tool_answers.FoundFile, most: int) -> tool_answers.FoundFile:
        return _result(by_uri[result.uri], most)

    taken = fill(
        (_result(match, 0) for match in matches),
        max_tokens,
        lambda result: with_passages(result, 1),
        lambda result: with_passages(result, 3),
    )
    if left := len(matches) - len(taken):
        return taken, f"{left} more results have no room: raise max_tokens."
    if any(len(by_uri[one.uri].passages) > len(one.passages) for one in taken):
        return taken, "Some passages have no room: raise max_tokens, or read the files."
    return taken, ""


def _result(match: MatchedContext, passages: int) -> tool_answers.FoundFile:
    """Convert a match to a file of the answer, with at most `passages` of its passages."""
    shown = match.passages[:passages]
    start = _letters(match.abstract)[:_SAID]
    repeated = any(start in _letters(passage.text) for passage in shown)
    return tool_answers.FoundFile(
        uri=match.uri,
        type=_KINDS[match.context_type],
        score=round(match.score, 3),
        abstract="" if repeated else _shortened(match.abstract),
        passages=[
            tool_answers.FoundPassage(
                offset=one.start,
                lines=shown_lines(one.first_line, one.last_line),
                section=one.section,
                content=one.text,
            )
            for one in shown
        ],
        twin=match.twin,
    )


def _letters(text: str) -> str:
    """Return only the letters and digits of a text, for comparisons with an abstract."""
    return re.sub(r"\W+", "", text)


def _shortened(abstract: str) -> str:
    return abstract if len(abstract) <= _ABSTRACT else f"{abstract[:_ABSTRACT].rstrip()}…"


def recalling(*, counted: bool) -> Callable[..., Awaitable[tool_answers.RecalledMemories]]:
    """Return the tool `recall`; unless `counted`, it does not count accesses of memories."""

    async def recall(
        client: AsyncClient,
        query: arguments.Query,
        project: arguments.Project = "",
        limit: arguments.Limit = 20,
        max_tokens: arguments.MaxTokens = 1500,
        used: Annotated[
            list[Annotated[int, Field(ge=1, le=arguments.MAX_INTEGER)]],
            Field(max_length=100, description="Ids from earlier recalls that your answers used."),
        ] = [],  # noqa: B006
    ) -> tool_answers.RecalledMemories:
        """Return the memories that matter for a question."""
        recalled = await client.recall(
            query,
            project=project,
            with_global=True,
            limit=limit,
            max_tokens=max_tokens - ENVELOPE,
            no_touch=not counted,
            used=dict.fromkeys(used),
        )
        max_tokens -= sum(map(tokens, recalled.questions))
        memories = [shown_memory(memory) for memory in recalled]
        taken = fill(memories, max_tokens)
        is_cut = any(memory.truncated for memory in recalled)
        if memories and not taken:
            content = beginning(memories[0].content, max_tokens // 2)
            taken, is_cut = [memories[0].model_copy(update={"content": content})], True
        # The daemon ends a list that has room for no other memory.
        is_cut |= len(memories) < min(recalled.candidates - recalled.left_out, limit)
        left = len(memories) - len(taken)
        return tool_answers.RecalledMemories(
            memories=taken,
            queries=list(recalled.questions),
            reason=recalled.reason,
            confidence=tool_answers.strength_of(recalled.confidence),
            rest="There is more: raise max_tokens." if left or is_cut else "",
            note=tool_answers.note_of(recalled.degraded),
        )

    return recall


def shown_memory(memory: Memory) -> tool_answers.RecalledMemory:
    """Return a memory in the form of an answer."""
    return tool_answers.RecalledMemory(
        id=memory.id,
        content=memory.content,
        uri=memory.uri,
        section=memory.section,
        date=f"{memory.time:%Y-%m-%d}" if memory.time else "",
        said=memory.reinforcement + 1,
        pinned=memory.pinned,
    )


def building(*, counted: bool) -> Callable[..., Awaitable[tool_answers.BuiltText]]:
    """Return the tool `build_context`; unless `counted`, it does not count accesses of memories."""

    async def build_context(
        client: AsyncClient,
        query: Annotated[
            str,
            Field(description="The question. Empty: uris are given."),
        ] = "",
        uris: Annotated[
            list[Annotated[str, Field(min_length=1, max_length=arguments.MAX_URI)]],
            Field(max_length=100, description="In place of a query: whole files, the best first."),
        ] = [],  # noqa: B006
        target_uri: arguments.Target = "",
        max_tokens: arguments.MaxTokens = 4000,
    ) -> tool_answers.BuiltText:
        """Return one text with sources, out of the passages for a question or of whole files."""
        if bool(query) == bool(uris):
            raise ToolError("Give a query or uris, one of them.")
        if uris and target_uri:
            raise ToolError("target_uri goes with a query, not with uris.")
        asked = max_tokens - ENVELOPE
        files = max(20, max_tokens // 200)  # each gives some 300 tokens, and often more
        while True:
            built = await client.build_context(
                uris=uris or None,
                find=find_request(query, target_uri=target_uri, limit=files) if query else None,
                max_tokens=asked,
                reserve_tokens=0,
                # The first text has all that later ones have, so it counts for them.
                no_touch=not counted or asked != max_tokens - ENVELOPE,
            )
            answer = _built(built)
            # The sources take room too, and escapes make the text longer as JSON.
            beside = cost(answer.model_copy(update={"content": ""}))
            if built.used_tokens * 6 // 5 + beside <= max_tokens or asked < _LEAST:
                return answer
            asked = min(asked - beside, asked * 3 // 4)

    return build_context


_LEAST = 50
"""The least tokens that are asked for in a built text."""


def _built(built: BuiltContext) -> tool_answers.BuiltText:
    left = sum(piece.reason is DropReason.BUDGET for piece in built.dropped)
    gone = [piece.uri for piece in built.dropped if piece.reason is DropReason.GONE][:_GONE]
    missing = f"Not there: {', '.join(map(tool_answers.named, gone))}." if gone else ""
    return tool_answers.BuiltText(
        content=built.text,
        sources=[
            tool_answers.Source(
                marker=one.marker,
                uri=one.uri,
                lines=shown_lines(one.first_line, one.last_line),
            )
            for one in built.citations
        ],
        confidence=tool_answers.strength_of(built.confidence),
        rest=f"{left} more passages have no room: raise max_tokens." if left else "",
        note=tool_answers.lines(missing, tool_answers.note_of(built.degraded)),
    )
