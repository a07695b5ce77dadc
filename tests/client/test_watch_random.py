"""A watched folder under random changes equals a fresh import."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.watch_helpers import TOP, Run, fresh_import, state, watching, without_unreadable
from tests.patience import eventually
from vikingd.client.messages import MessageClient
from vikingd.ingest.files import read_tree
from vikingd.ingest.import_remarks import Unreadable

_SEED = int(os.environ.get("TEST_SEED", "7"))
_CHANGES = int(os.environ.get("TEST_CHANGES", "1000"))
_FILES = ("a.md", "A.md", "notes.txt", "README.md", "茶.md", "index.md", "x.py", "中文 名.txt", "b")
_DIRECTORIES = ("a.md", "guide", "Guide", "数据", "deep", "b", "node_modules", ".hidden")
_WORDS = ("tea", "harbour", "lantern", "乌龙茶", "winter", "港口", "salt", "letter")


class Folder:
    """A folder on disk and its random changes, each of which may do nothing."""

    def __init__(self, path: Path, of: random.Random) -> None:
        self.path = path
        self.of = of
        self.changes: list[Callable[[], None]] = [
            *4 * [self.create],
            *3 * [self.edit],
            *2 * [self.append],
            *2 * [self.replace],
            *2 * [self.delete],
            *3 * [self.rename],
            *2 * [self.rename_directory],
            *2 * [self.nest],
            self.remove_directory,
            self.swap_kinds,
            self.link,
            self.spoil,
            self.change_case,
            self.copy_and_remove,
        ]

    def all(self, wanted: Callable[[Path], bool]) -> list[Path]:
        """Return the paths below the folder with a property, in order."""
        return sorted(path for path in self.path.rglob("*") if wanted(path))

    def some_directory(self) -> Path:
        """Return the folder or one of its directories, not too deep."""
        found = self.all(lambda path: path.is_dir() and not path.is_symlink())
        low = [path for path in found if len(path.relative_to(self.path).parts) < 5]
        return self.of.choice([self.path, *low])

    def some_file(self) -> Path | None:
        """Return a regular file, None without one."""
        found = self.all(lambda path: path.is_file() and not path.is_symlink())
        return self.of.choice(found) if found else None

    def place(self, names: tuple[str, ...] = _FILES) -> Path:
        """Return a path for a new file or directory, which may exist."""
        return self.some_directory() / self.of.choice(names)

    def text(self) -> str:
        """Return a text, seldom an empty one; two are seldom equal."""
        if self.of.random() < 0.05:
            return ""
        title = f"# {self.of.choice(_WORDS)}\n\n" if self.of.random() < 0.5 else ""
        return title + " ".join(self.of.choices(_WORDS, k=self.of.randint(1, 30))) + "\n"

    def create(self) -> None:
        """Create a file, or overwrite one."""
        path = self.place()
        if not path.is_dir() and not path.is_symlink():
            path.write_text(self.text())

    def edit(self) -> None:
        """Write a file again."""
        if path := self.some_file():
            path.write_text(self.text())

    def append(self) -> None:
        """Append to a file."""
        if path := self.some_file():
            with path.open("a") as file:
                file.write(self.text())

    def replace(self) -> None:
        """Write a file as editors do: a second file takes its name."""
        if path := self.some_file():
            part = path.with_name(self.of.choice([".part", "part.tmp"]))
            part.write_text(self.text())
            part.replace(path)

    def delete(self) -> None:
        """Remove a file."""
        if path := self.some_file():
            path.unlink()

    def rename(self) -> None:
        """Rename a file; it may take the place of another one."""
        path, to = self.some_file(), self.place()
        if path and not to.is_dir():
            path.rename(to)

    def rename_directory(self) -> None:
        """Rename or move a directory."""
        path, to = self.some_directory(), self.place(_DIRECTORIES)
        if path != self.path and not os.path.lexists(to) and path not in to.parents:
            path.rename(to)

    def nest(self) -> None:
        """Make directories in each other with files at once."""
        path = self.some_directory()
        for _ in range(self.of.randint(1, 3)):
            path /= self.of.choice(_DIRECTORIES)
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                return
            path.mkdir(exist_ok=True)
            for name in self.of.sample(_FILES, self.of.randint(0, 3)):
                if not os.path.lexists(path / name):
                    (path / name).write_text(self.text())

    def remove_directory(self) -> None:
        """Remove a directory with all below it."""
        path = self.some_directory()
        if path != self.path:
            shutil.rmtree(path)

    def swap_kinds(self) -> None:
        """Replace a file by a directory, or a directory by a file."""
        path = self.some_directory() if self.of.random() < 0.5 else self.some_file()
        if path is None or path == self.path:
            return
        if path.is_dir():
            shutil.rmtree(path)
            path.write_text(self.text())
        else:
            path.unlink()
            path.mkdir()
            (path / "inside.md").write_text(self.text())

    def link(self) -> None:
        """Make a symbolic link to a file or a directory."""
        path = self.place()
        if not os.path.lexists(path):
            path.symlink_to(self.some_file() or self.path)

    def spoil(self) -> None:
        """Make a file binary."""
        if path := self.some_file():
            path.write_bytes(b"\0\1\2")

    def change_case(self) -> None:
        """Change the case of a file's name."""
        if path := self.some_file():
            to = path.with_name(path.name.swapcase())
            if not os.path.lexists(to):
                path.rename(to)

    def copy_and_remove(self) -> None:
        """Rename a file as a copy that is followed by a removal."""
        path, to = self.some_file(), self.place()
        if path and not os.path.lexists(to):
            shutil.copyfile(path, to)
            path.unlink()


def _equals_a_fresh_import(client: MessageClient, path: Path, run: Run) -> None:
    items = list(read_tree(path, TOP))
    unreadable = {item.uri for item in items if isinstance(item, Unreadable)}
    drafts = {item.uri[len(TOP) :] for item in items if not isinstance(item, Unreadable)}
    fresh = without_unreadable(fresh_import(client, path), unreadable, drafts)

    def is_equal() -> bool:
        assert run.error is None
        return without_unreadable(state(client, TOP), unreadable, drafts) == fresh

    try:
        eventually(is_equal)
    except AssertionError:
        now = without_unreadable(state(client, TOP), unreadable, drafts)
        differing = {p for p in now.keys() | fresh.keys() if now.get(p) != fresh.get(p)}
        raise AssertionError(
            {path: (now.get(path), fresh.get(path)) for path in sorted(differing)}
        ) from run.error


@pytest.mark.parametrize("changes", [25, pytest.param(_CHANGES, marks=pytest.mark.deep)])
@pytest.mark.timeout(1800)
def test_a_watched_folder_equals_a_fresh_import(
    client: MessageClient, daemon: str, tmp_path: Path, changes: int
) -> None:
    """After random changes, and at random points in between, the tree is that of the folder."""
    of = random.Random(_SEED)
    folder = Folder(tmp_path / "docs", of)
    folder.path.mkdir()
    (folder.path / "first.md").write_text("# First\n")
    done: list[str] = []
    with watching(daemon, folder.path) as run:
        try:
            for number in range(changes):
                change = of.choice(folder.changes)
                done.append(change.__name__)
                change()
                if of.random() < 0.3:
                    time.sleep(of.choice([0.001, 0.01, 0.06, 0.2]))
                if of.random() < 0.04 or number == changes - 1:
                    _equals_a_fresh_import(client, folder.path, run)
        except AssertionError as error:
            raise AssertionError(
                f"TEST_SEED={_SEED} after {len(done)} changes, {done[-8:]}"
            ) from error
    assert run.moved or changes < 100
    assert not any(summary.failed for summary in run.summaries)
    assert client.verify().ok
