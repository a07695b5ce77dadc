"""Texts of files by another converter, for `benchmarks.files`.

`python benchmarks/file_peers.py markitdown DIR OUT` writes OUT/markitdown/NAME.md for each file
that the converter reads, and says why it does not read the others. It needs no other module of this
project: run it in an environment of the converter. For `docling` without its models the text of a
PDF file is that of its parser, line by line.
"""

from __future__ import annotations

import logging
import signal
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType

SECONDS = 90  # for a file
Convert = Callable[[Path], str]


def main() -> int:
    """Run the command line; return the exit code."""
    if len(sys.argv) != 4 or sys.argv[1] not in _CONVERTERS:
        print(f"usage: file_peers.py {'|'.join(_CONVERTERS)} DIR OUT", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    convert = _CONVERTERS[sys.argv[1]]()
    target = Path(sys.argv[3], sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, _interrupt)
    for path in sorted(Path(sys.argv[2]).iterdir()):
        signal.alarm(SECONDS)
        try:
            text = convert(path)
        except Exception as error:  # Converters have errors of all kinds.
            print(f"{path.name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        finally:
            signal.alarm(0)
        (target / f"{path.name}.md").write_text(text, "utf-8", errors="replace")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"takes more than {SECONDS} seconds")


def _markitdown() -> Convert:
    converter = import_module("markitdown").MarkItDown()
    return lambda path: str(converter.convert(str(path)).text_content)


def _docling() -> Convert:
    converter = import_module("docling.document_converter").DocumentConverter()
    parser = import_module("docling_parse.pdf_parser").DoclingPdfParser(loglevel="fatal")
    unit = import_module("docling_core.types.doc.page").TextCellUnit.LINE

    def convert(path: Path) -> str:
        if path.suffix.lower() != ".pdf":
            return str(converter.convert(str(path)).document.export_to_markdown())
        pages = (page for _, page in parser.load(str(path)).iterate_pages())
        return "\n".join(cell.text for page in pages for cell in page.iterate_cells(unit))

    return convert


_CONVERTERS = {"markitdown": _markitdown, "docling": _docling}

if __name__ == "__main__":
    raise SystemExit(main())
