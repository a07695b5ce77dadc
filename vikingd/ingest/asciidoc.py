"""A parser of AsciiDoc: headings and blocks of text (`markup_pieces.Piece`), and plain text."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.markdown import MAX_HEADING
from vikingd.ingest.markup_pieces import Piece

_MAX_INLINE = 4096
_MAX_NESTED = 16
_NEAR = 1  # signs that an underline may be longer or shorter than its title, as Asciidoctor says

_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
_HEADING = re.compile(r"(?P<signs>={1,6}|#{1,6})[ \t]+(?P<text>\S.*)")
_UNDERLINES = "=-~^+"  # of the levels from 1 on
_UNDERLINE = re.compile(r"([=~^+-])\1+")
_WORD = re.compile(r"\w")
# Blocks whose content holds no markup, and blocks of paragraphs.
_VERBATIM = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,})|(```|~~~)[\w#+.,-]*|([|,:!]={3,})")
_NESTING = re.compile(r"={4,}|\*{4,}|_{4,}|--")
# An attribute, such as ":version: 1.2".
_ATTRIBUTE = re.compile(r":!?(?P<name>\w[\w-]*)!?:(?:[ \t]+(?P<value>.*))?")
_MACRO = re.compile(r"[a-z][\w-]*::\S*\[.*\]")
# A line about the next block, such as "[source,java]", and a rule such as "'''".
_BLOCK_LINE = re.compile(r"\[.*\]|'{3,}|<{3,}|---|\*\*\*|- - -|\* \* \*")
_ASIDE_STYLE = re.compile(r"\[(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION|quote|verse|abstract\b)", re.I)
_COMMENT = re.compile(r"//(?!/)")
_BLOCK_TITLE = re.compile(r"\.(?![ \t.])\S")
# The beginning of a list item or a note: "* item", "1. item", "term:: text", "NOTE: text".
_ASIDE = re.compile(
    r"(?:\*{1,5}|-|\.{1,5}|\d{1,9}\.|[A-Za-z]\.|<[\d.]{1,9}>)[ \t]"
    r"|.{1,200}?(?::{2,4}|;;)(?:[ \t]|$)|(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]"
)

# Inline markup: "`code`", "link:a.html[text]", "<<id,text>>", "*strong*", "{name}" and others.
_PLAIN = re.compile(
    r"`\+(?P<raw>[^`]+)\+`"
    r"|`(?P<mono>[^`\s](?:[^`]*[^`\s])?)`"
    r"|(?:https?://|mailto:|link:|xref:|ftp://)[^\s\[\]]{1,500}\[(?P<link>[^\]]*)\]"
    r"|<<[^<>,]{1,200}(?:,(?P<cross>[^<>]*))?>>"
    r"|(?:kbd|btn|menu|stem|latexmath|asciimath|pass|icon):[\w,]{0,40}\[(?P<macro>[^\]]*)\]"
    r"|(?:footnote|footnoteref|indexterm|indexterm2|anchor|image):[^\s\[\]]{0,200}\[[^\]]*\]"
    r"|\[\[[^\[\]]*\]\]|\(\(\([^()]*\)\)\)"
    r"|(?:\[[^\[\]]*\])?(?P<mark>\*\*|__|##|\+\+)(?P<unbound>[^\s](?:.{0,400}?[^\s])?)(?P=mark)"
    r"|(?<![\w*])(?:\[[^\[\]]*\])?\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*(?!\w)"
    r"|(?<![\w_])(?:\[[^\[\]]*\])?_(?P<emphasis>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
    r"|(?<![\w#])(?:\[[^\[\]]*\])?\#(?P<marked>[^\s#](?:[^#]*[^\s#])?)\#(?!\w)"
    r"|(?<![\w+])\+(?P<literal>[^\s+](?:[^+]*[^\s+])?)\+(?!\w)"
    r"|(?<=\w)\^(?P<above>[^\s^]{1,40})\^|(?<=\w)~(?P<below>[^\s~]{1,40})~"
    r"|(?<!\\)\{(?P<name>\w[\w-]*)\}"
    r"|\\(?P<escaped>[*_`#+{<\[])",
    re.DOTALL,
)
_SHOWN = frozenset(_PLAIN.groupindex) - {"mark", "name"}
_SIGNS = {
    "nbsp": " ",
    "sp": " ",
    "zwsp": "",
    "wj": "",
    "empty": "",
    "plus": "+",
    "amp": "&",
    "lt": "<",
    "gt": ">",
    "apos": "'",
    "asterisk": "*",
    "vbar": "|",
    "cpp": "C++",
}


def pieces(content: str, start: int = 0) -> Iterator[Piece]:
    """Yield the headings and texts of a content from position `start` on, in linear time."""
    yield from _Scan(content, start).pieces()


def plain(source: str, attributes: dict[str, str] | None = None) -> str:
    """Return inline markup as plain text in one line.

    Args:
        source: the text.
        attributes: values by name. `{version}` becomes the value of "version", and a name
            without a value stays as it is.
    """
    values = {**_SIGNS, **(attributes or {})}

    def shown(found: re.Match[str]) -> str:
        if found["name"] is not None:
            return values.get(found["name"].lower(), found[0])
        text = next((found[name] for name in _SHOWN if found[name] is not None), "")
        if found["link"] is not None:
            text = text.split(",")[0].removesuffix("^").strip("\"'")
            return text or ("" if found[0].startswith(("link:", "xref:")) else found[0][:-2])
        return text.strip() if found["cross"] is not None else text

    text = _PLAIN.sub(shown, source[:_MAX_INLINE])
    text = _PLAIN.sub(shown, text) if "_" in text or "*" in text else text  # marks within marks
    lines = (line.removesuffix(" +") for line in text.splitlines() if not _COMMENT.match(line))
    return one_line(join_lines(lines))


class _Scan:
    """A parser of a content that reads its lines once."""

    def __init__(self, content: str, start: int) -> None:
        found = [(one.start(), one[1].rstrip()) for one in _LINE.finditer(content, start)]
        self._starts = [at for at, _ in found]
        self._lines = [line for _, line in found]
        self._open: list[str] = []  # the delimiters of the blocks around a line
        self._attributes: dict[str, str] = {}
        self._first = -1  # the line at which the open paragraph begins
        self._is_aside = False  # the lines before the next block say so
        self._in_list = False

    def pieces(self) -> Iterator[Piece]:
        """Yield the headings and texts of the content."""
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            if not line or line == "+" or _COMMENT.match(line):
                if not line or line == "+":
                    yield from self._paragraph(at)
                at += 1
                continue
            verbatim = _VERBATIM.fullmatch(line)
            if verbatim and not (verbatim[1] and self._is_underline(at)):
                yield from self._paragraph(at)
                at = yield from self._verbatim(at, verbatim)
                continue
            if _NESTING.fullmatch(line) and not self._is_underline(at):
                yield from self._paragraph(at)
                self._delimit(line)
                at += 1
                continue
            if self._first < 0:
                begun = yield from self._block(at)
                if begun > at:
                    at = begun
                    continue
                self._first = at
            elif _MACRO.fullmatch(line) or _ASIDE.match(line):
                yield from self._paragraph(at)
                continue
            at += 1
        yield from self._paragraph(at)

    def _paragraph(self, end: int) -> Iterator[Piece]:
        first = self._first
        self._first = -1
        if first < 0:
            return
        line = self._lines[first]
        is_literal = line[0] in " \t" and not _ASIDE.match(line.lstrip())
        is_aside = bool(self._is_aside or line[0] in " \t" or _ASIDE.match(line))
        is_aside = is_aside or any(one != "--" for one in self._open)
        is_aside = is_aside or self._lines[first - 1 : first] == ["+"]
        self._is_aside = False
        stop = self._starts[end - 1] + len(self._lines[end - 1])
        margin = len(line) - len(line.lstrip())
        yield Piece(self._starts[first] + margin, stop, is_prose=not is_aside, linewise=is_literal)

    def _block(self, at: int) -> Generator[Piece, None, int]:
        """Read a heading, an attribute or a block line; return the number of the line after it.

        Returns `at` if the line `at` belongs to a paragraph.
        """
        line = self._lines[at]
        if attribute := _ATTRIBUTE.fullmatch(line):
            if attribute["value"] and len(self._attributes) < 256:
                value = attribute["value"][:200]
                self._attributes[attribute["name"].lower()] = plain(value, self._attributes)[:200]
            while self._line(at).endswith(" \\"):
                at += 1
            return at + 1
        if _BLOCK_LINE.fullmatch(line):
            self._is_aside = self._is_aside or bool(_ASIDE_STYLE.match(line))
            return at + 1
        if _MACRO.fullmatch(line):
            return at + 1
        if _BLOCK_TITLE.match(line):
            yield Piece(self._starts[at] + 1, self._starts[at] + len(line))
            return at + 1
        if self._open:
            return at
        text, level, behind = "", 0, at + 1
        if heading := _HEADING.fullmatch(line):
            signs = heading["signs"]
            text, level = heading["text"].removesuffix(f" {signs}").rstrip(), len(signs)
            start = self._starts[at] + heading.start("text")
        elif self._is_underline(at + 1):
            text, level, start = (
                line,
                _UNDERLINES.index(self._lines[at + 1][0]) + 1,
                self._starts[at],
            )
            behind = at + 2
        if not text:
            return at
        self._is_aside = False
        if level == 1:  # the lines of the author and the revision, and attributes
            while self._line(behind) and (
                behind < at + 4 or _ATTRIBUTE.fullmatch(self._line(behind))
            ):
                if _ATTRIBUTE.fullmatch(self._line(behind)):
                    behind = yield from self._block(behind)
                elif _NESTING.fullmatch(self._line(behind)) or _VERBATIM.fullmatch(
                    self._line(behind)
                ):
                    break
                else:
                    behind += 1
        shown = plain(text, self._attributes)[:MAX_HEADING].rstrip()
        yield Piece(start, start + len(text), level, shown)
        return behind

    def _verbatim(self, at: int, delimiter: re.Match[str]) -> Generator[Piece, None, int]:
        """Read a block without markup; return the number of the line after it."""
        close = delimiter[1] or delimiter[2] or delimiter[3]
        self._is_aside = False
        last = at + 1
        while last < len(self._lines) and self._lines[last] != close:
            last += 1
        if at + 1 < last and not close.startswith("//"):
            end = self._starts[last - 1] + len(self._lines[last - 1])
            yield Piece(self._starts[at + 1], end, linewise=True)
        return last + 1

    def _delimit(self, line: str) -> None:
        """Open the block that the delimiter `line` begins, or close it if it is open."""
        if line in self._open:
            del self._open[self._open.index(line) :]
            self._is_aside = False
        elif len(self._open) < _MAX_NESTED:
            self._open.append(line)

    def _is_underline(self, at: int) -> bool:
        """Return True for a line of underline characters about as long as the title above it."""
        if self._open or not 0 < at < len(self._lines) or not _UNDERLINE.fullmatch(self._lines[at]):
            return False
        title = self._lines[at - 1]
        if not _WORD.search(title) or title[0] in " \t.:[/=*-":
            return False
        wide = sum(ord(char) >= 0x1100 for char in title)
        is_first = at < 2 or not self._lines[at - 2] or self._first < 0 or self._first == at - 1
        length = len(self._lines[at])
        return is_first and len(title) - _NEAR <= length <= len(title) + wide + _NEAR

    def _line(self, at: int) -> str:
        return self._lines[at] if at < len(self._lines) else ""
