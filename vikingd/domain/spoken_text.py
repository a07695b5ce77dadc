"""Messages of a conversation as text: each begins with its speaker and its time.

The first line is `User, 09:30: ...`. Each further line begins with ">", and a line that the speaker
quotes or pastes begins with ">>", as in mails. So each line shows that it was said. The speaker and
the time are not indexed, because they say nothing about the content.
"""

from __future__ import annotations

import re

SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""The names of the speakers whose turns are kept, by their roles."""

SAID, QUOTED = ">", ">>"
"""The marks of further lines of a turn, and of lines that its speaker quotes."""

_NAMES = "|".join(SPEAKERS.values())
_SPEAKER = rf"(?P<name>{_NAMES}), [0-9]{{2}}:[0-9]{{2}}(?P<part> \([0-9]+ of [0-9]+\))?:"
# User, 09:30 (2 of 3):
_BEGINNING = re.compile(_SPEAKER)
# "User, 09:30: " or "> " or ">> ", also in a list item: "- > "
_SIGN = re.compile(rf"(?:[-*+] )?(?:{_SPEAKER} ?|(?:[ ]*>)+ ?)")


def beginning(role: str, clock: str, number: int = 1, of: int = 1) -> str:
    """Return the speaker and the time for part `number` of a message: "User, 09:30 (2 of 3):"."""
    part = f" ({number} of {of})" if of > 1 else ""
    return f"{SPEAKERS[role]}, {clock}{part}:"


def sign_end(text: str, start: int = 0) -> int:
    """Return the index of the first word of the line at `start`, after its speaker or ">"."""
    found = _SIGN.match(text, start)
    return found.end() if found else start


def without_speaker(text: str) -> str:
    """Return a text without the speaker and the time that `beginning` put in front."""
    found = _BEGINNING.match(text)
    return text[found.end() :].lstrip() if found else text


def without_clock(text: str) -> str:
    """Return a text with its speaker but without its time, which the memory shows already."""
    found = _BEGINNING.match(text)
    return f"{found['name']}{found['part'] or ''}:{text[found.end() :]}" if found else text
