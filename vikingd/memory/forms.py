"""Forms of clauses: a pattern for a whole clause, and the fact that it states, denies or ends.

The forms stand in a file for each language, one in a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vikingd.domain.extract import MemoryKind
from vikingd.domain.text import HAN_CHARS, lazy

DATE = "[\ue000-\ue00f]"
"""A pattern for the characters that stand for phrases of time in a clause, see `said_dates`."""

HOLDS, DENIED, ENDED, PAST = "holds", "denied", "ended", "past"
"""States of a relation: "I do", "I do not", "I no longer do", "I used to"."""

_SLOT = re.compile(r"\{([A-Z_]+)\}")
_NAMED = re.compile(r"([A-Z_]+) = (.+)")


class Form(NamedTuple):
    """A form of clauses in the first person.

    Attributes:
        key: the key of the relation, in which `{of}` is a group of the pattern; "" for none.
        pattern: matches a whole clause; the group `v` is the value of a key without `{v}`.
        loose: the same pattern without regard to case, for notes.
        how: words out of these: `since` (the time since when it holds may be left out), `day` (it
            needs a day), `fact` (its denial is a fact, too), `contrary` (it denies its relation),
            `quits` (it ends habits, too), `wish` (it is kept in the user's words), `many` (it has
            several values), `idle` (it states nothing that lasts), `request` (only behind another
            clause), `pair` (the value is the better one of two).
        note: the note, with groups; "" for the clause in the third person.
    """

    kind: MemoryKind
    key: str
    pattern: re.Pattern[str]
    loose: re.Pattern[str]
    how: frozenset[str]
    note: str


class Rewrite(NamedTuple):
    """A pattern, and what stands for it; of a clause that denies or ends: the positive clause."""

    name: str
    pattern: re.Pattern[str]
    to: str


class End(NamedTuple):
    """A pattern of clauses that end relations by words of their own, such as "I quit my job"."""

    kind: MemoryKind
    keys: tuple[str, ...]
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Language:
    """The forms of a language.

    Attributes:
        named: the named patterns.
        rewrites: by name; DENIED, ENDED and PAST turn clauses into positive ones, in order.
        given_up: the keys of relations that end when the user gives something up.
    """

    named: dict[str, str]
    forms: list[Form] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    def rewritten(self, name: str, text: str) -> str:
        """Return a text after all rewrites of a name."""
        for rewrite in self.rewrites:
            if rewrite.name == name:
                text = rewrite.pattern.sub(rewrite.to, text)
        return text


@cache
def language(name: str) -> Language:
    """Return the forms of "english" or "chinese"."""
    named = {"HAN_CHARS": HAN_CHARS, "DATE": DATE}
    made = Language(named)
    for line in Path(__file__).with_name(f"{name}.forms").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        line = _SLOT.sub(lambda found: named[found[1]], line)
        if (slot := _NAMED.fullmatch(line)) is not None:
            named[slot[1]] = slot[2]
            continue
        head, _, rest = line.partition(" :: ")
        source, _, to = rest.partition(" =>")
        to = to.removeprefix(" ").replace("{ }", " ")
        pattern = lazy(source, re.IGNORECASE)
        if head == "given up":
            made.given_up.extend(source.split(", "))
        elif head.startswith("end "):
            kind, _, keys = head.removeprefix("end ").partition("; ")
            made.ends.append(End(MemoryKind[kind.upper()], tuple(keys.split(", ")), pattern))
        elif head.partition(";")[0].upper() not in MemoryKind.__members__:
            made.rewrites.append(Rewrite(head, pattern, to))
        else:
            kind, key, how, *_ = *head.split("; "), "", ""
            loose = lazy(source.replace("(?-i:", "(?:"), re.IGNORECASE)
            made.forms.append(
                Form(MemoryKind[kind.upper()], key, pattern, loose, frozenset(how.split()), to)
            )
    return made


def in_both(name: str) -> re.Pattern[str]:
    """Return a named pattern for texts in any language."""
    both = (language(one).named.get(name, "") for one in ("english", "chinese"))
    return lazy("|".join(f"(?:{one})" for one in both if one), re.IGNORECASE)
