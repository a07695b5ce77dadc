"""Scripts and lengths of texts, without any model."""

from __future__ import annotations

import re

SCRIPTS = ("none", "latin", "han", "kana", "hangul", "cyrillic", "arabic", "other")
"""Names of the scripts that stand for languages; a text's script is an index into this."""

NONE, LATIN, HAN, KANA, HANGUL, CYRILLIC, ARABIC, OTHER = range(len(SCRIPTS))

HAN_CHARS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA_CHARS = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HANGUL_CHARS = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"

_COUNTED = {
    LATIN: re.compile("[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff]"),
    HAN: re.compile(f"[{HAN_CHARS}]"),
    KANA: re.compile(f"[{KANA_CHARS}]"),
    HANGUL: re.compile(f"[{HANGUL_CHARS}]"),
    CYRILLIC: re.compile("[\u0400-\u052f]"),
    ARABIC: re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff]"),
}
_ASCII_LETTER = re.compile("[A-Za-z]")
_LETTER = re.compile(r"[^\W\d_]")
_CJK = re.compile(f"[{HAN_CHARS}{KANA_CHARS}{HANGUL_CHARS}]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)

# A CJK character says about as much as four Latin letters: Chinese text with English terms and
# code in it is still Chinese.
_WEIGHT = {HAN: 4, KANA: 4, HANGUL: 3}


def script_of(text: str) -> int:
    """The script of most of a text's letters, code apart; NONE without letters.

    Japanese mixes Han with kana: any fair share of kana makes it KANA.
    """
    if text.isascii():
        return LATIN if _ASCII_LETTER.search(text) else NONE
    counts = _script_counts(_CODE.sub(" ", text)) or _script_counts(text)
    if not counts:
        return NONE
    if counts.get(KANA, 0) * 8 >= counts.get(HAN, 0) > 0:
        counts[KANA] += counts.pop(HAN)
    return max(counts, key=lambda script: (counts[script], -script))


def _script_counts(text: str) -> dict[int, int]:
    letters = len(_LETTER.findall(text))
    counts: dict[int, int] = {}
    for script, pattern in _COUNTED.items():
        if found := len(pattern.findall(text)):
            counts[script] = found * _WEIGHT.get(script, 1)
            letters -= found
    if letters > 0:
        counts[OTHER] = letters
    return counts


def approximate_tokens(text: str) -> int:
    """About how many tokens a multilingual model makes of a text, without its tokenizer."""
    if text.isascii():
        return (len(text) + 3) // 4
    cjk = len(_CJK.findall(text))
    return cjk + (len(text) - cjk + 3) // 4


def text_to_index(title: str, section: str, text: str) -> str:
    """What is embedded and indexed for a piece of a context: its headings, then its text."""
    head = (
        section
        if not title or section.startswith(title)
        else f"{title} > {section}"
        if section
        else title
    )
    if not head or text.startswith(head):
        return text
    return f"{head}\n{text}"
