"""Facts that users state about themselves, in English and Chinese.

A clause becomes a fact only if the forms understand all of it, see `relations`. It is no question,
no hypothesis, no quotation and no statement of another person. If a sentence as a whole is not
understood, its clauses are read one by one, and the other clauses must not be able to change their
meaning. Each sentence that is not understood is reported as untaken.

A memory is a note in the third person that keeps the words of the user, so that saying the same
again gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vikingd.domain import cancellation
from vikingd.domain.extract import MAX_MEMORIES, Ending, MemoryKind, Proposal, Untaken
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.sentences import sentences
from vikingd.domain.text import lazy, one_line
from vikingd.memory.clause_patterns import ENDED, HOLDS, PAST, in_both, language
from vikingd.memory.relations import DENIES, ENDS, Understood, understood
from vikingd.memory.said_dates import Marked, SaidAt, marked
from vikingd.memory.third_person import HAN, of_others, third_person
from vikingd.memory.unquoted_text import LEFT_OUT, own_words

MAX_READ = 8_000
"""The most characters of a message that are read."""

MAX_SENTENCE = 1_000
"""The most characters of a sentence that is read."""

MAX_CLAUSE = 400
"""The most characters of a clause that may become a memory."""

_MAX_CLAUSES = 4
_FEW = 12  # characters of a sentence that names nobody


@dataclass(frozen=True, slots=True)
class Statements:
    """The facts that a user stated or ended, and the sentences that gave neither."""

    proposals: tuple[Proposal, ...]
    endings: tuple[Ending, ...]
    untaken: tuple[Untaken, ...]


_BULLET = lazy(r"[ \t]*(?:[-*+•]|[0-9]{1,3}[.)、])[ \t]+")

_MEANING = lazy(r"\w")
_NAMED = lazy(r"(?<=[\w,] )(?!I\b)[A-Z]")
_ARE = lazy(r"^ are\b")
_WITH = lazy(r"^我[和跟]")
_THIRD = lazy(r"(?-i:[a-z])+s\b")
_OWN = lazy(r"\b(?:i|i'm|i've|me|my|we|our)\b|[我咱]", re.IGNORECASE)
_FOREIGN, _OTHERS, _UNREAL, _JEST, _ASKS = map(
    in_both, ("FOREIGN", "OTHERS", "UNREAL", "JEST", "ASKS")
)
_FILLER, _TRAILER, _PARTICLES, _REMEMBER, _WISHES = map(
    in_both, ("FILLER", "TRAILER", "PARTICLES", "REMEMBER", "WISHES")
)
_SPLIT, _ASIDE, _HE, _SUBJECT, _COMPANY, _UNTURNED, _INTRODUCED = map(
    in_both, ("SPLIT", "ASIDE", "HE", "SUBJECT", "COMPANY", "UNTURNED", "INTRODUCED")
)
_CUT, _TURNS, _QUESTION, _BACK, _PLAYS, _CORRECTS, _LIMITS, _LAUGHS, _IF = map(
    in_both, ("CUT", "TURNS", "QUESTION", "BACK", "PLAYS", "CORRECTS", "LIMITS", "LAUGHS", "IF")
)
_FIRST_PERSON = lazy(r"\b(?:i|i['’]\w+)\b", re.IGNORECASE)  # in a wish
_HEADED, _PUZZLE, _FAMILY, _SPOUSE, _RELATIVE, _NO_CLAUSE = map(
    in_both, ("HEADED", "PUZZLE", "FAMILY", "SPOUSE", "RELATIVE", "NO_CLAUSE")
)
_WHO, _MAN, _WOMAN, _THING, _ALIKE = map(in_both, ("WHO", "MAN", "WOMAN", "THING", "ALIKE"))
_FRAMED, _NO_FACT, _FOR_NOW, _NOT_KEPT = map(in_both, ("FRAMED", "NO_FACT", "FOR_NOW", "NOT_KEPT"))
_OWNED, _KIN_CLAUSE, _STRANGER, _NAMES, _HENCE = map(
    in_both, ("OWNED_FIRST", "KIN_CLAUSE", "STRANGER", "NAMES", "HENCE")
)
_INTERRUPTED, _ENDED_SINCE, _SINCE_THEN = map(in_both, ("INTERRUPTED", "ENDED_SINCE", "SINCE_THEN"))
_DANGLES, _LISTED, _SELF_DAY, _BLANK, _BRACKETS, _INTRODUCES = map(
    in_both, ("DANGLES", "LISTED", "SELF_DAY", "BLANK", "BRACKETS", "INTRODUCES")
)
_PRONOUN_OF = ((_MAN, ("he", "他")), (_WOMAN, ("she", "她")), (_THING, ("it", "它")))
_PROFILE, _PREFERENCES, _ENTITIES = (
    MemoryKind.PROFILE,
    MemoryKind.PREFERENCES,
    MemoryKind.ENTITIES,
)


def read(messages: Sequence[SessionMessage], first: int, said: SaidAt) -> Statements:
    """Return the facts that the user states explicitly in messages[first:], each once, in order.

    If there are more than MAX_MEMORIES facts, the newest are returned.
    """
    read: list[tuple[int, _Sentence]] = []
    is_played = any(_PLAYS.search(one.content[:MAX_READ]) for one in messages if one.role == "user")
    who = ""
    for index in range(first, len(messages)):
        message = messages[index]
        cancellation.check()
        if message.role != "user":
            continue
        for one in _sentences(message.content[:MAX_READ], said.of(message), who):
            who = one.who
            if is_played and (one.facts or one.ended):
                one = _Sentence(one.sentence, reason="it is said in a play")
            if _FRAMED.match(one.sentence):
                told = index if any(i == index for i, _ in read) else read[-1][0] if read else -1
                read = [(i, _dropped(old) if i == told else old) for i, old in read]
            if read and _BACK.match(one.sentence):
                _take_back(read, index, ends=not _ENDED_SINCE.match(one.sentence))
            read.append((index, one))
    facts: dict[str, Proposal] = {}
    ended: list[Ending] = []
    untaken: list[Untaken] = []
    for index, one in read:
        for kind, note in one.facts:
            known = facts.pop(note.casefold(), None)
            evidence = (*(known.evidence if known else ()), index)
            facts[note.casefold()] = Proposal(kind, note, tuple(dict.fromkeys(evidence)))
        ended += [Ending(*end, one.sentence, index) for end in one.ended]
        if one.reason:
            untaken.append(Untaken(one.sentence, index, one.reason))
    return Statements(tuple(facts.values())[-MAX_MEMORIES:], tuple(ended), tuple(untaken))


def _take_back(read: list[tuple[int, _Sentence]], index: int, *, ends: bool) -> None:
    """Drop the facts of the sentence that a correction such as "wait, no" takes back.

    It is the last sentence of message `index`, or else all of the message before it. With `ends`
    the ends that it tells of are dropped, too: "he died" leaves them.
    """
    message = read[-1][0]
    for i in range(len(read) - 1 if message == index else 0, len(read)):
        last = read[i][1]
        if read[i][0] == message and (last.facts or last.ended):
            read[i] = message, replace(_dropped(last), ended=() if ends else last.ended)


def _dropped(one: _Sentence) -> _Sentence:
    """Return a sentence without its facts, which a later sentence takes back."""
    return _Sentence(one.sentence, reason="it is taken back")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence with the facts that it states or ends, or the reason why it has none."""

    sentence: str
    facts: tuple[tuple[MemoryKind, str], ...] = ()
    ended: tuple[tuple[MemoryKind, str, str], ...] = ()
    reason: str = ""
    who: str = ""
    """The person besides the user that the sentence names, for "she" in the next sentence."""


def _sentences(content: str, now: datetime, who: str) -> Iterator[_Sentence]:
    """Yield the sentences of a message that are the user's own words."""
    own = own_words(content)
    barred = "it is said in jest" if _JEST.search(own) else ""
    if not barred and _PUZZLE.search(own):
        barred = "it is told in a puzzle"
    for line in own.splitlines():
        bullet = _BULLET.match(line)
        body = line[bullet.end() :] if bullet else line
        for sentence in sentences(body):
            if found := _FOREIGN.search(sentence):
                before = sentence[: found.start()]
                if not _REMEMBER.match(_unfilled(sentence)) or not before.strip():
                    if _FRAMED.match(sentence):
                        yield _Sentence(sentence, reason="it tells of another text")
                    return
            if _HEADED.match(sentence):
                yield _Sentence(sentence, reason="a title is before it")
                return
            if _MEANING.search(_unfilled(sentence)):
                one = _with_names(_read(sentence, now, who, barred), barred)
                who = _who(sentence, who)
                yield replace(one, who=who)
        end = body[-MAX_SENTENCE:].rstrip()
        if end.endswith((":", "：")) and (_INTRODUCED.search(end) or _OTHERS.search(end)):
            return


def _with_names(one: _Sentence, barred: str) -> _Sentence:
    """Add a fact for each named person of the user in the sentence: "my son Tom"."""
    if barred or any(p.search(one.sentence) for p in (_ASKS, _LAUGHS, _IF, _CORRECTS, _TURNS)):
        return one
    named = [
        (MemoryKind.ENTITIES, f"The user's {found['of'].lower()} is called {found['name']}.")
        for found in _NAMES.finditer(one.sentence)
        if not any(found["name"] in note for _, note in one.facts)
    ]
    return replace(one, facts=(*one.facts, *named))


def _who(sentence: str, before: str) -> str:
    """Return the only person whom a sentence names; "" for none or several.

    After a pronoun or in a very short sentence it is still the person `before`.
    """
    named = {found[0] for found in _WHO.finditer(sentence)}
    if len(named) == 1:
        (only,) = named
        return "" if _ALIKE.search(sentence.replace(only, "")) else _WITH.sub("我", only)
    few = _FEW if HAN.search(sentence) else 3 * _FEW
    is_short = len(sentence) < few and not _NAMED.search(sentence)
    goes_on = is_short or _HE.match(_unfilled(sentence))
    return before if goes_on and not named else ""


def _antecedent(text: str, who: str) -> Understood | None:
    """Return the person whom the pronoun at the beginning of a text means, or None.

    The result is a statement with this subject and no facts. `who` is the person mentioned last.
    """
    found = _HE.match(text)
    if found is None or not who:
        return None
    kinds = [said for kind, said in _PRONOUN_OF if kind.search(who)]
    pronoun = found[0].lower().removesuffix(" ").removesuffix("'s")
    if not any(pronoun in said for said in kinds):
        return None
    return Understood(_ENTITIES, "", (), HOLDS, frozenset(), who)


def _read(sentence: str, now: datetime, who: str, barred: str) -> _Sentence:
    """Return what a sentence states; nothing if the reason `barred` is not empty."""
    if len(sentence) > MAX_SENTENCE:
        return _Sentence(sentence, reason="it is long")
    if LEFT_OUT in sentence or any(sign in sentence for sign in "`{}"):
        return _Sentence(sentence, reason="it quotes another text")
    if barred:
        return _Sentence(sentence, reason=barred)
    then = _SINCE_THEN.search(sentence)
    if _CORRECTS.search(sentence) or (then and not DENIES.search(sentence[: then.start()])):
        return _Sentence(sentence, reason="it corrects itself")
    if _ASKS.search(sentence):
        return replace(_facts_of(sentence, _beside_question(sentence, now)), reason="it asks")
    said = _unfilled(_as_written(sentence))
    if (found := _REMEMBER.fullmatch(said)) is not None:
        return _memory_to_keep(sentence, found, now)
    family = _KIN_CLAUSE.search(said)
    if family and _STRANGER.search(who + said[: family.start()]):
        said = said[: family.start()]  # the family of somebody else
    plain = _without_trailer(said)
    reason = "not all of it is understood"
    if _UNREAL.search(plain):
        reason = "it is no fact, but a possibility"
    elif _OTHERS.search(plain):
        reason = "it tells what somebody says"
    else:
        for text in () if _BLANK.search(said) else dict.fromkeys((_trimmed(said), plain)):
            if (parts := _parsed(text, now, _antecedent(text, who))) is not None:
                return _facts_of(sentence, parts)
    # An ending is understood without its reason.
    for split in _ASIDE.finditer(plain) if DENIES.search(plain) else ():
        parts = _parsed(plain[: split.start()], now)
        if _TURNS.search(plain[split.start() :]):
            break
        if parts is not None and all(
            one.state in (ENDED, PAST) or "quits" in one.how for one in parts
        ):
            others = _apart(plain[split.end() :], now, parts[-1])
            return _facts_of(sentence, [*(_past(one) for one in parts), *others])
    return replace(_facts_of(sentence, _apart(plain, now, _antecedent(plain, who))), reason=reason)


def _past(one: Understood) -> Understood:
    """Return what ended as past, but for the end of a like or of a habit: it is a fact."""
    return one if one.state == ENDED and "fact" in one.how else one._replace(state=PAST)


def _beside_question(sentence: str, now: datetime) -> list[Understood]:
    """Return the statements of clauses beside a question, as in "I'm vegan, what can I cook?"."""
    text = _unfilled(_as_written(sentence))
    if (found := _BRACKETS.search(text)) is not None:
        return _apart(found[1], now)
    if text.rstrip(ENDS).endswith(("?", "？")):
        if (found := _QUESTION.search(text)) is None:
            return []
        text = text[: found.start()]
    return _apart(text.strip(ENDS), now)


def _apart(text: str, now: datetime, before: Understood | None = None) -> list[Understood]:
    """Return the statements of single clauses of a sentence.

    None if another clause can change them.

    A clause that is not understood may be left out if it stands alone, or adds to a fact before it:
    it has none of the words that deny, restrict or suppose the clauses beside it.
    """
    cuts = [found.span() for found in _CUT.finditer(text)]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    parts, i = list[Understood](), 0
    while i < len(starts):
        for j in range(min(len(ends), i + _MAX_CLAUSES), i, -1):
            if _INTERRUPTED.match(text, ends[j - 1]):
                continue
            said = _stated(text[starts[i] : ends[j - 1]], now, before)
            if said is not None and (i == 0 or before or _may_begin(text[starts[i] :], said)):
                parts.append(said)
                before, i = said, j
                break
        else:
            piece = text[(cuts[i - 1][0] if i else 0) : ends[i]]
            if parts and _LISTED.search(text[: ends[i]]):
                return []  # The fact before it has lost its end.
            heads = text[ends[i] :].lstrip()[:1] in tuple(":：")  # what follows may be quoted
            if not _may_be_left_out(piece, is_behind=bool(parts)) or (heads and not parts):
                return []
            if any(one.search(piece) for one in (_OTHERS, _UNREAL)) or _HENCE.match(piece):
                break  # What follows may be supposed, reported or asked for, too.
            before, i = None, i + 1
    is_for_now = _FOR_NOW.search(text) is not None  # up to its end
    return [one for one in parts if not (is_for_now and "wish" in one.how)]


def _stated(piece: str, now: datetime, before: Understood | None) -> Understood | None:
    """Return the statement of a part of a sentence; None if it only asks, supposes or reports."""
    if not piece.strip() or len(piece) > MAX_CLAUSE or _BLANK.search(piece):
        return None
    if any(one.search(piece) for one in (_ASKS, _UNREAL, _OTHERS, _LAUGHS)):
        return None
    days = marked(piece, now)
    return _clause(days.plain, days, before)


def _may_begin(piece: str, said: Understood) -> bool:
    """Return False if a part of a sentence may lack its own subject, or is a wish."""
    return "wish" not in said.how and (HAN.search(piece) is None or _OWNED.match(piece) is not None)


def _may_be_left_out(piece: str, *, is_behind: bool) -> bool:
    """Return True if a part of a sentence cannot change whether the others are true."""
    if not _MEANING.search(piece):
        return True
    if _TURNS.search(piece) or _IF.search(piece) or _LIMITS.match(piece):
        return False
    if is_behind or _ASKS.search(piece):
        return True
    return _OTHERS.search(piece) is None and _UNREAL.search(piece) is None


def _as_written(text: str) -> str:
    return language("english").rewritten("typed", text)


def dated(text: str, message: SessionMessage, said: SaidAt) -> str:
    """Return a note about a message with dates in place of phrases such as "next Tuesday"."""
    days = marked(text, said.of(message), weekdays=False)
    return days.shown(days.plain)


def _facts_of(sentence: str, parts: Sequence[Understood]) -> _Sentence:
    """Return the sentence with the facts that its clauses state or end."""
    facts, ended = [], []
    for one in parts:
        if "idle" in one.how:
            continue
        is_fact = one.state == HOLDS or (
            one.state != PAST and not one.how.isdisjoint(("fact", "contrary"))
        )
        if is_fact:
            facts.append((one.kind, _shown(one.note)))
        else:
            ended += [(one.kind, relation.key, relation.value) for relation in one.relations]
    return _Sentence(sentence, tuple(facts), tuple(ended))


def _memory_to_keep(sentence: str, found: re.Match[str], now: datetime) -> _Sentence:
    """Return the memory of a request such as "remember that ...", even if no form matches it."""
    what = _without_trailer(_trimmed(found["what"] or found["zh_what"]))
    if _NOT_KEPT.search(what):
        return _Sentence(sentence, reason="it is not clear of what it speaks")
    if not 2 <= len(what) <= MAX_CLAUSE:
        return _Sentence(sentence, reason="what to remember is empty or long")
    if (parts := _parsed(what, now)) is not None:
        return _facts_of(sentence, parts)
    if found["aside"] or found["zh_aside"] or _NO_CLAUSE.search(what):
        return _Sentence(sentence, reason="not all of it is understood")
    days = marked(what, now, weekdays=False)
    note = days.shown(of_others(third_person(days.plain)))
    if _UNTURNED.search(note):
        return _Sentence(sentence, reason="it is not clear of whom it speaks")
    if _RELATIVE.search(note):
        return _Sentence(sentence, reason="its day is not known")
    kind = _PROFILE if _SUBJECT.match(what) else _ENTITIES
    if found["to"] or _WISHES.match(what):
        kind = _PREFERENCES
    return _Sentence(sentence, ((kind, _shown(note)),))


def _parsed(text: str, now: datetime, before: Understood | None = None) -> list[Understood] | None:
    """Return the statements of all clauses of a sentence.

    None unless every clause is understood.
    """
    if len(text) > MAX_CLAUSE:
        return None
    days = marked(text, now)
    return _clauses(days.plain, days, before, _MAX_CLAUSES if before or _OWN.search(text) else 1)


def _clauses(
    text: str, days: Marked, before: Understood | None, most: int
) -> list[Understood] | None:
    if (whole := _clause(text, days, before)) is not None:
        return [whole]
    for split in reversed(list(_SPLIT.finditer(text))) if most > 1 else ():
        head = _clause(text[: split.start()], days, before)
        if head is None:
            continue
        if (rest := _clauses(text[split.end() :], days, head, most - 1)) is not None:
            return [head, *rest]
    return None


def _clause(text: str, days: Marked, before: Understood | None) -> Understood | None:
    """Return the statement of a clause; one without a subject has that of the clause `before`."""
    if _LAUGHS.search(text):
        return None
    text = _PARTICLES.sub("", _unfilled(_trimmed(text)))
    tried = [_without_company(text)]
    if before is not None and not _SUBJECT.match(text):
        who, is_chinese = before.subject, HAN.search(text) is not None
        if (he := _HE.match(text)) is not None:
            if not who:
                return None
            space = "" if is_chinese else " is " if he["short"] else " "
            tried = [f"{who}{space}{text[he.end() :]}"]
        elif (is_chinese and _INTRODUCES.match(before.note)) or (
            is_chinese and who and _SPOUSE.match(text)
        ):
            return None
        elif is_chinese:
            # A relative in the next clause is the user's, not that of the person before.
            tried = [f"{'我' if _FAMILY.match(text) else who or '我'}{text}", *tried]
        elif not who:
            tried = [f"I {text}", f"I am {text}", *tried]
        elif _THIRD.match(text):
            tried = [f"{who} {text}"]
    elif _SELF_DAY.match(text):
        tried.insert(0, f"我{text}")
    for clause in tried:
        said = understood(clause, past=days.are_past(clause))
        if said is None:
            continue
        if "idle" in said.how:
            return None if before is None and "request" in said.how else said
        note = days.shown(said.note)
        if _DANGLES.search(note):
            continue
        if "day" in said.how and HAN.search(clause) and "用户" not in note:
            note = f"用户{note}"
        left = _FIRST_PERSON if "wish" in said.how else _UNTURNED
        barred = _FOR_NOW if "wish" in said.how else _NO_FACT
        if not left.search(note) and not barred.search(days.raw(clause)):
            return said._replace(note=note)
    wish = (
        understood(days.raw(text)) if days.phrases else None
    )  # A weekday may be one of each week.
    return wish if wish is not None and "wish" in wish.how else None


def _without_company(text: str) -> str:
    """Return "my wife and I live in Lyon" as "I live in Lyon"."""
    found = _COMPANY.match(text)
    if found is None:
        return text
    rest = text[found.end() :]
    return f"我{rest}" if HAN.search(text) else f"I{_ARE.sub(' am', rest)}"


def _unfilled(text: str) -> str:
    text = text.strip()
    while (filler := _FILLER.match(text)) is not None:
        text = text[filler.end() :]
    return text


def _without_trailer(text: str) -> str:
    text = text.strip(ENDS)
    while (found := _TRAILER.search(text)) is not None and found.start():
        text = text[: found.start()].strip(ENDS)
    return text


def _trimmed(text: str) -> str:
    return one_line(text).strip(ENDS)


def _shown(text: str) -> str:
    """Return the text as a sentence with a capital letter and a full stop."""
    text = text.strip(ENDS + "?？")
    return f"{text[:1].upper()}{text[1:]}{'。' if HAN.search(text) else '.'}"
