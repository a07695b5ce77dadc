"""Routes from the words of a query to known files.

Queries and triggers are compared after NFKC and case folding, with one space for any white space.
English words match whole. Chinese words match anywhere, since no space separates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import CJK_CHARS, lazy, normalized
from vikingd.memory.memory_types import SHARED_ROOTS, MemoryScope, own_root
from vikingd.memory.named_days import is_frame

PROJECT = "{project}"
"""The placeholder for the name of the project in the files of a route."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")

# A letter, digit or underscore, but no CJK character.
_WORD = rf"[^\W{CJK_CHARS}]"
# A match may begin or end anywhere but between two such characters.
_EDGE = rf"(?:(?<!{_WORD})|(?!{_WORD}))"


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the table of routes: words that name files."""

    name: str  # of the row, and the type of the memories in its files
    triggers: tuple[str, ...]
    files: tuple[str, ...]  # URIs by preference, with `{project}` for the name of the project


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

    Raises:
        ValueError: naming the row and its fault.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        # Row number and original spelling by the folded trigger.
        self._triggers: dict[str, tuple[int, str]] = {}
        self._routes = tuple(routes)
        self.by_name: dict[str, Route] = {}
        for row, route in enumerate(self._routes):
            try:
                _check(route)
                if self.by_name.setdefault(route.name, route) is not route:
                    raise ValueError("another row has the same name")
                for trigger in route.triggers:
                    other, _ = self._triggers.setdefault(_folded(trigger), (row, trigger))
                    if other != row:
                        raise ValueError(
                            f"the row {routes[other].name!r} has the trigger {trigger!r} too"
                        )
            except ValueError as error:
                raise ValueError(f"route {row + 1} ({route.name!r}): {error}") from None
        # A lookahead, since triggers may overlap. Triggers of earlier rows are tried first.
        triggers = "|".join(map(re.escape, self._triggers)) or r"(?!)"
        self._pattern = lazy(f"(?=({_EDGE}(?:{triggers}){_EDGE}))")
        longest = "|".join(map(re.escape, sorted(self._triggers, key=len, reverse=True)))
        self._named = lazy(f"{_EDGE}(?:{longest or '(?!)'}){_EDGE}")

    def asks_for_file(self, query: str) -> bool:
        """Return True if a query asks for a known file as a whole: "list my tasks", 我的偏好."""
        return is_frame(self._named.sub(" ", _folded(query)))

    def match(self, query: str) -> tuple[Route, str] | None:
        """Return the first row with a trigger in the query, and that trigger; None without one."""
        found = (self._triggers[match[1]] for match in self._pattern.finditer(_folded(query)))
        row, trigger = min(found, key=lambda place: place[0], default=(-1, ""))
        return (self._routes[row], trigger) if trigger else None


def candidates(route: Route, scope: MemoryScope) -> list[str]:
    """Return the files of a route that are in the scope, in order.

    The caller's own files come directly before the first shared one. Each has the name of a shared
    one.
    """
    found: list[str] = []
    own = own_files(route.files, scope.caller.user) if scope.with_global else []
    for file in route.files:
        if PROJECT in file:
            if scope.project:
                found.append(file.replace(PROJECT, scope.project))
        elif scope.with_global:
            found += [*own, file] if _below_shared(file) else [file]
    return list(dict.fromkeys(found))


def own_files(files: Iterable[str], user: str) -> list[str]:
    """Return the files of the user that correspond to shared ones; none without a user."""
    return [f"{own_root(user)}/{rest}" for rest in map(_below_shared, files) if user and rest]


def _below_shared(uri: str) -> str:
    """Return the path below the shared root of a file; "" if it has none."""
    return next((uri[len(root) + 1 :] for root in SHARED_ROOTS if uris.is_within(uri, root)), "")


def _check(route: Route) -> None:
    """Raise ValueError for a faulty row."""
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


def _folded(text: str) -> str:
    return " ".join(normalized(text).casefold().split())
