"""The benchmark of code, over a small repository with a history."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import code
from benchmarks.code_questions import Repository, questions_of

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed: apt-get install git"
)

CLIENT = "class Connector:\n    def open_pool(self, url):\n        return url\n"
COMMITS = (
    ("Begin", {"src/client.py": CLIENT, "README.md": "# Connector and open_pool\n"}),
    ("Release 1.0", {"src/version.py": "VERSION = 1\n"}),
    ("Bump version to 1.1", {"src/version.py": "VERSION = 2\n"}),
    ("feat: close idle connections of the pool (#7)", {"src/client.py": CLIENT + "\n"}),
    ("docs: describe the pool of connections", {"README.md": "# Pool\n"}),
    ("Fix two words", {"src/version.py": "VERSION = 3\n", "src/client.py": CLIENT}),
    ("Test the pool of connections", {"tests/test_client.py": "open_pool(1)\n"}),
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository whose checkout is in tmp_path / "checkouts"."""
    top = tmp_path / "checkouts" / "small"
    top.mkdir(parents=True)

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", "-C", str(top), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    for subject, files in COMMITS:
        for name, text in files.items():
            (top / name).parent.mkdir(exist_ok=True)
            (top / name).write_text(text, encoding="utf-8")
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", subject)
    return Repository("small", "https://example.org/small", git("rev-parse", "HEAD"), (".py",))


def test_questions_follow_from_the_history(repository: Repository, tmp_path: Path) -> None:
    """Subjects about code ask for the sources that they changed, in the tree before the first."""
    questions = questions_of(repository, tmp_path / "checkouts" / "small")
    found = {one.text: sorted(one.answers) for one in questions.subjects}
    assert found == {
        "close idle connections of the pool": ["src/client.py"],
        "Fix two words": ["src/client.py", "src/version.py"],
    }
    assert [(one.name, one.path, one.line) for one in questions.names] == [
        ("Connector", "src/client.py", "class Connector:"),
        ("open_pool", "src/client.py", "def open_pool(self, url):"),
    ]


@pytest.mark.deep
def test_the_command_asks_all_methods(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each method has its shares, and each form of a question for a definition."""
    questions = questions_of(repository, tmp_path / "checkouts" / "small")
    half = questions.subjects[0].half
    out = tmp_path / "figures.json"
    code.main(
        [str(tmp_path / "checkouts"), "--provider", "none", "--half", half, "--json", str(out)],
        [repository],
    )
    figures = json.loads(out.read_text())
    assert figures["X"] == figures["where is X defined"] == [1.0, 1.0]
    methods = ("BM25 over whole files", "HYBRID", "find", "find, prefer=code")
    assert all(len(figures[f"all, {method}"]) == 3 for method in methods)
    assert "| small | find |" in capsys.readouterr().out
