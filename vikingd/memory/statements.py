"""Rules for what a user says outright of itself, in English and Chinese.

A rule reads one clause of a message of the user, from its beginning. It takes no question, no
hypothesis, no quotation, no statement of another person, and nothing from a text that the user
wants translated or rewritten. It rather misses a statement than take one that was not made.

A memory is a note in the third person that keeps the words of the user, see `third_person`. So
saying the same again gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vikingd.domain import pace
from vikingd.domain.extract import MAX_MEMORIES, MemoryKind, Proposal
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.text import CJK_CHARS, SENTENCE_END, lazy, one_line
from vikingd.memory.own_words import LEFT_OUT, own_words
from vikingd.memory.statement_rules import RULES
from vikingd.memory.third_person import third_person

MAX_READ = 8_000
"""Characters of a message that are read."""

MAX_SENTENCE = 1_000
"""Characters of a sentence that is read."""

MAX_CLAUSE = 400
"""Characters of a clause that may become a memory."""

_BULLET = lazy(r"[ \t]*(?:[-*+•]|[0-9]{1,3}[.)、])[ \t]+")

# From here on the rest of a message is a text to work on, not a statement of its author.
_FOREIGN = lazy(
    r"\b(?:translate|proofread|rephrase|paraphrase|rewrite|summari[sz]e|pretend|imagine|suppose|"
    r"role-?play|hypothetically|act as|write (?:me )?an? \w+|example sentences?)\b"
    r"|^(?:user|assistant|system|human|ai|tool|用户|助手|系统)\s*[:：]"
    r"|^-+ ?(?:original|forwarded) message|^from: |\bwrote:|翻译|翻譯|润色|改写|假装|想象|扮演|"
    r"例句|"
    r"造句|写一[个篇首封段]",
    re.IGNORECASE,
)
_OTHERS = (
    r"\b(?:said|says|saying|told|tells|wrote|writes|asked|asks|claims?|claimed|replied|answered|"
    r"quote|"
    r"according to|reads?|mentioned)\b|(?<![小传学])说(?![明法服])|告诉|告訴|写道|问道|表示|声称|"
    r"转述"
)
_REPORTED = lazy(_OTHERS, re.IGNORECASE)
_INTRODUCED = lazy(
    rf"(?:{_OTHERS}|\b(?:email|mail|message|letter|log|output|transcript|quote|text|"
    r"following|below|story|poem|sentence)\b|邮件|消息|短信|日志|输出|以下|下面|内容|原文|"
    r"句子).*[:：]\s*$",
    re.IGNORECASE,
)
_ATTRIBUTED = lazy(
    r"[,，]\s*(?:\w+\s+){0,3}(?:said|says|told|wrote|claims?|claimed)\b|[,，][^,，]{0,8}(?<!小)说$",
    re.IGNORECASE,
)
_UNREAL = lazy(
    r"\b(?:if|unless|whether|would|could|might|maybe|perhaps|suppose|assuming|imagine|wish|"
    r"let's say|what if|in case|as if|were to|used to|kidding|joking)\b"
    r"|如果|假如|要是|假设|倘若|假若|的话|万一|也许|可能|或许|开玩笑|以前|曾经|差点|本来|\bhaha|"
    r"\blol\b|哈哈",
    re.IGNORECASE,
)
_ASKS = lazy(
    r"[?？]\W*$|[吗嗎呢么]\W*$|什么|哪[里儿个]|谁|怎么|是不是|有没有|多少|为什么|会不会"
    r"|^(?:do|does|did|am|is|are|can|could|should|shall|will|would|what|where|who|why|how|when)\b",
    re.IGNORECASE,
)
_NEXT = lazy(
    r",?\s+(?:and|but|so)\s+(?:also\s+)?(?=(?:i|we|my|call me|no|please|always|never|don't)\b)"
    r"|[,;]\s+(?=(?:i|my|call me)\b)"
    r"|[，；、,;]\s*(?:而且|并且|同时|但是?|也)?(?=我|请?记住|请?叫我|请|先|是一[名位]|打算|计划|"
    r"不要)",
    re.IGNORECASE,
)
_FILLER = lazy(
    r"(?:(?:hi|hello|hey|ok|okay|well|so|now|also|and|but|btw|by the way|oh|yes|no|yeah|sure|"
    r"hm+|ah|good|great|nice|right|exactly|perfect|lovely|excellent|sorry|before we (?:start|"
    r"begin)|"
    r"one (?:more )?(?:thing|rule|request)|as you know|thanks|"
    r"thank you|fyi|just so you know|for the record|actually|anyway|please note(?: that)?|"
    r"note(?: that)?|in general|honestly|personally)(?: (?:there|all|everyone|again|so much))?"
    r"(?:\s*[,:.!]+\s*|\s+)|(?:你好|您好|嗨|好的?|嗯|哦|对了?|行|顺便说一下|另外|还有|而且|其实|"
    r"谢谢|那么?|"
    r"一般来说|(?:先)?(?:说好|说个|定个|有个|一个)?(?:规矩|要求|习惯)(?=[:：]))[,，。！!:：]*\s*)+",
    re.IGNORECASE,
)

_REMEMBER = lazy(
    r"(?:(?:please|always|you (?:should|must)|(?:can|could|would) you(?: please)?)[, ]+)*"
    r"(?:remember|don'?t forget|do not forget|keep in mind|note down)"
    r"(?:(?:\s*[:,]\s*|\s+)(?:that\s+|(?P<to>to\s+)|(?=(?:i|i'm|my|we|our)\b))|"
    r"\s*[:]\s*)(?P<what>.+)"
    r"|(?:请|請|麻烦你?|你要|一定要|帮我)*(?:记住|記住|记下来?|别忘了|不要忘记|牢记)"
    r"[,，:：]?\s*(?P<zh_what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_EMPTY = lazy(
    r"(?:it|that|this|these|those|them|so|you|your|yours|him|her|what|how|where|when|why|which|who|"
    r"to (?:say|ask|bother|see|hear|know)|the (?:idea|way|plan|look|answer|result|first|second|"
    r"third|"
    r"last|other|new|one|suggestion|sound|fact)|here|there|both|all of|neither|one|"
    r"[0-9]+)\b|[这那它他她你]",
    re.IGNORECASE,
)

_PROFILE, _PREFERENCES, _ENTITIES = (
    MemoryKind.PROFILE,
    MemoryKind.PREFERENCES,
    MemoryKind.ENTITIES,
)
_OF_SELF = lazy(r"(?:i|i'm|i've|my|we|our)\b|我", re.IGNORECASE)
_HAN = lazy(f"[{CJK_CHARS}]")
_END = " \t\r\n.!。！,，;；:：~…"


def proposals(messages: Sequence[SessionMessage], first: int) -> tuple[Proposal, ...]:
    """Return what the user says outright in messages[first:], each text once, in order.

    The newest statements count if there are more than MAX_MEMORIES.
    """
    found: dict[str, Proposal] = {}
    for index in range(first, len(messages)):
        message = messages[index]
        pace.step()
        if message.role != "user":
            continue
        for kind, text in statements(message.content[:MAX_READ]):
            known = found.pop(text.casefold(), None)
            evidence = (*(known.evidence if known else ()), index)
            found[text.casefold()] = Proposal(kind, text, tuple(dict.fromkeys(evidence)))
    return tuple(found.values())[-MAX_MEMORIES:]


def statements(content: str) -> Iterator[tuple[MemoryKind, str]]:
    """Yield kind and text of each statement in a message of the user."""
    for line in own_words(content).splitlines():
        bullet = _BULLET.match(line)
        body = line[bullet.end() :] if bullet else line
        for sentence in _sentences(body):
            if found := _FOREIGN.search(sentence):
                before = sentence[: found.start()]
                if not _of_remembering(sentence) or not before.strip():
                    return
            if len(sentence) <= MAX_SENTENCE:
                yield from _of_sentence(sentence)
        if _INTRODUCED.search(body[-MAX_SENTENCE:]):
            return


def _of_remembering(sentence: str) -> bool:
    return _REMEMBER.match(_unfilled(sentence)) is not None


def _sentences(line: str) -> Iterator[str]:
    at = 0
    for end in SENTENCE_END.finditer(line):
        if sentence := line[at : end.end()].strip():
            yield sentence
        at = end.end()
    if sentence := line[at:].strip():
        yield sentence


def _of_sentence(sentence: str) -> Iterator[tuple[MemoryKind, str]]:
    if _ASKS.search(sentence):
        return
    if found := _REMEMBER.fullmatch(_unfilled(sentence)):
        if (told := _told(found)) is not None:
            yield told
        return
    if _UNREAL.search(sentence) or _ATTRIBUTED.search(sentence):
        return
    at = 0
    for end in [*(found.span() for found in _NEXT.finditer(sentence)), (len(sentence),) * 2]:
        clause, before = sentence[at : end[0]], sentence[:at]
        at = end[1]
        if _REPORTED.search(before) or _is_open(before):
            return
        if (said := _of_clause(_unfilled(clause))) is not None:
            yield said


def _is_open(text: str) -> bool:
    """Return True if a quotation begins in the text and does not end there."""
    opened, closed = (sum(map(text.count, marks)) for marks in ("“「『«", "”」』»"))
    return opened > closed or text.count('"') % 2 == 1


def _told(found: re.Match[str]) -> tuple[MemoryKind, str] | None:
    """Return the memory that the user asks for; None if it is empty or too long."""
    what = _trimmed(found["what"] or found["zh_what"])
    if not 2 <= len(what) <= MAX_CLAUSE:
        return None
    if (said := _of_clause(what)) is not None:
        return said
    kind = _PROFILE if _OF_SELF.match(what) else _ENTITIES
    if found["to"] or re.match(r"(?:always|never|use|don't|do not)\b|要|不要|总是|别", what, re.I):
        kind = _PREFERENCES
    return kind, _shown(third_person(what))


def _of_clause(clause: str) -> tuple[MemoryKind, str] | None:
    clause = _trimmed(clause)
    if len(clause) > MAX_CLAUSE:
        return None
    if LEFT_OUT in clause:
        return None
    for kind, pattern, noted in RULES:
        if found := pattern.fullmatch(clause):
            thing = _trimmed(found["object"])
            return None if _EMPTY.match(thing) else (kind, _shown(noted(clause)))
    return None


def _unfilled(text: str) -> str:
    filler = _FILLER.match(text := text.strip())
    return text[filler.end() :] if filler else text


def _trimmed(text: str) -> str:
    return one_line(text).strip(_END)


def _shown(text: str) -> str:
    """Return the text as a sentence."""
    return f"{text[:1].upper()}{text[1:]}{'。' if _HAN.search(text[-1:]) else '.'}"
