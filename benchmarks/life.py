"""A few weeks in the life of a person: what does the memory answer as time goes on?

`python -m benchmarks.life` commits the sessions of `life.jsonl` without a model, each when it ends,
and asks the questions of `life_questions.jsonl` at their times; `--life` chooses another person. A
question is right if a recalled memory holds the answer, and the first memory does not hold an
answer that is no longer true. A question about something that nobody said is right if recall
returns nothing. README.md explains the columns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.daemon import serving, temporary_store, wait_for_vectors
from vikingd.client import Client, Session
from vikingd.models.embed.e5 import E5

HERE = Path(__file__).parent
BUDGET = 500  # tokens of an answer
NOTHING = "nothing"
LIVES = ("life", "second_life", "third_life")


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its answer.

    Attributes:
        id: the question.
        kind: present, past, when or nothing.
        text: the question's text.
        right: True if the answer is right.
        rank: the place of the first memory that holds the answer, from 1; 0: none.
        first: the first memory that was recalled; "" for none.
        results: the number of recalled memories.
    """

    id: str
    kind: str
    text: str
    right: bool
    rank: int
    first: str
    results: int


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.life", description=__doc__)
    parser.add_argument("--life", choices=LIVES, default=LIVES[0], help="the person")
    parser.add_argument("--provider", default=E5.name, help="the embedder; none: words alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answers to a file")
    arguments = parser.parse_args()
    with (
        temporary_store() as directory,
        serving(directory / "store", arguments.provider) as server,
        Client(server.address, timeout=None) as client,
    ):
        turns, questions = (_lines(f"{arguments.life}{of}.jsonl") for of in ("", "_questions"))
        answers = list(asked(client, turns, questions, by_meaning=arguments.provider != "none"))
    print(table(answers))
    if arguments.json:
        rows = [asdict(one) for one in answers]
        arguments.json.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return 0


def asked(
    client: Any,
    turns: Sequence[Mapping[str, Any]],
    questions: Sequence[Mapping[str, Any]],
    *,
    by_meaning: bool,
) -> Iterator[Answered]:
    """Yield the answered questions in order of time; each session is committed when it ends."""
    sessions = [list(of) for _, of in groupby(turns, lambda turn: turn["session"])]
    sessions.sort(key=lambda of: _time(of[-1]["time"]))
    for question in sorted(questions, key=lambda one: _time(one["ask_at"])):
        while sessions and _time(sessions[0][-1]["time"]) <= _time(question["ask_at"]):
            _commit(client, sessions.pop(0))
            if by_meaning:
                wait_for_vectors(client)
        yield _asked(client, question)


def table(answers: Sequence[Answered]) -> str:
    """Return the answers as a table in Markdown, and the sum."""
    lines = ["| question | kind | right | rank | first memory |", "|---|---|---|---|---|"]
    for one in answers:
        first = one.first.replace("\n", " ").replace("|", "\\|")
        first = f"{first[:77]}..." if len(first) > 80 else first
        lines.append(
            f"| {one.text} | {one.kind} | {'yes' if one.right else '**no**'} | {one.rank or ''}"
            f" | {first or '(nothing)'} |"
        )
    kinds = sorted({one.kind for one in answers})
    sums = [
        f"{kind} {sum(a.right for a in answers if a.kind == kind)} of"
        f" {sum(a.kind == kind for a in answers)}"
        for kind in kinds
    ]
    right = sum(one.right for one in answers)
    return "\n".join([*lines, "", f"right: {right} of {len(answers)} ({', '.join(sums)})"])


def _commit(client: Any, turns: Sequence[Mapping[str, Any]]) -> None:
    session = Session()
    for turn in turns:
        session.add(turn["role"], turn["content"], time=turn["time"])
    client.commit(session, time=turns[-1]["time"], time_zone="UTC").result()


def _asked(client: Any, question: Mapping[str, Any]) -> Answered:
    reply = client.recall(
        question["text"],
        now=question["ask_at"],
        time_zone="UTC",
        max_tokens=BUDGET,
        no_touch=True,
    )
    texts = [memory.content for memory in reply.results]
    first = texts[0] if texts else ""
    holding = [i for i, text in enumerate(texts, 1) if _holds(text, question["wanted"])]
    is_stale = any(one.lower() in first.lower() for one in question["unwanted_first"])
    if question["kind"] != NOTHING:
        right = bool(holding) and not is_stale
    elif question["unwanted_first"]:  # of a secret other things may be known
        right = not is_stale
    else:
        right = not texts
    rank = holding[0] if holding and question["wanted"] else 0
    return Answered(
        question["id"], question["kind"], question["text"], right, rank, first, len(texts)
    )


def _holds(text: str, wanted: Sequence[Sequence[str]]) -> bool:
    return all(any(word in text.lower() for word in words) for words in wanted)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").split("\n") if line]


if __name__ == "__main__":
    raise SystemExit(main())
