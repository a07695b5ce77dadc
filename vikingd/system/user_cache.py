"""The user's cache directory."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_directory() -> Path:
    """Return vikingd's directory in the user's cache. It may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "vikingd"


def put(path: Path, content: bytes | bytearray) -> None:
    """Write a file of the cache atomically: readers find no file, or the complete one.

    Only the owner may read the file and new directories.

    Raises:
        OSError: it can't be written; nothing is left of it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
