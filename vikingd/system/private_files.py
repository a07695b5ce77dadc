"""Files that their owner alone may read: contexts are private, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_new_files_private() -> None:
    """Make every file and directory that this process creates its owner's alone."""
    os.umask(_OTHERS)


def keep_private(root: Path) -> Iterator[str]:
    """Take away the rights of others in a directory, and yield a warning for each path with some.

    A path that belongs to somebody else keeps its rights; its warning says so.
    """
    for path in _inside(root):
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & _OTHERS:
                continue
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        except FileNotFoundError:  # another process of the store deletes and renames files
            continue
        except OSError as error:
            yield f"others may use {path}, and its rights can't be changed: {error.strerror}"
        else:
            yield f"others could use {path}; its rights are now those of its owner alone"


def _inside(root: Path) -> Iterator[Path]:
    yield root
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield Path(folder) / name
