"""Sentences that together cover the words of many texts, chosen greedily."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from vikingd.domain.text import CJK_CHARS, normalized

_CJK = re.compile(f"[{CJK_CHARS}]")
_WORD = re.compile(rf"[{CJK_CHARS}]+|[^\W_{CJK_CHARS}]+")
_STOP_LISTED = """
a about all also am an and any are as at be been but by can could did do does for from had has have
he her here his how i if in into is it its just like me more my no not of on one or our out she so
some such than that the their them then there these they this those to up use used using very was
we were what when where which who why will with would yes you your
"""
_STOP = frozenset(_STOP_LISTED.split())


class Candidate(NamedTuple):
    """A sentence of a text: the number of its text, its place in it, and itself."""

    group: int
    place: int
    text: str


def words(text: str) -> frozenset[str]:
    """Return the folded words of a text without stop words; of Chinese the pairs of characters."""
    found = set[str]()
    for word in _WORD.findall(normalized(text).casefold()):
        if _CJK.match(word):
            found.update(a + b for a, b in pairwise(word))
        elif len(word) > 1 and word not in _STOP:
            found.add(word)
    return frozenset(found)


def covering(candidates: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Return the candidates that cover most words within `limit` characters, in order."""
    of = [words(one.text) for one in candidates]
    groups: dict[str, set[int]] = {}
    for one, found in zip(candidates, of, strict=True):
        for word in found:
            groups.setdefault(word, set()).add(one.group)
    weight = {word: math.log2(1 + len(found)) for word, found in groups.items()}
    covered = set[str]()
    chosen: list[Candidate] = []

    def gain(at: int) -> float:
        new = math.fsum(sorted(weight[word] for word in of[at] - covered))
        return new / math.pow(20 + len(candidates[at].text), 0.8)

    heap = [(-gain(at), at) for at in range(len(candidates))]
    heapq.heapify(heap)
    room = limit
    while heap:
        stated, at = heapq.heappop(heap)
        now = gain(at)
        if now <= 0 or len(candidates[at].text) > room:
            continue
        if -now > stated:
            heapq.heappush(heap, (-now, at))
            continue
        chosen.append(candidates[at])
        covered |= of[at]
        room -= len(candidates[at].text) + 1
    return sorted(chosen)
