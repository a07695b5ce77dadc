"""Titles and abstracts of files, taken from their beginnings without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from vikingd.domain.sentences import sentence_ends
from vikingd.ingest import asciidoc, html_source, markdown, markup_pieces, restructured
from vikingd.ingest.code.cells import is_notebook
from vikingd.ingest.code.definition_comments import is_legal
from vikingd.ingest.code.outline import read_signatures
from vikingd.ingest.code.parser_process import OPENING, Ask, Request, is_parsed, parser_process
from vikingd.ingest.code.plain_definitions import plain_signatures
from vikingd.ingest.file_syntax import Syntax, comment_mark, document_format, syntax_of
from vikingd.ingest.first_prose import first_prose, is_prose
from vikingd.ingest.frontmatter import front_matter, stated
from vikingd.ingest.opening_comments import first_comment
from vikingd.ingest.plain_paragraphs import paragraphs

MAX_ABSTRACT = 400
"""Maximum characters of an abstract that is derived from the text."""

MAX_TITLE_BYTES = 1024

_H1 = re.compile(r"^# +([^\n#{]+)", re.MULTILINE)
_PIECES = {Syntax.RST: restructured, Syntax.ASCIIDOC: asciidoc}

_MAX_STATED = 1024  # characters of an abstract that the front matter states
_BEGINNING = 8192
_TEMPLATE = re.compile(r"\{\{|\{%")
_AHEAD = 32  # characters behind a sentence that tell whether it ends


def derive_title(content: str, uri: str) -> str:
    """Return the title of a file, or "".

    That of markup is the one of its front matter, else the first heading of level 1. Source of HTML
    has a title too. That of other source code is its name with its directory.
    """
    above, _, name = uri.rpartition("/")
    syntax = syntax_of(name, content)
    if _is_html_source(syntax, name):
        return _short_title(stated(content, "title") or html_source.title(content))
    if syntax is Syntax.CODE:
        return f"{above.rpartition('/')[2]}/{name}"
    if reader := _PIECES.get(syntax):
        return _short_title(markup_pieces.title(reader.pieces(_beginning(content))))
    if syntax is not Syntax.MARKDOWN:
        return ""
    start = front_matter(content)[1]
    title = stated(content, "title")
    with suppress(markdown.TooCostly):
        title = title or markdown.title(content[start : start + _BEGINNING])
    return _short_title(title)


def _short_title(title: str) -> str:
    return title.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")


def _beginning(content: str) -> str:
    return content[:_BEGINNING].lstrip("\ufeff")


def stated_abstract(content: str, name: str) -> str:
    """Return `description`, `abstract` or `summary` of front matter, or "".

    Files of Markdown and HTML have it.
    """
    if not _has_front_matter(content, name):
        return ""
    return shorten(_stated(content), _MAX_STATED)


def _stated(content: str) -> str:
    return stated(content, "description", "abstract", "summary")


def derive_abstract(content: str, name: str, ask: Ask = parser_process.ask) -> str:
    """Return the first meaningful paragraph, at most MAX_ABSTRACT characters; or "".

    For Markdown this is the first prose about the topic outside of lists and quotations, else all
    paragraphs. For source code it is the docstring or comment at the beginning, else the
    signatures. `ask` parses source code.
    """
    return shorten(_first_paragraph(content, name, ask))


def opening_requests(content: str, name: str) -> list[Request]:
    """Return the requests of which `derive_abstract` asks the parser, none or one."""
    syntax = syntax_of(name, content)
    if syntax is not Syntax.CODE or _is_html_source(syntax, name) or is_notebook(name):
        return []
    return [(OPENING, content, name, MAX_ABSTRACT)] if is_parsed(content, name) else []


def read_opening(content: str, name: str, limit: int) -> str:
    """Return the comment at the beginning of source code, else its signatures, or "".

    Args:
        content: the text of the file.
        name: the name of the file.
        limit: the most characters of the signatures. The parser may take any time.
    """
    return _opening_comment(content, name) or read_signatures(content, name, limit)


def is_derived(abstract: str, content: str, name: str) -> bool:
    """Return True if an abstract is the one of a content, or of an older version.

    Versions differ in where sentences end, and in how many short paragraphs they take.
    """
    if abstract == (stated_abstract(content, name) or derive_abstract(content, name)):
        return True
    whole = (_stated(content) if _has_front_matter(content, name) else "") or _first_paragraph(
        content, name
    )
    if not is_prose(abstract) or not whole.startswith(abstract.removesuffix("…")):
        return False
    is_whole = len(abstract) in sentence_ends(whole[: len(abstract) + _AHEAD])
    return is_whole or len(abstract) > MAX_ABSTRACT // 4


def _first_paragraph(content: str, name: str, ask: Ask = parser_process.ask) -> str:
    syntax = syntax_of(name, content)
    if _is_html_source(syntax, name):
        return first_prose((text, True) for text in _html_paragraphs(content))
    if syntax is Syntax.CODE:
        opening = next((ask(*request) for request in opening_requests(content, name)), None)
        if opening is None:  # without a parser
            opening = _opening_comment(content, name)
        return opening or plain_signatures(content, name, MAX_ABSTRACT)
    if syntax is Syntax.MARKDOWN:
        start = front_matter(content)[1]
        beginning = content[start : start + _BEGINNING]
        with suppress(markdown.TooCostly):
            found = _H1.search(beginning)
            title = (start and stated(content, "title")) or (found[1] if found else "")
            return first_prose(markdown.paragraphs(beginning), title)
    else:
        beginning = _beginning(content)
        if reader := _PIECES.get(syntax):
            found = reader.pieces(beginning)
            return first_prose(markup_pieces.paragraphs(beginning, found, reader.plain))
    return first_prose((text, not _TEMPLATE.search(text)) for text in paragraphs(beginning))


def _opening_comment(content: str, name: str) -> str:
    return first_comment(content[:_BEGINNING], comment_mark(name))


def plain_paragraphs(text: str, name: str) -> Iterator[tuple[str, bool]]:
    """Yield each paragraph of markup or plain text in one line, and True if it is main text.

    Lists, quotations and admonitions are not. The name of the file tells the syntax.
    """
    syntax = syntax_of(name)
    if syntax is Syntax.MARKDOWN:
        with suppress(markdown.TooCostly):
            yield from markdown.paragraphs(text)
            return
    elif reader := _PIECES.get(syntax):
        yield from markup_pieces.paragraphs(text, reader.pieces(text), reader.plain)
        return
    yield from ((paragraph, True) for paragraph in paragraphs(text))


def _has_front_matter(content: str, name: str) -> bool:
    syntax = syntax_of(name, content)
    return syntax is Syntax.MARKDOWN or _is_html_source(syntax, name)


def _is_html_source(syntax: Syntax, name: str) -> bool:
    return syntax is Syntax.CODE and document_format(name) == "html"


def shorten(text: str, limit: int = MAX_ABSTRACT) -> str:
    """Return the text, cut after a sentence or else a word, to at most `limit` characters."""
    if len(text) <= limit:
        return text
    ends = sentence_ends(text[: limit + _AHEAD])[:-1]  # The last one is only that of the slice.
    starts = (text[:end].rstrip() for end in reversed(ends) if end > limit // 4)
    if whole_sentences := next((kept for kept in starts if len(kept) <= limit), ""):
        return whole_sentences
    kept, space, _ = text[: limit - 1].rpartition(" ")
    return (kept if len(kept) > limit // 2 and space else text[: limit - 1]).rstrip() + "…"


def _html_paragraphs(content: str) -> Iterator[str]:
    """Yield the paragraphs of HTML source: a first comment that is not legal, and its text."""
    for paragraph in paragraphs(html_source.opening_comment(content)):
        if is_legal(paragraph):
            break
        yield paragraph
    yield from html_source.paragraphs(content)
