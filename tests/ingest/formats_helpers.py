"""The documents of the tests with their Markdown, and a tool to change a member of an archive."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

FILES = Path(__file__).parent / "files"
TITLES = {
    "report-en": "The Harbour Report",
    "report-zh": "港口报告",
    "slides-en": "Lighthouse Upkeep",
    "slides-zh": "灯塔维护",
    "ledger-en": "The Ledger of Norwick",
    "ledger-zh": "诺威克账簿",
}


def expected(name: str) -> str:
    """Return the Markdown of a document, as `files/expected` has it."""
    return (FILES / f"expected/{name}.md").read_text()


def rewritten(path: Path, member: str, change: Callable[[bytes], bytes] | None) -> Path:
    """Change a member of an archive, which may be new, or remove it if there is no change."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    before = members.pop(member, b"")
    if change:
        members[member] = change(before)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path
