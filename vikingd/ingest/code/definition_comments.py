"""The comments of definitions in source code."""

from __future__ import annotations

import re
from itertools import takewhile

from vikingd.domain.sentences import sentences
from vikingd.domain.text import lazy, one_line

_ABOVE = 1200  # characters before a definition that are searched for its comment
_READ = 600  # characters of a comment that are read

_DOCSTRING = lazy(r"""\s*[rRuU]?(\"{3}|'{3})(.*?)(?:\1|\Z)""", re.DOTALL)
_PYTHON = lazy(r"(?>(?:[ \t]*@[^\n]*\n)*)[ \t]*(?:async[ \t]+)?(?:def|class)\b")
_HEAD_END = lazy(r":[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_BLOCK = lazy(r"(?:/\*|\{-)(?>(?:(?!\*/|-\}).)*)(?:\*/|-\})[ \t]*\n?\Z", re.DOTALL)
# This check is fast; the search for a block or an attribute that it avoids takes long.
_BLOCK_ENDS, _ATTRIBUTE_MARKS = ("*/", "-}"), ("@", "#[", "[")
_ATTRIBUTE = lazy(r"(?:^[ \t]*(?:@|#\[|\[)[^\n]*\n)+\Z", re.MULTILINE)
# The marks around a line of a comment: " * ", "/// ", "# # ", "-- | ".
_MARKS = lazy(
    r"[ \t]*(?:/\*+!?|\*+(?!/)|//[/!]*|#+!?(?:[ \t]#+(?=[ \t]))?"
    r"|--+[ \t]?[|^]?|;+|\{-+[ \t]?\|?)?[ \t]*"
)
# A line for tools: "@param a", "Args:", ":return: b", "eslint-disable".
_TAG = lazy(
    r"(?:@\w|:\w+: \w+$|Created (?:by|on)\b|ANCHOR\b|export \w+$|:\w+[: ]|\\\w+|"
    r"(?:Args|Returns?|Param\w*|Raises|Example\w*)\b.?$|"
    r"eslint|noqa|pylint|type:|prettier|istanbul|[-=*~#]{3})"
)
_INLINE_TAG = lazy(r"\{@(\w+) ([^{}]*)\}")
# Tags of HTML and of XML comments, and a reference: '<br>', '<see cref="List" />'.
_ELEMENT = lazy(
    r"</?(?:summary|remarks|para|value|p|pre|br|b|i|em|c|code|ul|ol|li)[ \t]*/?>|<a [^<>]*>|</a>"
    r"|<(?:see|seealso|paramref|typeparamref)[ \t]+\w+=\"(?:[A-Z]:)?([^\"]*)\"[ \t]*/>"
)
_LEGAL = lazy(
    r"copyright|licen[cs]e|spdx|all rights reserved|pleased to support the open"
    r"|\(c\) (?:\w+ )?(?:19|20)\d\d\b|^\W*this file is part of\b",
    re.IGNORECASE,
)


def is_legal(text: str) -> bool:
    """Return True for a notice of copyright or of a licence."""
    return _LEGAL.search(text) is not None


def _shown(tag: re.Match[str]) -> str:
    """Return the visible text of a tag: its label, or the name of its target.

    `{@link List#add(int) put}` gives "put", and `{@link List#add(int)}` gives "add".
    """
    if not tag[1].startswith("link"):
        return tag[2]
    target, _, label = tag[2].partition(" ")
    return label or re.split(r"[#.]", target.partition("(")[0])[-1]


def without_tags(text: str) -> str:
    """Return the text of a comment without the tags of Javadoc, HTML and XML comments."""
    text = _INLINE_TAG.sub(_shown, text) if "{@" in text else text
    return " ".join(_ELEMENT.sub(r" \1", text).split()) if "<" in text else text


def comment_of(text: str, start: int, mark: str) -> str:
    """Return the first sentence of the comment of a definition that begins at `start`, or "".

    The comment is above the definition; in Python it is the docstring.
    """
    is_python = _PYTHON.match(text, start)
    end = _HEAD_END.search(text, start, start + _ABOVE) if is_python else None
    if end is not None and (found := _DOCSTRING.match(text, end.end())):
        return _first_sentence(found[2])
    above = text[max(start - _ABOVE, 0) : start]
    last_line = above.removesuffix("\n").rpartition("\n")[2]
    if last_line.lstrip(" \t").startswith(_ATTRIBUTE_MARKS):
        above = above[: found.start()] if (found := _ATTRIBUTE.search(above)) else above
    ends_with_block = above.removesuffix("\n").rstrip(" \t").endswith(_BLOCK_ENDS)
    if ends_with_block and (found := _BLOCK.search(above)):
        return _first_sentence(found[0])
    if not mark:
        return ""
    lines = above.split("\n")[:-1]
    comments = list(takewhile(lambda line: line.lstrip().startswith(mark), reversed(lines)))
    return _first_sentence("\n".join(reversed(comments)))


def _first_sentence(comment: str) -> str:
    """Return the first sentence of a comment; "" if it is for tools or is a legal notice."""
    lines: list[str] = []
    for line in comment[:_READ].split("\n"):
        plain = _MARKS.sub("", line, count=1).strip()
        plain = plain.removesuffix("*/").removesuffix("-}").rstrip()
        if lines and (not plain or _TAG.match(plain)):
            break
        if plain and not _TAG.match(plain):
            lines.append(plain)
    text = without_tags(one_line("\n".join(lines)))
    if not any(map(str.isalpha, text)) or is_legal(text):
        return ""
    return next(iter(sentences(text)), "")
