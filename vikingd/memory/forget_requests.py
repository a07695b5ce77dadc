"""Requests to forget, read from the user's own words, in English and Chinese.

A request is an order to the agent: "forget that I live in Lyon", 把我的地址忘了吧. These are none:
quotations and pasted texts, the forgetting of people ("I forgot my keys", 我忘了带钥匙), "don't
forget", hypotheses, questions about the agent, and "forget it" for a task. Each sentence is read by
itself. A request that is only likely is not `sure`, so that it never deletes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from vikingd.domain import cancellation
from vikingd.domain.extract import ForgetRequest, Meant
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.sentences import sentences as cut
from vikingd.domain.text import CJK_CHARS, lazy
from vikingd.memory import chinese_requests, english_requests
from vikingd.memory.forget_forms import Asked
from vikingd.memory.unquoted_text import LEFT_OUT, parts

MAX_READ = 8_000
"""The most characters of a message that are read."""

MAX_SENTENCE = 400
"""The most characters of a sentence that is read."""

MAX_REQUESTS = 32
"""The most requests of one call; older ones are left out."""

_HAN = lazy(f"[{CJK_CHARS}]")
_QUESTION = lazy(r"^[^,，;；]*[?？]\W*$|^[^,，;；]*[吗嗎呢]\W*$")
_FILLER = lazy(
    r"(?:\W|\b(?:ok|okay|hm+|no|wait|oh|sorry|yes|well|actually|thanks|god|perfect|great|fine|cool)\b|[嗯哦啊等不对]){0,8}",
    re.IGNORECASE,
)
# From such a sentence on, a request may be a part of the text that is written.
_COMPOSES = lazy(
    r"\b(?:write|draft|compose|translate|proofread|rephrase|rewrite|reply|"
    r"answer)\b.*\b(?:e-?mails?|mails?|"
    r"letters?|messages?|reply|texts?|posts?|poems?|stor(?:y|ies)|songs?|lyrics|sentences?|"
    r"reviews?|scripts?|"
    r"dialogues?|prompts?)\b|写一?[封个篇首段条句]|翻译|润色|改写|回复|草拟|造句",
    re.IGNORECASE,
)
_ASKS = lazy(
    r"\A(?:wh\w+|how|is|are|do|does|did|can|could|will|would|have|has)\b|[吗嗎呢么]\W*\Z", re.I
)
_TOPICS = lazy(r"(?:,| and|, and|,? as well as|、|和|以及|还有) ?(?=(?:my |我的))")
_FIRST_PERSON = lazy(r"\b(?:i|i'm|im|i've|my|mine|me|we|our)\b|我", re.IGNORECASE)


def read(messages: Sequence[SessionMessage], first: int) -> tuple[ForgetRequest, ...]:
    """Return the requests to forget in the user's messages of messages[first:], in order."""
    found: list[ForgetRequest] = []
    for index in range(first, len(messages)):
        cancellation.check()
        if messages[index].role == "user":
            found += _of_message(messages[index].content, index)
    return tuple(found[-MAX_REQUESTS:])


def before(messages: Sequence[SessionMessage], request: ForgetRequest) -> tuple[str, ...]:
    """Return the statements that "forget that" may mean, in order.

    They are the text before it in its sentence, else the previous sentence of its message, else the
    sentences of the user's previous message.
    """
    own = sentences(messages[request.message].content)
    at = own.index(request.sentence) if request.sentence in own else 0
    asked = _asked(request.sentence)
    if asked is not None and _may_state(asked.front):
        return (asked.front,)
    while at and (_asked(own[at - 1]) or _FILLER.fullmatch(own[at - 1])):
        at -= 1
    if at:
        return (own[at - 1],) if _may_state(own[at - 1]) else ()
    if request.sure:
        for index in range(request.message - 1, -1, -1):
            if messages[index].role == "user":
                own = sentences(messages[index].content)
                return tuple(one for one in own if _may_state(one, of_any=bool(request.topic)))
    return ()


def are_all(messages: Sequence[SessionMessage], first: int) -> bool:
    """Return True if messages[first:] are all of the user and have only requests to forget."""
    own = [sentences(one.content) for one in messages[first:] if one.role == "user"]
    said = [sentence for of_one in own for sentence in of_one if re.search(r"\w", sentence)]
    return len(own) == len(messages) - first and bool(said) and all(map(_asked, said))


def sentences(content: str) -> list[str]:
    """Return the sentences of a user's own words."""
    own = "".join(p.text if p.is_own else LEFT_OUT for p in parts(content[:MAX_READ]))
    return [one for line in own.replace("’", "'").splitlines() for one in cut(line)]


def left(
    messages: Sequence[SessionMessage], requests: Sequence[ForgetRequest]
) -> tuple[SessionMessage, ...]:
    """Return the messages without the sentences that are requests to forget."""
    found = list(messages)
    for request in requests:
        message, asked = found[request.message], plain(request.sentence)
        content = without(message.content, partial(_is_plain, asked))
        found[request.message] = replace(message, content=content)
    return tuple(found)


def without(content: str, goes: Callable[[str], bool]) -> str:
    """Return a message without the sentences for which `goes` is true; "" if no word is left."""
    lines = []
    for line in content.splitlines():
        kept = [one for one in cut(line) if not goes(one)]
        lines.append(line if len(kept) == len(cut(line)) else " ".join(kept))
    text = "\n".join(lines)
    return text if re.search(r"\w", text) else ""


def plain(sentence: str) -> str:
    """Return a sentence in lower case without punctuation, to compare sentences."""
    return re.sub(r"[\W_]+", " ", sentence).casefold().strip()


def _is_plain(form: str, sentence: str) -> bool:
    return plain(sentence) == form


def _of_message(content: str, index: int) -> Iterator[ForgetRequest]:
    own, composes = sentences(content), False
    for at, sentence in enumerate(own):
        if len(sentence) > MAX_SENTENCE or LEFT_OUT in sentence or sentence[-1:] in ",，":
            continue  # A line that ends with a comma is one of a verse.
        if _COMPOSES.search(sentence):
            composes = True
        elif asked := _asked(sentence):
            if at and asked.meant is Meant.BEFORE and not (asked.topic or asked.front):
                if _asked(own[at - 1]):
                    continue  # It says that request again.
                asked = _named(own[at - 1], sentence) or asked
            sure = asked.is_sure and not composes
            for topic in _TOPICS.split(asked.topic):
                yield ForgetRequest(topic, sentence, index, asked.meant, sure)


def _asked(sentence: str) -> Asked | None:
    """Return the request to forget in a sentence; None if it has none."""
    language = chinese_requests if _HAN.search(sentence) else english_requests
    found: Asked | None = language.request(sentence)
    return found


def _named(before: str, sentence: str) -> Asked | None:
    """Return a request whose topic is in the sentence before: "My old address? Forget it.".

    Or None.
    """
    joined = _asked(f"{before.rstrip('.。!！?？… ')}, {sentence}")
    is_named = joined and joined.meant is not Meant.BEFORE and not _ASKS.search(before)
    return joined if is_named else None


def _may_state(sentence: str, *, of_any: bool = False) -> bool:
    """Return True for a sentence that may state something about the user.

    `of_any`: about anything.
    """
    return (of_any or bool(_FIRST_PERSON.search(sentence))) and not (
        _QUESTION.search(sentence) or _asked(sentence) or LEFT_OUT in sentence
    )
