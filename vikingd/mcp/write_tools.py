"""The tools that write."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from vikingd.client import AsyncClient, Document, ExtractResult, Memory, RevisionDiffers
from vikingd.domain.errors import shortened
from vikingd.domain.search_query import SearchSession, SessionMessage
from vikingd.mcp.arguments import MAX_INTEGER, MAX_URI, MemoryType, Project
from vikingd.mcp.retrieval_tools import shown_memory
from vikingd.mcp.tool_answers import Forgotten, Remembered, Written, note_of
from vikingd.memory import forget_requests

_SHOWN = 200  # characters of a forgotten memory


async def remember(
    client: AsyncClient,
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4000,
            description="One fact in one or two sentences that can be understood alone.",
        ),
    ],
    memory_type: MemoryType,
    project: Project = "",
    section: Annotated[
        str, Field(max_length=256, description="The heading to put it under. Empty: none.")
    ] = "",
    pinned: Annotated[
        bool, Field(description="Keep it until it is forgotten by its id: what must never be lost.")
    ] = False,
) -> Remembered:
    """Store a memory, or reinforce one that is said again; a request to forget is not stored."""
    if forget_requests.read([SessionMessage("user", text)], 0):
        asked = await client.extract(_said(text), project=project, dry_run=True)
        meant = {one.id: one for one in (*asked.forgotten, *_in_doubt(asked))}
        return Remembered(
            outcome="not_stored",
            to_forget=[shown_memory(one) for one in meant.values()],
            note=_why(asked),
        )
    result = await client.remember(
        text, memory_type, project=project, section=section, pinned=pinned or None
    )
    return Remembered(
        outcome=result.outcome.name.lower(),
        id=result.id,
        uri=result.uri,
        near=result.met[:_SHOWN],
        note=note_of(result.degraded),
    )


async def write(
    client: AsyncClient,
    uri: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_URI,
            description=(
                "The file, with an ending such as .md, below viking://resources (documents), "
                "viking://agent/skills/NAME (skills), viking://user/memories or "
                "viking://projects/NAME/memories (notes)."
            ),
        ),
    ],
    content: Annotated[
        str, Field(min_length=1, max_length=2 << 20, description="The whole new text, not a part.")
    ],
    expected_revision: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_INTEGER,
            description="0: the file is new. To change a file: its revision, from read.",
        ),
    ] = 0,
    title: Annotated[
        str, Field(max_length=1024, description="Empty: the title stays, or there is none.")
    ] = "",
    abstract: Annotated[
        str,
        Field(
            max_length=8192,
            description="One or two sentences on the file. Empty: it stays, or is made of it.",
        ),
    ] = "",
) -> Written:
    """Create a file, or replace the text of one that has the expected revision."""
    if uri.endswith("/"):
        raise ToolError(f"{uri} is a directory: name the file, such as {uri}tea.md.")
    given = {"content": content, "title": title, "abstract": abstract}
    mask = {name for name, value in given.items() if value}
    draft = Document(
        uri,
        content=content,
        title=title,
        abstract=abstract,
        update_mask=mask if expected_revision else None,
        expected_revision=expected_revision,
    )
    try:
        put = await client.put([draft])
    except RevisionDiffers as error:
        raise ToolError(_differs(uri, expected_revision, error)) from None
    stored = await client.get(uri, min_revision=put.revision)
    return Written(
        uri=stored.uri,
        outcome=put.outcomes[0].name.lower(),
        # The revision of another writer's text would let the next write replace it unread.
        revision=stored.revision if stored.content == content else None,
    )


def _differs(uri: str, expected: int, error: RevisionDiffers) -> str:
    """Return the error for a write with a wrong expected revision.

    It does not name the stored revision, so that the model must read the file first.
    """
    if not expected:
        return (
            f"{uri} exists already and was not changed. To replace its text, read it and give its "
            "revision as expected_revision; or choose another uri."
        )
    if error.metadata.get("revision") == "0":
        return f"{uri} does not exist. To create it, leave out expected_revision."
    return (
        f"{uri} was changed since you read it, so nothing was written. Read it again, put your "
        "change into the new text, and write with the new revision."
    )


def _said(text: str) -> SearchSession:
    return SearchSession(messages=(SessionMessage("user", text),))


def _in_doubt(asked: ExtractResult) -> list[Memory]:
    return [memory for one in asked.to_forget for memory in one.memories if memory.id]


def _why(asked: ExtractResult) -> str:
    return "; ".join(dict.fromkeys(one.reason for one in asked.to_forget))


def _request(about: str) -> str:
    """Return `about` as a sentence that is one request to forget and nothing else.

    Raises:
        ToolError: no form of it is such a request.
    """
    ways = ("{}", "Forget {}", "Forget what I said about {}", "忘掉关于{}的事")
    for text in (way.format(about) for way in ways):
        messages = [SessionMessage("user", text)]
        if forget_requests.read(messages, 0) and forget_requests.are_all(messages, 0):
            return text
    raise ToolError(
        f'about: {shortened(about, _SHOWN)!r} names nothing to forget. Give a topic, such as "my '
        'sister\'s birthday", or a statement, such as "that I live in Lyon".'
    )


async def forget(
    client: AsyncClient,
    ids: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_INTEGER)]],
        Field(max_length=100, description="The ids of memories, from recall or remember."),
    ] = [],  # noqa: B006
    uri: Annotated[
        str, Field(max_length=MAX_URI, description="In place of ids: one file to remove.")
    ] = "",
    expected_revision: Annotated[
        int,
        Field(ge=0, le=MAX_INTEGER, description="With uri: the revision of the file, from read."),
    ] = 0,
    about: Annotated[
        str,
        Field(
            max_length=400,
            description=(
                "In place of ids: what to forget, in the user's words. Removes what is meant "
                "without doubt, and else names what may be meant."
            ),
        ),
    ] = "",
    project: Project = "",
) -> Forgotten:
    """Remove memories, or one file that has the expected revision."""
    if bool(ids) + bool(uri) + bool(about) != 1:
        raise ToolError("Give ids or a uri, or about, one of them.")
    if about:
        done = await client.extract(_said(_request(about)), project=project)
        return Forgotten(
            memories=[memory.content[:_SHOWN] for memory in done.forgotten],
            in_doubt=[shown_memory(one) for one in _in_doubt(done)],
            note=_why(done),
        )
    if ids:
        gone = await client.forget(*dict.fromkeys(ids))
        return Forgotten(memories=[memory.content[:_SHOWN] for memory in gone.forgotten])
    context = await client.get(uri)
    if context.is_directory:
        raise ToolError(f"{uri} is a directory. Only single files can be removed here.")
    if not expected_revision:
        raise ToolError("expected_revision is required with uri: read the file first.")
    try:
        await client.delete(uri, expected_revision=expected_revision)
    except RevisionDiffers:
        raise ToolError(
            f"{uri} was changed since you read it, so it was not removed. Read it again first."
        ) from None
    return Forgotten(uris=[context.uri])
