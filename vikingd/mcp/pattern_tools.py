"""The tools that find by the exact form: a regular expression, or a pattern of names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, TypeVar

from pydantic import Field

from vikingd.client import DEFAULT_TIMEOUT, AsyncClient
from vikingd.domain import uri as uris
from vikingd.mcp.arguments import MaxTokens, Offset, Target
from vikingd.mcp.browse_tools import page_of
from vikingd.mcp.budget import fill
from vikingd.mcp.tool_answers import Entry, FoundLine, FoundLines, Listing

_PAGE = 10_000  # items of one page at most

Item = TypeVar("Item")
Answered = TypeVar("Answered")


async def grep(
    client: AsyncClient,
    pattern: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1000,
            description="A regular expression as in RE2, for one line: no lookaround, no \\1.",
        ),
    ],
    target_uri: Annotated[
        str,
        Field(
            max_length=1024,
            description="Only in this file, or below this directory.",
        ),
    ] = "",
    glob: Annotated[
        str, Field(max_length=1000, description="Only in files whose name matches, as *.md.")
    ] = "",
    literal: Annotated[bool, Field(description="true: the pattern is an exact text.")] = False,
    ignore_case: Annotated[bool, Field(description="true: A and a are the same.")] = False,
    offset: Offset = 0,
    max_tokens: MaxTokens = 2000,
) -> FoundLines:
    """Return the lines that match a regular expression."""
    most = max_tokens // 8  # each line takes more tokens
    lines, is_over = await _page(
        client,
        client.grep(
            re.escape(pattern) if literal else pattern,
            target_uri,
            case_insensitive=ignore_case,
            glob=glob,
            page_size=min(offset + most + 1, _PAGE),
        ),
        lambda match: FoundLine(uri=match.uri, line=match.line, text=match.text),
        offset,
        most + 1,
    )
    taken = fill(lines, max_tokens)
    more = len(taken) < len(lines)
    return FoundLines(lines=taken, rest=_rest(offset + len(taken), more=more, is_over=is_over))


async def glob(
    client: AsyncClient,
    pattern: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1000,
            description="* any part of a name, ? one character, [ab] a or b, ** any directories.",
        ),
    ],
    target_uri: Target = "",
    offset: Offset = 0,
    max_tokens: MaxTokens = 2000,
) -> Listing:
    """Return the files and directories whose path matches a pattern."""
    if not target_uri:
        pattern = pattern.removeprefix(uris.ROOT)
    most = max_tokens // 8
    entries, is_over = await _page(
        client,
        client.glob(pattern, target_uri, page_size=min(offset + most + 1, _PAGE)),
        lambda entry: Entry(uri=entry.uri, directory=entry.is_directory),
        offset,
        most + 1,
    )
    taken = fill(entries, max_tokens)
    more = len(taken) < len(entries)
    return Listing(entries=taken, rest=_rest(offset + len(taken), more=more, is_over=is_over))


async def _page(
    client: AsyncClient,
    found: AsyncIterator[Item],
    convert: Callable[[Item], Answered],
    offset: int,
    most: int,
) -> tuple[list[Answered], bool]:
    """Skip `offset` items; return at most `most`, and True if time ran out before all were found.

    In a large tree each call of the daemon reads only a part. So all calls together have one
    deadline, the timeout of the client.
    """
    taken: list[Answered] = []
    try:
        async with asyncio.timeout(client.timeout or DEFAULT_TIMEOUT):
            async for item in page_of(found, offset, most):
                taken.append(convert(item))  # noqa: PERF401  a timeout leaves them
    except TimeoutError:
        return taken, True
    return taken, False


def _rest(end: int, *, more: bool, is_over: bool) -> str:
    if more:
        return f"There are more: narrow the search, or call again with offset={end}."
    if is_over:
        return "Not all files were looked at in time: narrow the search by target_uri."
    return ""
