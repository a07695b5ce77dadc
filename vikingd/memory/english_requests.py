"""Recognition of English requests to forget, see forget_requests.

"Could you please forget my address" is a request. A clause is one if it has a verb of forgetting,
and only polite words precede the verb. The topic is the rest of the clause, or it precedes "forget
it".
"""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.memory.clause_patterns import in_both
from vikingd.memory.forget_forms import Asked, Patterns

_FORM = Patterns("english_requests")
_POLITE = _FORM.words("POLITE")
_NOT = frozenset(("don't", "dont", "not", "never", "needn't", "stop", "quit", "longer", "didn't"))
_YOU = frozenset(("you", "you'd", "you'll", "u", "ya"))
_WISHES = frozenset(("i", "i'd", "i'm", "i've", "we", "we'd", "let's"))
_MAY = _FORM.words("MAY")
_SOMEBODY = in_both("WHO")


def request(sentence: str) -> Asked | None:
    """Return the request to forget in a sentence; None if it has none."""
    if _FORM.UNREAL.search(sentence):
        return None
    for begin, at in ((0, 0), *(one.span() for one in _FORM.JOINT.finditer(sentence))):
        front = sentence[:begin]
        if _FORM.REPORTED.search(front):
            return None
        said = _words(front)
        is_idle = said <= _POLITE
        asked = _request_of_clause(
            sentence[at:], "" if is_idle else front, said if is_idle else frozenset()
        )
        if asked is not None:
            return asked
    return None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w']+", text.lower()))


def _request_of_clause(text: str, front: str, said: frozenset[str]) -> Asked | None:
    """Return the request of the clause at the beginning of a text; None for no request.

    Args:
        text: the text.
        front: the part of the sentence before it.
        said: polite words that precede the text, such as "please".
    """
    if found := _FORM.NEVER_SAID.match(text):
        return _request_of_verb(text[found.end() :], "forget", front, is_told=True)
    for verb in _FORM.VERB.finditer(text):
        kind, rest, words = str(verb.lastgroup), text[verb.end() :], _words(text[: verb.start()])
        if kind != "keep" or _negates(text[: verb.start()].lower().split()):
            break
    else:
        return _removal_wish(text)
    known = _POLITE | _NOT if kind == "keep" else _POLITE
    if not words <= known or re.search(r"[,;:.]", text[: verb.start()]):
        return _removal_wish(text)
    told = (words | said | (_words(rest) & {"please", "pls", "plz"})) - {"no"}
    to_you, is_named = words & (_YOU | {"can", "could"}), bool(_FORM.MEMORY.search(rest))
    bends = kind == "past" or verb[0].lower().endswith("ing")
    if (
        (words & _YOU and _MAY.isdisjoint(told))
        or ("will" in words and "please" not in told)
        or (
            _FORM.QUESTION.search(re.split("[,;—–]", text)[0])
            and not (to_you or is_named or "please" in told)
        )
        or (bends and words.isdisjoint(("mind", "rather", "if", "stop", "quit", "longer")))
    ):
        return None
    is_bid = to_you or {"do", "not"} <= words or is_named or _FORM.STOPS.search(text)
    if kind == "keep" and not is_bid and re.match("remember|know", verb[0], re.I):
        return None  # "Don't know my blood type."
    is_wish = not (words.isdisjoint(_WISHES) or to_you)
    if is_wish and not (is_named or "let's" in words):
        return None
    return _request_of_verb(rest, kind, front, is_told=bool(told), is_wish=is_wish)


def _negates(before: list[str]) -> bool:
    """Return True if the words before the verb "keep" negate an order: "you need not".

    "You don't" is a statement, and no order.
    """
    at = [i for i, one in enumerate(before) if one in _NOT or before[i : i + 2] == ["no", "need"]]
    if not at or not set(before[at[-1] + 1 :]) <= _POLITE - {"sure"}:
        return False
    subject = [one for one in before[: at[-1]] if one not in ("no", "still")][-1:]
    is_bare = not subject or subject[0] not in _YOU | _WISHES
    return is_bare or not _MAY.isdisjoint(before)


def _request_of_verb(
    rest: str, kind: str, front: str, *, is_told: bool, is_wish: bool = False
) -> Asked | None:
    """Return the request of a verb of forgetting with the words after it; None for no request."""
    text = _FORM.CUT.sub("", rest)
    is_named = kind == "keep" or _FORM.MEMORY.search(text) is not None
    text = _FORM.TAIL.sub("", _FORM.MEMORY.sub("", text)).strip(" ,.;:!?")
    if _FORM.LAST.fullmatch(text):
        if re.search(r"[:,].*\w" if kind == "keep" else r"\A[\w ]+:.*\w", rest):
            return None  # "Don't save this: ..." keeps its message out of memory.
        return _request_without_topic(text, front, is_named=is_named, is_told=is_told)
    deletes, is_said = kind in ("delete", "take"), _FORM.SAID.search(text) is not None
    moves_on = not is_told and _FORM.MOVES_ON.search(rest) is not None
    found = _topic(text, is_named=is_named, deletes=deletes, is_told=is_told)
    if (
        found is None
        or front.rstrip().endswith(":")
        or (moves_on and not _FORM.OWN.match(text))
        or (
            deletes
            and not is_named
            and (_FORM.TOOLS.fullmatch(text) or (kind == "take" and not is_said))
        )
    ):
        return None
    is_idiom = moves_on or (bool(front) and not is_told) or (is_wish and not is_named)
    is_idiom |= not (is_told or deletes) and _SOMEBODY.fullmatch(text) is not None
    return found._replace(is_sure=found.is_sure and not is_idiom)


def _request_without_topic(text: str, front: str, *, is_named: bool, is_told: bool) -> Asked | None:
    """Return the request of "forget it" or "forget that"; None for no request.

    It means the topic in `front`, as in "my address, forget it", else the user's previous
    statement.

    Args:
        text: the words after the verb, such as "it".
        front: the part of the sentence before the verb.
        is_named: the request names the memory, as in "forget it from your memory", or it asks not
            to keep something.
        is_told: other words show that the agent is asked, such as "please" or "can you".
    """
    is_plain = not (is_named or re.search(r"\b(?:that|this|those|what|i)\b", text, re.I))
    front = _FORM.FRONT.sub("", front.rstrip(" ,;:.—–-?!"))
    is_topic = _FORM.HEAD.fullmatch(front) is not None
    is_noun = is_topic or re.match("that i", front, re.I) or not _FORM.VERBAL.search(front)
    may_name = is_noun and (is_told or is_topic or not is_plain)
    if front and may_name and not re.match(r"(?:i|i'm|i've|we)\b", front, re.I):
        found = _topic(front, is_named=False, deletes=False, is_told=False)
        states = (
            found and found.meant is Meant.STATEMENT and not re.match("th(?:at|e) ", front, re.I)
        )
        if found and found.is_sure and not states:
            return found
    if is_plain and front:
        return None
    return Asked("", Meant.BEFORE, not is_plain, re.sub(r"^that ", "", front, flags=re.I))


def _removal_wish(text: str) -> Asked | None:
    """Return the request of a wish such as "I want my address gone from your memory", or None."""
    found = _FORM.IS_DONE.fullmatch(text)
    if (
        found is None
        or not _words(found["wish"]) <= _POLITE
        or not (found["wish"] or found["must"])
    ):
        return None
    if not (_FORM.MEMORY.search(found["rest"]) or found["done"] == "forgotten"):
        return None
    return _topic(_FORM.MEMORY.sub("", found["topic"]), is_named=False, deletes=False, is_told=True)


def _topic(text: str, *, is_named: bool, deletes: bool, is_told: bool) -> Asked | None:
    """Return the request to forget a topic; None if the topic is a task or nothing that is stored.

    `is_sure` is set if the topic is certainly the user's own, such as "my address".
    """
    if not text or _FORM.TASK.fullmatch(text) or _FORM.NONE.match(text):
        return None
    if found := _FORM.GENERIC.fullmatch(text):
        is_all = found["all"] and (found["me"] or " me" in text or is_named)
        return Asked("", Meant.EVERYTHING, True) if is_all else None
    if (found := _FORM.SECTION.fullmatch(text)) and (is_named or re.match("the |my ", text, re.I)):
        return Asked(found["what"] or found["named"], Meant.ALL_OF, True)
    if found := _FORM.HEAD.fullmatch(text):
        what, that = found["what"], _FORM.STATES.fullmatch(found["what"])
        if _FORM.TASK.fullmatch(what):
            return None
        if re.fullmatch("me|us|myself", what, re.I):
            return Asked("", Meant.EVERYTHING, True)
        if found["said"] and re.search(r"\bjust\b", found["said"], re.I):
            return Asked(what, Meant.BEFORE, True)
        that = that or _FORM.STATES.fullmatch(f"that {what}")
        if that and found["of"].lower() in ("that", "where", "saying"):
            return Asked(that["that"], Meant.STATEMENT, True)
        return Asked(what, Meant.ALL_OF if found["all"] else Meant.TOPIC, True)
    if (found := _FORM.STATES.fullmatch(text)) and (not deletes or is_named or found["named"]):
        return Asked(found["that"], Meant.STATEMENT, True)
    if found := _FORM.ALL_MY.fullmatch(text):
        return Asked(found["what"], Meant.ALL_OF, True) if is_named or found["my"] else None
    is_own = _FORM.OWN.match(text) is not None
    if not (is_named or is_own) and re.fullmatch(
        r"th(?:at|is) (?!\w+ing\b)(?:\w+ )?\w{3,}", text, re.I
    ):
        return Asked(text, Meant.BEFORE, True)
    if deletes and not (is_named or (is_own and re.search(r"^(?:my|our)\b|\bi\b", text, re.I))):
        return None
    return Asked(text, Meant.TOPIC, is_named or is_own or is_told)
