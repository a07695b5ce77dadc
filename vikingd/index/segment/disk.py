"""Bases on disk: each is a directory of plain arrays, which are memory-mapped.

The store can make every base again. A base is written once, into a directory of its own. The file
`CURRENT` names it when it is complete. Nothing changes it afterwards: pages are mapped
copy-on-write.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vikingd.domain.errors import Corrupt
from vikingd.index import ivf
from vikingd.index.ivf import InvertedFile
from vikingd.index.metadata.columns import Columns
from vikingd.index.segment import checks, manifest
from vikingd.index.segment.manifest import Listing, Manifest
from vikingd.index.segment.segment_arrays import FIELDS, GROWING, GrowingArrays, Segment, growing_of
from vikingd.index.segment.segment_files import (
    Files,
    read_checked,
    record_of,
    size_on_disk,
    write_array,
)
from vikingd.system.regular_files import read_text
from vikingd.system.sealed_files import replace_durably, sync

_CURRENT = "CURRENT"
_MANIFEST = 16 << 20  # bytes, at most
_METADATA = "dir_columns", "file_columns"


@dataclass(frozen=True, slots=True)
class Base:
    """A base segment with its metadata, manifest and inverted file.

    `growing`, `files` and `size` are set for a base that was loaded from disk.
    """

    segment: Segment
    dir_columns: Columns  # metadata
    file_columns: Columns
    manifest: Manifest
    inverted_file: InvertedFile | None = None  # None for a small base
    growing: GrowingArrays | None = None  # as mapped, with unused rows
    files: Files | None = None  # that are mapped
    size: int = 0  # bytes of disk that it takes


def save(root: Path, base: Base, room: int) -> Path:
    """Write a base below `root`; when all of it is on disk, make it the current one.

    Args:
        root: the directory of the bases.
        base: the base.
        room: the number of unused rows at the end of each growing array. They are a hole in its
            file, which takes no disk blocks.

    Returns:
        The directory of the new base.
    """
    target = _folder(root, base.manifest.generation)
    scratch = root / f"{target.name}.tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _write(scratch, base, room)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)  # a full disk needs the room
        raise
    shutil.rmtree(target, ignore_errors=True)
    scratch.rename(target)
    replace_durably(root / _CURRENT, target.name)
    return target


def _write(folder: Path, base: Base, room: int) -> None:
    folder.mkdir(parents=True)
    growing = growing_of(base.segment)
    arrays = {
        name: write_array(folder, name, getattr(base.segment, name))
        for name in FIELDS
        if name not in GROWING
    }
    arrays |= {name: write_array(folder, name, getattr(growing, name), room) for name in GROWING}
    for name in _METADATA:
        getattr(base, name).save(folder / name)
    names = [*_METADATA]
    if base.inverted_file is not None:
        names.append(base.inverted_file.save(folder))
    others = {name: record_of(folder / name) for name in names}
    (folder / manifest.FILE).write_text(manifest.written(Listing(base.manifest, arrays, others)))
    for path in [p for p in folder.rglob("*") if p.is_file()] + [folder]:
        sync(path)


def load(root: Path, why_unusable: Callable[[Manifest], str] = lambda _: "") -> Base | None:
    """Map the current base into memory; return None if there is none.

    Nothing is read from its directory afterwards, since another process may delete it at any
    moment. Large files are not checked yet, see `Files.check`.

    Args:
        root: the directory of the bases.
        why_unusable: returns the reason why a base cannot be used, or "".

    Raises:
        Corrupt: the base cannot be used, has another format, or a file is missing or damaged.
    """
    path = _current(root)
    if path is None:
        return None
    files = Files(path)
    try:
        text = read_text(path / manifest.FILE, _MANIFEST)
        listing = manifest.read(path.name, text)
        if problem := why_unusable(listing.manifest):
            raise Corrupt(problem)
        base = _mapped(path, listing, files)
        # Another process may replace this base while it is read.
        if read_text(path / manifest.FILE, _MANIFEST) != text:
            raise Corrupt(f"{path.name} was replaced while it was read")
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        files.close()
        raise Corrupt(f"the base {path.name} can't be read: {error}") from error
    except BaseException:
        files.close()
        raise
    return base


def _mapped(path: Path, listing: Listing, files: Files) -> Base:
    """Return the base in a directory, with its arrays mapped and checked for consistency."""
    records, others = listing.arrays, listing.files
    mapped = {
        name: files.array(name, records[name], field.shape.checked_late)
        for name, field in {**GROWING, **FIELDS}.items()
    }
    segment = Segment(**{name: mapped[name][: records[name].shape[0]] for name in FIELDS})
    growing = GrowingArrays(**{name: mapped[name] for name in GROWING})
    checks.check(segment, growing, listing.manifest.dimension)
    columns = {
        name: Columns.of_bytes(read_checked(path / name, others[name]), nodes)
        for name, nodes in zip(_METADATA, segment.sizes[:2], strict=True)
    }
    inverted_file = None
    if ivf.FILE in others:
        inverted_file = InvertedFile(files.opened(ivf.FILE, others[ivf.FILE], ivf.load))
    size = files.size + sum(size_on_disk(path / name) for name in (*others, manifest.FILE))
    return Base(
        segment,
        manifest=listing.manifest,
        inverted_file=inverted_file,
        growing=growing,
        files=files,
        size=size,
        **columns,
    )


def _current(root: Path) -> Path | None:
    try:
        # Bytes that are not UTF-8 become the name of a directory that does not exist.
        name = read_text(root / _CURRENT, errors="replace").strip()
    except FileNotFoundError:
        if any(root.glob("base-*")):
            raise Corrupt(f"{_CURRENT} is missing") from None
        return None
    except OSError as error:
        raise Corrupt(f"{_CURRENT} can't be read: {error.strerror}") from error
    if not re.fullmatch(r"base-\d+", name):
        raise Corrupt(f"{_CURRENT} does not name a base")
    return root / name


def manifest_of(root: Path) -> Manifest | None:
    """Return the manifest of the current base; None if there is none, or it is damaged."""
    try:
        path = _current(root)
        if path is None:
            return None
        return manifest.read(path.name, read_text(path / manifest.FILE, _MANIFEST)).manifest
    except (Corrupt, OSError, ValueError, KeyError, TypeError):
        return None


def condemn(root: Path, generation: int, reason: str) -> None:
    """Replace the manifest of a damaged base by the reason, so that it is never loaded again."""
    replace_durably(_folder(root, generation) / manifest.FILE, manifest.condemned(reason))


def _folder(root: Path, generation: int) -> Path:
    return root / f"base-{generation:08d}"


def stamp(root: Path) -> tuple[int, int] | None:
    """Return a value that changes when another base becomes current; None if there is no base."""
    try:
        status = (root / _CURRENT).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_others(root: Path, keep: Path) -> None:
    """Delete all bases but `keep`. A process that has mapped a deleted base can still read it."""
    for path in root.glob("base-*"):
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
