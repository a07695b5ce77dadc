"""Titles and abstracts of files, taken from their beginnings without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import approximate_tokens, one_line
from vikingd.ingest import asciidoc, html_templates, markdown, markup_pieces, restructured
from vikingd.ingest.brief_content import brief
from vikingd.ingest.code.case_names import case_names
from vikingd.ingest.code.cells import is_notebook
from vikingd.ingest.code.definition_comments import is_legal
from vikingd.ingest.code.outline import read_signatures
from vikingd.ingest.code.parser_process import OPENING, Ask, Request, is_parsed, parser_process
from vikingd.ingest.code.plain_definitions import plain_signatures
from vikingd.ingest.file_kind_names import LICENCE_NAME
from vikingd.ingest.file_syntax import Syntax, comment_mark, document_format, ending, syntax_of
from vikingd.ingest.first_prose import first_prose, is_prose
from vikingd.ingest.frontmatter import front_matter, stated
from vikingd.ingest.limits import MAX_TITLE_BYTES
from vikingd.ingest.opening_comments import end_of_comments, first_comment
from vikingd.ingest.plain_paragraphs import paragraphs

MAX_ABSTRACT = 400
"""Maximum characters of an abstract that is derived from the text."""

_H1 = re.compile(r"^# +([^\n#{]+)", re.MULTILINE)
# Blocks of code and comments of Markdown, whose lines are no headings.
_NO_HEADINGS = re.compile(
    r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL
)
# Headings of Markdown by level, the level that has the parts of most files first.
_HEADINGS_BY_LEVEL = [
    re.compile(rf"^#{{{level}}}(?: +|(?=[^#\s]))([^\n]+)", re.MULTILINE) for level in (2, 1, 3)
]
_RULE = re.compile(r"^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t][^\n]*$", re.MULTILINE)
_SIGNS = re.compile(r"[*`]|\s*\{[^{}\n]*\}|#+$|<[^<>]*>|!?\[([^\[\]]*)\]\([^()\s]*\)")
_MAX_HEADING = 120  # characters
_SHORT, _ENOUGH = 12, 250  # tokens of prose that need headings, characters that need none
_PIECES = {Syntax.RST: restructured, Syntax.ASCIIDOC: asciidoc}

_MAX_STATED = 1024  # characters of an abstract that the front matter states
_BEGINNING = 8192
_FEW = 40  # characters; shorter signatures say too little
_TEMPLATE = re.compile(r"\{\{|\{%")
_MARKUP = re.compile(r"\s*<[a-zA-Z!%]")
_HASH = "#/*;-"  # the beginnings of comments
_END = re.compile(r"[.!?…。！？:：][\"'”’»)\]」』）】》]*\Z")
_PLAIN = ("", ".txt", ".text")
_AHEAD = 32  # characters after a sentence by which its end is recognized

_Signatures: TypeAlias = Callable[[str, str, int], str]


def derive_title(content: str, uri: str) -> str:
    """Return the title of a file; "" if it has none.

    Markup and HTML: the title of the front matter, else the first heading of level 1 or the stated
    title. Other source code: the name of the file with its directory.
    """
    above, _, name = uri.rpartition("/")
    syntax = syntax_of(name, content)
    if _is_html_source(syntax, name):
        return _short_title(stated(content, "title") or html_templates.title(content))
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
    """Return `description`, `abstract` or `summary` from the front matter of Markdown or HTML.

    Returns "" for a file that states none of them.
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
    signatures. `ask` sends a request to the parser of source code and returns the reply.
    """
    return shorten(_first_paragraph(content, name, ask))


def opening_requests(content: str, name: str) -> list[Request]:
    """Return the requests to the parser that `derive_abstract` needs for a file: none or one."""
    syntax = syntax_of(name, content)
    if syntax is not Syntax.CODE or _is_html_source(syntax, name) or is_notebook(name):
        return []
    return [(OPENING, content, name)] if is_parsed(content, name) else []


def read_opening(content: str, name: str) -> str:
    """Return the abstract of source code, which is parsed in this process.

    The parser has no limit of time here. `derive_abstract` uses a child process with limits.
    """
    return _opening(content, name, read_signatures)


def is_derived(abstract: str, content: str, name: str) -> bool:
    """Return True if this version or an older one would derive `abstract` from `content`.

    Older versions ended sentences at other places, and took another number of short paragraphs.
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
    if _is_html_source(syntax, name) or (syntax is Syntax.TEXT and _is_markup(content)):
        told = first_prose((text, True) for text in _html_paragraphs(content))
        if is_prose(told):
            return told
        return brief(content[front_matter(content)[1] :], name, MAX_ABSTRACT, told)
    if syntax is Syntax.CODE or _is_script(content, syntax):
        if not (requests := opening_requests(content, name)):
            return _opening(content, name)
        opening = ask(*requests[0])
        if opening is None:  # what took the parser too long is not tried here
            comment = first_comment(content[:_BEGINNING], comment_mark(name))
            return comment or plain_signatures(content, name, MAX_ABSTRACT)
        return str(opening)
    if LICENCE_NAME(name):
        return " ".join(paragraphs(content[:_BEGINNING]))
    if syntax is Syntax.MARKDOWN:
        start = front_matter(content)[1]
        beginning = content[start : start + _BEGINNING]
        with suppress(markdown.TooCostly):
            found = _H1.search(beginning)
            title = (start and stated(content, "title")) or (found[1] if found else "")
            told = _with_headings(beginning, title)
            return told or (start and stated(content, "about", "title", "name")) or ""
    else:
        beginning = _beginning(content)
        if reader := _PIECES.get(syntax):
            found = reader.pieces(beginning)
            return first_prose(markup_pieces.paragraphs(beginning, found, reader.plain))
    texts = [text for text in paragraphs(beginning) if not (text[0] in _HASH and is_legal(text))]
    told = first_prose((text, not _TEMPLATE.search(text)) for text in texts)
    if syntax is not Syntax.TEXT or _END.search(told):
        return told
    is_whole = len(content) <= MAX_ABSTRACT or ending(name) not in _PLAIN
    return one_line(" ".join(texts)) if is_whole else told


def _with_headings(text: str, title: str) -> str:
    """Return the first prose of Markdown; if it is short, with the headings of its parts after it.

    The headings are those of level 2, else 1, else 3: the first level that has more than one.
    Prose below the second heading or a later one counts as short, unless it is very long.
    """
    above, headings = list[str](), 0

    def counted() -> Iterator[tuple[str, bool]]:
        nonlocal headings
        for paragraph, is_main in markdown.paragraphs(text):
            headings += not paragraph
            if headings < 2 and paragraph:
                above.append(paragraph)
            yield paragraph, is_main

    prose = first_prose(counted(), title)
    if len(prose) > _ENOUGH or (
        approximate_tokens(prose) >= _SHORT and any(prose[:16] in one for one in above)
    ):
        return prose
    plain = _NO_HEADINGS.sub("", text)
    for level in _HEADINGS_BY_LEVEL:
        found = level.finditer(plain)
        names = [_SIGNS.sub(r"\1", one[1][:_MAX_HEADING]).strip() for one in found]
        if len(names) > 1:
            return f"{prose} {'; '.join(names)}".strip()
    return prose or one_line(_RULE.sub("", _HEADING.sub("", text)))


def _is_markup(content: str) -> bool:
    """Return True for a text that begins with a tag and contains an end tag."""
    beginning = content[:_BEGINNING]
    return bool(_MARKUP.match(beginning)) and ("</" in beginning or "/>" in beginning)


def _is_script(content: str, syntax: Syntax) -> bool:
    return syntax is Syntax.TEXT and content.startswith("#!")


def _opening(content: str, name: str, signatures: _Signatures | None = None) -> str:
    """Return the first comment of source code; if it is no prose, also an outline of the file.

    Args:
        signatures: parses the file and returns the signatures of its definitions; None: the file
            cannot be parsed.
    """
    mark = "#" if _is_script(content, syntax_of(name, content)) else comment_mark(name)
    comment = first_comment(content[:_BEGINNING], mark)
    if is_prose(comment) or _END.search(comment):
        return comment
    return "; ".join(filter(None, (comment, _outlined(content, name, mark, signatures))))


def _outlined(content: str, name: str, mark: str, signatures: _Signatures | None) -> str:
    """Return an outline of source code: the names of its test cases, definitions or keys."""
    if cases := case_names(content, name, MAX_ABSTRACT):
        return cases
    found = signatures(content, name, MAX_ABSTRACT) if signatures else ""
    found = found or plain_signatures(content, name, MAX_ABSTRACT)
    count = found.count("; ")
    if count > 1 or (": " in found and "main(" not in found) or (count and len(found) >= _FEW):
        return found
    start = end_of_comments(content[:_BEGINNING], mark)
    return brief(content[start:], name, MAX_ABSTRACT, found)


def plain_paragraphs(text: str, name: str) -> Iterator[tuple[str, bool]]:
    """Yield each paragraph of markup or plain text in one line, and True if it is main text.

    Lists, quotations and admonitions are not main text. The name of the file decides the syntax.
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
    ends = sentence_ends(text[: limit + _AHEAD])[:-1]  # The last one is the end of the slice.
    starts = (text[:end].rstrip() for end in reversed(ends) if end > limit // 4)
    if whole_sentences := next((kept for kept in starts if len(kept) <= limit), ""):
        return whole_sentences
    kept, space, _ = text[: limit - 1].rpartition(" ")
    return (kept if len(kept) > limit // 2 and space else text[: limit - 1]).rstrip() + "…"


def _html_paragraphs(content: str) -> Iterator[str]:
    """Yield the paragraphs of HTML source: those of its first comment, then those of its text.

    A legal notice ends the comment.
    """
    for paragraph in paragraphs(html_templates.opening_comment(content)):
        if is_legal(paragraph):
            break
        yield paragraph
    yield from html_templates.paragraphs(content)
