"""The pictures of the README: the layers of the daemon, the trace of one find, and the page.

`python -m benchmarks.pictures` writes architecture.svg, trace.svg, page.png and page-phone.png
beside this file. The layers come from the import contract in pyproject.toml and the first sentence
of each package, the others from a daemon with the demo tree. Chromium must be installed.
"""

from __future__ import annotations

import ast
import html
import io
import os
import pty
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

from playwright.sync_api import Page
from rich.console import Console
from rich.text import Text

from benchmarks.daemon import serving, temporary_store
from benchmarks.page import chromium, gateway

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_QUESTION = "How many requests may I send per second?"
_TARGET = "viking://resources"
_COLUMNS = 110
_FONT = "font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace'"

_Theme: TypeAlias = Literal["light", "dark"]

_SHOTS: tuple[tuple[str, str, _Theme, tuple[int, int], str], ...] = (
    ("page.png", "en-US", "light", (1280, 760), "how do I extract tables from a PDF"),
    ("page-phone.png", "zh-CN", "dark", (390, 760), "怎么从 PDF 里提取表格"),
)
"""File, language, theme, size and question of each screenshot."""

_WIDTH, _MARGIN, _GAP, _LINE = 960, 12, 10, 17  # pixels
_CHARACTER = 7.3  # pixels of one at 12 px
_FILLS = ("#e8f1fb", "#eaf6ec")


def main() -> None:
    """Write the pictures."""
    (_HERE / "architecture.svg").write_text(architecture(), encoding="utf-8")
    with temporary_store() as store, serving(store, provider="e5") as server:
        _vikingctl(server.address, "import", str(_ROOT / "vikingd/demo_tree"), "viking://")
        (_HERE / "trace.svg").write_text(trace(server.address), encoding="utf-8")
        with gateway(server.address) as url, chromium() as browser:
            for name, language, theme, (width, height), question in _SHOTS:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, locale=language, color_scheme=theme
                )
                shoot(context.new_page(), url, question, _HERE / name)


def architecture() -> str:
    """Draw the packages, a row for each layer; each row imports rows below it alone."""
    rows = [*_layers(), ["viking_kernels"]]
    y, shapes = _MARGIN, []
    for number, row in enumerate(rows):
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(row) - 1)) / len(row)
        texts = [_wrapped(_about(name), width) for name in row]
        height = _LINE * (max(map(len, texts)) + 1) + 2 * _MARGIN
        for place, (name, lines) in enumerate(zip(row, texts, strict=True)):
            x = _MARGIN + place * (width + _GAP)
            shapes.append(
                f"<rect x='{x:.0f}' y='{y}' width='{width:.0f}' height='{height}' rx='6' "
                f"fill='{_FILLS[number % 2]}' stroke='#9aa7b4'/>"
            )
            shapes.extend(_lines(x + _MARGIN, y + _MARGIN, [name, *lines]))
        y += height + _GAP
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {y}' {_FONT} "
        "font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _layers() -> list[list[str]]:
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def _about(name: str) -> str:
    """Return the first paragraph of a package's or module's docstring."""
    base = _ROOT / ("kernels" if name.startswith("viking_") else "") / name.replace(".", "/")
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    documented = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return documented.partition("\n\n")[0].replace("\n", " ")


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, int((width - 2 * _MARGIN) / _CHARACTER))


def _lines(x: float, y: float, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        weight = " font-weight='bold'" if number == 0 else ""
        at = y + _LINE * (number + 0.75)
        yield f"<text x='{x:.0f}' y='{at:.0f}'{weight}>{html.escape(line)}</text>"


def shoot(page: Page, url: str, question: str, file: Path) -> None:
    """Ask a question on the page, ask why, and take a screenshot."""
    page.goto(f"{url}/#q={quote(question)}")
    page.locator(".result .why").first.click()
    page.locator(".walk").wait_for()
    page.locator(".live").wait_for(state="attached")
    page.screenshot(path=file)


def trace(address: str) -> str:
    """Ask the demo tree and draw the trace of the answer as a terminal shows it."""
    shown = _vikingctl(
        address, "find", _QUESTION, "--target", _TARGET, "--limit", "3", "--trace=full"
    )
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(
        title=f'vikingctl find "{_QUESTION}" --target {_TARGET} --trace=full', unique_id="trace"
    )
    # The fonts of the reader's machine; a picture loads nothing from elsewhere.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def _vikingctl(address: str, *arguments: str) -> str:
    """Return what a command prints on a terminal with colours."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "vikingd.ctl.main", "--address", address, *arguments],
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS)},
        stdout=theirs,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # a read at the end of a terminal fails
        while some := os.read(ours, 1 << 16):
            shown += some
    os.close(ours)
    if run.wait():
        raise RuntimeError(f"vikingctl ended with {run.returncode}")
    return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()
