"""HTML templates and parts of applications: HTML files that are stored as source, not as Markdown.

Nothing is parsed here. Patterns find the marks of template languages, such as `{% if %}`, and the
text between tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.frontmatter import front_matter

_BEGINNING = 1 << 16  # characters that hold the title and the first paragraph
_MANY = 10  # attributes; a larger number is no stronger sign
_LITTLE = 200  # characters of text that a fragment of an application has
_SHORT = 120  # characters; a shorter fragment gives no evidence
_LONG = 1 << 15  # characters that no fragment of an application has
_FEW = 20  # characters of text that are none to a reader

# Elements whose content is no text of a page, and those that show code.
_SCRIPT = re.compile(
    r"<(?P<name>script|style|svg|noscript)\b(?P<given>[^<>]*+)>(?P<body>.*?)(?:</(?P=name)\s*>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CODE = re.compile(
    r"<(pre|code|samp|kbd|textarea|xmp)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_HEAD = re.compile(r"<head\b.*?(?:</head\s*>|\Z)", re.DOTALL | re.IGNORECASE)
# Comments of templates of Go and Liquid: "{{/* text */}}", "{% comment %}text{% endcomment %}".
_GO_COMMENT = r"\{\{-?\s{0,9}/\*(?:[^*{]++|\*(?!/)|\{(?!\{-?\s{0,9}/\*))*\*/\s{0,9}-?\}\}"
_LIQUID_COMMENT = (
    r"\{%-?\s{0,9}comment\b[^%{}]*+%\}(?:[^{]++|\{(?!%-?\s{0,9}(?:end)?comment\b))*"
    r"\{%-?\s{0,9}endcomment\s{0,9}-?%\}"
)
# Marks of Jinja, Django, Liquid, Nunjucks and Twig; EJS, ERB and ASP; PHP; Handlebars, Go, Vue and
# Angular; pandoc. No pattern reads a text twice that has no end of a mark.
_MARK = re.compile(
    rf"{_GO_COMMENT}|{_LIQUID_COMMENT}|"
    r"\{%(?:[^%{]++|%(?!\})|\{(?!%))*%\}|\{#(?:[^#{]++|#(?!\})|\{(?!#))*#\}"
    r"|<%(?:[^%<]++|%(?!>)|<(?!%))*%>|<\?(?!xml)(?:[^?<]++|\?(?!>)|<(?!\?))*\?>"
    r"|\{\{(?:[^{}]++|\}(?!\})|\{(?!\{))*\}\}"
    r"|\$(?:if|for)\([\w.]{1,100}\)\$|\$(?:endif|endfor|else)\$"
)
# A line of marks alone.
_ALONE = re.compile(
    r"^[ \t]*+(?:(?:\{%[^}\n]*%\}|<%[^>\n]*%>|\{\{[^}\n]*\}\})[ \t]*+)+\r?$", re.MULTILINE
)
_TAG = re.compile(r"""<(?P<name>[a-zA-Z/!][\w/-]*)(?:[^<>"']++|"[^"]*+"|'[^']*+'|["'])*>""")
# An attribute of a framework: " v-if=", " *ngFor=", " @click=", " hx-get=".
_ATTRIBUTE = re.compile(
    r"\s(?:v-[a-z][\w:.-]*|ng-[a-z][\w-]*|\*ng[A-Z]\w*|x-[a-z][\w:.-]*|hx-[a-z][\w:.-]*"
    r"|wire:[\w.-]+|th:[\w-]+|[@:][a-zA-Z][\w:.-]*|\([a-zA-Z][\w.]*\)|\[[a-zA-Z][\w.-]*\])"
    r"(?=[\s=>/])"
)
_CONTROL = re.compile(r"<(?:form|input|button|select|textarea|nav)\b", re.IGNORECASE)
_WHOLE = re.compile(r"<(?:!doctype|html|body|frameset)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")
_SPACE = re.compile(r"\s+")
_BLANK_LINE = re.compile(r"\n\s*\n")
_INLINE = re.compile(
    r"/?(?:a|abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small"
    r"|span|strong|sub|sup|time|tt|u|var|wbr)/?",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title\b[^<>]*+>(.{0,1000}?)</title", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"<h1\b[^<>]*+>(.{0,1000}?)</h1", re.DOTALL | re.IGNORECASE)
_TITLE_BLOCK = re.compile(r"\{%-?\s*block\s+title\s*-?%\}([^{}<>]*)\{%")
_JOINTS = " \t\n-–—|·:•/"  # between the parts of a title
_OPENING_COMMENT = re.compile(
    rf"\s*+(?:<!--(?P<html>.*?)-->|\{{#(?P<jinja>.*?)#\}}|(?P<go>{_GO_COMMENT})"
    rf"|(?P<liquid>{_LIQUID_COMMENT}))",
    re.DOTALL,
)
_SIGNS = re.compile(r"^\{\{-?\s*/\*+|\*+/\s*-?\}\}\Z|\{%[^%{}]*+%\}")
# The beginning of source, which no Markdown of a page has: a tag or a mark.
_SOURCE = re.compile(r"\s*(?:<[a-zA-Z!/?%]|\{[%{#]|\$(?:if|for)\()")


def is_source(text: str) -> bool:
    """Return True for a template or a part of an application, False for a page to read.

    A template has front matter, or it has marks of a template language or attributes of a framework
    and not much prose beside them. Two more kinds are source: a fragment with hardly any text
    between its tags, and a page with scripts and hardly any text.
    """
    if front_matter(text)[1] > 1:
        return True
    scripts = sum(
        len(one["body"])
        for one in _SCRIPT.finditer(text)
        if one["name"].lower() == "script" and "json" not in one["given"]
    )
    has_script = "<script" in text.lower()
    seen = _SCRIPT.sub(" ", _COMMENT.sub(" ", text))
    prose = len(_SPACE.sub(" ", _TAG.sub(" ", _MARK.sub("", _HEAD.sub(" ", seen)))).strip())
    bare = _CODE.sub(" ", seen)
    if prose < 1500 * len(_ALONE.findall(bare)) or prose < 200 * len(_MARK.findall(bare)):
        return True
    tags = _TAG.finditer(_MARK.sub("", bare))
    found = sum(len(_ATTRIBUTE.findall(tag[0])) for tag in tags)
    if prose < max(150 * min(found, _MANY), 15 * found):
        return True
    if has_script and (prose < _FEW or (prose < 300 and scripts > 4 * prose)):
        return True
    if has_script and prose < 600 and scripts > 20 * prose:
        return True
    if _WHOLE.search(seen) or "<" not in text or len(text) > _LONG:
        return False
    if len(text) < _SHORT and not _CONTROL.search(seen):
        return False
    return prose < _LITTLE and prose < 0.16 * len(text.strip())


def holds_source(content: str) -> bool:
    """Return True if the stored content of an HTML file is source, not the Markdown of a page."""
    values, start = front_matter(content)
    return values.get("format") != "html" and bool(_SOURCE.match(content, start))


def title(content: str) -> str:
    """Return the stated title without template marks, else the first heading."""
    beginning = content[:_BEGINNING]
    for pattern in (_TITLE, _HEADING, _TITLE_BLOCK):
        if (found := pattern.search(beginning)) and (text := _plain(found[1]).strip(_JOINTS)):
            return text
    return ""


def opening_comment(content: str) -> str:
    """Return the text of the comment at the beginning; "" without one."""
    start = front_matter(content)[1]
    found = _OPENING_COMMENT.match(content, start, start + _BEGINNING)
    return _SIGNS.sub("", next(filter(None, found.groups()), "")) if found else ""


def paragraphs(content: str) -> Iterator[str]:
    """Yield the text between tags, one line for each block with a word."""
    beginning = content[front_matter(content)[1] :][:_BEGINNING]
    seen = _HEAD.sub("\n\n", _SCRIPT.sub(" ", _COMMENT.sub(" ", beginning)))
    text = _TAG.sub(_gap, _MARK.sub("", _TITLE.sub("\n\n", seen)))
    for part in _BLANK_LINE.split(text):
        line = _plain(part)
        if _WORD.search(line):
            yield line


def _gap(tag: re.Match[str]) -> str:
    return "" if _INLINE.fullmatch(tag["name"]) else "\n\n"


def _plain(source: str) -> str:
    """Return text without tags and marks in one line."""
    return one_line(join_lines(unescape(_TAG.sub("", _MARK.sub("", source))).splitlines()))
