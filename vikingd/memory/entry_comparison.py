"""The comparison of two entries of a memory file: does one repeat the other?

The newer wording of a repeat replaces the older one. So a false match loses a memory, while a
missed one only leaves an extra entry. Cosines cannot distinguish a paraphrase from another fact:
"Alice owes Bob 20 euros" and its reverse are nearer than most paraphrases. So only the words
decide. Punctuation and case belong to a word: `.5` is not `5`, and `getName` is not `getname`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from vikingd.domain.text import CJK_CHARS, HAN_CHARS, KANA_CHARS, lazy
from vikingd.domain.text import normalized as compatible

_WIDE = f"{HAN_CHARS}{KANA_CHARS}\u3000-\u303f"
_MOST_COMPARED = 1_500  # characters of a text that is compared by words

# A space beside an asterisk decides whether the asterisk is emphasis.
_SPACE = lazy(rf"(?<!\*) (?=[{_WIDE}])|(?<=[{_WIDE}]) (?!\*)")
_EMPHASIS = re.compile(r"\*+")
_OUTSIDE = lazy(rf"[\W{_WIDE}]")  # beside a letter or digit, an asterisk is an operator
_CLOSED = re.compile(r"[\w.!?:。]")
_END = ".!。… "
_FOLDER = frozenset((" .", " .."))  # after a command, such as "git add ."
_QUOTES = frozenset(('""', "''", "“”", "‘’", "„“", "«»", "「」", "『』"))
_PHRASE = lazy(rf"[\s{_WIDE}]")  # in no identifier such as `__init__`
_BEGIN = re.compile(r"(?:^|[.!?] |。)[\"'“‘„«「『(]*[^\W\d_]")
_RAISED = str.maketrans({raised: f"^{digit}" for digit, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})

_WORD = lazy(rf"[{CJK_CHARS}]|[^\s{CJK_CHARS},;]+(?:[,;][^\s{CJK_CHARS},;]+)*|[,;]")
_STOPS = ",;.、。…"  # after a word


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
_QUOTE_MARKS = str.maketrans("’‘“”„«»「」『』", "''" + 9 * '"')


def _phrases(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), phrase) for pattern, phrase in pairs)


_CONTRACTIONS = _phrases(
    (r"\bcan't\b", "can not"),
    (r"\bwon't\b", "will not"),
    (r"n't\b", " not"),
    (r"\b(it|that|there|he|she)'s\b", r"\1 is"),
    (r"\b(i)'m\b", r"\1 am"),
    (r"\b(you|we|they)'re\b", r"\1 are"),
)
_ENGLISH = _phrases(
    (r"\bcannot\b", "can not"),
    (r"\bdo(?:es)? not (?:like|enjoy)\b", "dislikes"),
    (r"\bwould like\b", "wants"),
)
_CHINESE = _phrases(
    ("喜爱", "喜欢"),
    ("早晨", "早上"),
    ("星期(?=[一二三四五六日天])", "周"),
    ("使用(?!户)", "用"),
    ("之前", "前"),
    ("之后|以后", "后"),
    ("(每[^都,;。]{1,20})都", r"\1"),
)
# Words that never change a fact. "is" is none of them: "is called" differs from "called".
_EMPTY = _word_set("a an the please really 的 请 很")
# The first words of phrases that may begin or end a sentence.
_ADVERBIAL = _word_set("after at before during every for from if in on since until when while with")
# Words that change the meaning of the next word.
_BOUND = _word_set(
    "all also but even except hardly just neither never no nobody none nor not nothing "
    "only unless without 不 别 勿 无 未 没 非"
)


def normalized(text: str) -> str:
    """Return the normal form of a wording, which is equal for wordings that differ only in form.

    Compatibility characters are replaced (NFKC), and the first letter of a sentence becomes lower
    case. White space becomes one space, and none beside Chinese and Japanese. Emphasis, quotes
    around the whole, and full stops and exclamation marks at the end are removed. Question marks,
    underscores (`__init__`) and punctuation in front (`.env`) stay.
    """
    found = compatible(_plain(text))
    # Marks that are neighbours only now may combine, so repeat until nothing changes.
    while not found.isascii() and (again := compatible(_plain(found))) != found:
        found = again
    return found


class Wording(NamedTuple):
    """A normalized text, and a hash of its words.

    Texts that may repeat each other have equal hashes.

    The hash is 0 for a long text, and for one without words.
    """

    text: str
    words: int


def wording_of(text: str) -> Wording:
    """Return the normalized text and the hash of its words, by which entries are looked up."""
    return _short_wording(text) if len(text) <= _MOST_COMPARED else Wording(normalized(text), 0)


# Of a changed file nearly all texts are as before.
@lru_cache(maxsize=4096)
def _short_wording(text: str) -> Wording:
    words = sorted(map(str.casefold, _words(text)))
    return Wording(normalized(text), hash(tuple(words)) if words else 0)


def differs(one: str, other: str) -> bool:
    """Return True if the words rule out that one text repeats the other.

    The words must be equal and in order, apart from articles, "please", contractions, numbers in
    words and a few synonyms. Only a phrase such as "on Friday" may move from the front to the end.
    It may not if there is a word such as "not" or "only", which could then refer to another word.
    """
    a, b = _words(one), _words(other)
    if a == b:
        return not a and normalized(one) != normalized(other)
    if len(a) != len(b) or _ADVERBIAL.isdisjoint((a[0], b[0])):
        return True
    return not _BOUND.isdisjoint(map(str.casefold, a)) or not (_turns(a, b) or _turns(b, a))


def _turns(words: Sequence[str], turned: Sequence[str]) -> bool:
    """Return True if `words` are those of `turned` with a phrase moved from the front to the end.

    The first word of `turned` has lost its capital letter.
    """
    twice = f" {' '.join((*words, *words))} "
    first, *others = turned
    return any(
        f" {' '.join((begin, *others))} " in twice
        for begin in (first, first[:1].upper() + first[1:])
    )


def _plain(text: str) -> str:
    """Return the text without differences of form, such as emphasis and final full stops."""
    text = " ".join(compatible(text if text.isascii() else text.translate(_RAISED)).split())
    text = _without_emphasis(text) if "*" in text else text
    text = text if text.isascii() else _SPACE.sub("", text)
    while (inner := _inner(text)) != text:
        text = inner
    return _BEGIN.sub(lambda begin: begin[0].lower(), text)


def _inner(text: str) -> str:
    """Return the text without final full stops.

    Without those, remove quotes or emphasis around it.
    """
    end = text.rstrip(_END)
    if len(end) < len(text) and text[len(end) :] not in _FOLDER:
        return end
    if len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    inner = text.strip("_")
    marks = "_" * ((len(text) - len(inner)) // 2)
    is_emphasis = "_" not in inner and text == f"{marks}{inner}{marks}" and _PHRASE.search(inner)
    return inner if is_emphasis else text


def _without_emphasis(text: str) -> str:
    """Return the text without the asterisks of emphasis around words.

    Only runs with equal numbers of asterisks are removed, such as `**now**`.
    """
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
    """Return the meaningful words in order.

    Each synonym is replaced by the first one of its group.
    """
    text = _plain(text).translate(_QUOTE_MARKS)
    contractions = _CONTRACTIONS if "'" in text else ()
    for pattern, phrase in contractions + _ENGLISH + (() if text.isascii() else _CHINESE):
        text = pattern.sub(phrase, text)
    found: list[str] = []
    for word in _WORD.findall(text):
        # "No, sugar" is not "no sugar".
        bound = (found and found[-1].casefold() in _BOUND) or not word.strip(".")
        stripped = word if bound else word.rstrip(_STOPS)
        if stripped and stripped not in _EMPTY:
            found.append(_ONE_WORD.get(stripped.casefold(), stripped))
    return found
