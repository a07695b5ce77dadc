"""The syntax of a file by its name, which decides its passages and its abstract."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from vikingd.ingest.data_heads import ENDINGS as DATA_ENDINGS
from vikingd.ingest.html_templates import holds_source
from vikingd.ingest.restructured import is_restructured


class Syntax(Enum):
    """The syntax of a file."""

    MARKDOWN = "markdown"
    RST = "reStructuredText"
    ASCIIDOC = "AsciiDoc"
    CODE = "code"
    TEXT = "text"


_DOCUMENTS = {
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
    ".epub": "epub",
    ".odt": "odt",
    ".rtf": "rtf",
    ".eml": "eml",
    ".ipynb": "ipynb",
    ".svg": "svg",
}
# The content of a document is the Markdown that an import makes of it.
_MARKDOWN = frozenset({".md", ".markdown", ".mdx", *_DOCUMENTS})

_OTHER_MARKUP = {
    ".rst": Syntax.RST,
    ".rest": Syntax.RST,
    ".adoc": Syntax.ASCIIDOC,
    ".asciidoc": Syntax.ASCIIDOC,
    ".asc": Syntax.ASCIIDOC,
}

# The suffixes of source code and configuration by the mark of a comment line; "" for no mark.
_COMMENT_MARKS = {
    "#": ".py .pyi .sh .bash .zsh .rb .pl .r .toml .yaml .yml .cmake .tf .ex .exs .nix .graphql",
    "//": ".js .jsx .mjs .cjs .ts .mts .cts .tsx .go .rs .java .kt .kts .scala .swift .c .h .cc "
    ".cpp .cxx .hh .hpp .cs .m .mm .php .dart .zig .proto .groovy .scss .less .vue .svelte .astro",
    "--": ".sql .lua .hs .elm",
    ";": ".ini .cfg .clj .el .lisp .scm .asm",
    "": ".css .xml .json",
}
_COMMENT_MARK = {end: mark for mark, ends in _COMMENT_MARKS.items() for end in ends.split()}


def syntax_of(name: str, content: str = "") -> Syntax:
    """Return the syntax of a file of this name; TEXT for an unknown suffix.

    The content of an HTML file is Markdown, or CODE if it is the source of a template. A text file
    whose content is certainly reStructuredText is RST.
    """
    end = ending(name)
    if end in _MARKDOWN:
        is_source = _DOCUMENTS.get(end) == "html" and holds_source(content)
        return Syntax.CODE if is_source else Syntax.MARKDOWN
    if end in _OTHER_MARKUP:
        return _OTHER_MARKUP[end]
    if end == ".txt" and is_restructured(content):
        return Syntax.RST
    return Syntax.CODE if end in _COMMENT_MARK else Syntax.TEXT


def document_format(name: str) -> str:
    """Return the format of a file that an import turns into Markdown; "" for any other file."""
    return _DOCUMENTS.get(ending(name), "")


def known_endings() -> list[str]:
    """Return the suffixes of documents, markup, source code, data and plain text; sorted.

    A file with another suffix is read as plain text.
    """
    return sorted({*_MARKDOWN, *_OTHER_MARKUP, *_COMMENT_MARK, *DATA_ENDINGS, ".txt"})


def comment_mark(name: str) -> str:
    """Return the characters that begin a line comment in source code of this name, such as "#".

    Returns "" if there are none.
    """
    return _COMMENT_MARK.get(ending(name), "")


def are_alike(name: str, other: str) -> bool:
    """Return True if files of both names are read and cut into passages in the same way."""
    one, two = (
        (syntax_of(each), document_format(each), comment_mark(each)) for each in (name, other)
    )
    return one == two


@lru_cache(maxsize=1024)  # an import asks some thirty times for each file
def ending(name: str) -> str:
    """Return the suffix in lower case; "" if the last dot is the first or the last character."""
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""
