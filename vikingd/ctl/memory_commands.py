"""The commands for an agent's memories."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated

import typer
from rich.text import Text

from vikingd.client import RecallPath
from vikingd.ctl import render
from vikingd.ctl.command_session import Session, text_of
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ctl.search_read_commands import Floor, Tokenizer
from vikingd.ctl.write_commands import Yes, confirm
from vikingd.domain.pinned_text import PIN
from vikingd.pb import memories_pb2

_NEWER = Text("newer than the next, which speaks of the same thing", "dim italic")
_AGE = re.compile(r"(\d+)d")


def moment(text: str) -> datetime:
    """Parse an option that is a date, a time, or an age in days."""
    if age := _AGE.fullmatch(text):
        try:
            return datetime.now(UTC) - timedelta(days=int(age[1]))
        except OverflowError:
            raise typer.BadParameter(f"{text} is before all times") from None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time like 2026-03-01, 2026-03-01T12:00:00+01:00, or 90d for 90 days "
            "ago"
        ) from None


Project = Annotated[
    str, typer.Option(metavar="NAME", help="The memories of this project; else those of none.")
]
WithGlobal = Annotated[
    bool, typer.Option("--global", help="Beside a project's, those of no project too.")
]
Now = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="What ages are counted from; else the clock."),
]
Zone = Annotated[str, typer.Option(metavar="NAME", help="Time zone, such as Europe/Berlin.")]


def recall(
    session: Session,
    query: Annotated[str, typer.Argument(help="The question, in any language.")],
    project: Project = "",
    with_global: WithGlobal = False,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="The budget; 0: the daemon's default.")
    ] = 0,
    tokenizer: Tokenizer = "",
    top_k: Annotated[
        int,
        typer.Option(
            *("--top-k", "--limit", "-n"),
            min=0,
            max=500,
            help="Show at most this many; 0: the daemon's default.",
        ),
    ] = 0,
    profile: Annotated[
        str, typer.Option(help="Weights by name: relevance (most evidence), or salience.")
    ] = "",
    search: Annotated[
        bool, typer.Option("--search", help="Search, whatever file or day the query asks for.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Known file, timeline, search: the first that a word names."),
    ] = False,
    skip_oversize: Annotated[
        bool, typer.Option("--skip-oversize", help="Skip memories that are too large.")
    ] = False,
    no_touch: Annotated[bool, typer.Option("--no-touch", help="Count no access.")] = False,
    used: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="A memory of an earlier recall that was used; repeatable."),
    ] = None,
    floor: Floor = None,
    now: Now = None,
    time_zone: Zone = "",
) -> None:
    """Recall the memories that matter now, within a budget of tokens.

    RPC: viking.retrieval.v1.Memories/Recall

    Example: vikingctl recall "what does she like to drink?" --max-tokens 500
    """
    reply = session.client.recall(
        query,
        project=project,
        with_global=with_global,
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        top_k=top_k,
        profile=profile,
        without=(RecallPath.FAST, RecallPath.TIMELINE) if search and not strict else (),
        paths=_paths(search=search) if strict else (),
        skip_oversize=skip_oversize,
        no_touch=no_touch,
        used=used or (),
        floor=floor,
        now=now,
        time_zone=time_zone,
    )
    shown = memories_table(reply.results, ranked=True) if reply.results else None
    session.show(reply, shown, footer=_footer(reply))


def remember(
    session: Session,
    text: Annotated[str, typer.Argument(help="The text to remember; - reads stdin.")],
    memory_type: Annotated[
        str,
        typer.Option("--type", metavar="NAME", help="preferences, tasks, journal, or any name."),
    ] = "",
    section: Annotated[str, typer.Option(help="The heading above the memory.")] = "",
    project: Project = "",
    uri: Annotated[
        str, typer.Option(metavar="URI", help="The file, in place of project and type.")
    ] = "",
    time: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="The time when it was said; else now."),
    ] = None,
    time_zone: Zone = "",
    exact: Annotated[
        bool, typer.Option("--exact", help="Reinforce only a memory with the same text.")
    ] = False,
    pinned: Annotated[
        bool | None,
        typer.Option("--pinned/--no-pinned", help="Only its id can forget it; else as it is."),
    ] = None,
) -> None:
    """Remember a text, or reinforce it if it was said before.

    RPC: viking.retrieval.v1.Memories/Remember

    Example: vikingctl remember "Prefers oolong to coffee." --type preferences --section Drinks
    """
    if not (memory_type or uri):
        raise typer.BadParameter(
            "is needed, such as --type preferences, or a file by --uri", param_hint="--type"
        )
    if text == "-":
        text = text_of(sys.stdin.buffer)
    reply = session.client.remember(
        text,
        memory_type,
        section=section,
        project=project,
        uri=uri,
        time=time,
        time_zone=time_zone,
        exact=exact,
        pinned=pinned,
    )
    done = render.value_name(memories_pb2.RememberOutcome, reply.outcome)
    line = Text(f"{done} {reply.id} in {reply.uri} at revision {reply.revision}")
    if reply.outcome == memories_pb2.REMEMBER_OUTCOME_REINFORCED:
        line.append(
            f"\nsaid {reply.reinforcement + 1} times; it met {render.snippet(reply.met)}", "dim"
        )
    session.show(reply, line, render.degraded_lines(reply.degraded) if reply.degraded else None)


def reinforce(
    session: Session,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="Ids from recall.")
    ] = None,
    by: Annotated[int, typer.Option(min=1, help="Add this to each counter.")] = 1,
    used: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="Count it as used, without more; repeatable."),
    ] = None,
) -> None:
    """Reinforce memories that proved true or useful, and count those that were used.

    RPC: viking.retrieval.v1.Memories/Reinforce

    Example: vikingctl reinforce 12 40
    """
    reply = session.client.reinforce(*(ids or ()), by=by, used=used or ())
    counts = zip(ids or (), reply.reinforcements, strict=True)
    listed = ", ".join(f"{one} now {count}" for one, count in counts)
    done = [f"reinforced {listed}"] if ids else []
    done += [f"counted {', '.join(map(str, used))} as used"] if used else []
    session.show(reply, Text(f"{'; '.join(done)} at revision {reply.revision}"))


def forget(
    session: Session,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="Ids from recall.")
    ] = None,
    project: Project = "",
    with_global: WithGlobal = False,
    older_than: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="Last said before; 90d: 90 days ago."),
    ] = None,
    below_salience: Annotated[
        float | None, typer.Option(help="Salience without a query is below this, in (0, 1].")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the memories.")] = False,
    yes: Yes = False,
) -> None:
    """Forget memories by their ids, or all memories of a scope that meet every criterion.

    Pinned memories, the profile, instructions and memories about health are forgotten by their ids
    alone, never by criteria. With criteria, and if stdin is a terminal, the command shows the
    memories and asks first.

    RPC: viking.retrieval.v1.Memories/Forget

    Example: vikingctl forget --older-than 365d --below-salience 0.1 --dry-run
    """

    def asked(*, dry_run: bool) -> memories_pb2.ForgetResponse:
        return session.client.forget(
            *(ids or ()),
            project=project,
            with_global=with_global,
            older_than=older_than,
            below_salience=below_salience,
            dry_run=dry_run,
        )

    if not ids and not dry_run and not yes and sys.stdin.isatty():
        there = asked(dry_run=True)
        session.err.print(memories_table(there.forgotten), _spared(there))
        if there.forgotten:
            confirm("Forget all of these?")
    reply = asked(dry_run=dry_run)
    done = "would forget" if dry_run else "forgot"
    count = len(reply.forgotten) + reply.left_out
    end = Text(f"{done} {_counted(count)} at revision {reply.revision}").append(_spared(reply))
    session.show(reply, memories_table(reply.forgotten) if reply.forgotten else None, footer=end)


def _spared(reply: memories_pb2.ForgetResponse) -> Text:
    """Return a line for each spared memory, with the reason."""
    text = Text()
    if count := len(reply.spared) + reply.spared_left_out:
        text.append(f"\nspared {_counted(count)}, which only an id forgets:")
    for one in reply.spared:
        memory = one.memory
        text.append(f"\n{memory.id} {render.snippet(memory.content)}").append(
            f" ({one.reason})", "dim"
        )
    return text


def _paths(*, search: bool) -> tuple[RecallPath, ...]:
    """Return the paths for a recall in the strict form: all of them, or only the search."""
    return (RecallPath.HYBRID,) if search else tuple(RecallPath)


def memories_table(memories: Sequence[memories_pb2.Memory], *, ranked: bool = False) -> Rows:
    """Return the table of memories; in a pipe place, section and text are separate fields.

    If they are ranked, a terminal shows a line below each memory that stands before one with a
    higher score, since it is newer.
    """
    names = ("id", "score", "tokens", "said", "times", "memory")
    newer = {
        place
        for place, (one, later) in enumerate(pairwise(memories))
        if ranked and one.score < later.score and _moment_of(one) > _moment_of(later)
    }
    rows = (_memory(one, is_newer=place in newer) for place, one in enumerate(memories))
    return Rows(rows, names, right=5)


def _moment_of(memory: memories_pb2.Memory) -> tuple[int, int]:
    return memory.time.seconds, memory.time.nanos


def _memory(memory: memories_pb2.Memory, *, is_newer: bool) -> Row:
    numbers = (
        str(memory.id or ""),
        f"{memory.score:.3f}" if memory.score else "",
        str(memory.token_count or ""),
        render.local_time(memory.time)[:10],
        str(memory.reinforcement + 1),
    )
    pin = PIN + " " if memory.pinned else ""
    return Row(
        (*numbers, render.place_of(memory)),
        [Text(pin + render.snippet(memory.content), "dim"), *([_NEWER] if is_newer else [])],
        (*numbers, memory.uri, memory.section, pin + memory.content),
    )


def _counted(count: int) -> str:
    return f"{count:,} memor{'y' if count == 1 else 'ies'}"


def _footer(reply: memories_pb2.RecallResponse) -> Text:
    path = render.value_name(memories_pb2.RecallPath, reply.path)
    took = sum(render.milliseconds(timing) for timing in reply.timings)
    left = f"{reply.budget_remaining:,} left"
    text = Text(
        f"{_counted(len(reply.results))} of {reply.total_tokens:,} tokens, {left}; {path}, "
        f"{took:.1f} ms, revision {reply.revision}",
        "dim",
    )
    if reply.reason:
        text.append(f"\n{reply.reason}")
    text.append_text(render.confidence_words(reply, "nothing is known about that"))
    if reply.left_out:
        text.append("; --floor 0 shows the memories all the same", "yellow")
    text.append_text(render.questions_line(reply.questions))
    if reply.degraded:
        text.append("\n").append(render.degraded_lines(reply.degraded))
    return text
