"""A file of questions with the contexts that answer them: one JSON object a line.

    {"question": "how hot for oolong?", "answers": ["tea/oolong.md"], "target": "viking://resources"}
    {"question": "who won the cup?", "answers": "none"}

An answer is a URI, or the end of one. A directory stands for all below it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField

NONE = "none"
"""The value of `answers` for a question that no context answers."""

_FIELDS = ("question", "answers", "target")
_MOST_FAULTS = 10
_SUCH = "guide/start.md"
_EXAMPLE = f'{{"question": "...", "answers": ["{_SUCH}"]}}'


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the file.

    Attributes:
        line: the number of its line, from 1.
        text: its words.
        answers: URIs or ends of URIs, each once, the longest first; none if nothing answers.
        target: the directory that is searched; "": the whole tree.
    """

    line: int
    text: str
    answers: tuple[str, ...]
    target: str


class Places:
    """The URIs of a part of the tree, indexed by their names."""

    def __init__(self, known: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for uri in known:
            self._by_name[_name(uri)].append(uri)

    def of(self, answer: str) -> frozenset[str]:
        """Return the URIs that an answer matches: its own URI, or all that end with its path."""
        named = self._by_name.get(_name(answer), [])
        if answer.startswith(uris.ROOT):
            return frozenset(uri for uri in named if uri == answer)
        return frozenset(
            uri for uri in named if f"/{uri.removeprefix(uris.ROOT)}".endswith(f"/{answer}")
        )


def read_questions(text: str) -> list[Question]:
    """Return the questions of a file; empty lines are skipped.

    Raises:
        ValueError: lines are wrong; the message names the first ones with their fields.
    """
    questions, faults = [], []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            questions.append(_question(number, line))
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = len(faults) - _MOST_FAULTS
        shown = faults[:_MOST_FAULTS] + ([f"and {more:,} more lines"] if more > 0 else [])
        raise ValueError("\n".join(shown))
    if not questions:
        raise ValueError(f"it has no question; a line is {_EXAMPLE}")
    return questions


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _question(number: int, line: str) -> Question:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be an object such as {_EXAMPLE}")
    if unknown := sorted(value.keys() - set(_FIELDS)):
        raise ValueError(f"{unknown[0]}: there is no such field; there are {', '.join(_FIELDS)}")
    text = value.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("question: must be a text that is not empty")
    return Question(number, text, _answers(value), _target(value))


def _answers(value: dict[str, Any]) -> tuple[str, ...]:
    if "answers" not in value:
        raise ValueError(f'answers: is missing; "{NONE}" says that nothing answers')
    given = value["answers"]
    if given == NONE:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f'answers: must be a list of URIs or paths, or "{NONE}"')
    return tuple(sorted(set(map(_answer, given)), key=lambda one: (-len(one), one)))


def _answer(text: str) -> str:
    """Return an answer in canonical form: a URI, or a path that is the end of a URI.

    Raises:
        ValueError: it is neither.
    """
    if text.startswith(f"{uris.ROOT}~"):
        raise ValueError(f"answers: {text}: write viking://users/NAME, or the end of the URI")
    if text.startswith(uris.ROOT):
        return _uri(text, "answers")
    path = uris.canonical(text).removeprefix("./").strip("/")
    if not path:
        raise ValueError(f"answers: {text!r} is no path; such as {_SUCH}")
    return path


def _target(value: dict[str, Any]) -> str:
    target = value.get("target", "")
    if not isinstance(target, str):
        raise ValueError("target: must be the URI of a directory")
    return _uri(target, "target") if target else ""


def _uri(text: str, field: str) -> str:
    try:
        return uris.parse(text, field)
    except InvalidField as error:
        raise ValueError(f"{field}: {error.description}") from None


def given_answers(result: Sequence[str], answers: Sequence[frozenset[str]]) -> list[int]:
    """Return the indices of the answers that a result contains.

    Args:
        result: the URIs of a result: its own, and those of its copies.
        answers: the URIs of each answer.
    """
    within = {above for uri in result for above in (*uris.ancestors(uri), uri)}
    return [number for number, named in enumerate(answers) if named & within]
