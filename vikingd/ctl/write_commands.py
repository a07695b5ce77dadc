"""The commands that change the tree."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from vikingd.client import Document
from vikingd.client.subtree_removal import delete_in_parts
from vikingd.ctl import render
from vikingd.ctl.command_session import Session, text_of, usage_errors
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.search_read_commands import json_object
from vikingd.domain.uri import context_type, expand, parse
from vikingd.pb.contexts_pb2 import DeleteResponse, PutOutcome

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, needs_yes: str = "") -> None:
    """Ask on a terminal, and exit unless the answer is yes.

    Args:
        question: the question.
        needs_yes: the error without a terminal; "": the command goes on.
    """
    if not sys.stdin.isatty():
        if needs_yes:
            raise typer.BadParameter(needs_yes)
    elif not typer.confirm(question, err=True):
        raise typer.Exit(OTHER)


def put(
    session: Session,
    uri: Annotated[str, typer.Argument(help="What to write.")],
    file: Annotated[
        typer.FileBinaryRead | None,
        typer.Option(metavar="FILE", help="Content from this file; - is stdin."),
    ] = None,
    content: Annotated[str | None, typer.Option(help="Content from the command line.")] = None,
    abstract: Annotated[
        str | None, typer.Option(help="One or two sentences; else a file's beginning.")
    ] = None,
    overview: Annotated[str | None, typer.Option(help="Some paragraphs about it.")] = None,
    title: Annotated[str | None, typer.Option(help="A heading of the whole.")] = None,
    metadata: Annotated[
        dict | None,  # type: ignore[type-arg]  # typer takes no parameters here
        typer.Option(parser=json_object, metavar="JSON", help="Metadata for `find --where`."),
    ] = None,
    directory: Annotated[
        bool, typer.Option("--directory", help="Write a directory; it has no content.")
    ] = False,
) -> None:
    """Write one context, new or existing; --file or --content gives a file's content.

    With --abstract, --overview, --title or --metadata alone, only these fields of a context that
    exists are written.

    RPC: viking.retrieval.v1.Contexts/Put

    Example: vikingctl put viking://user/memories/tea.md --content "Oolong, 90 degrees, no sugar."
    """
    if sum((file is not None, content is not None, directory)) > 1:
        raise typer.BadParameter("--file, --content and --directory exclude each other")
    fields = {"abstract": abstract, "overview": overview, "title": title, "metadata": metadata}
    given = [name for name, value in fields.items() if value is not None]
    if file is not None:
        content = text_of(file)
    is_whole = content is not None or directory
    if not is_whole and not given:
        raise typer.BadParameter(
            "nothing to write: --file FILE (- is stdin), --content TEXT, --directory or a field"
        )
    with usage_errors():
        document = Document(
            uri,
            content or "",
            is_directory=directory,
            abstract=abstract or "",
            overview=overview or "",
            title=title or "",
            metadata=metadata or {},
            update_mask=None if is_whole else given,
        )
    reply = session.client.put([document])
    outcome = render.value_name(PutOutcome, reply.outcomes[0])
    session.show(reply, Text(f"{outcome} {uri} at revision {reply.revision}"))


def rm(
    session: Session,
    uris: Annotated[list[str], typer.Argument(metavar="URI...", help="What to remove.")],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Remove directories with all below them.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove contexts; a directory needs -r.

    The command asks before it removes a directory that is not empty; without a terminal it needs
    --yes. A removal that is too large for one call is made in parts. Until the end, other callers
    see the remaining contexts, and an interruption leaves them.

    RPC: viking.retrieval.v1.Contexts/Delete

    Example: vikingctl rm viking://resources/notes/tea.md
    """
    for uri in uris:
        if not session.client.get(uri).context.is_directory:
            continue
        if not recursive:
            raise typer.BadParameter(f"{uri} is a directory: -r removes it with all below it")
        if not yes and next(session.client.list(uri), None):
            confirm(
                f"{uri} is not empty. Remove all of it?",
                needs_yes=f"{uri} is not empty: --yes removes it without asking",
            )
    removed = 0
    for reply in delete_in_parts(session.client, uris):
        removed += reply.deleted
        if removed > reply.deleted:
            session.note(f"removed {removed:,} contexts so far")
    done = DeleteResponse(revision=reply.revision, deleted=removed)
    session.show(done, Text(f"removed {removed:,} contexts at revision {done.revision}"))


def mv(
    session: Session,
    source: Annotated[str, typer.Argument(help="What to move, with all below it.")],
    destination: Annotated[str, typer.Argument(help="Its new URI, which must not exist.")],
) -> None:
    """Move or rename a context with all below it, at once or not at all.

    A subtree that is too large for one call is refused. Move its parts one after the other; until
    the end, other callers see both names. The directory decides the type: below memories a document
    becomes a memory. The command tells a new type.

    RPC: viking.retrieval.v1.Contexts/Move

    Example: vikingctl mv viking://resources/notes viking://resources/archive/notes
    """
    reply = session.client.move(source, destination)
    session.show(reply, Text(f"moved {reply.moved:,} contexts at revision {reply.revision}"))
    # The user of `~` does not matter for a type.
    before, now = (context_type(expand(parse(uri), "user")) for uri in (source, destination))
    if now is not before:
        name = now.name.lower()
        session.warn(
            f"the type is {name} now, not {before.name.lower()}: all below {destination} is found "
            f"and treated as {name}; `vikingctl mv {destination} {source}` moves it back"
        )


def link(
    session: Session,
    uri: Annotated[str, typer.Argument(help="One end.")],
    other: Annotated[str, typer.Argument(help="The other end.")],
    reason: Annotated[str, typer.Option(help="Why they belong together.")] = "",
) -> None:
    """Link two contexts; a second link of the same two replaces the reason.

    RPC: viking.retrieval.v1.Contexts/Link

    Example: vikingctl link viking://user/memories/tea.md viking://resources/tea --reason source
    """
    reply = session.client.link(uri, other, reason)
    session.show(reply, Text(f"linked at revision {reply.revision}"))


def unlink(
    session: Session,
    uri: Annotated[str, typer.Argument(help="One end.")],
    other: Annotated[str, typer.Argument(help="The other end.")],
) -> None:
    """Remove a link.

    RPC: viking.retrieval.v1.Contexts/Unlink

    Example: vikingctl unlink viking://user/memories/tea.md viking://resources/tea
    """
    reply = session.client.unlink(uri, other)
    session.show(reply, Text(f"unlinked at revision {reply.revision}"))
