"""Fixtures of the tests of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.repositories import Repository, prose


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache and a state directory of its own; return their parent."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a few files."""
    made = Repository(tmp_path / "repository")
    made.save(
        {
            "README.md": "# Kettles\n\nAll about kettles.\n",
            "docs/boil.md": prose("Boil", "Water boils at 100 degrees"),
            "docs/steep.md": prose("Steep", "Oolong steeps for three minutes at 90 degrees"),
            "src/kettle.py": 'def heat(degrees):\n    """Heat the water."""\n    return degrees\n',
            ".gitignore": "*.log\n",
            ".github/check.yml": "name: check\n",
        }
    )
    return made
