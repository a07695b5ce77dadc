"""Turns of a conversation: who speaks in a text, and whether the text has a question.

A text that begins with a name or a role and a colon is a turn: "Caroline: How have you been?".
"""

from __future__ import annotations

from typing import Final

from vikingd.domain.store_changes import IndexedText
from vikingd.domain.text import lazy, marks
from vikingd.index.lexicon.tokens import term_hash

_ASKS: Final = 1  # the bit of a turn with a question mark
_SPEAKERS: Final = (1 << 30) - 1  # the largest number of a speaker

# A name of at most four words before a colon, which may be bold: "Ana:", "**Dr. Ana Li**:". The
# colon of https:// is not matched.
_SPEAKER = lazy(
    lambda: (
        rf"\s*[*_]{{0,2}}([^\W\d_][\w{marks()}.'’-]*(?: [\w{marks()}.'’-]+){{0,3}})[*_]{{0,2}}"
        r"\s?[:：](?!//)"
    )
)
_LONGEST = 40  # characters of a speaker


def turn_of(text: IndexedText) -> int:
    """Return the turn of a text: twice the number of its speaker, plus 1 if it has a question mark.

    The number is a hash of the speaker's name, the same in all processes; 0: no speaker. Only the
    first passage of a file has a speaker.
    """
    speaker = speaker_of(text.passage) if text.ordinal == 1 else ""
    number = term_hash(speaker) % _SPEAKERS + 1 if speaker else 0
    return number << 1 | (_ASKS if asks(text.passage) else 0)


def speaker_of(passage: str) -> str:
    """Return the name before the colon with which a passage begins, case-folded; "" for none.

    `**Ana**: Hello` gives "ana".
    """
    found = _SPEAKER.match(passage)
    return found[1].casefold() if found is not None and len(found[1]) <= _LONGEST else ""


def asks(passage: str) -> bool:
    """Return True if a passage contains a question mark."""
    return "?" in passage or "？" in passage
