"""The command that takes memories from a conversation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from vikingd.client import Session as Said
from vikingd.ctl import render
from vikingd.ctl.command_session import Session, text_of
from vikingd.ctl.memory_commands import Project, Zone, moment
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ctl.task_search import read_session
from vikingd.pb import memories_pb2


def _conversation(path: str) -> Said:
    """Parse the option with the file of a session; - reads stdin."""
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


def _memories(memories: Iterable[memories_pb2.ExtractedMemory]) -> Rows:
    return Rows(map(_memory, memories), ("kind", "outcome", "evidence", "memory"))


def _memory(memory: memories_pb2.ExtractedMemory) -> Row:
    place = render.place_of(memory).append(f", id {memory.id}" if memory.id else "", "dim")
    kind = _kind(memory.kind)
    outcome = render.value_name(memories_pb2.RememberOutcome, memory.outcome)
    evidence, met = _evidence(memory.evidence), memory.met
    return Row(
        (kind, outcome, evidence, place),
        [
            Text(render.snippet(memory.text)),
            *([Text(f"before: {render.snippet(met)}", "dim")] if met else []),
        ],
        (
            *(kind, outcome, evidence, memory.uri, memory.section, str(memory.id or "")),
            *(memory.text, met),
        ),
    )


def _refused(refused: Iterable[memories_pb2.RefusedMemory]) -> Rows:
    return Rows(
        Row(
            (_kind(one.kind), "refused", _evidence(one.evidence), Text(one.reason, "dim")),
            [Text(render.snippet(one.text))],
            (_kind(one.kind), "refused", _evidence(one.evidence), one.reason, one.text),
        )
        for one in refused
    )


def _forgotten(memories: Iterable[memories_pb2.Memory], done: str) -> Rows:
    return Rows(
        (
            Row(
                (str(one.id), done, render.place_of(one)),
                [Text(render.snippet(one.content), "dim")],
                (str(one.id), done, one.uri, one.section, one.content),
            )
            for one in memories
        ),
        ("id", "outcome", "memory"),
        right=1,
    )


def _to_forget(proposal: memories_pb2.ForgetProposal) -> Text:
    """Return the text of a doubtful request to forget.

    It has the request, the memories that may be meant, and the command that forgets them.
    """
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


def _not_taken(sentences: Iterable[memories_pb2.UntakenSentence]) -> Rows:
    return Rows(
        Row(
            ("not taken", str(one.message), Text(one.reason, "dim")),
            [Text(render.snippet(one.text))],
            ("not taken", str(one.message), one.reason, one.text),
        )
        for one in sentences
    )


def _kind(kind: memories_pb2.MemoryKind.ValueType) -> str:
    return render.value_name(memories_pb2.MemoryKind, kind) if kind else ""


def _evidence(indices: Iterable[int]) -> str:
    return ", ".join(map(str, indices))
