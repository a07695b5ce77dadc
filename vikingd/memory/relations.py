"""Relations of the user, such as the home, the name or a favourite, read from clauses by forms.

A clause is understood if one form matches all of it. Statements of users and notes in files are
read with the same forms: a note is first turned into the first person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from vikingd.domain.extract import MemoryKind
from vikingd.domain.sentences import sentences
from vikingd.domain.text import lazy, one_line
from vikingd.memory import entry_comparison
from vikingd.memory.clause_patterns import (
    DATE,
    DENIED,
    HOLDS,
    PAST,
    Form,
    Language,
    in_both,
    language,
)
from vikingd.memory.third_person import HAN, base, first_person, of_others, third_person

MAX_CHARACTERS = 300
"""The most characters of a text that can state a relation."""

ENDS = " \t\r\n.!。！,，;；:：~…)☺😊"
"""The characters that are ignored at both ends of a clause."""


class Relation(NamedTuple):
    """A relation of the user and its value, both in lower case: ("home", "paris").

    The value is "" if the relation either holds or not: ("like tea", "", False).
    """

    key: str
    value: str
    holds: bool = True

    def contradicts(self, other: Relation) -> bool:
        """Return True if two relations cannot hold at the same time."""
        for one, favourite in ((self, other), (other, self)):
            is_favourite = favourite.key.startswith("favorite")
            if is_favourite and one.key == f"like {favourite.value}":
                return favourite.holds and not one.holds
        if self.key != other.key or not (self.holds or other.holds):
            return False
        if self.holds and other.holds:
            # Two cats may have two names.
            return self.value != other.value and not self.key.endswith(" is called")
        return self.value == other.value or not (self.value and other.value)

    @property
    def is_habit(self) -> bool:
        """True if the relation is something that the user does or does not do."""
        return self.key.startswith("do ")


class Understood(NamedTuple):
    """The statement of a clause.

    Attributes:
        kind: the kind of memory.
        note: the clause as a note, without a full stop.
        relations: the relation of the clause first, then others that end with it.
        state: one of HOLDS, DENIED, ENDED and PAST.
        how: the words of its form, see `clause_patterns.Form`.
        subject: the person that it speaks about, in the words of the clause; "" for the user.
    """

    kind: MemoryKind
    note: str
    relations: tuple[Relation, ...]
    state: str
    how: frozenset[str]
    subject: str = ""


class Asked(NamedTuple):
    """A question about the user.

    Attributes:
        keys: the keys of the relations that it asks for, as they are now; empty if it asks for
            anything else.
        is_past: it asks for what was.
    """

    keys: frozenset[str] = frozenset()
    is_past: bool = False


_DAY = re.compile(DATE)
_WHO, _OTHER, DENIES = in_both("WHO"), in_both("OTHER"), in_both("DENIES")
_BEFORE, _OVER = in_both("BEFORE"), in_both("OVER")
_HABIT = re.compile(r"^(do [a-z]{2,}?)(?:ing|e)\b")  # "do smoke" is "do smoking"
_FIRST = lazy(r"(?:i|i'm|i've|we|we're|we've|my|our)\b", re.IGNORECASE)
_POLITE = lazy(r"^(?:please|and|so|but)[, ]+|^请", re.IGNORECASE)
_ME = lazy(r"\b(?:me|my)\b", re.IGNORECASE)


def relation_of(text: str) -> Relation | None:
    """Return the relation that a text states; None if it states none, or more than one thing."""
    return next(iter(relations_of(text)), None)


def relations_of(text: str) -> tuple[Relation, ...]:
    """Return the relation that a text states, then other relations that end when it holds."""
    text = re.sub(r"\*+|__", "", one_line(text)).replace("’", "'").strip(ENDS)
    if not 0 < len(text) <= MAX_CHARACTERS or len(sentences(text)) > 1:
        return ()
    found = understood(first_person(text), loose=True)
    return found.relations if found else ()


def in_first_person(question: str) -> str:
    """Return a question about the user as the user asks it: "where do I live?"."""
    words = language("chinese" if HAN.search(question) else "english")
    return words.rewritten("mine", question)


def asked_of(questions: Iterable[str]) -> Asked:
    """Return the relations of the user that questions ask for; is one about the past, then none."""
    keys = set[str]()
    for question in questions:
        text = one_line(question[: 2 * MAX_CHARACTERS]).replace("’", "'").strip(f"{ENDS}?？")
        if _BEFORE.search(text):
            return Asked(is_past=True)
        words = language("chinese" if HAN.search(text) else "english")
        text = words.rewritten("asked", text).strip(ENDS)
        for one in words.questions:
            if (found := one.pattern.fullmatch(text)) is not None:
                groups = {**found.groupdict(""), "v": ""}
                keys.update(relation.key for relation in _related(one.keys, groups, words))
    return Asked(frozenset(keys))


@lru_cache(4096)
def understood(clause: str, *, loose: bool = False, past: bool = True) -> Understood | None:
    """Return the statement of a clause in the first person; None if no form matches all of it.

    Args:
        loose: names need no capital letters.
        past: the days that the clause names are past, so that it may hold since then.
    """
    words = language("chinese" if HAN.search(clause) else "english")
    clause = words.rewritten("now", clause)
    plain = words.rewritten("short", clause)
    denies = DENIES.search(plain) is not None
    if denies and past and (end := words.ended(plain)) is not None:
        relations = _related(end[0].keys, {"v": end[1]}, words)
        return Understood(end[0].kind, "", relations, PAST, frozenset())
    for state, positive in words.negations(plain) if denies else ():
        said = _positive(positive, clause, words, loose=loose, past=past)
        if said is None or not said.relations or not said.how.isdisjoint(("contrary", "pair")):
            continue
        key, value, _ = said.relations[0]
        note = third_person(words.rewritten("more", clause), regular=True)
        return said._replace(relations=(Relation(key, value, False),), state=state, note=note)
    said = _positive(plain, clause, words, loose=loose, past=past)
    if said is None and plain.endswith("了"):
        said = _positive(plain[:-1], clause[:-1], words, loose=loose, past=past)
        if said is not None and said.relations and said.relations[0].is_habit:
            return None  # What was done is no habit.
    if said is not None:
        who = _WHO.match(plain)
        return said._replace(subject=who[0]) if who else said
    return _of_other(clause, plain, words, loose=loose, past=past)


def _positive(
    plain: str, clause: str, words: Language, *, loose: bool, past: bool
) -> Understood | None:
    """Return the statement of a clause that has no negation; None if no form matches it."""
    has_days = _DAY.search(plain) is not None
    is_over = has_days and _OVER.fullmatch(plain) is not None
    bare = words.rewritten("when", plain).strip(ENDS)
    if bare != plain:
        bare = words.rewritten("short", bare)
    for text in dict.fromkeys((bare, plain) if has_days else (plain, bare)):
        for form, found in words.matches(text, loose=loose):
            is_since = "since" in form.how and past and text != plain and not is_over
            if has_days and not (is_since or ("day" in form.how and text == plain)):
                continue
            said = clause if text == plain else words.rewritten("when", clause).strip(ENDS)
            return _statement_of_form(form, found, said, words)
    return None


def _statement_of_form(
    form: Form, found: re.Match[str], clause: str, words: Language
) -> Understood:
    """Return the statement of a clause that a form matched."""
    groups = {name: text or "" for name, text in found.groupdict().items()}
    relations: tuple[Relation, ...] = ()
    if "pair" in form.how:
        better, worse = (_folded(groups[name], words) for name in "ab")
        relations = (Relation(" or ".join(sorted((better, worse))), better),)
    elif form.key:
        holds = "contrary" not in form.how
        first, *others = _related(form.key.split(", "), groups, words)
        relations = (first, *(one._replace(value="") for one in others))
        relations = tuple(one._replace(holds=holds) for one in relations)
        if "quits" in form.how:
            relations += _related(words.given_up, groups, words)
    if form.note:
        note = form.note.format(**groups).removesuffix("了")
    elif "wish" in form.how:
        note = _ME.sub(_user, of_others(clause) if HAN.search(clause) else clause)
        note = _POLITE.sub("", note)
    elif _FIRST.match(clause):
        note = third_person(clause, regular=True)
    else:
        note = of_others(clause)
    state = DENIED if "contrary" in form.how else HOLDS
    return Understood(form.kind, note, relations, state, form.how)


def _of_other(
    clause: str, plain: str, words: Language, *, loose: bool, past: bool
) -> Understood | None:
    """Return the statement of a clause about a person of the user: "my sister is vegan".

    Or None.
    """
    found = _OTHER.fullmatch(plain)
    if found is None:
        return None
    who = found["who"] or found["zh_who"]
    said = understood(
        f"i {base(found['verb'])}{found['rest'] or ''}"
        if found["who"]
        else f"我{found['zh_rest']}",
        loose=loose,
        past=past,
    )
    if said is None or said.subject or not (said.relations or "day" in said.how):
        return None
    key = _folded(who, words)
    relations = tuple(one._replace(key=f"{key}: {one.key}") for one in said.relations)
    if "since" in said.how:
        clause = words.rewritten("when", clause).strip(ENDS)
    kind = MemoryKind.EVENTS if said.kind is MemoryKind.EVENTS else MemoryKind.ENTITIES
    return said._replace(kind=kind, note=of_others(clause), relations=relations, subject=who)


def _related(
    keys: Iterable[str], groups: Mapping[str, str], words: Language
) -> tuple[Relation, ...]:
    """Return relations with these keys, marked as not holding; spellings are unified."""
    folded = {name: _folded(text, words) for name, text in groups.items()}
    return tuple(
        Relation(
            _HABIT.sub(r"\1", key.format(**folded)), "" if "{v}" in key else folded["v"], False
        )
        for key in keys
    )


def _folded(text: str, words: Language) -> str:
    text = (
        entry_comparison.normalized(words.rewritten("when", text.strip(ENDS)))
        .casefold()
        .strip(ENDS)
    )
    return words.rewritten("spelling", text).strip("“”\"' 了")


def _user(found: re.Match[str]) -> str:
    return "the user's" if found[0].lower() == "my" else "the user"
