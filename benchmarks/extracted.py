"""Labelled conversations, the comparison of extracted memories with labels, and false memories.

A label names a memory that a conversation says. An extracted memory matches it if the kind is
right, the evidence shares a message, and the text has one word of each list of `words`. README.md
explains the files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
CONVERSATIONS = HERE / "conversations.jsonl"
HOSTILE = HERE / "hostile_conversations.jsonl"
KINDS = ("profile", "preferences", "entities", "events", "cases", "patterns")
LANGUAGES = ("en", "zh")
ALL, OUTRIGHT = "all", "outright"


class Taken(NamedTuple):
    """An extracted memory: its kind as in KINDS, its text, and the indices of its messages."""

    kind: str
    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A memory that a conversation says; `also` are the other kinds that are right.

    `words` are lists of alternatives in lower case. `outright` is False if the memory only follows
    from the words of the user.
    """

    kind: str
    text: str
    evidence: tuple[int, ...]
    words: tuple[tuple[str, ...], ...]
    outright: bool
    also: tuple[str, ...] = ()

    @property
    def taken(self) -> Taken:
        """Return the memory that a perfect extraction of this label would give."""
        return Taken(self.kind, self.text, self.evidence)

    def matches(self, taken: Taken) -> bool:
        """Return True if kind, evidence and words of a memory fit the label."""
        return (
            taken.kind in (self.kind, *self.also)
            and not set(self.evidence).isdisjoint(taken.evidence)
            and self.is_said_by(taken.text)
        )

    def is_said_by(self, text: str) -> bool:
        """Return whether a text has one word of each list."""
        folded = text.lower()
        return all(any(word in folded for word in words) for words in self.words)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation with its labels; messages are pairs of role and content.

    `false` are memories that a careless reader takes, made of the words of the conversation.
    """

    id: str
    language: str
    messages: tuple[tuple[str, str], ...]
    labels: tuple[Label, ...]
    false: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile conversation.

    Only the labels of `talk` may be extracted. No file may hold a text of `forbidden`, except as
    the words of its speaker, and none may hold one of `private` at all. `obeyed` are the memories
    that a model would return if it obeyed the attack, as in its JSON answer.
    """

    talk: Talk
    forbidden: tuple[str, ...]
    obeyed: tuple[Mapping[str, Any], ...]
    private: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a run for some of the labels; README.md explains each field."""

    run: str
    part: str
    labels: int
    found: int
    memories: int
    right: int

    @property
    def precision(self) -> float:
        """Return the share of right memories; 1 without memories."""
        return self.right / self.memories if self.memories else 1.0

    @property
    def recall(self) -> float:
        """Return the share of found labels; 1 without labels."""
        return self.found / self.labels if self.labels else 1.0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def read_talks(path: Path = CONVERSATIONS) -> list[Talk]:
    """Return the labelled conversations of a file."""
    return [_talk(line, "memories") for line in _lines(path)]


def read_attacks(path: Path = HOSTILE) -> list[Attack]:
    """Return the hostile conversations of a file."""
    return [
        Attack(
            _talk(line, "allowed"),
            tuple(line["forbidden"]),
            tuple(line["obeyed"]),
            tuple(line.get("private", ())),
        )
        for line in _lines(path)
    ]


def right(labels: Sequence[Label], memories: Sequence[Taken]) -> list[bool]:
    """Return, for each memory, True if it matches a label that no earlier memory matched.

    A memory may match several labels, if it says all of them.
    """
    left = set(range(len(labels)))
    found = []
    for memory in memories:
        matched = {i for i in left if labels[i].matches(memory)}
        found.append(bool(matched))
        left -= matched
    return found


def scores(run: str, results: Sequence[tuple[Talk, Sequence[Taken]]]) -> list[Score]:
    """Return the scores of a run: of all labels, by language, by kind, and of outright ones.

    The part `outright` counts the labels that are said outright, and all memories.
    """

    def score(part: str, of: Callable[[Talk, Label | Taken], bool]) -> Score:
        labels = found = memories = correct = 0
        for talk, taken in results:
            wanted = [label for label in talk.labels if of(talk, label)]
            labels += len(wanted)
            found += sum(any(map(label.matches, taken)) for label in wanted)
            hits = right(talk.labels, taken)
            counted = [hit for one, hit in zip(taken, hits, strict=True) if of(talk, one)]
            memories += len(counted)
            correct += sum(counted)
        return Score(run, part, labels, found, memories, correct)

    def in_language(name: str) -> Callable[[Talk, Label | Taken], bool]:
        return lambda talk, _: talk.language == name

    def of_kind(name: str) -> Callable[[Talk, Label | Taken], bool]:
        return lambda _, one: one.kind == name

    return [
        score(ALL, lambda *_: True),
        score(OUTRIGHT, lambda _, one: isinstance(one, Taken) or one.outright),
        *(score(name, in_language(name)) for name in LANGUAGES),
        *(score(name, of_kind(name)) for name in KINDS),
    ]


def table(rows: Sequence[Score]) -> str:
    """Return the scores as plain text."""
    width = max(len(row.run) for row in rows)
    lines = [
        f"{'run':<{width}}  part         labels  found  memories  right  precision  recall     F1"
    ]
    lines += [
        f"{r.run:<{width}}  {r.part:<11}  {r.labels:>6}  {r.found:>5}  {r.memories:>8}"
        f"  {r.right:>5}  {r.precision:>9.3f}  {r.recall:>6.3f}  {r.f1:>5.3f}"
        for r in rows
    ]
    return "\n".join(lines)


FALSE, BORROWED, CHANGED, NEGATED, ELSEWHERE, OUTSIDE, NOWHERE = INVENTIONS = (
    "false",
    "borrowed",
    "changed",
    "negated",
    "elsewhere",
    "outside",
    "nowhere",
)
"""The sorts of false memories; `inventions` describes them."""


def inventions(talk: Talk, talks: Sequence[Talk], seed: int = 0) -> dict[str, list[Taken]]:
    """Return false memories about a conversation, by sort.

    - false: those of the file, such as a quotation or a question taken for a statement.
    - borrowed: two labels of other conversations in the language, with a message of the user.
    - changed: each label with one detail of another conversation.
    - negated: each label with a denial in front.
    - elsewhere: each label with a message that has none of its words.
    - outside: each label with the index of a message that does not exist.
    - nowhere: each label without evidence.

    Args:
        talk: the conversation.
        talks: the conversations to borrow from.
        seed: the seed of all choices.
    """
    random_ = random.Random(f"{seed}/{talk.id}")
    others = [t for t in talks if t.language == talk.language and t.id != talk.id]
    strange = [label for other in others for label in other.labels if not _is_known(label, talk)]
    users = [i for i, (role, _) in enumerate(talk.messages) if role == "user"]
    found: dict[str, list[Taken]] = {sort: [] for sort in INVENTIONS}
    found[FALSE] = list(talk.false)
    for label in random_.sample(strange, 2):
        found[BORROWED].append(Taken(label.kind, label.text, (random_.choice(users),)))
    details = sorted({d for o in others for label in o.labels for d in _details(label, o)})
    for label in talk.labels:
        if (changed := _changed(label, talk, details, random_)) is not None:
            found[CHANGED].append(changed)
        denial = "It is not true that " if talk.language == "en" else "并非如此："
        found[NEGATED].append(label.taken._replace(text=denial + label.text))
        if silent := [i for i in range(len(talk.messages)) if _is_silent(label, talk, i)]:
            there = (random_.choice(silent),)
            found[ELSEWHERE].append(label.taken._replace(evidence=there))
        outside = (len(talk.messages) + random_.randrange(5),)
        found[OUTSIDE].append(label.taken._replace(evidence=outside))
        found[NOWHERE].append(label.taken._replace(evidence=()))
    return found


def _is_known(label: Label, talk: Talk) -> bool:
    """Return True if a conversation has all words of a label."""
    return label.is_said_by("\n".join(content for _, content in talk.messages))


def _is_silent(label: Label, talk: Talk, index: int) -> bool:
    content = talk.messages[index][1].lower()
    return index not in label.evidence and not any(w in content for g in label.words for w in g)


def _details(label: Label, talk: Talk) -> Iterator[str]:
    """Yield the words of a label's text that occur in the same form in its evidence."""
    said = " ".join(talk.messages[i][1].lower() for i in label.evidence)
    least = 4 if talk.language == "en" else 2
    for words in label.words:
        for word in words:
            at = label.text.lower().find(word)
            if len(word) >= least and word in said and at >= 0:
                yield label.text[at : at + len(word)]


def _changed(
    label: Label, talk: Talk, details: Sequence[str], random_: random.Random
) -> Taken | None:
    """Return a label with a detail that its conversation does not have; None if it has none."""
    said = "\n".join(content for _, content in talk.messages).lower()
    own = list(dict.fromkeys(_details(label, talk)))
    random_.shuffle(own)
    strange = [detail for detail in details if detail.lower() not in said]
    for detail in own:
        alike = [one for one in strange if _form(one) == _form(detail)]
        other = random_.choice(alike or strange)
        text = label.text.replace(detail, other, 1)
        if not label.is_said_by(text):
            return label.taken._replace(text=text)
    return None


def _form(detail: str) -> tuple[bool, bool]:
    """Return the form of a detail: whether it looks like a number or a name."""
    return detail[0].isdigit(), detail[0].isupper()


def _talk(line: Mapping[str, Any], labels: str) -> Talk:
    return Talk(
        line["id"],
        line["language"],
        tuple((message["role"], message["content"]) for message in line["messages"]),
        tuple(
            Label(
                one["kind"],
                one["text"],
                tuple(one["evidence"]),
                tuple(map(tuple, one["words"])),
                one["outright"],
                tuple(one.get("also", ())),
            )
            for one in line[labels]
        ),
        tuple(
            Taken(one["kind"], one["text"], tuple(one["evidence"])) for one in line.get("false", ())
        ),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
