"""Access rights of files: only their owner may read contexts, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from vikingd.system.directory_walk import walk

_LEVELS = 16  # below the root; what is deeper is behind directories that others cannot enter
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_new_files_private() -> None:
    """Set the umask so that only the owner has access to files made by this process."""
    os.umask(_OTHERS)


def keep_private(root: Path, leave: str = "") -> list[str]:
    """Remove other users' access to a directory and everything in it.

    A path of another owner cannot be changed. `leave` names a directory directly below the root
    that is skipped.

    Returns:
        At most two warnings: paths that cannot be changed, and paths that were changed.
    """
    changed: list[Path] = []
    kept: list[Path] = []
    reason = ""
    for path in _inside(root, leave):
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & _OTHERS:
                continue
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        except FileNotFoundError:  # another process of the store deletes and renames files
            continue
        except OSError as error:
            kept.append(path)
            reason = error.strerror or str(error)
        else:
            changed.append(path)
    warnings = []
    if kept:
        warnings.append(
            f"other users have access to {_named(kept)}, and the mode cannot be changed: {reason}; "
            "change the owner or the mode"
        )
    if changed:
        warnings.append(f"other users had access to {_named(changed)}; now only the owner has")
    return warnings


def _named(paths: list[Path]) -> str:
    others = len(paths) - 1
    return f"{paths[0]}" + (f" and to {others:,} more below it" if others else "")


def _inside(root: Path, leave: str) -> Iterator[Path]:
    yield root
    for folder, folders, files in walk(root, _LEVELS):
        for name in (*folders, *files):
            yield folder / name
        if leave in folders and folder == root:
            folders.remove(leave)
