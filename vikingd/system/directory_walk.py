"""Directory trees, walked to a limited depth: Python's own walks fail in very deep ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def walk(root: Path, levels: int) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield what os.walk does, without entering directories deeper than `levels` below the root."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        yield path, folders, files
        if len(path.parts) - len(root.parts) >= levels:
            folders.clear()
