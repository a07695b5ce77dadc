"""Removal of the directives of site generators, which a reader does not see.

It knows those of MkDocs and its extensions, MDX and Docusaurus, VitePress, Jekyll, Hexo, Hugo and
Obsidian, HTML comments and badges. The text within an admonition, a tab or a component is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MAX_TAG = 4096  # characters of a tag or template
_MAX_STATEMENT = 300  # lines
_MAX_FAILED = 32  # searches for the end of something that has none, in one text
_MAX_NESTED = 6

_EOL = r"(?:\r\n?|\n)"
_LINE = re.compile(rf"[^\r\n]*{_EOL}|[^\r\n]+\Z")
_LINE_END = re.compile(_EOL)

# Comments that stand for a directive in the result, each in a line of its own.
BEGIN_ASIDE, END_ASIDE, MODULE = "<!--(-->", "<!--)-->", "<!--:-->"

BREAK = "\x1e"
"""A white-space character that is put before a line so that the line continues no quotation."""

# The beginnings of lines that may be directives; most texts have none.
_BEGINNING = (
    r"/{3}|:{3}|!{3}|\?{3}|={3}[ \t!+\"]|\{|<|%%|!\[|\[(?:!\[|\[|toc\])|-{1,2}8<|import\b|export\b"
)
_SIGN = re.compile(rf"^[ ]{{0,3}}(?:{_BEGINNING})", re.MULTILINE | re.IGNORECASE)
_STOP = re.compile(rf"^[ ]{{0,3}}(?:{_BEGINNING}|```|~~~)", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"[ ]{0,3}(?P<fence>`{3,}|~{3,})")

_IMAGE = r"!\[[^\]\n]*\](?:\([^()\n]*\)|\[[^\]\n]*\])"
_BADGE = rf"\[{_IMAGE}\](?:\([^()\n]*\)|\[[^\]\n]*\])"
_SHIELD = r"!\[[^\]\n]*\]\([^()\n]*(?:badge|shields\.io)[^()\n]*\)"
_HTML_IMAGE = r"</?(?:a|img|br|picture|source)\b[^<>\n]*>"

_ADMONITION = r"(?:!{3}|\?{3}\+?)[ \t]*[\w'\"][^\r\n]*"
_TAB = r"={3}[!+]*[ \t]*(?:\"[^\r\n]*\"|'[^\r\n]*')"
# Directives of one line: ":::", "[TOC]", "{: .note}", '--8<-- "a.md"', "[![ci](a.svg)](b)".
_ONE_LINE = re.compile(
    rf"""(?>[ \t]*)(?:
    /{{3,}}(?:[ \t][^\n]*)?
    |:{{3,}}[^\n]*
    |\[TOC\]|\[\[_?TOC_?\]\]
    |\{{:[^{{}}\n]*\}}|\{{[ \t]*[#.][\w-][^{{}}\n]*\}}
    |\{{\*[^\n]*\*\}}
    |-{{1,2}}8<-{{1,2}}[ \t]+["'][^\n]*
    |<<<[ \t]*[@./~][^\n]*
    |(?:(?:{_BADGE}|{_SHIELD}|{_HTML_IMAGE})(?>[ \t]*))+
    )[ \t]*(?=[\r\n]|\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
# The line of an admonition or a tab with an indented body: "!!! note", '=== "Linux"'.
_INDENTING = re.compile(rf"[ ]{{0,3}}(?:{_ADMONITION}|{_TAB}[ \t]*){_EOL}")
# The line of an admonition or a tab that needs no body: "!!! note", '=== "Linux"'.
_EMPTY = re.compile(
    r"[ ]{0,3}(?:(?:!{3}|\?{3}\+?)[ \t]*(?:[\w-]+|[\w-]+(?:[ \t]+[\w-]+)*[ \t]+\"[^\r\n]*\")"
    r"|={3}[!+]*[ \t]*\"[^\r\n]*\")[ \t]*(?=[\r\n]|\Z)"
)
_MARGIN = re.compile(r"\t|[ ]{2,4}(?=[ \t]*[^\s])")  # of the body of an admonition
_BEGINS_PARAGRAPH = re.compile(r"(?![#>|<`~]|[-+*][ \t]|\d{1,9}[.)][ \t])\S")
# A line before indented options: "::: package.module", "/// details | Title".
_WITH_OPTIONS = re.compile(r"[ ]{0,3}(?:(?>:{3,})(?>[ \t]*)[\w.:]+[ \t]*\r?\n|/{3,}[ \t][^\n]*\n)")
_MODULE = re.compile(r"[ ]{0,3}:{3}[ \t]+\w+(?:[.:]\w+)+[ \t]*(?=[\r\n]|\Z)")
# The first or last line of an admonition: ":::tip Title" and ":::", "/// note" and "///".
_ASIDE = re.compile(
    r"[ ]{0,3}(?:/{3,}(?P<name>[ \t]+[^\s/][^\r\n]*)?|:{3,}[ \t]*+(?P<kind>(?:note|tip|info|warning"
    r"|danger|caution|important|details|hint)\b[^\r\n]*)?)[ \t]*(?=[\r\n]|\Z)",
    re.IGNORECASE,
)
# The tag of an admonition: "<Note>", "</Warning>".
_CALLOUT_TAG = re.compile(
    r"[ ]{0,3}<(?P<end>/)?(?P<name>Note|Tip|Info|Warning|Danger|Caution|Important|Check|Callout"
    r"|Alert|Admonition|Aside|\w*(?:Link|Button|Badge|Banner))\b(?![^>\n]*/>)"
)
_ASIDE_END = re.compile(r"^[ ]{0,3}(?:/{3,}|:{3,})[ \t]*(?=[\r\n]|\Z)", re.MULTILINE)
# Indented lines after a directive: "    handler: python".
_OPTIONS = re.compile(rf"(?:(?:[ ]{{4}}|\t)[ \t]*\S[^\r\n]*(?:{_EOL}|\Z))+")
# The line "--8<--" before and after a list of included files.
_SNIPPETS = re.compile(rf"[ ]{{0,3}}(?P<mark>-{{1,2}}8<-{{1,2}})[ \t]*{_EOL}")
_CONTENTS = re.compile(r"[ ]{0,3}\{:\s*toc\b")
_CONTENTS_ITEM = re.compile(rf"[ ]{{0,3}}(?:[-*+]|1\.)[ \t][^\r\n]*{_EOL}\Z")

# An import of MDX: "import Tabs from '@theme/Tabs'".
_IMPORT = re.compile(
    r"import\s+(?:type\s+)?(?:[\w$*{][\w$*{},\s]{0,2000}?(?<![\w$])from\s*)?"
    r"""(?:'[^'\n]+'|"[^"\n]+")[ \t]*;?[ \t]*(?=[\r\n]|\Z)"""
)
# The beginning of an export of MDX: "export const a", "export default function".
_EXPORT = re.compile(
    r"export\s+(?:default\s+(?:[({\[]|function\b|class\b|async\b|[\w$]+;?[ \t]*(?=[\r\n]|\Z))"
    r"|(?:async\s+)?function\b|(?:const|let|var|class|type|interface|enum)\s+[\w${\[]"
    r"|\{|\*\s*(?:as\s|from\s))"
)
_TAG = re.compile(r"</?(?:(?P<component>[A-Z][\w.]*)|[a-z][\w-]*)?(?=[\s/>])")
_IN_TAG = re.compile(r"""[{}>]|'[^']*'|"[^"]*"|`[^`]*`""")
# Templates whose text is code, or a comment.
_BLOCK = re.compile(
    r"\{(?:%-?|\{[<%])\s*(?P<name>highlight|codeblock|code-toggle|code|mermaid|math|katex|comment)"
    r"(?![\w-])(?![^\r\n]*/[>%]\}\})"
)
_CODE_FENCE = "~" * 8
_PAIRS = (("<!--", "-->"), ("{/*", "*/}"), ("{%", "%}"), ("{{", "}}"), ("{#", "#}"), ("%%", "%%"))

# Templates within a line ("{{ a.b }}", "{% if %}"), and code spans, in which templates are kept.
_INLINE = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`)[^\0]{1,1000}?(?<!`)(?P=ticks)(?!`))"
    r"|\{\{(?!\s*\w+\s*\}\}).{0,400}?\}\}|\{%.{0,400}?%\}|\{/\*.{0,400}?\*/\}|\{\*.{0,400}?\*\}",
    re.DOTALL,
)
_NAME = re.compile(
    r"[ ]{0,3}\{\{\s*\w+\s*\}\}[ \t]*+[^\s]"
)  # "{{ name }} is ...": a sentence about a template is kept
# A definition of a link; a footnote is text.
_DEFINITION = re.compile(r"[ ]{0,3}\[(?!\^)[^\]\n]+\]:[ \t]*\S+(?:[ \t]+[\"'(].*)?[ \t]*")
# A badge with a reference: "[![ci][image]][link]".
_REFERRING_BADGE = re.compile(r"\[!\[[^\]\n]*\]\[[^\]\n]*\]\](?:\([^()\n]*\)|\[[^\]\n]*\])")
_CALLOUT = re.compile(r"\A\[!\w+\][-+]?[ \t]*", re.IGNORECASE)


def without_directives(text: str, nested: int = 0) -> str:
    """Return a Markdown text without directives; the number of its lines stays the same.

    An indented admonition (`!!! note`) becomes a quotation. The lines `:::note` and `:::` around
    another admonition become the comments BEGIN_ASIDE and END_ASIDE. A line such as
    `::: package.module`, which stands for the documentation of a module, becomes the comment
    MODULE. Code stays as it is.
    """
    return _Scan(text, nested).result() if _SIGN.search(text) else text


def may_have_directives(text: str) -> bool:
    """Return False for a text that certainly has no line with a directive."""
    return _SIGN.search(text) is not None


def without_templates(source: str) -> str:
    """Return inline Markdown without directives, template expressions and badges.

    "Version {{ config.version }} is out" gives "Version  is out".
    """
    if "\n" in source or source[:1] in "/:!?={<%[-":
        source = "".join(
            "" if _is_directive(line.rstrip("\r\n")) else line for line in _LINE.findall(source)
        )
    if "[!" in source:
        source = _REFERRING_BADGE.sub("", _CALLOUT.sub("", source))
    if "{" in source:
        source = _INLINE.sub(lambda found: found["code"] or "", source)
    return source


def _is_directive(line: str) -> bool:
    is_one = _ONE_LINE.fullmatch(line) or _DEFINITION.fullmatch(line)
    return bool(is_one and line.strip())


class _Scan:
    """A parser that removes the directives of a text and reads its lines once."""

    def __init__(self, text: str, nested: int) -> None:
        self._text = text
        self._nested = nested
        self._parts: list[str] = []
        self._failed = 0
        self._asides = 0
        self._missing: set[str] = set()  # ends that do not stand in the rest of the text

    def result(self) -> str:
        """Return the text without directives."""
        text, at = self._text, 0
        begins_block = True  # after an empty line, where an MDX statement may begin
        while stop := _STOP.search(text, at):
            if at < stop.start():
                self._parts.append(text[at : stop.start()])
                last = max(text.rfind("\n", at, stop.start() - 1) + 1, at)
                begins_block = not text[last : stop.start()].strip()
                at = stop.start()
            line = _LINE.match(text, at)
            assert line
            end = self._directive(at, line.end(), begins_block)
            if end > at:
                mark = self._mark(at, line.end()) if end >= line.end() else ""
                if mark:
                    self._parts.append(f"{mark}\n")
                    at = line.end()
                self._blank(at, end)
                at = end
                begins_block = begins_block or at == line.end()
                continue
            begins_block = False
            at = self._add_line(at, line.end())
        self._parts.append(text[at:])
        return "".join(self._parts)

    def _mark(self, at: int, end: int) -> str:
        """Return the comment that replaces the directive at [at, end).

        It is BEGIN_ASIDE, END_ASIDE or MODULE; "" for a directive that is just removed.
        """
        if _MODULE.match(self._text, at):
            return MODULE
        callout = _CALLOUT_TAG.match(self._text, at)
        if callout and callout["end"]:
            return END_ASIDE
        if callout:
            is_closed = self._text.find(f"</{callout['name']}>", end, end + _MAX_TAG) >= 0
            return BEGIN_ASIDE if is_closed else ""
        aside = _ASIDE.match(self._text, at)
        name = aside and (aside["name"] or aside["kind"])
        if name and self._closes_aside(end):
            self._asides += 1
            return BEGIN_ASIDE
        if aside and not name and self._asides:
            self._asides -= 1
            return END_ASIDE
        return ""

    def _closes_aside(self, at: int) -> bool:
        if "///" not in self._missing:
            if _ASIDE_END.search(self._text, at):
                return True
            self._missing.add("///")
        return False

    def _blank(self, start: int, end: int) -> None:
        self._parts += ["\n"] * len(_LINE_END.findall(self._text, start, end))

    def _add_line(self, at: int, end: int) -> int:
        """Add the line at [at, end) to the result, and the code block or the body that it begins.

        Return the position after all that was added.
        """
        text = self._text
        if fence := _FENCE.match(text, at):
            end = self._fence_end(fence["fence"], end)
            self._parts.append(text[at:end])
        elif _INDENTING.match(text, at) and (body := self._indented(end)):
            self._parts.append("\n")
            margin = _MARGIN.match(next(filter(str.strip, body)))
            assert margin
            width = margin.end()
            inner = "".join(
                line[width:] if line[:width] == margin[0] else line.lstrip(" \t") for line in body
            )
            if self._nested < _MAX_NESTED:
                inner = without_directives(inner, self._nested + 1)
            # A quotation is one block, and becomes the abstract only if there is no other prose.
            self._parts += (f"> {line}" for line in _LINE.findall(inner))
            end += sum(map(len, body))
            if body[-1].strip() and _BEGINS_PARAGRAPH.match(text, end):
                self._parts.append(BREAK)
        elif block := _BLOCK.match(text, at):
            return self._code(block, end)
        else:
            self._parts.append(text[at:end])
        return end

    def _directive(self, at: int, end: int, begins_block: bool) -> int:
        """Return the end of the directive that begins at `at`; return `at` if none begins there."""
        text = self._text
        sign = _SIGN.match(text, at)
        if sign is None:
            return at
        if _CONTENTS.match(text, at) and self._parts:
            before = self._parts[-1]
            last = before.rfind("\n", 0, -1) + 1
            if _CONTENTS_ITEM.match(before, last):
                self._parts[-1] = f"{before[:last]}\n"
        if _INDENTING.match(text, at):
            return end if _EMPTY.match(text, at) and not self._indented(end) else at
        if _ONE_LINE.match(text, at):
            if _WITH_OPTIONS.match(text, at) and (options := _OPTIONS.match(text, end)):
                return options.end()
            return end
        if snippets := _SNIPPETS.match(text, at):
            mark = re.compile(rf"^[ ]{{0,3}}{snippets['mark']}[ \t]*(?:{_EOL}|\Z)", re.M)
            found = mark.search(text, end)
            return found.end() if found else end
        start = at + len(text[at:end]) - len(text[at:end].lstrip(" "))
        if begins_block and text.startswith(("import", "export"), at):
            return self._statement(at)
        if _BLOCK.match(text, start):
            return at
        if _NAME.match(text, at):
            return at
        for begin, close in _PAIRS:
            if text.startswith(begin, start):
                return self._close(start + len(begin), close, begin) or at
        if text[start] == "<":
            return self._tag_end(start) or at
        return at

    def _close(self, at: int, close: str, begin: str) -> int:
        """Return the position after the closing text and its blanks; 0 if it is missing."""
        if close in self._missing:
            return 0
        is_template = begin in ("{%", "{{", "{#")
        stop = at + _MAX_TAG if is_template else len(self._text)
        found = self._text.find(close, at, stop)
        if found < 0:
            if not is_template:
                self._missing.add(close)
            return 0
        return self._after_blanks(found + len(close))

    def _after_blanks(self, end: int) -> int:
        """Return the position after blanks and a line end at `end`."""
        text = self._text
        while end < len(text) and text[end] in " \t":
            end += 1
        eol = _LINE_END.match(text, end)
        return eol.end() if eol else end

    def _fence_end(self, fence: str, at: int) -> int:
        close = re.compile(rf"^[ ]{{0,3}}{fence}{fence[0]}*[ \t]*(?:{_EOL}|\Z)", re.MULTILINE)
        found = close.search(self._text, at)
        return found.end() if found else len(self._text)

    def _indented(self, at: int) -> list[str]:
        """Return the indented lines from `at` on, with empty lines between them."""
        lines: list[str] = []
        kept = 0
        for line in self._lines(at):
            if _MARGIN.match(line):
                lines.append(line)
                kept = len(lines)
            elif line.strip():
                break
            else:
                lines.append(line)
        return lines[:kept]

    def _lines(self, at: int) -> Iterable[str]:
        return (found[0] for found in _LINE.finditer(self._text, at))

    def _statement(self, at: int) -> int:
        """Return the end of an MDX statement `import` or `export`; `at` if none begins there."""
        if self._failed > _MAX_FAILED:
            return at
        if found := _IMPORT.match(self._text, at):
            return self._after_blanks(found.end())
        if not _EXPORT.match(self._text, at):
            self._failed += 1
            return at
        first_gap = 0
        depth = 0
        stop = at
        for number, line in enumerate(self._lines(at)):
            is_empty = not line.strip()
            if is_empty and not first_gap:
                first_gap = stop
            if (is_empty and depth <= 0) or number > _MAX_STATEMENT:
                break
            depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
            stop += len(line)
        if depth > 0:
            self._failed += 1
            return first_gap or stop
        return stop

    def _tag_end(self, at: int) -> int:
        """Return the end of a component's tag at `at`, such as `<Tabs>`; 0 for a plain HTML tag.

        A plain tag with an expression in braces counts as a component's.
        """
        tag = _TAG.match(self._text, at)
        if tag is None or self._failed > _MAX_FAILED:
            return 0
        depth = 0
        has_script = False
        for found in _IN_TAG.finditer(self._text, tag.end(), at + _MAX_TAG):
            if found[0] == "{":
                depth += 1
                has_script = True
            elif found[0] == "}":
                depth -= 1
            elif found[0] == ">" and depth <= 0:
                if not (tag["component"] or has_script or found.end() - at <= 3):
                    return 0
                return self._after_blanks(found.end())
        self._failed += 1
        return 0

    def _code(self, block: re.Match[str], end: int) -> int:
        """Read a template block such as `{% highlight %}` that begins before `end`.

        Its text is added to the result as fenced code; a `comment` block is removed. Return the
        position after the block, or `end` if the block is not closed.
        """
        name = block["name"]
        close = re.compile(
            rf"\{{(?:%-?|\{{[<%])\s*(?:end{name}|/\s*{name})(?![\w-])[^\r\n]*(?:{_EOL}|\Z)"
        )
        found = close.search(self._text, end) if self._failed <= _MAX_FAILED else None
        if found is None:
            self._failed += 1
            self._parts.append(self._text[block.start() : end])
            return end
        if name == "comment":
            self._blank(block.start(), found.end())
        else:
            between = self._text[end : found.start()]
            self._parts += [f"{_CODE_FENCE}\n", between, f"{_CODE_FENCE}\n"]
        return found.end()
