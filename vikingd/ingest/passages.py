"""Contents cut into passages: pieces that are indexed and embedded by themselves."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, reduce
from typing import TypeAlias

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Passage
from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import (
    HAN_CHARS,
    HANGUL_CHARS,
    KANA_CHARS,
    SECTION_SEPARATOR,
    common_section,
    lazy,
)
from vikingd.ingest import asciidoc, markdown, markup_pieces, restructured
from vikingd.ingest.code.cells import cell_parts, is_notebook, is_output
from vikingd.ingest.code.code_parts import Part, joined, parts
from vikingd.ingest.code.components import component_parts, is_component, scripts_are_read
from vikingd.ingest.code.grammars import grammar_of, language_is_there
from vikingd.ingest.code.headings import CODE, defined_names
from vikingd.ingest.code.parser_process import PASSAGES, Ask, Request, is_parsed, parser_process
from vikingd.ingest.file_syntax import Syntax, ending, syntax_of
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.markdown import Block

MAX_PASSAGES = 4096
MAX_SECTION_BYTES = 1024

TARGET_TOKENS = 200
MAX_TOKENS = 320
SMALL_TOKENS = 50  # a passage with fewer joins a neighbour if both fit
CODE_TARGET_TOKENS = 240  # of a passage of source code
SMALL_DEFINITION_TOKENS = 80  # a definition with fewer joins its neighbour

MAX_MARKDOWN_LINES = 65_536
"""The most lines of markup that is parsed; with more it is cut as plain text."""

_EOL = r"(?>\r\n?|\n)"
_BLANK_LINES = re.compile(rf"{_EOL}(?>[ \t]*+{_EOL})+")
_LINE_END = re.compile(_EOL)
_BEFORE_UNINDENTED = re.compile(rf"{_EOL}(?=\S)")
# An unindented item with text, a heading, or an unindented line after a blank one.
_PLAIN_ITEM = re.compile(
    r"(?:\A|(?<=[\r\n])|(?<=\ufeff))(?:(?P<item>(?:[-+*]|\d{1,9}[.)])[ \t]++(?=[^\r\n]))"
    r"|(?=#{1,6}[ \t])|(?<=\n\n)(?=\S)|(?<=\n\r\n)(?=\S))"
)
_CLAUSE_END = re.compile(r"[，、：；]|\s+")

Ends: TypeAlias = Callable[[str, int, int], Iterable[int]]
"""A function that returns the positions in content[start:end] at which it can be cut."""


def _behind(pattern: re.Pattern[str]) -> Ends:
    return lambda content, start, end: (m.end() for m in pattern.finditer(content, start, end))


def _sentence_ends(content: str, start: int, end: int) -> Iterable[int]:
    return (start + place for place in sentence_ends(content[start:end]))


_PARAGRAPHS = _behind(_BLANK_LINES)
# Places to cut a long piece, coarser ones first.
_SENTENCEWISE = (_PARAGRAPHS, _sentence_ends, _behind(_LINE_END), _behind(_CLAUSE_END))
_LINEWISE = (
    _PARAGRAPHS,
    _behind(_BEFORE_UNINDENTED),
    _behind(_LINE_END),
    _behind(_CLAUSE_END),
)

_CJK = lazy(f"[{HAN_CHARS}{KANA_CHARS}{HANGUL_CHARS}]")
MEANING = re.compile(r"[^\s!-/:-@\[-`{-~]")  # neither white space nor ASCII punctuation


def split(
    content: str, name: str, *, entries: bool = False, ask: Ask = parser_process.ask
) -> list[Passage]:
    """Cut a content into passages of about TARGET_TOKENS, at most MAX_TOKENS, in linear time.

    The name of the file decides its syntax. Markdown, reStructuredText and AsciiDoc are cut by
    headings, source code at definitions, code without a grammar at top-level blocks, other text by
    paragraphs. Markdown that is too costly to parse is cut as other text, with `entries` at its
    unindented items too. A short content is one passage. Passages are in order, do not overlap, and
    have no white space at their ends. More than MAX_PASSAGES are joined in pairs until they are few
    enough, even beyond MAX_TOKENS.

    With `entries` each list item of a Markdown file is a passage, without its marker. A nested list
    belongs to its item. An item with more than MAX_TOKENS is cut: its first passage stands for the
    item, and the others continue it. No items are joined, so the result may have more than
    MAX_PASSAGES.

    `ask` sends source code to a parser in a child process. Code that exceeds the limits of its
    parser is cut as code without a grammar.
    """
    if not MEANING.search(content):
        return []
    for request in _requests(content, name, entries):
        rows = ask(*request)
        if rows is not None:
            return [
                Passage(section, start, end, continues=continues)
                for section, start, end, continues in rows
            ]
    return read_passages(content, name, entries=entries, by_syntax=False)


def _requests(content: str, name: str, entries: bool) -> list[Request]:
    """Return the requests that `split` sends to the parser: none or one."""
    is_asked = MEANING.search(content) and is_parsed(content, name)
    return [(PASSAGES, content, name, entries)] if is_asked else []


def read_passages(content: str, name: str, *, entries: bool, by_syntax: bool) -> list[Passage]:
    """Cut a content into passages in this process, see `split`.

    Args:
        content: a text that is not only white space and ASCII punctuation.
        name: the name of its file.
        entries: cut the items of lists, see `split`.
        by_syntax: parse source code, which may take any time.
    """
    tokens = TokenCount(content)
    syntax = syntax_of(name, content)
    passages = None
    if by_syntax and syntax is Syntax.CODE:
        passages = _by_syntax(content, name, tokens)
    if passages is None:
        passages = _by_blocks(content, name, syntax, tokens, entries, by_syntax)
    while len(passages) > MAX_PASSAGES and not entries:
        pairs = zip(passages[::2], [*passages[1::2], None], strict=False)
        passages = [_joined(a, b) if b else a for a, b in pairs]
    items = [-1, *(p.item for p in passages)]
    return [
        Passage(
            p.section.encode()[:MAX_SECTION_BYTES].decode(errors="ignore"),
            p.start,
            p.end,
            continues=p.item >= 0 and p.item == before,
        )
        for p, before in zip(passages, items, strict=False)
    ]


def _by_syntax(content: str, name: str, tokens: TokenCount) -> list[Block] | None:
    """Cut source code at its definitions; None if it has no grammar or cannot be parsed."""
    start = 1 if content.startswith("\ufeff") else 0
    text = content[start:]

    def count(a: int, b: int) -> int:
        return tokens.count(start + a, start + b)

    def fits(a: int, b: int) -> bool:
        return count(a, b) <= MAX_TOKENS

    if is_component(name, content):
        found = component_parts(text, name, fits) if scripts_are_read() else None
    else:
        grammar = grammar_of(ending(name))
        if grammar is None or not language_is_there(grammar.package):
            return None
        found = parts(text.encode(errors="replace"), grammar, fits)
    if found is None:
        return None
    return list(_of_parts(found, start, tokens))


def _of_parts(found: list[Part], start: int, tokens: TokenCount) -> Iterator[Block]:
    """Yield the passages for the parts of source code that begins at position `start`."""

    def count(a: int, b: int) -> int:
        return tokens.count(start + a, start + b)

    for part in joined(found, count, CODE_TARGET_TOKENS, SMALL_DEFINITION_TOKENS):
        whole = Block("", start + part.start, start + part.end, linewise=True)
        pieces = _join(_stripped(_cut(whole, tokens, _LINEWISE), tokens), tokens, False)
        headings = part.headings([tokens.content[piece.start : piece.end] for piece in pieces])
        for piece, heading in zip(pieces, headings, strict=True):
            yield piece._replace(section=heading)


def _cells(blocks: Iterable[Block], tokens: TokenCount) -> list[Block]:
    """Return the blocks of a notebook.

    A code cell that defines something is cut at its definitions.

    A small block before such a cell is joined to it, and so is a small output after it.
    """
    found: list[Block] = []

    def joins(a: Block, b: Block, small: Block) -> bool:
        is_small = tokens.count(small.start, small.end) < SMALL_TOKENS
        return is_small and tokens.count(a.start, b.end) <= MAX_TOKENS

    def fits(at: int, start: int, end: int) -> bool:
        return tokens.count(at + start, at + end) <= MAX_TOKENS

    cell_above: str | None = None  # the section of the cell that ends `found`
    for block in blocks:
        start, text = block.start, tokens.content[block.start : block.end]
        cell = cell_parts(text, partial(fits, start))
        for i, part in enumerate(_of_parts(cell, start, tokens)):
            path = (block.section, CODE, part.section) if part.section else (block.section,)
            piece = part._replace(section=SECTION_SEPARATOR.join(filter(None, path)))
            before = found[-1] if found and not i else None
            if before and before.section == block.section and joins(before, piece, before):
                found[-1] = piece._replace(start=before.start)
            else:
                found.append(piece)
        if cell:
            cell_above = block.section
            continue
        if cell_above == block.section and is_output(text) and joins(found[-1], block, block):
            found[-1] = found[-1]._replace(end=block.end)
        else:
            found.append(block)
        cell_above = None
    return found


def _by_blocks(
    content: str, name: str, syntax: Syntax, tokens: TokenCount, entries: bool, by_syntax: bool
) -> list[Block]:
    blocks = _blocks(content, syntax, tokens, entries)
    if by_syntax and is_notebook(name):
        blocks = _cells(blocks, tokens)
    cut = (
        piece
        for block in blocks
        for piece in _cut(block, tokens, _LINEWISE if block.linewise else _SENTENCEWISE)
    )
    pieces = list(_stripped(cut, tokens))
    whole = MAX_TOKENS if syntax is Syntax.TEXT else TARGET_TOKENS
    is_short = pieces and tokens.count(pieces[0].start, pieces[-1].end) <= whole
    if is_short and all(piece.item < 0 for piece in pieces) and not _defines(pieces, name):
        passages = [reduce(_joined, pieces)]
    else:
        passages = _join(pieces, tokens, across_sections=syntax is Syntax.CODE)
    return passages


def _defines(pieces: Iterable[Block], name: str) -> bool:
    """Return True if the file is a notebook and one of its passages defines a name."""
    return is_notebook(name) and any(defined_names(piece.section, name) for piece in pieces)


def default_passages(uri: str, content: str, ask: Ask = parser_process.ask) -> tuple[Passage, ...]:
    """Cut the content of a context as the daemon does when a draft has no passages.

    A memory file may have more than MAX_PASSAGES, see `split`.
    """
    return tuple(split(content, uris.name(uri), entries=_has_entries(uri), ask=ask))


def passage_requests(uri: str, content: str) -> list[Request]:
    """Return the requests that `default_passages` sends to the parser: none or one."""
    return _requests(content, uris.name(uri), _has_entries(uri))


def _has_entries(uri: str) -> bool:
    return uris.context_type(uri) is ContextType.MEMORY


class TokenCount:
    """Estimates the tokens of any range of a content, after reading it once."""

    def __init__(self, content: str) -> None:
        self.content = content
        self._cjk = array("L")
        if not content.isascii():
            self._cjk.extend(m.start() for m in _CJK.finditer(content))

    def count(self, start: int, end: int) -> int:
        """Return the estimated tokens of content[start:end]."""
        if not self._cjk:
            return (end - start + 3) // 4
        cjk = bisect_left(self._cjk, end) - bisect_left(self._cjk, start)
        return cjk + (end - start - cjk + 3) // 4

    def reach(self, start: int, end: int, tokens: int) -> int:
        """Return the last position up to `end` that is at most `tokens` tokens after `start`."""
        return start + bisect_left(
            range(start + 1, end + 1), tokens + 1, key=lambda stop: self.count(start, stop)
        )


def _blocks(content: str, syntax: Syntax, tokens: TokenCount, entries: bool) -> Iterable[Block]:
    is_markup = syntax not in (Syntax.CODE, Syntax.TEXT)
    is_parsed = is_markup and content.count("\n") + content.count("\r") <= MAX_MARKDOWN_LINES
    if syntax is Syntax.MARKDOWN and is_parsed:
        start = front_matter(content)[1]
        with suppress(markdown.TooCostly):
            for is_page in (not entries, False):  # Directives are kept if there is no other text.
                found = markdown.blocks(
                    content,
                    start,
                    lambda a, b: tokens.count(a, b) <= MAX_TOKENS,
                    items=entries,
                    is_page=is_page,
                )
                if found or entries:
                    return found
            return []
    start = 1 if content.startswith("\ufeff") else 0
    whole = Block("", start, len(content), linewise=syntax is Syntax.CODE)
    if is_parsed:
        reader = restructured if syntax is Syntax.RST else asciidoc
        if found := markup_pieces.blocks(reader.pieces(content, start)):
            return found
    if syntax is Syntax.CODE:
        return _code_blocks(whole, content)
    if syntax is Syntax.MARKDOWN and entries:
        return _plain_items(whole, content)
    return _parts(whole, content, _PARAGRAPHS)


def _plain_items(whole: Block, content: str) -> Iterator[Block]:
    """Yield the unindented list items of Markdown that is not parsed, and the text around them."""
    block = whole
    for match in _PLAIN_ITEM.finditer(content, whole.start):
        if block.start < match.start():
            yield from _plain_part(block._replace(end=match.start()), content)
        item = match.start() if match["item"] else -1
        block = whole._replace(start=match.end(), item=item)
    yield from _plain_part(block, content)


def _plain_part(block: Block, content: str) -> Iterable[Block]:
    return [block] if block.item >= 0 else _parts(block, content, _PARAGRAPHS)


def _parts(block: Block, content: str, ends: Ends) -> Iterator[Block]:
    """Yield the parts of a block, cut at each position that `ends` gives."""
    start = block.start
    for end in ends(content, block.start, block.end):
        yield block._replace(start=start, end=end)
        start = end
    if start < block.end:
        yield block._replace(start=start)


def _cut(block: Block, tokens: TokenCount, ends: tuple[Ends, ...]) -> Iterator[Block]:
    """Yield the block if it has at most MAX_TOKENS, else its parts, each as large as possible."""
    if tokens.count(block.start, block.end) <= MAX_TOKENS:
        yield block
    elif ends:
        for part in _parts(block, tokens.content, ends[0]):
            yield from _cut(part, tokens, ends[1:])
    else:
        start = block.start
        while start < block.end:
            end = tokens.reach(start, block.end, TARGET_TOKENS)
            yield block._replace(start=start, end=end)
            start = end


def _code_blocks(whole: Block, content: str) -> Iterator[Block]:
    """Yield top-level blocks; each begins with an unindented line after a blank one."""
    start = whole.start
    for part in _parts(whole, content, _PARAGRAPHS):
        begins_next = part.end == whole.end or content[part.end] not in " \t)]}"
        if begins_next:
            yield whole._replace(start=start, end=part.end)
            start = part.end


def _stripped(blocks: Iterable[Block], tokens: TokenCount) -> Iterator[Block]:
    """Yield the blocks without white space at their ends, and without blocks of punctuation only.

    Within a list item, a block of punctuation is not left out, but joined to the block before it,
    or to the block after it if it is the first, if both together fit.
    """
    last: Block | None = None
    for block in blocks:
        text = tokens.content[block.start : block.end]
        end = block.start + len(text.rstrip())
        start = end - len(text.strip())
        if start == end:
            continue
        fits = last and tokens.count(last.start, end) <= MAX_TOKENS
        if last and fits and last.item == block.item >= 0:
            has_meaning = MEANING.search(tokens.content, last.start, last.end)
            if not (has_meaning and MEANING.search(text)):
                last = last._replace(end=end)
                continue
        if last and MEANING.search(tokens.content, last.start, last.end):
            yield last
        last = block._replace(start=start, end=end)
    if last and MEANING.search(tokens.content, last.start, last.end):
        yield last


def _join(blocks: Iterable[Block], tokens: TokenCount, across_sections: bool) -> list[Block]:
    """Join adjacent blocks of one section up to TARGET_TOKENS, small ones up to MAX_TOKENS.

    With `across_sections`, small blocks of different sections join up to TARGET_TOKENS too. Parts
    of a list item join only each other.
    """
    done: list[Block] = []

    def joins(a: Block, b: Block, small: Block) -> bool:
        if a.item != b.item:
            return False
        total = tokens.count(a.start, b.end)
        is_small = tokens.count(small.start, small.end) < SMALL_TOKENS
        if a.section == b.section:
            return total <= TARGET_TOKENS or (is_small and total <= MAX_TOKENS)
        return across_sections and is_small and total <= TARGET_TOKENS

    def join_last() -> None:
        if len(done) > 1 and joins(done[-2], done[-1], small=done[-1]):
            last = done.pop()
            done[-1] = _joined(done[-1], last)

    for block in blocks:
        if done and joins(done[-1], block, small=done[-1]):
            done[-1] = _joined(done[-1], block)
        else:
            join_last()
            done.append(block)
    join_last()
    return done


def _joined(a: Block, b: Block) -> Block:
    """Return two blocks as one, whose section is the headings that both have."""
    return a._replace(section=common_section(a.section, b.section), end=b.end)
