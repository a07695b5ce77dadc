"""Repositories of git and archives that the tests of sources make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.programs import needed

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def prose(title: str, sentence: str) -> str:
    """Return Markdown that is long enough for git to see the rename of a changed file."""
    return f"# {title}\n\n" + "".join(f"{sentence}, as note {i} says.\n" for i in range(20))


class Repository:
    """A repository in a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def address(self) -> str:
        """The address to import it by."""
        return f"git+file://{self.path}"

    @property
    def commit(self) -> str:
        """The name of the last commit."""
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        """Run git, and return its output."""
        done = subprocess.run(
            [needed("git"), *arguments],
            cwd=self.path,
            env={**os.environ, **IDENTITY},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def write(self, files: dict[str, str | bytes]) -> None:
        """Write files."""
        for name, content in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def save(self, files: dict[str, str | bytes] | None = None) -> str:
        """Write files, commit all, and return the commit."""
        self.write(files or {})
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message", "a change")
        return self.commit
