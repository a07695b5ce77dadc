"""Trees of files with rules, as an import of a directory selects them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vikingd.ingest.file_tree import FileTree
from vikingd.ingest.selected_files import Selection

TOP = "viking://resources/t"
HAS_GIT = shutil.which("git") is not None


def forget_settings(monkeypatch: pytest.MonkeyPatch, at: Path) -> None:
    """Keep the git settings of this machine out; those of a test are in the file `no-settings`."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(at / "no-settings"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(at / "no-config"))


@dataclass
class Case:
    """A tree, its rules, and the files that are taken.

    `files` have no content, and `rules` are ignore files by their paths. `git` is the directory
    of a checkout; "" is the top, None is none.
    """

    name: str
    files: str
    rules: dict[str, str]
    taken: str
    git: str | None = ""
    start: str = ""
    selection: Selection = field(default_factory=Selection)


def make(root: Path, case: Case) -> Path:
    """Make the tree of a case, and return the directory to import."""
    for name in case.files.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text")
    if case.git is not None:
        (root / case.git / ".git" / "info").mkdir(parents=True)
    for name, text in case.rules.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, newline="")
    return root / case.start


def taken(top: Path, selection: Selection | None) -> set[str]:
    """Return the files that an import of a directory reads."""
    tree = FileTree.of_directory(top, TOP, selection)
    return {below for below, stamp in tree.stamps.items() if not stamp.is_directory}


def git(*arguments: str, at: Path) -> str:
    """Run git."""
    done = subprocess.run(["git", *arguments], cwd=at, check=True, capture_output=True)
    return done.stdout.decode()
