"""Small files with a checksum. After a power failure a file has its old or its new content."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of


def seal(text: str) -> str:
    """Return a text with one more line, which has its checksum."""
    return f"{text}\ncrc32 {zlib.crc32(text.encode()):08x}\n"


def unseal(sealed: str) -> str:
    """Return the text without its checksum's line, after comparing the checksum.

    Raises:
        ValueError: the checksum is missing or wrong.
    """
    text, _, line = sealed.removesuffix("\n").rpartition("\n")
    if sealed != seal(text) or not line:
        raise ValueError("its checksum does not fit")
    return text


def replace_durably(path: Path, text: str) -> None:
    """Replace a file by one with this text; the new file is on disk when this returns."""
    scratch = path.with_name(f"{path.name}.tmp")
    handle = descriptor_of(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        platform.sync(file.fileno())
    scratch.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the content of a file or directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        platform.sync(handle)
    finally:
        os.close(handle)
