"""The Markdown of the page, in Node: lines that are made to be slow are shown in linear time."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from tests.programs import needed

PAGE = Path(str(resources.files("vikingd.gateway"))) / "page"
SHOW = """
Object.defineProperty(globalThis, "navigator", { value: { language: "en" } });
globalThis.document = { documentElement: {} };
globalThis.localStorage = { getItem() {} };
globalThis.addEventListener = () => {};
const { markdown } = await import("./markdown.js");
const { readFileSync } = await import("node:fs");
console.log(markdown(readFileSync(0, "utf8")).length);
"""
MANY = 600_000  # characters, with which quadratic time is minutes
LINES = {
    "tildes": "~" * MANY + "`",
    "spaces": "a|b\n" + " " * MANY + "x|",
    "colons": ":" * MANY + "\u2028x",
    "anchor": '<a id="">' + " " * MANY + "x",
    "comments": "<!--\n" * (MANY // 4) + "--> x",
}


@pytest.mark.deep
@pytest.mark.parametrize("name", LINES)
def test_a_line_made_to_be_slow_is_shown(tmp_path: Path, name: str) -> None:
    """A long run of one character, or of comments with one end, becomes a paragraph."""
    path = shutil.copytree(
        PAGE, tmp_path / "page", ignore=shutil.ignore_patterns("node_modules", "page.js")
    )
    (path / "package.json").write_text('{"type": "module"}')
    (path / "show.js").write_text(SHOW)
    shown = subprocess.run(
        [needed("node"), "show.js"],
        cwd=path,
        input=LINES[name].encode(),
        capture_output=True,
        timeout=50,  # to end a run that would take minutes; a linear one takes a second
        check=True,
    )
    assert shown.stdout == b"1\n"
