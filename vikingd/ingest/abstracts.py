"""Titles and abstracts of files, read from their beginnings without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from vikingd.domain.text import SENTENCE_END, approximate_tokens, one_line
from vikingd.ingest import markdown
from vikingd.ingest.frontmatter import front_matter, stated
from vikingd.ingest.kinds import Kind, comment_mark, kind_of

MAX_ABSTRACT = 400
"""Characters of an abstract that is derived from the text."""

MAX_STATED = 1024
"""Characters of one that the front matter states."""

MAX_TITLE_BYTES = 1024

_BEGINNING = 8192
_PROSE_TOKENS = 8  # fewer are a label, a badge or a greeting

_LINK = re.compile(r"\S*://\S*")
_BLANK_LINE = re.compile(r"\n[ \t]*+\n")
_RULE = re.compile(r"\n[^\w\n]+$", re.MULTILINE)  # "^" would try at every character
_BLOCK_COMMENT = (
    r"/\*(.*?)\*/|<!--(.*?)-->|[rRuU]?\"\"\"(.*?)\"\"\"|[rR]?'''(.*?)'''|--\[\[(.*?)\]\]"
)
_DECORATION = re.compile(r"^[ \t]*[*!/#;\-]*[ \t]?", re.MULTILINE)
_FOR_TOOLS = re.compile(r"^(?:#!|.*\b(?:coding[:=]|eslint|pylint|noqa|vim:)).*$", re.MULTILINE)
_LEGAL = re.compile(r"copyright|licen[cs]e|spdx", re.IGNORECASE)


def derive_title(content: str, name: str) -> str:
    """What a Markdown file calls itself: `title` of its front matter, else its first H1; or ""."""
    if kind_of(name) is not Kind.MARKDOWN:
        return ""
    values, start = front_matter(content)
    title = stated(values, "title")
    with suppress(markdown.TooCostly):
        title = title or markdown.title(content[start : start + _BEGINNING])
    return title.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")


def stated_abstract(content: str, name: str) -> str:
    """The `description`, `abstract` or `summary` of a Markdown file's front matter, or ""."""
    if kind_of(name) is not Kind.MARKDOWN:
        return ""
    return shorten(
        stated(front_matter(content)[0], "description", "abstract", "summary"), MAX_STATED
    )


def derive_abstract(content: str, name: str) -> str:
    """The first paragraph that says something, at most MAX_ABSTRACT characters; or "".

    Of Markdown the first prose outside lists and quotations, else what prose there is; of source
    code the docstring or comment that it begins with.
    """
    kind = kind_of(name)
    if kind is Kind.CODE:
        return shorten(next(_comment_paragraphs(content[:_BEGINNING], comment_mark(name)), ""))
    if kind is Kind.MARKDOWN:
        start = front_matter(content)[1]
        beginning = content[start : start + _BEGINNING]
        with suppress(markdown.TooCostly):
            return _first_prose(markdown.paragraphs(beginning))
    else:
        beginning = content[:_BEGINNING].lstrip("\ufeff")
    return _first_prose((text, True) for text in _paragraphs(beginning))


def _first_prose(paragraphs: Iterable[tuple[str, bool]]) -> str:
    """Return the first paragraph that is prose, else all of them; each with whether it may be."""
    passed_over = []
    for text, may_be in paragraphs:
        if may_be and _is_prose(text):
            return shorten(text)
        passed_over.append(text)
    return shorten(" ".join(passed_over))


def shorten(text: str, limit: int = MAX_ABSTRACT) -> str:
    """The text cut at the end of a sentence, else of a word, to at most `limit` characters."""
    if len(text) <= limit:
        return text
    ends = (
        text[: end.end()].rstrip() for end in SENTENCE_END.finditer(text, limit // 4, limit + 1)
    )
    whole_sentences = [kept for kept in ends if len(kept) <= limit]
    if whole_sentences:
        return whole_sentences[-1]
    kept, space, _ = text[: limit - 1].rpartition(" ")
    return (kept if len(kept) > limit // 2 and space else text[: limit - 1]).rstrip() + "…"


def _paragraphs(text: str) -> Iterator[str]:
    """Each paragraph in one line; rules of signs alone are left out."""
    for part in _BLANK_LINE.split(_RULE.sub("\n", "\n" + text.replace("\r\n", "\n"))):
        if line := one_line(part):
            yield line


def _comment_paragraphs(text: str, mark: str) -> Iterator[str]:
    """The paragraphs of the comments that source code begins with, legal ones left out."""
    text = _FOR_TOOLS.sub("", text.lstrip("\ufeff").replace("\r\n", "\n"))
    line_comment = rf"(?:[ \t]*+{re.escape(mark)}[^\n]*(?:\n|\Z))+" if mark else r"(?!)"
    comment = re.compile(rf"\s*+(?:{_BLOCK_COMMENT}|({line_comment}))", re.DOTALL)
    position = 0
    while found := comment.match(text, position):
        body = next(group for group in found.groups() if group is not None)
        for paragraph in _paragraphs(_DECORATION.sub("", body)):
            if _LEGAL.search(paragraph):
                break
            yield paragraph
        position = found.end()


def _is_prose(text: str) -> bool:
    introduces = text.endswith((":", "："))  # what is not shown here
    if introduces:
        return False
    return approximate_tokens(_LINK.sub("", text) if "://" in text else text) >= _PROSE_TOKENS
