"""Groups for the many children of a directory, each shown in one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from vikingd.describe.topics import Child, first_sentence, label
from vikingd.domain.text import one_line, without_invisible

_MOST_GROUPS = 30
_MAX_NAME = 60  # characters of a name that are shown
_FEW = 3  # A smaller group is not worth a line of its own.
# A day or a month in a name: "2024-01-31", "202401", "2024_01".
_DATE = re.compile(r"((?:19|20)\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])?(?!\d)")
# The first word of a name: "user" of "user_list" and of "userList".
_PREFIX = re.compile(r"[^\W_]+(?=[-_. ]|(?<=[a-z])[A-Z])")


class Group(NamedTuple):
    """Children of a directory, and a name for all of them."""

    name: str
    children: Sequence[Child]


def grouped(children: Sequence[Child], more: int, room: int) -> list[str]:
    """Return a line of Markdown for each group of children, within `room` characters in all.

    Each line has the number of children, and as many of their names as fit. `more` is the number of
    children that are not given.
    """
    groups = list(_groups(children))
    rest = f"- … {more:,} more"
    room -= len(rest) + 1 if more else 0
    lines: list[str] = []
    for at, group in enumerate(groups):
        left = sum(len(one.children) for one in groups[at:])
        line = _line(group, room // (len(groups) - at) - 1)
        if not line:
            rest = f"- … {left + more:,} more"
            more = left + more
            break
        lines.append(line)
        room -= len(line) + 1
    return [*lines, rest] if more else lines


def _line(group: Group, room: int) -> str:
    """Return the line of a group; "" if there is no room for it."""
    head = f"- {group.name} ({len(group.children):,})"
    if len(head) > room:
        return ""
    text, shown = "", 0
    for about in _abouts(group):
        if len(head) + len(text) + len(about) + 5 > room:
            break
        text += f", {about}" if text else f": {about}"
        shown += 1
    return head + text + (", …" if text and shown < len(group.children) else "")


def _abouts(group: Group) -> Iterator[str]:
    for child in group.children:
        name = _name(child)
        title = label(child)
        yield title if title else f"{name} {first_sentence(child, 60)}".rstrip()


def _name(child: Child) -> str:
    return one_line(without_invisible(child.name[:_MAX_NAME])) + ("/" if child.is_directory else "")


def _groups(children: Sequence[Child]) -> Iterator[Group]:
    directories = [child for child in children if child.is_directory]
    files = [child for child in children if not child.is_directory]
    for few, name in ((directories, "*/"), (files, "*")):
        if few:
            yield from _parted(few, name)


def _parted(children: Sequence[Child], name: str) -> Iterator[Group]:
    """Yield groups of children of one kind: by month, year, common prefix or first letter.

    If none of these divides them well, the groups are runs of the sorted names.
    """
    if len(children) <= _FEW:
        yield Group(name, children)
        return
    for key in (_month, _year, _prefix):
        groups = _by(children, key, name)
        if groups and len(groups) <= _MOST_GROUPS:
            yield from groups
            return
    letters = _by(children, lambda child: child.name[:1].upper(), name)
    if letters and len(letters) <= _MOST_GROUPS:
        yield from letters
    else:
        yield from _ranges(children)


def _by(children: Sequence[Child], key: Callable[[Child], str], name: str) -> list[Group] | None:
    """Return the groups of children with equal keys, and one named `name` for all others.

    Return None if the others are more than a third of the children, or if there are fewer than two
    groups.
    """
    found: dict[str, list[Child]] = defaultdict(list)
    for child in children:
        found[key(child)].append(child)
    kept = {one: few for one, few in found.items() if one and len(few) >= _FEW}
    others = [child for one, few in found.items() if one not in kept for child in few]
    if len(others) * 3 > len(children) or len(kept) < 2:
        return None
    groups = [Group(one, few) for one, few in sorted(kept.items())]
    return [*groups, Group(name, sorted(others))] if others else groups


def _month(child: Child) -> str:
    found = _DATE.search(child.name)
    return f"{found[1]}-{found[2]}" if found else ""


def _year(child: Child) -> str:
    return _month(child)[:4]


def _prefix(child: Child) -> str:
    found = _PREFIX.match(child.name)
    return f"{found[0]}*" if found else ""


def _ranges(children: Sequence[Child]) -> Iterator[Group]:
    """Yield groups of equal size in the order of the children, named by first and last child."""
    size = max(-(-len(children) // _MOST_GROUPS), 10)
    for start in range(0, len(children), size):
        few = children[start : start + size]
        yield Group(f"{_name(few[0])} – {_name(few[-1])}", few)
