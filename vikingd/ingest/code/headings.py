"""The headings of passages of source code: the enclosing names, and the names that they define."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.text import SECTION_SEPARATOR
from vikingd.ingest.code.grammars import grammar_of
from vikingd.ingest.file_syntax import ending

SCRIPT = "script"
"""The heading of the script of a component."""

CODE = "code"
"""The heading of the definitions in a cell of a notebook, below those of its Markdown."""

HOLDERS = frozenset({".vue", ".svelte", ".astro", ".html", ".htm", ".xhtml"})
"""The suffixes of components, and of HTML templates, which may have scripts."""

CONTINUES = " …"
"""The end of the heading of a passage that begins no definition."""

BETWEEN = ", "
"""The separator of the names that one passage defines."""

NOTEBOOK = ".ipynb"

_MAX_NAMES = 600  # characters of all names in a heading


def heading_of(path: Sequence[str], names: Sequence[str]) -> str:
    """Return the heading of a passage: the enclosing names, and the names that it defines.

    Returns "" if there is no name.
    """
    if not names:
        return SECTION_SEPARATOR.join(path) + CONTINUES if path else ""
    kept: list[str] = []
    length = 0
    for name in dict.fromkeys(names):
        length += len(name) + len(BETWEEN)
        if kept and length > _MAX_NAMES:
            break
        kept.append(name)
    return SECTION_SEPARATOR.join((*path, BETWEEN.join(kept)))


def defined_names(section: str, uri: str) -> list[str]:
    """Return the names that a passage defines, by its heading; members also as `Client.get`.

    Returns no names for a passage outside of code, such as the template of a component or the text
    cells of a notebook.
    """
    end = ending(uri.rpartition("/")[2])
    if not section or section.endswith(CONTINUES):
        return []
    *path, last = section.split(SECTION_SEPARATOR)
    if end == NOTEBOOK:
        if CODE not in path:
            return []
        path = path[path.index(CODE) + 1 :]
    elif grammar_of(end) is None:
        if end not in HOLDERS or path[:1] != [SCRIPT]:
            return []
        path = path[1:]
    names = last.split(BETWEEN)
    return names + [f"{path[-1]}.{name}" for name in names] if path else names
