"""Durations that people write: 90, 90s, 15m, 24h, 7d."""

from __future__ import annotations

import re

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
FORMS = 'seconds, or a number with s, m, h or d, such as "24h"'


def seconds_of(text: str) -> float:
    """Return the seconds of a duration: 900.0 for "15m".

    Raises:
        ValueError: the text is no duration; the message names the forms.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s?([smhd]?)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration: give {FORMS}")
    return float(found[1]) * _UNITS[found[2]]
