"""The code cells of a notebook, which are fenced blocks of Markdown and are cut by their syntax."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from vikingd.ingest.code.code_parts import Part, parts
from vikingd.ingest.code.grammars import Grammar, grammar_of, language_is_there
from vikingd.ingest.code.headings import NOTEBOOK
from vikingd.ingest.file_syntax import ending

OUTPUT = "text"
"""The language of the fence around the output of a cell."""

_FENCE = re.compile(r"(?P<fence>`{3,})(?P<language>[\w+#.-]+)[ \t]*\n")
# Commands of IPython: Python does not know them.
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)
# The suffixes of languages whose kernels name them otherwise.
_SUFFIXES = {
    "python": "py",
    "python3": "py",
    "ipython": "py",
    "ipython3": "py",
    "javascript": "js",
    "typescript": "ts",
    "c++": "cpp",
    "c#": "cs",
    "csharp": "cs",
    "rust": "rs",
    "ruby": "rb",
    "kotlin": "kt",
    "bash": "sh",
}


def is_notebook(name: str) -> bool:
    """Return True if a file of this name is a notebook."""
    return ending(name) == NOTEBOOK


def is_output(text: str) -> bool:
    """Return True for a fenced block with the output of a cell."""
    opening = _FENCE.match(text)
    return opening is not None and opening["language"] == OUTPUT


class CellCode(NamedTuple):
    """The code in a fenced block without IPython commands, and its offset in the block."""

    start: int
    source: str
    grammar: Grammar


def cell_code(text: str) -> CellCode | None:
    """Return the code in a fenced block of a known language; None for any other block."""
    opening = _FENCE.match(text)
    if opening is None:
        return None
    language = opening["language"].lower()
    grammar = grammar_of(f".{_SUFFIXES.get(language, language)}")
    if grammar is None or not language_is_there(grammar.package):
        return None
    source = text[opening.end() :].rstrip().removesuffix(opening["fence"])
    source = _MAGIC.sub(lambda found: " " * len(found[0]), source)
    return CellCode(opening.end(), source, grammar)


def cell_parts(text: str, fits: Callable[[int, int], bool]) -> list[Part]:
    """Return the parts of a fenced block in order, without gaps; [] if it defines nothing.

    `fits` returns True if characters [start, end) of the block are short enough for one part.
    """
    if (code := cell_code(text)) is None:
        return []
    at = code.start
    data = code.source.encode(errors="replace")
    found = parts(data, code.grammar, lambda a, b: fits(at + a, at + b)) or []
    if not any(one.names for one in found):
        return []
    placed = [one._replace(start=at + one.start, end=at + one.end) for one in found]
    placed[0] = placed[0]._replace(start=0)
    placed[-1] = placed[-1]._replace(end=len(text))
    return placed
