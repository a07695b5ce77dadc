"""The parser of each format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import BinaryIO, TypeAlias

from vikingd.ingest.formats.document import Document, Failed

Parser: TypeAlias = Callable[[BinaryIO], Document]

EXTRA = "files"
_PACKAGES = {
    "pdf": "pypdfium2",
    "html": "markdownify",
    "docx": "mammoth",
    "pptx": "pptx",
    "xlsx": "openpyxl",
    "epub": "markdownify",
    "odt": "markdownify",
    "rtf": "striprtf",
    "eml": "markdownify",
}
_PLAIN = frozenset({"ipynb", "svg"})  # formats that need no package
FORMATS = _PLAIN | frozenset(_PACKAGES)
"""The formats; each has a module of its name with a function `read`."""


def parser_of(format_: str, encoding: str = "") -> Parser:
    """Import the parser of a format.

    Args:
        format_: one of FORMATS.
        encoding: the label of the encoding of HTML that states none and is no UTF-8.

    Raises:
        Failed: a package of the extra `files` is missing.
    """
    try:
        if format_ not in _PLAIN:
            import_module(_PACKAGES[format_])
            import_module("lxml.etree")
        read = import_module(f"vikingd.ingest.formats.{format_}").read
    except ImportError as error:
        from vikingd.system.install_command import install_command

        raise Failed(f"needs {install_command(EXTRA)} ({error})") from None
    return partial(read, assumed=encoding or None) if format_ == "html" else read
