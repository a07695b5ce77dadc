"""The greedy choice of sentences that together have the most important words of many texts.

The gain of a sentence is the weight of its words that no chosen sentence has, divided by its
length; see Lin and Bilmes, "A Class of Submodular Functions for Document Summarization", 2011.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from vikingd.domain.text import CJK_CHARS, normalized

_AGAIN = 0.6  # A further sentence of the same text is worth this much of its gain.
_LONG = 5  # letters of a word that counts in full

_CJK = re.compile(f"[{CJK_CHARS}]")
_WORD = re.compile(rf"[{CJK_CHARS}]+|[^\W_{CJK_CHARS}]+")

# Words of grammar, of greetings and of agreement say nothing about a topic.
_EMPTY_LISTED = """
a able about above absolutely actually after again agree all almost already also although always am
amazing an and another any anyone anything are around as ask at awesome away back bad be because
been before being best better between big bit both bring but by bye came can cause cheers come
congrats congratulations cool could course cute damn day days definitely did didn do does doesn
doing don done down each either else enjoy enough especially etc even ever every everyone everything
excellent excited exciting exactly fantastic far feel feeling few find fine first for forward from
fun gave get getting give glad go goes going gonna good got great guess guys had hadn haha happy
hard has hasn have haven having he hear heard hello help helpful her here hey hi him his hope how
however i idea if im in incredible info into inspiring is isn it its job just keep kind kinda know
last lately later least less let letting like ll long look looking looks lot lots love loved lovely
luck ma made main make makes making many matter may maybe me mean means might mine more most much
must my myself need never new nice no nope not nothing now of off oh ok okay old on one only
or other others our out over own part people perfect place plan please pleased point points
possible pretty probably put quite rather re ready real really recently remember right s said same
saw say saying see seem seems seen sense set several shall share sharing she should show shows
similar simple since so some someone something soon sorry sound sounds specific still stuff such
super support sure take takes taking talk tell than thank thanks that the their them then there
these they thing things think thinking this those though thought through time times to today
together told too totally tried try trying two under understand up upon us use used useful using
usually ve very via want wanted wanting wants was way ways we well went were what when where whether
which while who whole why will wish with without won wonderful wonder wondering word work works
worth would wow yay yeah year years yep yes yet you your yours yourself
"""
_EMPTY = frozenset(_EMPTY_LISTED.split())
# A pair with one of these characters is grammar or courtesy.
_EMPTY_CHARACTERS = frozenset(
    "的了是在和与與或就都也而及着著把被让讓给給对對从從向到很还還又再只不这這那我你您他她它们們个個些什么麼"
    "怎吗嗎呢吧啊哦嗯呀为為以因所于於其之将將会會能可要想有没沒中上下等如请請谢謝"
)


class Candidate(NamedTuple):
    """A sentence that may be chosen.

    Attributes:
        group: the number of the text that has the sentence.
        place: the number of the sentence in that text.
        text: the sentence.
        worth: a factor of its gain.
        prefix: shown before the sentence, such as "Ada: ".
    """

    group: int
    place: int
    text: str
    worth: float = 1.0
    prefix: str = ""


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """Return the folded words of a text that are about its topic; for Chinese pairs of characters.

    Words such as "the" are left out.
    """
    found = set[str]()
    for word in _WORD.findall(normalized(text).casefold()):
        if not word.isascii() and _CJK.match(word):
            pairs = pairwise(word)
            found.update(a + b for a, b in pairs if not {a, b} & _EMPTY_CHARACTERS)
        elif len(word) > 1 and word not in _EMPTY:
            found.add(word)
    return frozenset(found)


def weight_of(word: str) -> float:
    """Return how specific a word is, in (0, 1]: longer words are more specific."""
    if not word.isascii():
        return 0.5
    return 1.0 if not word.isalpha() else min(len(word), _LONG) / _LONG


def covering(candidates: Sequence[Candidate], limit: int, fixed: int) -> list[Candidate]:
    """Choose candidates whose words weigh most together; return them in the order of the texts.

    A word that occurs in more groups weighs more. A candidate without a new word is not chosen. The
    time is about linear in the length of the candidates.

    Args:
        candidates: sentences with their prefixes.
        limit: the most characters of all chosen ones together, with a space between them.
        fixed: characters that each chosen sentence costs in addition to its length; a larger number
            favours fewer and longer sentences.
    """
    of = [content_words(one.text) for one in candidates]
    groups: Counter[str] = Counter()
    seen = set[tuple[int, str]]()
    for one, found in zip(candidates, of, strict=True):
        for word in found:
            if (one.group, word) not in seen:
                seen.add((one.group, word))
                groups[word] += 1
    weight = {word: math.log2(1 + n) * weight_of(word) for word, n in groups.items()}
    sizes = [len(one.prefix) + len(one.text) for one in candidates]
    covered = set[str]()
    chosen: list[Candidate] = []
    taken: Counter[int] = Counter()

    def gain(at: int) -> float:
        one = candidates[at]
        # The sum is exact, so that the order in which a set yields its words does not matter.
        new = math.fsum(weight[word] for word in of[at] - covered)
        worth = one.worth * math.pow(_AGAIN, taken[one.group])
        return worth * new / (fixed + sizes[at])

    heap = [(-gain(at), at) for at in range(len(candidates)) if sizes[at] <= limit]
    heapq.heapify(heap)
    room = limit + 1
    while heap:
        stated, at = heapq.heappop(heap)
        now = gain(at)  # It only falls, so the first one whose gain is still true is the best.
        if now <= 0 or sizes[at] + 1 > room:
            continue
        if -now > stated:
            heapq.heappush(heap, (-now, at))
            continue
        chosen.append(candidates[at])
        taken[candidates[at].group] += 1
        covered |= of[at]
        room -= sizes[at] + 1
    return sorted(chosen)
