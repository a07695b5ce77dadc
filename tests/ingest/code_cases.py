"""Small tricky sources of each language, with the definitions that they have.

A case begins with `=== FILE: TITLE`; the source follows, `---` and its definitions, one a line: the
kind, the names around it, its name and its lines. An `inner` one is within a function: a part of
the source that is cut there names it, while the outline leaves it out. A comment or a decorator
with `doc_of_NAME` belongs to the definition of that name.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """A source file and its definitions."""

    title: str
    file: str
    source: str
    wanted: tuple[str, ...]
    inner: frozenset[str]


def cases() -> list[Case]:
    """Return all cases of the files beside this one."""
    found = []
    for path in sorted((Path(__file__).parent / "code_cases").glob("*.txt")):
        for text in path.read_text(encoding="utf-8").split("=== ")[1:]:
            head, _, rest = text.partition("\n")
            file, _, title = head.partition(": ")
            source, _, lines = rest.partition("\n---\n")
            wanted = tuple(lines.split("\n")) if lines.strip() else ()
            wanted = tuple(line for line in wanted if line)
            inner = frozenset(line[6:] for line in wanted if line.startswith("inner "))
            found.append(
                Case(
                    title,
                    file,
                    source + "\n",
                    tuple(line for line in wanted if not line.startswith("inner ")),
                    inner,
                )
            )
    return found


SUFFIXES = sorted({case.file.rpartition(".")[2] for case in cases()})
"""The suffixes of all languages."""
