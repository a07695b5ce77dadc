"""A walk through a directory tree to a limited depth; os.walk fails in very deep trees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def walk(root: Path, levels: int) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield (directory, names of directories, names of files), as os.walk.

    Directories deeper than `levels` below the root are not entered.
    """
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        yield path, folders, files
        if len(path.parts) - len(root.parts) >= levels:
            folders.clear()
