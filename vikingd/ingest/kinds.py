"""What a file is, by its name: this decides how it is cut and where its abstract stands."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """How a file's content is read."""

    MARKDOWN = "markdown"
    CODE = "code"
    TEXT = "text"


_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})

# Source code and configuration, each with what begins a comment line; "" where nothing does.
_COMMENT_MARKS = {
    "#": ".py .pyi .sh .bash .zsh .rb .pl .r .toml .yaml .yml .cmake .tf .ex .exs .nix .graphql",
    "//": ".js .jsx .mjs .cjs .ts .tsx .go .rs .java .kt .kts .scala .swift .c .h .cc .cpp .cxx "
    ".hh .hpp .cs .m .mm .php .dart .zig .proto .groovy .scss .less .vue .svelte",
    "--": ".sql .lua .hs .elm",
    ";": ".ini .cfg .clj .el .lisp .scm .asm",
    "": ".css .html .htm .xml .svg .json .ipynb",
}
_COMMENT_MARK = {end: mark for mark, ends in _COMMENT_MARKS.items() for end in ends.split()}


def kind_of(name: str) -> Kind:
    """The kind of a file of this name; plain text when the ending says nothing."""
    ending = _ending(name)
    if ending in _MARKDOWN:
        return Kind.MARKDOWN
    return Kind.CODE if ending in _COMMENT_MARK else Kind.TEXT


def comment_mark(name: str) -> str:
    """What begins a comment line in source code of this name; "" when nothing does."""
    return _COMMENT_MARK.get(_ending(name), "")


def _ending(name: str) -> str:
    """From the last dot on, in lower case; "" where that is the first or the last character."""
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""
