"""Turns of a conversation as texts: each begins with its speaker and its time.

The first line of a turn follows the speaker. Each further line is quoted with ">", and a line that
the speaker quotes or pastes with ">>", as in mails. So no line stands without a sign of its
speaker. The beginning is not indexed: it says nothing about the content.
"""

from __future__ import annotations

import re

SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""The names of those whose turns are kept, by their roles."""

SAID, QUOTED = ">", ">>"
"""The marks of further lines of a turn, and of lines that its speaker quotes."""

_NAMES = "|".join(SPEAKERS.values())
_SPEAKER = rf"(?P<name>{_NAMES}), [0-9]{{2}}:[0-9]{{2}}(?P<part> \([0-9]+ of [0-9]+\))?:"
_BEGINNING = re.compile(_SPEAKER)
_SIGN = re.compile(rf"(?:[-*+] )?(?:{_SPEAKER} ?|(?:[ ]*>)+ ?)")


def beginning(role: str, clock: str, number: int = 1, of: int = 1) -> str:
    """Return the beginning of a part of a turn, such as "User, 09:30 (2 of 3):"."""
    part = f" ({number} of {of})" if of > 1 else ""
    return f"{SPEAKERS[role]}, {clock}{part}:"


def sign_end(text: str, start: int = 0) -> int:
    """Return where the words begin in a line at `start`: behind its speaker or its mark."""
    found = _SIGN.match(text, start)
    return found.end() if found else start


def without_speaker(text: str) -> str:
    """Return a text without such a beginning."""
    found = _BEGINNING.match(text)
    return text[found.end() :].lstrip() if found else text


def without_clock(text: str) -> str:
    """Return a text with its speaker alone; the memory has the time, so none is shown twice."""
    found = _BEGINNING.match(text)
    return f"{found['name']}{found['part'] or ''}:{text[found.end() :]}" if found else text
