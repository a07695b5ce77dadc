"""The tools that read the tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from vikingd.client import AsyncClient, Context
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.line_numbers import line_range
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
        Field(
            ge=0, le=MAX_INTEGER, description="Begin with this line, as grep gives it. 0: unset."
        ),
    ] = 0,
    lines: Annotated[
        str, Field(max_length=21, description="Only these lines, as 12-40. Empty: all.")
    ] = "",
    max_tokens: MaxTokens = 4000,
) -> FileContent:
    """Return a file, or the part of it that fits."""
    context = await client.get(uri)
    content = context.overview or context.abstract if context.is_directory else context.content
    if line and offset:
        raise ToolError("Give offset or line, one of them.")
    if line and lines:
        raise ToolError("Give line or lines, one of them.")
    stop = len(content)
    if line:
        offset = _start(content, line)
    elif lines:
        start, stop = _place(content, lines)
        offset = max(offset, start)
    if offset and offset >= len(content):
        raise ToolError(f"offset: the file has only {len(content)} characters.")
    if offset and offset >= stop:
        raise ToolError("lines: they end before offset.")
    related = [relation.uri for relation in context.relations[:_RELATED]]
    answer = FileContent(
        uri=context.uri,
        directory=context.is_directory,
        content="",
        offset=offset,
        characters=len(content),
        related=related,
    )
    part = beginning(content[offset:stop], max(max_tokens - ENVELOPE - cost(answer), 1))
    end = offset + len(part)
    further = f" and lines={lines}" if lines else ""
    rest = f"Cut: read again with offset={end}{further}." if end < stop else ""
    if context.is_directory:
        rest = rest or "list shows what is in it."
    revision = context.revision if end == len(content) and not context.is_directory else None
    return answer.model_copy(update={"content": part, "revision": revision, "rest": rest})


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
    depth: Annotated[int, Field(ge=1, le=64, description="The number of levels below it.")] = 1,
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
    """Yield `most` items after `offset` of them."""
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
