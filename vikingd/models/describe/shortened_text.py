"""The shortening of a long text to its beginning, its end and samples of the sections between."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vikingd.domain.text import approximate_tokens, lazy

MAX_MATERIAL = 4_000
"""The most approximate tokens of the text that a model describes."""

GAP = "\n[…]\n"
"""The mark where parts of the text are left out."""

_BEGINNING, _END = 0.35, 0.1  # shares of the tokens; samples have the rest
_MIN_SAMPLE = 60  # tokens; where sections are many, some are left out
_HEADING = lazy(r"^(?:#{1,6}[ \t]|=+[ \t])", re.MULTILINE)
_BLOCK = lazy(r"\n[ \t]*\n\s*")


def shortened(text: str, tokens: int = MAX_MATERIAL) -> str:
    """Return a text of at most `tokens` tokens, by estimate.

    A longer text becomes its beginning, its end, and the beginnings of sections between. If there
    are too many sections, some at equal distances are taken. GAP marks each place where text is
    left out.
    """
    if approximate_tokens(text) <= tokens:
        return text
    start = _fitting(text, 0, len(text), int(tokens * _BEGINNING))
    stop = _fitting_end(text, start, int(tokens * _END))
    left = tokens - approximate_tokens(text[:start]) - approximate_tokens(text[stop:])
    kept = [(0, start)]
    starts = _starts(text, start, stop)
    most = max(int(left / (_MIN_SAMPLE + 2)), 1)
    if len(starts) > most:
        starts = [starts[(2 * i + 1) * len(starts) // (2 * most)] for i in range(most)]
    for number, at in enumerate(starts):
        following = starts[number + 1] if number + 1 < len(starts) else stop
        share = left // (len(starts) - number) - 2
        end = _fitting(text, at, following, share)
        if end > at:
            left -= approximate_tokens(text[at:end]) + 2
            kept.append((at, end))
    kept.append((stop, len(text)))
    return _joined(text, kept, tokens)


def _joined(text: str, spans: Sequence[tuple[int, int]], tokens: int) -> str:
    made, last = "", 0
    for start, end in spans:
        made += (GAP if start > last else "") + text[start:end]
        last = end
    while approximate_tokens(made) > tokens:
        made = made[: -max((approximate_tokens(made) - tokens), 1)]
    return made


def _starts(text: str, start: int, stop: int) -> list[int]:
    """Return the indices at which sections begin in text[start:stop].

    In a text without headings they are the beginnings of paragraphs.
    """
    headings = [found.start() for found in _HEADING.finditer(text, start, stop)]
    if len(headings) >= 3:
        return headings
    blocks = [found.end() for found in _BLOCK.finditer(text, start, stop)]
    blocks = [at for at in blocks if at < stop]
    if len(blocks) >= 3:
        return blocks
    step = max((stop - start) // 8, 1)
    return list(range(start + step // 2, stop, step))


def _fitting(text: str, start: int, stop: int, tokens: int) -> int:
    """Return the index at which to cut text[start:stop], so that `tokens` tokens are left at most.

    The beginning is kept, as much of it as possible. The cut is at the end of a line or word if one
    is near.
    """
    low, high = start, min(stop, start + 4 * max(tokens, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if approximate_tokens(text[start:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    if low == stop:
        return low
    for mark in ("\n", " "):
        at = text.rfind(mark, start + (low - start) // 2, low)
        if at >= 0:
            return at
    return low


def _fitting_end(text: str, start: int, tokens: int) -> int:
    """Return the index from `start` on at which the last `tokens` tokens of the text begin.

    It is moved to the next beginning of a line if there is one near.
    """
    low, high = max(start, len(text) - 4 * tokens), len(text)
    while low < high:
        middle = (low + high) // 2
        if approximate_tokens(text[middle:]) <= tokens:
            high = middle
        else:
            low = middle + 1
    at = text.find("\n", low, low + (len(text) - low) // 2)
    return at + 1 if at >= 0 else low
