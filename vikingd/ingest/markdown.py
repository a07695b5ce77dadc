"""Markdown as blocks below their headings, and as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vikingd.domain.text import SECTION_SEPARATOR, join_lines, one_line
from vikingd.ingest.directives import (
    BEGIN_ASIDE,
    BREAK,
    END_ASIDE,
    MODULE,
    may_have_directives,
    without_directives,
    without_templates,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

MAX_HEADING = 120
"""Maximum characters of a heading in a section path."""

_MAX_STEPS = 1 << 17  # of the parser for one text, which take one to three seconds
_FREE_STEPS = 1024  # for any text; a document takes less than one step for seven characters
_WIDE = 256  # characters of a line that cost as much as a step

_SHORT = 8192  # a text with fewer characters is whole, and its tokens are kept until the next one

_MAX_INLINE = 4096
_MAX_BRACKETS = 256  # of inline text: the parser looks for the end of each in all that follows

_GAP = re.compile(r"(?>\r\n?|\n)(?>[ \t]*+(?>\r\n?|\n))+")
_EOL = re.compile(r"\r\n?|\n")  # the ends of lines as the parser sees them
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_CONTAINERS = _LISTS | {"list_item_open", "blockquote_open"}
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])")
_LINEWISE = frozenset({"fence", "code_block", "html_block", "table_open"})
# The match begins at a run of spaces; otherwise each space of a long run would be tried.
_ATTRIBUTES = re.compile(r"(?<!\s)\s*+(?:\{\s*(?:[#.:]|[\w-]+=)[^{}]*\}|\{/\*[^{}]*\*/\})\s*$")
_CLOSING = re.compile(r"(?<!\s)\s++#+$")  # the closing signs of a heading
_TAG = re.compile(r"<!--.*?-->|<[^<>]*+>", re.DOTALL)
# Lines that begin with a letter are always paragraphs. For a short text, skipping the parser saves
# most of the time.
_PLAIN_LINES = re.compile(r"(?>(?:[^\W\d_][^\n\r\0]*+\n*+)+)")
_MOST_PLAIN_LINES = 100
# A link whose definition is elsewhere, in a text that is read only in part.
_REFERENCE = re.compile(r"(?<!\w)\[([^\[\]\n]{1,80})\]\[[^\[\]\n]{0,80}\]")
_INLINE_SIGNS = re.compile(r"[\\`*_\[\]<&!\0]")  # the first characters of inline rules


class TooCostly(Exception):
    """Parsing the Markdown takes far too long for its length."""


class Block(NamedTuple):
    """A block of a content: code points [start, end) below the headings of `section`."""

    section: str
    start: int
    end: int
    linewise: bool  # cut it by lines instead of sentences
    item: int = -1  # if items are blocks, the start of the line of its item


class Part(NamedTuple):
    """A heading, a list item or another top-level block: code points [start, end).

    The range has no white space at its ends, and no marker of an item.
    """

    start: int
    end: int
    level: int = 0  # of a heading
    heading: str = ""  # as plain text
    item: int = -1  # the start of the line of an item


def _count_step(state: StateBlock, line: int, _end: int, silent: bool) -> bool:
    """Count a step of the Markdown parser, which calls this function as one of its block rules.

    Return True only with `silent` and at a line that begins with BREAK, so that the quotation
    above the line ends there.

    Raises:
        TooCostly: the text has taken all the steps that it may take.
    """
    left: int = state.env["steps"] - 1 - (state.eMarks[line] - state.bMarks[line]) // _WIDE
    if left < 0:
        raise TooCostly
    state.env["steps"] = left
    return silent and state.src.startswith(BREAK, state.bMarks[line])


@cache
def _parsers() -> tuple[MarkdownIt, MarkdownIt]:
    """Return the parsers of blocks and of inline text; they are imported with the first use."""
    from markdown_it import MarkdownIt

    # Inline text is parsed on demand. Reference definitions count as text.
    blocks = MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])
    blocks.block.ruler.before(
        "table", "steps", _count_step, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    inline = MarkdownIt("commonmark")
    # A parser compiles its rules at its first use. Another thread could see an incomplete set.
    for parser in (blocks, inline):
        for ruler in (
            parser.core.ruler,
            parser.block.ruler,
            parser.inline.ruler,
            parser.inline.ruler2,
        ):
            ruler.getRules()
    return blocks, inline


def load() -> None:
    """Import the Markdown parsers and build them now, on this thread."""
    _parsers()


def blocks(
    content: str,
    start: int,
    fits: Callable[[int, int], bool],
    items: bool = False,
    is_page: bool = False,
) -> list[Block]:
    """Return the blocks of a Markdown text from `start` on, in order.

    Headings are in the sections of the blocks below them. A heading with nothing below it is a
    block of the section above. A list, an item or a quotation that does not fit is divided.

    Args:
        content: the text.
        start: the position of the first block.
        fits: returns True if characters [start, end) are short enough for one block.
        items: return each item of an outermost list as a block, without its marker.
        is_page: leave out directives of site generators at the beginning of a block, and blocks
            that consist of directives.

    Raises:
        TooCostly: the text takes too long to parse.
    """
    tokens, lines = _parse(content, start, is_page)
    path: list[tuple[int, str]] = []
    lone: Block | None = None
    found: list[Block] = []
    i = 0
    while i < len(tokens):
        token, close = tokens[i], _closing(tokens, i)
        if token.type == "heading_open":
            level, heading = int(token.tag[1]), _heading(tokens[i + 1].content)
            if lone and path and level <= path[-1][0]:
                found.append(lone)
            while path and path[-1][0] >= level:
                path.pop()
            begin, end = _span(token, lines)
            if (at := content.find(heading, begin, end)) >= 0:
                begin, end = at, at + len(heading)
            lone = Block(_section(path), begin, end, linewise=False)
            path.append((level, heading))
        elif token.map is not None and not _is_hidden(token, is_first=not found):
            section, lone = _section(path), None
            apart = items and token.type in _LISTS
            for j, end in _children(tokens, i, close) if apart else ((i, close),):
                item, text, stop = _item(tokens[j], lines, content) if apart else (-1, 0, 0)
                if apart and fits(text, stop):
                    found.append(Block(section, text, stop, linewise=False, item=item))
                    continue
                for leaf in _leaves(tokens, j, end, lambda t: fits(*_span(t, lines))):
                    first, last = _span(leaf, lines)
                    linewise = leaf.type in _LINEWISE
                    found.append(Block(section, max(first, text), last, linewise, item))
        i = close + 1
    if lone:
        found.append(lone)
    return found


def outline(content: str, start: int) -> Iterator[Part]:
    """Yield the parts of a Markdown text from `start` on, in order.

    The parts of a text that is too costly to parse are its paragraphs.
    """
    try:
        tokens, lines = _parse(content, start, is_page=False)
    except TooCostly:
        ends = [gap.end() for gap in _GAP.finditer(content, start)]
        for begin, end in pairwise([start, *ends, len(content)]):
            text, stop = _trimmed(content, begin, end)
            if text < stop:
                yield Part(text, stop)
        return
    for i, close in _children(tokens, -1, len(tokens)):
        token = tokens[i]
        if token.type in _LISTS:
            for j, _ in _children(tokens, i, close):
                item, text, stop = _item(tokens[j], lines, content)
                yield Part(text, stop, item=item)
        else:
            begin, end = _span(token, lines)
            text, stop = _trimmed(content, begin, end)
            if token.type == "heading_open":
                yield Part(text, stop, int(token.tag[1]), _heading(tokens[i + 1].content))
            else:
                yield Part(text, stop)


def title(text: str) -> str:
    """Return the first heading of level 1 as plain text; "" without one.

    Raises:
        TooCostly: the text takes too long to parse.
    """
    # A short text is parsed as a whole for its passages, too.
    tokens = _tokens(text, is_page=True) if len(text) < _SHORT else _tokens_in_turn(text)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h1" and token.level == 0:
            return _heading(inline.content)
    return ""


def paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each paragraph as plain text in one line, and True if it is part of the main text.

    Lists, quotations and admonitions are not main text. A heading is an empty paragraph.

    Raises:
        TooCostly: the text takes too long to parse.
    """
    is_plain = _PLAIN_LINES.fullmatch(text) and not may_have_directives(text)
    if is_plain and text.count("\n") < _MOST_PLAIN_LINES:
        parts = text.split("\n\n")
        yield from ((plain, True) for part in parts if (plain := _plain(part.strip())))
        return
    asides = 0
    for token, inline in pairwise(_tokens_in_turn(text)):
        if token.type == "paragraph_open" and (plain := _plain(inline.content)):
            yield plain, token.level == 0 and not asides
        elif token.type == "heading_open":
            yield "", False
        elif token.type == "html_block":
            asides += token.content.startswith(BEGIN_ASIDE)
            asides = max(asides - token.content.startswith(END_ASIDE), 0)


def _is_hidden(token: Token, is_first: bool) -> bool:
    """Return True for a block that has only tags and comments, which a page does not show.

    A block that begins with the comment `directives.MODULE` is hidden only if it is the first one.
    """
    if token.type != "html_block" or _TAG.sub("", token.content).strip():
        return False
    return is_first or not token.content.startswith(MODULE)


def _section(path: Sequence[tuple[int, str]]) -> str:
    return SECTION_SEPARATOR.join(heading for _, heading in path if heading)


def _tokens(text: str, is_page: bool) -> list[Token]:
    """Return the tokens of a text; time and memory are linear in its length.

    The tokens of a page have no directives. The title, the abstract and the passages of a short
    file come from one parse.
    """
    return _tokens_of_last(text, is_page) if len(text) < _SHORT else _tokens_of(text, is_page)


def _tokens_of(text: str, is_page: bool) -> list[Token]:
    parser, _ = _parsers()
    text = without_directives(text) if is_page else text
    return parser.parse(text, _steps(text))


_tokens_of_last = lru_cache(1)(_tokens_of)


def _tokens_in_turn(text: str) -> Iterator[Token]:
    """Yield the tokens of a page; each block is parsed only when the iteration reaches it.

    Titles and abstracts are mostly in the first blocks, and parsing all of them takes long.
    """
    from markdown_it.rules_block import StateBlock

    parser, _ = _parsers()
    text = without_directives(text)
    source = _EOL.sub("\n", text).replace("\0", "\ufffd")
    state = StateBlock(source, parser, _steps(text), [])
    rules = parser.block.ruler.getRules("")
    while (line := state.skipEmptyLines(state.line)) < state.lineMax:
        state.line = line
        is_found = any(rule(state, line, state.lineMax, False) for rule in rules)
        assert is_found, "no rule took the line"
        yield from state.tokens
        state.tokens.clear()


def _steps(text: str) -> dict[str, int]:
    """Return the parser's environment with the number of steps that it may take for a text."""
    return {"steps": min(_FREE_STEPS + len(text) // 2, _MAX_STEPS)}


def _parse(content: str, start: int, is_page: bool) -> tuple[list[Token], list[int]]:
    """Return the tokens from `start` on, and the start of each line."""
    tokens = _tokens(content[start:], is_page)
    return tokens, [start, *(eol.end() for eol in _EOL.finditer(content, start)), len(content)]


def _item(token: Token, lines: Sequence[int], content: str) -> tuple[int, int, int]:
    """Return the start of a list item's line, and the start and end of the item's text."""
    begin, end = _span(token, lines)
    marker = _MARKER.match(content, begin, end)
    assert marker
    return begin, *_trimmed(content, marker.end(), end)


def _trimmed(content: str, start: int, end: int) -> tuple[int, int]:
    """Return the range without white space at its ends."""
    text = content[start:end].rstrip()
    end = start + len(text)
    return end - len(text.lstrip()), end


def _span(token: Token, lines: Sequence[int]) -> tuple[int, int]:
    assert token.map is not None
    first, last = token.map
    return lines[first], lines[last]


def _closing(tokens: Sequence[Token], i: int) -> int:
    """Return the index of the token that closes the one at `i`; `i` if that opens nothing."""
    level = tokens[i].level
    if tokens[i].nesting == 1:
        i += 1
        while tokens[i].level > level:
            i += 1
    return i


def _leaves(
    tokens: Sequence[Token], i: int, close: int, fits: Callable[[Token], bool]
) -> Iterator[Token]:
    if tokens[i].type not in _CONTAINERS or i + 1 == close or fits(tokens[i]):
        yield tokens[i]
        return
    for child, end in _children(tokens, i, close):
        yield from _leaves(tokens, child, end, fits)


def _children(tokens: Sequence[Token], i: int, close: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last token index of each child of the block between `i` and `close`."""
    i += 1
    while i < close:
        end = _closing(tokens, i)
        yield i, end
        i = end + 1


def _heading(source: str) -> str:
    source = _ATTRIBUTES.sub("", source[:_MAX_INLINE])
    return _plain(_CLOSING.sub("", source))[:MAX_HEADING].rstrip()


def _plain(source: str) -> str:
    """Return inline Markdown as plain text in one line, without images, HTML and directives."""
    source = without_templates(source[:_MAX_INLINE].removeprefix(BREAK))
    is_costly = source.count("[") + source.count("<") > _MAX_BRACKETS
    if is_costly or not _INLINE_SIGNS.search(source):
        return _unbroken(source)
    _, parser = _parsers()
    (inline,) = parser.parseInline(source) or (None,)
    if inline is None:
        return ""
    parts = []
    for token in inline.children or ():
        if token.type in ("text", "code_inline", "text_special"):
            # CommonMark sees no emphasis beside Chinese punctuation, and leaves its marks.
            parts.append(token.content.replace("**", "") if token.type == "text" else token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    plain = "".join(parts)
    return _unbroken(_REFERENCE.sub(r"\1", plain) if "][" in plain else plain)


def _unbroken(text: str) -> str:
    """Return plain text in one line, without a space where Chinese characters are joined."""
    return one_line(join_lines(text.splitlines()))
