"""Which known files, or which days of a journal, the words of a query name.

Queries and triggers are compared after NFKC and case folding, with one space for any white space.
English words match whole. Chinese ones match anywhere, for no space divides them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import CJK_CHARS, normalized

PROJECT = "{project}"
"""Stands in a route's files for the name of the project."""

WEEK = 7
"""The days of a query that says "recently", not how many."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")

# A character that one word shares with the next: a letter, digit or underscore, CJK apart.
_WORD = rf"[^\W{CJK_CHARS}]"
# Within a word a word character stands on both sides. Anywhere else a match may begin or end.
_EDGE = rf"(?:(?<!{_WORD})|(?!{_WORD}))"

_NUMBERS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "few": WEEK,
    "几": WEEK,
    "幾": WEEK,
}
_DIGITS = {
    "零": 0,
    "〇": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "兩": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
}
_UNITS = {"十": 10, "百": 100}
_COUNT = rf"[0-9]+|[{''.join((*_DIGITS, *_UNITS))}]+|{'|'.join(_NUMBERS)}"

# A number of days stands first: 最近3天 are three days, not a week.
_TIMES = re.compile(
    rf"{_EDGE}(?:"
    rf"(?:past|last|(?:过去|過去|最近|近)的?){_EDGE} ?(?P<count>{_COUNT}) ?(?:days?|天)"
    r"|(?P<today>today|今天|今日)"
    r"|(?P<third>大前天)"
    r"|(?P<second>day before yesterday|前天|前日)"
    r"|(?P<yesterday>yesterday|昨天|昨日)"
    r"|(?P<week>(?:last|past) week|上周|上週|上个?星期|上個星期|上个?礼拜|上個?禮拜)"
    r"|(?P<recent>recent|recently|lately|最近|这几天|這幾天)"
    rf"){_EDGE}"
)
_DAYS_AGO = {
    "today": (0, 0),
    "yesterday": (1, 1),
    "second": (2, 2),
    "third": (3, 3),
    "week": (WEEK - 1, 0),
    "recent": (WEEK - 1, 0),
}
"""By the group of `_TIMES`: how many days ago the first and the last one were."""


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the table: the words that name files, and these files.

    Attributes:
        name: of the row, and the type of the memories that are kept in its files.
        triggers: words; English ones match whole, in any case.
        files: URIs in the order in which they are looked for, `{project}` in them standing for the
            name of the project.
    """

    name: str
    triggers: tuple[str, ...]
    files: tuple[str, ...]


def _global(name: str) -> tuple[str, ...]:
    return (f"viking://user/memories/{name}.md",)


def _of_agents(name: str) -> tuple[str, ...]:
    return (
        f"viking://projects/{PROJECT}/memories/agent/{name}.md",
        f"viking://projects/{PROJECT}/memories/{name}.md",
        f"viking://agent/memories/{name}.md",
    )


DEFAULT_ROUTES: tuple[Route, ...] = (
    Route("preferences", ("偏好", "preference", "preferences"), _global("preferences")),
    Route(
        "instructions",
        ("指令", "instruction", "instructions", "规则", "規則", "rule", "rules"),
        _global("instructions"),
    ),
    Route(
        "tasks",
        ("任务", "任務", "task", "tasks"),
        (f"viking://projects/{PROJECT}/memories/TASKS.md",),
    ),
    Route(
        "entities",
        ("实体", "實體", "entity", "entities", "人物", "people"),
        _global("entities"),
    ),
    Route("decisions", ("决策", "決策", "decision", "decisions"), _of_agents("decisions")),
    Route("patterns", ("模式", "pattern", "patterns"), _of_agents("patterns")),
)


class Routes:
    """A checked table of routes.

    Attributes:
        by_name: its rows.

    Raises:
        ValueError: naming the row, and what is wrong with it.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        names: set[str] = set()
        # By the folded trigger: which row it is of, and how that row writes it.
        self._triggers: dict[str, tuple[int, str]] = {}
        self._routes = tuple(routes)
        self.by_name = {route.name: route for route in self._routes}
        for row, route in enumerate(self._routes):
            try:
                _check(route)
                if route.name in names:
                    raise ValueError("another row has the same name")
                names.add(route.name)
                for trigger in route.triggers:
                    other, _ = self._triggers.setdefault(_folded(trigger), (row, trigger))
                    if other != row:
                        raise ValueError(
                            f"the row {routes[other].name!r} has the trigger {trigger!r} too"
                        )
            except ValueError as error:
                raise ValueError(f"route {row + 1} ({route.name!r}): {error}") from None
        # A lookahead, for triggers may overlap. At one place, those of the first row come first.
        triggers = "|".join(map(re.escape, self._triggers)) or r"(?!)"
        self._pattern = re.compile(f"(?=({_EDGE}(?:{triggers}){_EDGE}))")

    def match(self, query: str) -> tuple[Route, str] | None:
        """The first row of the table that has a trigger in the query, and that trigger."""
        found = (self._triggers[match[1]] for match in self._pattern.finditer(_folded(query)))
        row, trigger = min(found, key=lambda place: place[0], default=(-1, ""))
        return (self._routes[row], trigger) if trigger else None


def candidates(route: Route, *, with_global: bool, project: str | None) -> list[str]:
    """The route's files in the scope, in their order.

    Args:
        route: the row of the table.
        with_global: whether the files that belong to no project are in the scope.
        project: the name of the project that is in the scope.
    """
    found = []
    for file in route.files:
        if PROJECT not in file:
            if with_global:
                found.append(file)
        elif project is not None:
            found.append(file.replace(PROJECT, project))
    return found


def _check(route: Route) -> None:
    """Raises ValueError when the row by itself is wrong."""
    if not _NAME.fullmatch(route.name):
        raise ValueError("a name has a-z, 0-9, _ and - only, and begins with a letter")
    if not route.triggers:
        raise ValueError("has no trigger")
    if not all(map(_folded, route.triggers)):
        raise ValueError("has a blank trigger")
    if not route.files:
        raise ValueError("has no file")
    for file in route.files:
        example = file.replace(PROJECT, "x")
        if "{" in example or "}" in example:
            raise ValueError(f"file {file!r} has braces other than {PROJECT}")
        try:
            canonical = uris.parse(example)
        except InvalidField as error:
            raise ValueError(f"file {file!r} {error.description}") from None
        if canonical != example:
            raise ValueError(f"file {file!r} ends with a slash")
        if uris.context_type(uris.parent(example)) is not ContextType.MEMORY:
            raise ValueError(f"file {file!r} is not below the memories of a scope")


@dataclass(frozen=True, slots=True)
class Days:
    """The days that a query is about.

    Attributes:
        first: the earliest.
        last: the latest, included.
        words: what in the query said so, folded.
    """

    first: date
    last: date
    words: str


def days_of(query: str, today: date) -> Days | None:
    """The days that the query names, or None when it names none.

    Several make one span, from the earliest to the latest. Words that only say "recently" count
    where no others do. N days include today, and of 0 days there is none; those before the first
    of the calendar are left out.
    """
    definite: list[tuple[int, int, str]] = []
    recent: list[tuple[int, int, str]] = []
    for match in _TIMES.finditer(_folded(query)):
        kind = match.lastgroup or ""
        first, last = _DAYS_AGO[kind] if kind != "count" else (_number(match["count"]) - 1, 0)
        (recent if kind == "recent" else definite).append((first, last, match[0]))
    spans = [span for span in definite or recent if span[0] >= span[1]]  # not those of 0 days
    if not spans:
        return None
    return Days(
        _days_before(today, max(first for first, _, _ in spans)),
        _days_before(today, min(last for _, last, _ in spans)),
        ", ".join(dict.fromkeys(words for _, _, words in spans)),
    )


def _days_before(today: date, days: int) -> date:
    return date.fromordinal(max(today.toordinal() - days, date.min.toordinal()))


def _number(word: str) -> int:
    """The number that `_TIMES` found; one that is longer than any calendar is cut short."""
    if word in _NUMBERS:
        return _NUMBERS[word]
    if word.isascii():
        return int(word.lstrip("0")[:9] or "0")
    total = digit = 0
    for character in word:
        if unit := _UNITS.get(character):
            total += (digit or 1) * unit
            digit = 0
        else:
            digit = _DIGITS[character]  # of 三四天, three or four days, the larger
    return total + digit


def _folded(text: str) -> str:
    return " ".join(normalized(text).casefold().split())
