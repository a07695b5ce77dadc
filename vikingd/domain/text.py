"""Scripts and lengths of texts, without a model; helpers for regular expressions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from itertools import takewhile
from typing import Any, cast

from vikingd.domain import hidden_characters


def lazy(source: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use, since a large one takes milliseconds.

    `source` is the regular expression, or a function that returns it at the first use.
    """
    return cast("re.Pattern[str]", _Lazy(source, flags))


class _Lazy:
    def __init__(self, source: str | Callable[[], str], flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that the object lacks: once for each method in use.
        source = self._source if isinstance(self._source, str) else self._source()
        value = getattr(re.compile(source, self._flags), name)
        setattr(self, name, value)
        return value


SCRIPTS = ("none", "latin", "han", "kana", "hangul", "cyrillic", "arabic", "other")
"""The names of the scripts (writing systems); the script of a text is an index into this."""

NONE, LATIN, HAN, KANA, HANGUL, CYRILLIC, ARABIC, OTHER = range(len(SCRIPTS))

HAN_CHARS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA_CHARS = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HANGUL_CHARS = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
CJK_CHARS = f"々〇{HAN_CHARS}{KANA_CHARS}{HANGUL_CHARS}"
"""Chinese, Japanese and Korean characters."""
SPACELESS_CHARS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u0f00\u0f0b\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0f84\u0f86-\u0fbc"  # Tibetan
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17dc\u17dd"  # Khmer
)
"""Letters and marks of other scripts that write words without spaces; no digits."""
WIDE_CHARS = f"{HAN_CHARS}{KANA_CHARS}\u3000-\u303f\uff00-\uff65"
"""Chinese and Japanese characters and punctuation; two of them have no space between them."""
_NEUTRAL = "“”‘’…—·"  # punctuation of Chinese, and of Western text too

SECTION_SEPARATOR = " > "
"""Separator of the headings above a passage."""

# Runs of letters of a script; a text has fewer runs than letters, so matching them is faster.
_COUNTED = {
    LATIN: lazy("[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff]+"),
    HAN: lazy(f"[{HAN_CHARS}]+"),
    KANA: lazy(f"[{KANA_CHARS}]+"),
    HANGUL: lazy(f"[{HANGUL_CHARS}]+"),
    CYRILLIC: lazy("[\u0400-\u052f]+"),
    ARABIC: lazy("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff]+"),
}
_ASCII_LETTER = re.compile("[A-Za-z]")
_ASCII_LETTERS = re.compile("[A-Za-z]+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CJK = lazy(f"[{HAN_CHARS}{KANA_CHARS}{HANGUL_CHARS}]+")
_WIDE_BREAK = lazy(f"(?<=[{WIDE_CHARS}]) (?=[{WIDE_CHARS}])")
# The end of a line before a break and the beginning of the line after it, in Chinese or Japanese.
# Marks of Markdown are passed over: 你好** matches as 你好.
_WIDE_END = lazy(f"[{WIDE_CHARS}][{_NEUTRAL}]*[*_`~]*$")
_NEUTRAL_END = lazy(f"(?:[{WIDE_CHARS}]|[{_NEUTRAL}])[*_`~]*$")
_WIDE_START = lazy(f"[*_`~]*[{_NEUTRAL}]*[{WIDE_CHARS}]")
_NEUTRAL_START = lazy(f"[*_`~]*(?:[{WIDE_CHARS}]|[{_NEUTRAL}])")
# Code and links, which do not count for the script of a text: ```...```, `name`, https://example.org
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)

# A CJK character carries about as much meaning as four Latin letters. Chinese text with English
# terms and code in it is still Chinese.
_WEIGHT = {HAN: 4, KANA: 4, HANGUL: 3}

# Normalisation takes time quadratic in a run of combining marks, so long runs are cut. U+FF9E and
# U+FF9F are letters that become marks. A text of 1,024 characters is harmless (2 ms).
_MARK = r"(?:[^\w\s]|[\uff9e\uff9f])"
_LONG_RUN = re.compile(rf"({_MARK}{{30}}){_MARK}+")
_HARMLESS = 1024

_FIRST_PLANE = range(0x10000)  # of Unicode


def normalized(text: str) -> str:
    """Return the text in the normal form NFKC."""
    if text.isascii():
        return text
    if len(text) > _HARMLESS:
        text = _LONG_RUN.sub(r"\1 ", text)
    return unicodedata.normalize("NFKC", text)


def characters(source: str) -> str:
    """Return the characters U+0000 to U+FFFF that a pattern matches, as ranges for `[...]` of `re`.

    For `[a-c]` it returns the escapes of "a-c".
    """
    return _ranges(rf"(?:{source})+", "".join(map(chr, _FIRST_PLANE)))


@cache
def marks() -> str:
    r"""Return the combining marks as ranges for `[...]` of `re`, whose `\w` leaves them out."""
    categories = map(unicodedata.category, map(chr, _FIRST_PLANE))
    return _ranges("M+", "".join("M" if one in ("Mn", "Mc") else " " for one in categories))


def _ranges(source: str, plane: str) -> str:
    """Return the index ranges of a pattern's matches in `plane`, as escapes of characters.

    `plane` has one character for each code point from 0 to U+FFFF.
    """
    found = re.finditer(source, plane)
    return "".join(f"\\u{run.start():04x}-\\u{run.end() - 1:04x}" for run in found)


def script_of(text: str) -> int:
    """Return the script of most letters of a text, code excepted; NONE without letters.

    Japanese mixes Han with kana, so a text with at least one eighth as much kana as Han is KANA.
    """
    if text.isascii():
        return LATIN if _ASCII_LETTER.search(text) else NONE
    text = normalized(text)  # Full-width letters are Latin, as in the terms of the text.
    counts = _script_counts(_CODE.sub(" ", text)) or _script_counts(text)
    if not counts:
        return NONE
    if counts.get(KANA, 0) * 8 >= counts.get(HAN, 0) > 0:
        counts[KANA] += counts.pop(HAN)
    return max(counts, key=lambda script: (counts[script], -script))


def _script_counts(text: str) -> dict[int, int]:
    # ASCII letters are most of many texts: they are counted first, for speed.
    ascii_letters = _in_runs(_ASCII_LETTERS, text)
    others = "".join(_BEYOND_ASCII.findall(text))
    letters = ascii_letters + _in_runs(_LETTERS, others)
    counts: dict[int, int] = {}
    for script, pattern in _COUNTED.items():
        found = _in_runs(pattern, others) + (ascii_letters if script == LATIN else 0)
        if found:
            counts[script] = found * _WEIGHT.get(script, 1)
            letters -= found
    if letters > 0:
        counts[OTHER] = letters
    return counts


def approximate_tokens(text: str) -> int:
    """Estimate the tokens of a text for a multilingual model, without its tokenizer."""
    if text.isascii():
        return (len(text) + 3) // 4
    cjk = _in_runs(_CJK, text)
    return cjk + (len(text) - cjk + 3) // 4


def _in_runs(pattern: re.Pattern[str], text: str) -> int:
    """Return the number of characters in all matches of a pattern."""
    return sum(map(len, pattern.findall(text)))


def text_to_index(title: str, section: str, text: str) -> str:
    """Return the text to embed and index for a passage or an abstract: headings, then the text."""
    head = section
    if title and not section.startswith(title):
        head = f"{title}{SECTION_SEPARATOR}{section}" if section else title
    if not head or text.startswith(head):
        return text
    return f"{head}\n{text}"


def without_invisible(text: str) -> str:
    """Return a text without hidden characters; those that separate words become spaces."""
    text = text.replace("\r\n", "\n")
    return hidden_characters.replaced(text, lambda one: " " if one.isspace() else "")


def clean(text: str) -> str:
    """Return a text to show on a terminal or in a prompt, each hidden character as U+FFFD."""
    return hidden_characters.marked(text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return the text in one line; Chinese and Japanese lines join without a space."""
    line = " ".join(text.split())
    return line if line.isascii() else _WIDE_BREAK.sub("", line)


def join_lines(lines: Iterable[str]) -> str:
    """Join the lines of a paragraph by a space; lines of Chinese or Japanese without one.

    Unlike `one_line`, this keeps a space that stands within a line.
    """
    parts: list[str] = []
    before = ""
    for line in lines:
        if not (line := " ".join(line.split())):
            continue
        if before and (before.isascii() or line.isascii() or not _is_unspaced(before, line)):
            parts.append(" ")
        parts.append(line)
        before = line
    return "".join(parts)


def _is_unspaced(before: str, behind: str) -> bool:
    """Return True if no space belongs between two joined lines, as in Chinese and Japanese.

    That is so if the last character of `before` and the first one of `behind` are both wide, or one
    is wide and the other is punctuation of both Chinese and Western text (`_NEUTRAL`).
    """
    if _WIDE_END.search(before):
        return _NEUTRAL_START.match(behind) is not None
    return bool(_WIDE_START.match(behind) and _NEUTRAL_END.search(before))


def without_layout(text: str) -> str:
    """Return a text with each run of white space as one space, for comparisons."""
    return " ".join(text.split())


def common_section(a: str, b: str) -> str:
    """Return the headings with which both sections begin: "A > B" for "A > B > C" and "A > B"."""
    if a == b:
        return a
    pairs = zip(a.split(SECTION_SEPARATOR), b.split(SECTION_SEPARATOR), strict=False)
    return SECTION_SEPARATOR.join(x for x, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
