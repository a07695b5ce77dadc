"""The patterns of ignore files, and names of files in NFC."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import pytest

from vikingd.domain.contexts import Draft
from vikingd.ingest.files import read_tree
from vikingd.ingest.ignore_patterns import patterns_of
from vikingd.ingest.import_remarks import Renamed, Unreadable
from vikingd.ingest.selected_files import Selection

TOP = "viking://resources/t"


def test_names_become_nfc(tmp_path: Path) -> None:
    """A name in NFD has its URI in NFC; of two names that become one the other is refused."""
    for name in ("cafe\u0301/re\u0301sume\u0301.md", "cafe\u0301/a.md", "o\u0308.md", "\u00f6.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    items = list(read_tree(tmp_path, TOP, selection=Selection()))
    files = {one.uri: one.content for one in items if isinstance(one, Draft) and one.content}
    assert files == {
        f"{TOP}/caf\u00e9/a.md": "text of cafe\u0301/a.md",
        f"{TOP}/caf\u00e9/r\u00e9sum\u00e9.md": "text of cafe\u0301/re\u0301sume\u0301.md",
        f"{TOP}/\u00f6.md": "text of \u00f6.md",
    }
    assert [one for one in items if isinstance(one, Renamed)] == [
        Renamed(str(tmp_path / "cafe\u0301"), f"{TOP}/caf\u00e9"),
        Renamed(
            str(tmp_path / "cafe\u0301/re\u0301sume\u0301.md"),
            f"{TOP}/caf\u00e9/r\u00e9sum\u00e9.md",
        ),
    ]
    refused = [one for one in items if isinstance(one, Unreadable)]
    assert [one.path for one in refused] == [str(tmp_path / "o\u0308.md")]
    assert str(tmp_path / "\u00f6.md") in refused[0].reason
    assert refused[0].uri == ""


def test_one_file_becomes_nfc(tmp_path: Path) -> None:
    """A single file below a URI is renamed, and told, too."""
    path = tmp_path / "re\u0301.md"
    path.write_text("x")
    items = list(read_tree(path, f"{TOP}/"))
    assert Renamed(str(path), f"{TOP}/{normalize('NFC', path.name)}") in items


HOSTILE = [
    ("*a" * 60 + "b", "a" * 200),
    ("?*" * 40 + "b", "a" * 200),
    ("/".join(["a/**"] * 20) + "/b", "/".join(["a"] * 60)),
    ("**/" + "/".join(["*a*/**"] * 20) + "/b", "/".join(["aaa"] * 60)),
]


@pytest.mark.parametrize(("pattern", "path"), HOSTILE)
def test_no_pattern_takes_a_time_that_grows_with_its_wildcards(pattern: str, path: str) -> None:
    """Patterns of many wildcards match what they mean, and end."""
    patterns = patterns_of(pattern, "f")
    assert patterns.last_match(path, is_directory=False) is None
    assert patterns.last_match(f"{path}/b" if "/" in path else f"{path}b", is_directory=False)


def test_patterns_are_found_quickly_and_the_last_one_decides() -> None:
    """The quick search of all patterns finds what a search of each pattern finds."""
    text = "\n".join(["*.py[co]", "/build/", "docs/_build", "!keep.pyc", ".venv", "a/**/z", "x?/"])
    patterns = patterns_of(text, "f")
    for path in (
        "a.pyc",
        "keep.pyc",
        "build",
        "s/build",
        "docs/_build",
        ".venv",
        "a/b/z",
        "xy",
        "q",
    ):
        for is_directory in (False, True):
            slow = [one for one in patterns if one.matches(path, is_directory=is_directory)]
            found = patterns.last_match(path, is_directory=is_directory)
            assert found == (slow[-1] if slow else None)
