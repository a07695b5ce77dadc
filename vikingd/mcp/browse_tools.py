"""The tools that read the tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from vikingd.client import AsyncClient, Context, NotFound
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.line_numbers import line_range, uri_and_lines
from vikingd.domain.text import one_line
from vikingd.mcp.arguments import MAX_INTEGER, MAX_URI, MaxTokens, Offset, Uri
from vikingd.mcp.budget import ENVELOPE, beginning, cost, fill
from vikingd.mcp.tool_answers import Entry, FileContent, Listing

_ABSTRACT = 160  # characters of an abstract in a listing
_RELATED = 5  # links of a file that are shown

Item = TypeVar("Item")


async def read(
    client: AsyncClient,
    uri: Uri,
    offset: Offset = 0,
    line: Annotated[
        int,
        Field(ge=0, le=MAX_INTEGER, description="Begin with this line."),
    ] = 0,
    lines: Annotated[str, Field(max_length=21, description="Only these lines, as 12-40.")] = "",
    level: Annotated[
        Literal["content", "overview", "abstract"],
        Field(description="All, its parts in brief, or a sentence."),
    ] = "content",
    max_tokens: MaxTokens = 4000,
) -> FileContent:
    """Return a file, its abstract or its overview, or as much of it as the token budget allows."""
    if line and offset:
        raise ToolError("Give offset or line, one of them.")
    if line and lines:
        raise ToolError("Give line or lines, one of them.")
    if level != "content" and (line or lines):
        raise ToolError(f"line and lines count in the content: leave them or level={level} out.")
    try:
        context = await client.get(uri)
    except NotFound:  # a name may end like that
        uri, behind = uri_and_lines(uri)
        if not behind or line or lines or level != "content":
            raise
        context, lines = await client.get(uri), behind
    text = _text(context, level)
    stop = len(text)
    if line:
        offset = _start(text, line)
    elif lines:
        start, stop = _place(text, lines)
        offset = max(offset, start)
    if offset and offset >= len(text):
        raise ToolError(f"offset: there are only {len(text)} characters.")
    if offset and offset >= stop:
        raise ToolError("lines: they end before offset.")
    related = [relation.uri for relation in context.relations[:_RELATED]]
    answer = FileContent(
        uri=context.uri,
        directory=context.is_directory,
        level=level,
        content="",
        offset=offset,
        characters=len(text),
        related=related,
    )
    part = beginning(text[offset:stop], max(max_tokens - ENVELOPE - cost(answer), 1))
    end = offset + len(part)
    is_content = level == "content" and not context.is_directory
    revision = context.revision if end == len(text) and is_content else None
    rest = ""
    if end < stop:
        further = f" and lines={lines}" if lines else f" and level={level}" * (level != "content")
        rest = f"Cut: read again with offset={end}{further}."
    elif context.is_directory:
        rest = "list shows what is in it."
    elif not text and level != "content":
        rest = f"It has no {level}: read it without level."
    return answer.model_copy(update={"content": part, "revision": revision, "rest": rest})


def _text(context: Context, level: str) -> str:
    if level == "abstract":
        return context.abstract
    if context.is_directory:
        return context.overview or context.abstract
    return context.overview if level == "overview" else context.content


def _start(content: str, line: int) -> int:
    """Return the offset of a line, whose number is from 1."""
    start = 0
    for number in range(1, line):
        start = content.find("\n", start) + 1
        if not start:
            raise ToolError(f"line: the file has only {number} lines.")
    return start


def _place(content: str, lines: str) -> tuple[int, int]:
    """Return the offsets [start, end) of lines such as "12-40"."""
    try:
        wanted = line_range(lines, "lines")
        _, text = wanted.of(content, "lines")
    except InvalidField as error:
        raise ToolError(f"{error}.") from None
    start = _start(content, wanted.first)
    return start, start + len(text)


async def list_(
    client: AsyncClient,
    uri: Annotated[
        str, Field(min_length=1, max_length=MAX_URI, description="The directory.")
    ] = uris.ROOT,
    depth: Annotated[int, Field(ge=1, le=64, description="Levels below it.")] = 1,
    offset: Offset = 0,
    max_tokens: MaxTokens = 2000,
) -> Listing:
    """Return what is in a directory."""
    contexts = client.list(uri) if depth == 1 else client.tree(uri, depth=depth)
    most = max_tokens // 4  # each entry takes more than four tokens
    below = (one async for one in contexts if one.uri not in (uri, uri.rstrip("/")))
    entries = [_entry(context) async for context in page_of(below, offset, most + 1)]
    abstracts = {entry.uri: entry.abstract for entry in entries}
    taken = fill(
        (entry.model_copy(update={"abstract": ""}) for entry in entries),
        max_tokens,
        lambda entry: entry.model_copy(update={"abstract": abstracts[entry.uri]}),
    )
    rest = ""
    if len(taken) < len(entries):
        rest = f"There are more: list again with offset={offset + len(taken)}."
    elif any(abstracts[entry.uri] and not entry.abstract for entry in taken):
        rest = "Some abstracts have no room: raise max_tokens."
    elif offset and not entries:
        rest = f"There are not more than {offset} entries."
    return Listing(entries=taken, rest=rest)


async def page_of(items: AsyncIterator[Item], offset: int, most: int) -> AsyncIterator[Item]:
    """Skip `offset` items, then yield at most `most`."""
    number = 0
    async for item in items:
        number += 1
        if number > offset:
            yield item
        if number == offset + most:
            return


def _entry(context: Context) -> Entry:
    line = one_line(context.abstract or context.title)
    abstract = line if len(line) <= _ABSTRACT else f"{line[:_ABSTRACT].rstrip()}…"
    return Entry(uri=context.uri, directory=context.is_directory, abstract=abstract)
