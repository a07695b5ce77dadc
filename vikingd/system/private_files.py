"""Private files: only their owner may read contexts, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_new_files_private() -> None:
    """Give only the owner access to files and directories that this process creates."""
    os.umask(_OTHERS)


def keep_private(root: Path) -> Iterator[str]:
    """Remove other users' access in a directory, and yield a warning for each path that had some.

    The access to a path of another owner cannot be changed; its warning says so.
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
            yield (
                f"other users have access to {path}, and its mode cannot be changed: "
                f"{error.strerror}; change its owner or mode"
            )
        else:
            yield f"other users had access to {path}; now only its owner has"


def _inside(root: Path) -> Iterator[Path]:
    yield root
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield Path(folder) / name
