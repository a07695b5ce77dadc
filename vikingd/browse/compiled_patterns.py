"""Patterns: regular expressions and globs, compiled by RE2, whose time is linear in the text."""

from __future__ import annotations

import re
from typing import NamedTuple

import re2

from vikingd.domain import hidden_characters
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.hidden_characters import WITHIN_WORDS

MAX_PROGRAM = 10_000
"""The most instructions of a compiled pattern."""

# The hidden characters that divide no word, without the selectors: they are behind emoji, and would
# make each text with emoji slow. RE2 reads bytes.
MAYBE_HIDDEN = re2.compile(
    re.sub(r"\\[xuU]0*([0-9a-f]+)", r"\\x{\1}", f"[{WITHIN_WORDS}]").replace(
        r"\x{fe00}-\x{fe0f}", ""
    )
)
# Escapes and classes by which a pattern may ask for them.
_ASKS_FOR_HIDDEN = re.compile(r"\\x\{?[0-9A-Fa-f]|\\[pP]\{?\^?C")

_LINE_ENDS = "(?m)"  # `^` and `$` are the ends of lines
_MEMORY = 8 << 20  # bytes of a compiled pattern, with the states that a search adds
# RE2 gives up when its memory is full: of 16,700 instructions here, some of which it drops in the
# end. With more memory it would compile on for up to 50 s, and it holds Python's lock.
_MEMORY_OF_INSTRUCTIONS = MAX_PROGRAM * 20
_TOO_LARGE = "pattern too large"

# The parts of a regular expression: quoted text, an escape, a class, any other character.
_PARTS = re.compile(
    r"\\Q(?:.*?)(?:\\E|\Z)|(\\.)|\[\^?\]?(?>(?:\\.|\[:\^?\w+:\]|[^\]\\])*)\]|.", re.DOTALL
)
_MISSING = re.compile(r"\(\?(?:<?[=!]|>)|\\[1-9k]")

Span = tuple[int, int]


class Pattern:
    """A compiled pattern.

    Attributes:
        size: the number of its instructions; the time of a search is proportional to it.
        names_hidden: True if the pattern itself has hidden characters.
    """

    def __init__(self, text: str, field: str, **options: bool) -> None:
        """Compile a pattern.

        Raises:
            InvalidField: naming `field`, if it is no pattern of RE2, or too large.
        """
        chosen = re2.Options()
        chosen.log_errors = False
        chosen.never_capture = True
        for name, value in options.items():
            setattr(chosen, name, value)
        try:
            chosen.max_mem = _MEMORY_OF_INSTRUCTIONS
            is_too_large = re2.compile(text, chosen).programsize > MAX_PROGRAM
            if not is_too_large:
                chosen.max_mem = _MEMORY
                self._compiled = re2.compile(text, chosen)
        except re2.error as error:
            is_too_large = _TOO_LARGE in _reason(error)
            if not is_too_large:
                raise InvalidField(field, _fault(text, error)) from None
        finally:
            re2.purge()  # its cache would keep 128 patterns with all their states
        if is_too_large:
            raise InvalidField(
                field,
                f"compiles to more than {MAX_PROGRAM:,} instructions: repeat less, or use smaller "
                "classes",
            )
        self.size: int = self._compiled.programsize
        self.names_hidden = bool(hidden_characters.first(text) or _ASKS_FOR_HIDDEN.search(text))

    def search(self, text: bytes, start: int, end: int) -> Span | None:
        """Return the span of the first match within [start, end) of a text in UTF-8."""
        found = self._compiled.search(text, start, end)
        return None if found is None else found.span()

    def matches(self, text: bytes) -> bool:
        """Return True if the whole text matches."""
        return self._compiled.fullmatch(text) is not None


def line_pattern(text: str, *, case_insensitive: bool, literal: bool) -> Pattern:
    """Return a pattern for matches within one line.

    Hidden characters are removed from it, since a user does not see that they were pasted. A
    pattern of hidden characters only is kept, and so is a hidden character that is written as an
    escape.

    Raises:
        InvalidField: `pattern` is no pattern.
    """
    options = {"case_sensitive": not case_insensitive, "literal": literal, "never_nl": True}
    text = hidden_characters.removed(text) or text
    if "\n" in text:
        raise InvalidField("pattern", "has a line break: each line is searched by itself")
    if literal:
        return Pattern(text, "pattern", **options)
    pattern = Pattern(f"{_LINE_ENDS}{text}", "pattern", **options)
    for part in _PARTS.finditer(text):
        if part[1] == r"\n":
            raise InvalidField("pattern", r"has \n: each line is searched by itself")
        if part[1] == r"\C":
            raise InvalidField("pattern", r"has \C, a byte: use `.`, a character")
    return pattern


def _fault(text: str, error: re2.error) -> str:
    why = _reason(error).replace(text, text.removeprefix(_LINE_ENDS))
    fault = f"is no regular expression of RE2: {why}"
    if _MISSING.search(text):
        fault += "; RE2 has no lookaround, no backreferences and no atomic groups"
    return fault


def _reason(error: re2.error) -> str:
    why = error.args[0]
    return why.decode(errors="replace") if isinstance(why, bytes) else str(why)


class Glob(NamedTuple):
    """A pattern over paths.

    Attributes:
        pattern: the regular expression for a path with a slash at its end.
        base: the path of a directory that contains all matches; "" for the target.
        is_for_directories: True if the pattern ends with a slash.
    """

    pattern: Pattern
    base: str
    is_for_directories: bool

    def top(self, target: str) -> str:
        """Return the URI of a directory that contains all matches below a target."""
        return uris.join(target, self.base) if self.base else target

    def matches(self, uri: str, target: str) -> bool:
        """Return True if the path of a URI below a target matches."""
        path = uri[len(uris.join(target, "")) :]
        return self.pattern.matches(f"{path}/".encode())


def glob_pattern(text: str, field: str) -> Glob:
    """Compile a glob; see GlobRequest in the proto.

    Raises:
        InvalidField: naming `field`, if it is none.
    """
    if text.startswith(uris.ROOT):
        raise InvalidField(field, "is a URI: name the path below target_uri")
    text = uris.canonical(text)
    names = text.removesuffix("/").split("/")
    if "" in names:
        raise InvalidField(field, "has an empty name between slashes")
    literal = 0
    while literal < len(names) - 1 and not set("*?[").intersection(names[literal]):
        literal += 1
    return Glob(
        Pattern("".join(_of_name(name, field) for name in names), field, dot_nl=True),
        "/".join(names[:literal]),
        text.endswith("/"),
    )


def _of_name(name: str, field: str) -> str:
    """Return the regular expression for one segment of a glob."""
    if name == "**":
        return "(?:[^/]+/)*"
    if "**" in name:
        raise InvalidField(field, f"has {name[:64]!r}; ** stands alone between slashes")
    out, at = "", 0
    while at < len(name):
        if name[at] == "[" and (end := name.find("]", at + 2 + name.startswith("!", at + 1))) > 0:
            out += _of_set(name[at + 1 : end], field)
            at = end
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(name[at]) or re2.escape(name[at])
        at += 1
    return f"{out}/"


def _of_set(members: str, field: str) -> str:
    """Return the character class for a set such as `[a-z]`, which never matches the slash."""
    is_negated = members.startswith("!")
    members = members[is_negated:]
    spans, at = [], 0
    while at < len(members):
        low = high = ord(members[at])
        at += 1
        if members.startswith("-", at) and at + 1 < len(members):
            high = ord(members[at + 1])
            at += 2
        if low > high:
            raise InvalidField(field, f"has the range {chr(low)}-{chr(high)}, which is reversed")
        spans.append((low, high))
    slash = ord("/")
    if is_negated:
        spans.append((slash, slash))
    else:
        spans = [
            part
            for low, high in spans
            for part in ((low, min(high, slash - 1)), (max(low, slash + 1), high))
            if part[0] <= part[1]
        ]
    inner = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in spans)
    return f"[{'^' * is_negated}{inner}]" if inner else r"[^\x{0}-\x{10ffff}]"
