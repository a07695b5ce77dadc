"""Patterns of clauses, such as "I live in ...", by which facts about the user are recognized.

A pattern with the fact that it gives is a form. It matches a whole clause that states, denies or
ends the fact. The forms of a language are in one file, one in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
_GROUP = re.compile(r"\(\?P<\w+>")
_NAMED = re.compile(r"([A-Z_]+) = (.+)")


class Form(NamedTuple):
    """A form of clauses in the first person.

    Attributes:
        key: the key of the relation, in which `{of}` is a group of the pattern; "" for none. Keys
            of several relations are separated by commas.
        source: the pattern as text.
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
    source: str
    pattern: re.Pattern[str]
    loose: re.Pattern[str]
    how: frozenset[str]
    note: str


class End(NamedTuple):
    """A pattern of clauses that end relations without a negation, such as "I quit my job"."""

    kind: MemoryKind
    keys: tuple[str, ...]
    pattern: re.Pattern[str]


class Question(NamedTuple):
    """A pattern of questions about relations of the user, such as "where do I live?"."""

    keys: tuple[str, ...]
    pattern: re.Pattern[str]


class Language:
    """The forms of a language.

    Attributes:
        named: the named patterns.
        ends: the clauses that end relations without a negation.
        given_up: the keys of relations that end when the user gives something up.
        questions: the questions about relations of the user.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.named = {"HAN_CHARS": HAN_CHARS, "DATE": DATE}
        self.ends: list[End] = []
        self.given_up: list[str] = []
        self.questions: list[Question] = []
        self._forms: list[Form] = []
        self._rewrites: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for line in lines:
            if line and not line.startswith("#"):
                self._take(_SLOT.sub(lambda found: self.named[found[1]], line))
        self._closed = lazy(self.named.get("CLOSED", "(?!)"), re.IGNORECASE)
        # Most clauses have no form, and one search is faster than one for each form.
        sources = (_GROUP.sub("(?:", form.source) for form in self._forms)
        self._any = lazy("|".join(f"(?:{source})" for source in sources), re.IGNORECASE)

    def rewritten(self, name: str, text: str) -> str:
        """Return a text after all rewrites with this name in the file."""
        for pattern, to in self._rewrites.get(name, ()):
            text = pattern.sub(to, text)
        return text

    def negations(self, clause: str) -> Iterator[tuple[str, str]]:
        """Yield (state, positive clause) for a clause that denies or ends a fact.

        "I don't live in Paris" gives (DENIED, "I live in Paris").
        """
        for state in (ENDED, DENIED, PAST):
            for pattern, to in self._rewrites.get(state, ()):
                if (found := pattern.fullmatch(clause)) is not None:
                    yield state, to.format(**found.groupdict())

    def ended(self, clause: str) -> tuple[End, str] | None:
        """Return the pattern of `ends` that matches a clause, and the ended value.

        None if none matches.
        """
        for end in self.ends:
            if (found := end.pattern.fullmatch(clause)) is not None and self._is_open(found):
                return end, found["v"] or found.groupdict().get("w") or ""
        return None

    def matches(self, clause: str, *, loose: bool) -> Iterator[tuple[Form, re.Match[str]]]:
        """Yield the forms that match a clause and whose groups have only words of open classes."""
        if not loose and not self._any.fullmatch(clause):
            return
        for form in self._forms:
            found = (form.loose if loose else form.pattern).fullmatch(clause)
            if found is not None and self._is_open(found):
                yield form, found

    def _is_open(self, found: re.Match[str]) -> bool:
        names = {i: name for name, i in found.re.groupindex.items()}
        for i, text in enumerate(found.groups(), start=1):
            if text is None or names.get(i, "path") != "path":
                continue
            text = self.rewritten("path" if i in names else "open", text)
            if self._closed.search(text):
                return False
        return True

    def _take(self, line: str) -> None:
        """Add a line of the file; english.forms explains its syntax."""
        if (slot := _NAMED.fullmatch(line)) is not None:
            self.named[slot[1]] = slot[2]
            return
        head, _, rest = line.partition(" :: ")
        source, _, to = rest.partition(" =>")
        to = to.removeprefix(" ").replace("{ }", " ")
        first, *more = head.split("; ")
        pattern = lazy(source, re.IGNORECASE)
        if head == "given up":
            self.given_up = source.split(", ")
        elif first.startswith("asks "):
            keys = first.removeprefix("asks ").split(", ")
            self.questions.append(Question(tuple(keys), pattern))
        elif first.startswith("end "):
            kind = MemoryKind[first.removeprefix("end ").upper()]
            self.ends.append(End(kind, tuple(more[0].split(", ")), pattern))
        elif first.upper() in MemoryKind.__members__:
            key, how, *_ = *more, "", ""
            loose = lazy(source.replace("(?-i:", "(?:"), re.IGNORECASE)
            kind = MemoryKind[first.upper()]
            self._forms.append(Form(kind, key, source, pattern, loose, frozenset(how.split()), to))
        else:
            self._rewrites.setdefault(head, []).append((pattern, to))


@cache
def language(name: str) -> Language:
    """Return the forms of "english" or "chinese"."""
    text = Path(__file__).with_name(f"{name}.forms").read_text("utf-8")
    return Language(text.splitlines())


def in_both(name: str) -> re.Pattern[str]:
    """Return a named pattern for texts in any language."""
    both = (language(one).named.get(name, "") for one in ("english", "chinese"))
    return lazy("|".join(f"(?:{one})" for one in both if one), re.IGNORECASE)
