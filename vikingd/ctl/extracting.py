"""The command that takes memories from a conversation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from vikingd.client import Session as Said
from vikingd.ctl import render
from vikingd.ctl.command_session import Session, text_of
from vikingd.ctl.reading import read_session
from vikingd.ctl.remembering import Project, Zone, moment
from vikingd.pb import memories_pb2


def _conversation(path: str) -> Said:
    """Parses the option for the file of a session; - reads stdin."""
    if path != "-":
        return read_session(path)
    try:
        return Said.loads(text_of(sys.stdin.buffer), "stdin")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def extract(
    session: Session,
    said: Annotated[
        Said,
        typer.Option(
            "--session",
            parser=_conversation,
            metavar="FILE",
            help='The conversation: {"id": "...", "summary": "...", "messages": [{"role": "user", '
            '"content": "...", "time": "..."}]}; - reads stdin.',
        ),
    ],
    first: Annotated[
        int, typer.Option(min=0, help="Take memories from this message on, counted from 0.")
    ] = 0,
    project: Project = "",
    time: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="The time of the conversation; else now."),
    ] = None,
    time_zone: Zone = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; only show the memories.")
    ] = False,
) -> None:
    """Take memories from a conversation and write them, each with the messages that say it.

    RPC: viking.retrieval.v1.Memories/Extract

    Example: vikingctl extract --session session.json --dry-run
    """
    reply = session.client.extract(
        said, first=first, project=project, time=time, time_zone=time_zone, dry_run=dry_run
    )
    shown: list[Any] = []
    if reply.memories:
        shown.append(_memories(reply.memories))
    if reply.refused:
        shown.append(_refused(reply.refused))
    if reply.forgotten:
        shown.append(_forgotten(reply.forgotten, "would forget" if dry_run else "forgot"))
    shown += map(_to_forget, reply.to_forget)
    if reply.not_taken:
        shown.append(_not_taken(reply.not_taken))
    done = "would write" if dry_run else "wrote"
    source = render.value_name(memories_pb2.ExtractSource, reply.source)
    turns = f" and {len(reply.episode.turns)} turns" if reply.HasField("episode") else ""
    line = Text(
        f"{done} {len(reply.memories)} memories{turns}, refused {len(reply.refused)}; {source}, "
        f"revision {reply.revision}",
        "dim",
    )
    if reply.forgotten:
        line.append(f"; {'would forget' if dry_run else 'forgot'} {len(reply.forgotten)}", "dim")
    if reply.episode.turns:
        line.append(f"\nthe conversation: {reply.episode.uri}")
    line.append(f"\n{reply.reason}")
    line.append_text(render.degraded_lines(reply.degraded))
    session.show(reply, *shown, footer=line)


def _memories(memories: Iterable[memories_pb2.ExtractedMemory]) -> Table:
    table = render.results_table("kind", "outcome", "evidence", "memory")
    for memory in memories:
        text = Text(render.snippet(memory.text))
        if memory.met:
            text.append(f"\nbefore: {render.snippet(memory.met)}", "dim")
        place = f"{memory.uri}{f' > {memory.section}' if memory.section else ''}"
        text.append(f"\n{place}{f', id {memory.id}' if memory.id else ''}", "dim")
        table.add_row(
            _kind(memory.kind),
            render.value_name(memories_pb2.RememberOutcome, memory.outcome),
            _evidence(memory.evidence),
            text,
        )
    return table


def _refused(refused: Iterable[memories_pb2.RefusedMemory]) -> Table:
    table = render.results_table("kind", "outcome", "evidence", "proposal")
    for one in refused:
        text = Text(render.snippet(one.text)).append(f"\n{one.reason}", "dim")
        table.add_row(_kind(one.kind), "refused", _evidence(one.evidence), text)
    return table


def _forgotten(memories: Iterable[memories_pb2.Memory], done: str) -> Table:
    table = render.results_table("id", "outcome", "memory", right=1)
    for one in memories:
        table.add_row(str(one.id), done, _placed(one))
    return table


def _to_forget(proposal: memories_pb2.ForgetProposal) -> Text:
    """Return a request in doubt, the memories that it may mean, and the command that forgets."""
    text = Text(f"in doubt, nothing was forgotten: {render.snippet(proposal.request)}", "yellow")
    text.append(f"\n{proposal.reason} (message {proposal.message})", "dim")
    for one in proposal.memories:
        text.append(f"\n{one.id or ''} ").append_text(_placed(one))
    if ids := " ".join(str(one.id) for one in proposal.memories if one.id):
        text.append(f"\nvikingctl forget {ids}")
    return text


def _placed(memory: memories_pb2.Memory) -> Text:
    place = f"{memory.uri}{f' > {memory.section}' if memory.section else ''}"
    return Text(render.snippet(memory.content)).append(f"\n{place}", "dim")


def _not_taken(sentences: Iterable[memories_pb2.UntakenSentence]) -> Table:
    table = render.results_table("outcome", "message", "sentence")
    for one in sentences:
        text = Text(render.snippet(one.text)).append(f"\n{one.reason}", "dim")
        table.add_row("not taken", str(one.message), text)
    return table


def _kind(kind: memories_pb2.MemoryKind.ValueType) -> str:
    return render.value_name(memories_pb2.MemoryKind, kind) if kind else ""


def _evidence(indices: Iterable[int]) -> str:
    return ", ".join(map(str, indices))
