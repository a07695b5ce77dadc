"""The table of hidden characters: invisible ones, and those that control a terminal.

They are control characters (except tabs and the ends of lines), characters that change the
direction of text, separators of lines, and what Unicode calls default ignorable: soft hyphens, zero
widths, fillers, variation selectors and tags. Some belong to texts, and are not hidden there:

- joiners (U+200C, U+200D) between letters of scripts that join, after a virama, or between emoji;
- variation selectors after an emoji, an ideograph or a symbol that has variants;
- the tags of the flags of England, Scotland and Wales.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

# Ranges are for `[...]` of a regular expression, in escapes that `javascript` can convert.
_ALWAYS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_JOINERS = r"\u200c\u200d"
_SELECTORS = r"\ufe00-\ufe0f"
_HAN_SELECTORS = r"\U000e0100-\U000e01ef"
_MONGOLIAN_SELECTORS = r"\u180b-\u180f"
_TAGS = r"\U000e0020-\U000e007f"
_CANDIDATES = _ALWAYS + _JOINERS + _SELECTORS + _HAN_SELECTORS + _MONGOLIAN_SELECTORS + _TAGS

WITHIN_WORDS = (
    rf"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    rf"\uffa0\ufff9-\ufffb{_SELECTORS}{_MONGOLIAN_SELECTORS}\U000e0000-\U000e0fff"
)
"""Invisible characters to remove from within words, as the inside of `[...]` of a regex.

Joiners and variation selectors are among them, although texts may need them. All other hidden
characters separate words.
"""

# Letters and marks of the scripts in which joiners change the shape of letters: Arabic to Adlam.
_JOINING = (
    r"\u0620-\u064a\u064b-\u0652\u066e-\u06d3\u06d5\u06fa-\u06ff\u0710-\u074f\u0750-\u077f"
    r"\u07ca-\u07ea\u0840-\u085b\u0860-\u086a\u0870-\u08ff\u0900-\u0963\u0971-\u0de5\u0df2\u0df3"
    r"\u0f40-\u0fbc\u1000-\u103f\u1050-\u108f\u1780-\u17b3\u17b6-\u17d3\u1820-\u18aa\u1a00-\u1a7f"
    r"\u1b00-\u1bff\ua840-\ua873\ua8e0-\ua8ff\ua980-\ua9c0\uaa60-\uaa7f\uabc0-\uabed"
    r"\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010a3f\U00011000-\U000116ff\U0001e900-\U0001e94b"
)
_VIRAMAS = r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u1039\u17d2"
_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_VARIED = _EMOJI + _HAN + r"\u1000-\u109f\u2200-\u22ff\u3001\u3002\ua840-\ua873\uff01-\uff1f"
_FLAGS = ("gbeng", "gbsct", "gbwls")


def _tags_of(flag: str) -> str:
    """Return a regular expression that matches the tag characters of a flag, within the flag alone.

    `flag` is a code such as "gbeng", the flag of England.
    """
    tags = [rf"\U{0xE0000 + ord(letter):08x}" for letter in flag] + [r"\U000e007f"]
    return "|".join(
        rf"(?<=\U0001f3f4{''.join(tags[:at])}){tag}(?={''.join(tags[at + 1 :])})"
        for at, tag in enumerate(tags)
    )


_BELONGING = "|".join((
    r"\r\n",
    rf"(?<=[{_JOINING}])[{_JOINERS}](?=[{_JOINING}])",
    rf"(?<=[{_VIRAMAS}])[{_JOINERS}]",
    rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])",
    rf"(?<=[{_VARIED}])[{_SELECTORS}]",
    r"(?<=[#*0-9])\ufe0f(?=\u20e3)",
    rf"(?<=[{_HAN}])[{_HAN_SELECTORS}]",
    rf"(?<=[\u1820-\u18aa])[{_MONGOLIAN_SELECTORS}]",
    *map(_tags_of, _FLAGS),
))  # fmt: skip

SOURCE = rf"(?!{_BELONGING})[{_CANDIDATES}]"
"""The regular expression of one hidden character."""

_CANDIDATE = re.compile(f"[{_CANDIDATES}]")


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(SOURCE)  # it takes milliseconds, and few programs need it


def replaced(text: str, by: Callable[[str], str]) -> str:
    """Return a text in which each hidden character is replaced by `by(character)`."""
    # Most characters are no candidates, and the class alone is much faster than the whole pattern.
    return _CANDIDATE.sub(
        lambda found: by(found[0]) if _hidden().match(text, found.start()) else found[0], text
    )


def is_at(text: str, place: int) -> bool:
    """Return True if the character at index `place` is hidden.

    Control characters and white space do not count.
    """
    one = text[place]
    return not (one < "\xa0" or one.isspace()) and _hidden().match(text, place) is not None


def removed(text: str) -> str:
    """Return a text without hidden characters, but with its control characters and line ends."""
    return replaced(text, lambda one: one if one < "\xa0" or one.isspace() else "")


def marked(text: str) -> str:
    """Return a text of the same length with U+FFFD in place of each hidden character."""
    return replaced(text, lambda _: "\ufffd")


def first(text: str) -> str:
    """Return the code and name of the first hidden character in a text; "" if it has none.

    For example `U+202E (RIGHT-TO-LEFT OVERRIDE)`.
    """
    if text.isascii() and text.isprintable():
        return ""
    found = _hidden().search(text)
    return named(found[0]) if found else ""


def named(character: str) -> str:
    """Return the code and the name of a character, such as `U+202E (RIGHT-TO-LEFT OVERRIDE)`."""
    name = unicodedata.name(character, "a control character" if character < "\xa0" else "")
    return f"U+{ord(character):04X}" + (f" ({name})" if name else "")


def javascript() -> str:
    """Return a JavaScript module with the table, for the browser page."""
    source = re.sub(r"\\U0*([0-9a-f]+)", r"\\u{\1}", SOURCE)
    return (
        "// Made by `python -m vikingd.domain.hidden_characters`; do not edit.\n"
        "/** The regular expression of one hidden character. */\n"
        f"export const HIDDEN = /{source}/u;\n"
    )


if __name__ == "__main__":
    print(javascript(), end="")
