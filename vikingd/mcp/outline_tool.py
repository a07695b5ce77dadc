"""The tool that tells the names in files, with their lines."""

from __future__ import annotations

from itertools import groupby

from vikingd.client import AsyncClient, FoundSymbol
from vikingd.mcp.arguments import MaxTokens, Offset, Uri
from vikingd.mcp.budget import fill, tokens
from vikingd.mcp.tool_answers import Outline, OutlinedFile, OutlinedName

_TOKENS = 12  # that each name takes at least
_MAX_FILES = 300  # of a directory


async def outline(
    client: AsyncClient, uri: Uri, offset: Offset = 0, max_tokens: MaxTokens = 3000
) -> Outline:
    """Return the names in a file, or the top names in the files below a directory."""
    found = await client.symbols(uri, max_files=_MAX_FILES)
    is_file = all(one.uri == found[0].uri for one in found) and found.files < 2
    shown = [one for one in found if is_file or not one.path]
    parts = [_one_name(one) for one in shown[offset : offset + max_tokens // _TOKENS + 1]]
    taken = fill(parts, max_tokens * 5 // 6 - tokens(found.note))  # short values have many keys
    end = offset + len(taken)
    rest = ""
    if end < len(shown):
        below = "" if is_file else " outline one of the files, or"
        rest = f"There are more:{below} call again with offset={end}."
    elif offset and not parts:
        rest = f"There are not more than {len(shown)} names."
    files = [
        OutlinedFile(uri=at, names=[part.names[0] for part in group])
        for at, group in groupby(taken, lambda part: part.uri)
    ]
    return Outline(files=files, rest=rest, note=found.note)


def _one_name(symbol: FoundSymbol) -> OutlinedFile:
    """Return an entry for one name alone; its size bounds the size of the name in an answer."""
    name = OutlinedName(
        name=symbol.name,
        kind=symbol.kind,
        path=list(symbol.path),
        line=symbol.first_line,
        last_line=symbol.last_line,
        signature=symbol.signature,
    )
    return OutlinedFile(uri=symbol.uri, names=[name])
