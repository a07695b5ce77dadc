"""Archives, unpacked into folders: names are checked, and the unpacked size is limited.

Only regular files are unpacked. An archive within an archive stays packed.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
import stat
import struct
import sys
import tarfile
import threading
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vikingd.sources.fetch_result import Fetched, NotTaken, Origin, SourceFailed
from vikingd.system.regular_files import open_regular

MAX_ARCHIVE = 1 << 30
"""The most bytes of an archive."""
MAX_MEMBERS = 65_000
MAX_MEMBER, MAX_TOTAL = 256 << 20, 2 << 30
"""The most unpacked bytes of one member, and of all members together."""
MAX_RATIO, FREE = 200, 64 << 20
"""The most unpacked bytes for each byte of the archive; the first FREE bytes do not count."""

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_BLOCK = 1 << 20
_MAX_HEADER = 1 << 20  # bytes of an extended header of tar
_MAX_NAME, _MAX_PATH = 255, 1024  # bytes
_END, _END_64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_SIZE, _END_64_SIZE, _LOCATOR_SIZE, _MAX_COMMENT = 22, 56, 20, 65_535
_MAX_DIRECTORY = 32 << 20  # bytes of the directory of a zip
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OverflowError,
    struct.error,
    NotImplementedError,  # a compression that zipfile does not know
    UnicodeError,
)


class _Refused(Exception):
    """A member that is not unpacked; the message is the reason."""


class _Bomb(Exception):
    """An archive whose unpacked size exceeds the limits."""


def is_archive(name: str) -> bool:
    """Return True for the name of a file that is unpacked."""
    return suffix_of(name) != ""


def suffix_of(name: str) -> str:
    """Return the suffix of the name of an archive, in lower case; "" for any other name."""
    return next((one for one in _SUFFIXES if name.lower().endswith(one)), "")


def unchanged_files(address: str, folder: Path, state: Mapping[str, Any]) -> Fetched:
    """Return the result of a fetch whose archive has not changed.

    Its files are in `folder`, where the former fetch unpacked them.
    """
    files: Mapping[str, str] = state["files"]
    origins = {path: Origin(f"{address}#{path}") for path in files}
    return Fetched(folder, origins, [], [], dict(state), is_unchanged=True)


def unpack(
    archive: Path,
    address: str,
    folder: Path,
    state: Mapping[str, Any] | None,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Unpack an archive into a new folder.

    Args:
        archive: the file.
        address: the address of the archive, for the origins of its files.
        folder: a directory that does not exist yet.
        state: the state of the last fetch whose files were imported; None: there is none.
        advance: called with the number of members that were just unpacked.
        cancelled: an event that ends the work.

    Raises:
        SourceFailed: it cannot be unpacked, or is larger than the limits allow.
        InterruptedError: `cancelled` was set.
    """
    folder.mkdir(mode=0o700, parents=True)
    try:
        with open_regular(archive) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_ARCHIVE:
                raise _Bomb(f"has {size:,} bytes, and the limit is {MAX_ARCHIVE:,}")
            made = _Unpacking(folder, address, size, advance, cancelled)
            unpack_ = _unpack_zip if suffix_of(archive.name) == ".zip" else _unpack_tar
            unpack_(file, suffix_of(archive.name), made)
    except _Bomb as error:
        raise SourceFailed(f"{address} {error}; nothing of it is imported") from None
    except _DAMAGED as error:
        raise SourceFailed(f"{address} is damaged, or no such archive ({error})") from None
    except OSError as error:
        if isinstance(error, InterruptedError):
            raise
        raise SourceFailed(f"{address} cannot be unpacked: {error.strerror or error}") from None
    before = (state or {}).get("files", {})
    return Fetched(
        folder=folder,
        origins={path: Origin(f"{address}#{path}") for path in made.hashes},
        moved=moves_of(before, made.hashes),
        not_taken=made.not_taken,
        state={"files": made.hashes},
        is_unchanged=made.hashes == before,
    )


def moves_of(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (old path, new path) of each file whose path changed and whose hash did not.

    If several files have the same hash, those with the same name are paired first.
    """
    gone: dict[str, list[str]] = {}
    for path, digest in before.items():
        if path not in now:
            gone.setdefault(digest, []).append(path)
    moved = []
    for path, digest in now.items():
        if path in before or not (others := gone.get(digest)):
            continue
        name = path.rpartition("/")[2]
        old = next((one for one in others if one.rpartition("/")[2] == name), others[0])
        others.remove(old)
        moved.append((old, path))
    return moved


@dataclass
class _Unpacking:
    """Unpacks the members of one archive, and checks the limits of their number and size."""

    folder: Path
    address: str
    size: int
    advance: Callable[[int], None]
    cancelled: threading.Event

    def __post_init__(self) -> None:
        self.hashes: dict[str, str] = {}
        self.not_taken: list[NotTaken] = []
        self._names: dict[
            str, str
        ] = {}  # paths of files and directories by their form without case, in NFC
        self._members = self._unpacked = 0

    def count(self, length: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            _Bomb: they are too many.
        """
        self._unpacked += length
        if self._unpacked > MAX_TOTAL:
            raise _Bomb(f"unpacks to more than {MAX_TOTAL >> 30} GiB, the limit")
        if self._unpacked > FREE and self._unpacked > MAX_RATIO * self.size:
            raise _Bomb(f"unpacks to more than {MAX_RATIO} times its size, the limit")

    @contextmanager
    def member(self, name: str) -> Iterator[None]:
        """Count a member, which the body of the `with` unpacks.

        If the body raises `_Refused`, for example because the member is too large, the name and
        the reason are added to `not_taken`.

        Raises:
            _Bomb: the archive has too many members.
        """
        if self.cancelled.is_set():
            raise InterruptedError
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise _Bomb(f"has more than {MAX_MEMBERS:,} members, the limit")
        try:
            yield
        except _Refused as reason:
            shown = _CONTROL.sub("\ufffd", name)[:_MAX_PATH]
            self.not_taken.append(NotTaken(f"{self.address}#{shown}", str(reason)))
        self.advance(1)

    def write(self, name: str, content: _Stream) -> None:
        """Write a member.

        Raises:
            _Refused: its path is invalid or another member has it, or it is an archive or too
                large.
        """
        path = _path_of(name)
        self._take_place(path)
        if is_archive(path):
            raise _Refused("is an archive within the archive, which stays closed: unpack it")
        place = self.folder / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest, written = hashlib.sha256(), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(place, flags, 0o600), "wb") as file:
            while block := content.read(_BLOCK):
                if self.cancelled.is_set():
                    raise InterruptedError
                written += len(block)
                if written > MAX_MEMBER:
                    break
                digest.update(block)
                file.write(block)
        if written > MAX_MEMBER:
            place.unlink()
            raise _Refused(f"has more than {MAX_MEMBER >> 20} MiB, the limit of a member")
        self.hashes[path] = digest.hexdigest()

    def _take_place(self, path: str) -> None:
        """Record the path of a member as taken.

        Raises:
            _Refused: a former member has this path, is a file at a directory of it, or is below it.
                Case and the Unicode form of the paths do not count.
        """
        steps = path.split("/")
        for end in range(1, len(steps) + 1):
            here = "/".join(steps[:end])
            key = unicodedata.normalize("NFC", here).casefold()
            known = self._names.get(key)
            is_file = end == len(steps)
            if known == f"{here}/" and not is_file:
                continue
            if known is not None:
                raise _Refused(f"has the place of {known.rstrip('/')}, which came before")
            self._names[key] = here if is_file else f"{here}/"


def _path_of(name: str) -> str:
    """Return the path of a member relative to the folder.

    Raises:
        _Refused: it would be outside of the folder, or is not allowed as the path of a file.
    """
    if name.startswith(("/", "\\")) or _DRIVE.match(name):
        raise _Refused("has an absolute name")
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if ".." in steps or ".." in name.split("\\"):
        raise _Refused("has a name with .., which leads out of the archive")
    path = "/".join(steps)
    if not steps or _CONTROL.search(name):
        raise _Refused("has a name with control characters, or none")
    if any(step.casefold() == ".git" for step in steps):
        raise _Refused("is a part of a repository of git: import it by git+")
    if len(path.encode()) > _MAX_PATH or any(len(step.encode()) > _MAX_NAME for step in steps):
        raise _Refused(f"has a name of more than {_MAX_NAME} bytes, or a path of {_MAX_PATH:,}")
    return path


class _Stream(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Counted:
    """A stream that calls `count` with the length of each block read; `count` may raise `_Bomb`."""

    def __init__(self, stream: _Stream, count: Callable[[int], None]) -> None:
        self._stream = stream
        self._count = count

    def read(self, size: int = -1, /) -> bytes:
        """Read at most one block."""
        data = self._stream.read(_BLOCK if size < 0 else min(size, _BLOCK))
        self._count(len(data))
        return data


def _unpack_zip(file: BinaryIO, _: str, made: _Unpacking) -> None:
    _check_directory(file, made.size)
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            with made.member(info.filename):
                if info.is_dir():
                    continue
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    raise _Refused("is a link or a device")
                if info.flag_bits & 1:
                    raise _Refused("is encrypted")
                with archive.open(info) as content:
                    made.write(info.filename.replace("\\", "/"), _Counted(content, made.count))


def _check_directory(file: BinaryIO, size: int) -> None:
    """Check the size of a zip's directory before zipfile reads it.

    Raises:
        _Bomb: it is too large.
    """
    start = max(0, size - _END_SIZE - _MAX_COMMENT)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise zipfile.BadZipFile("it has no directory")
    count, length = struct.unpack_from("<HL", tail, at + 10)
    counts, lengths = [count], [length]
    end = start + at - _LOCATOR_SIZE - _END_64_SIZE
    if end >= 0:
        file.seek(end)
        data = file.read(_END_64_SIZE + _LOCATOR_SIZE)
        if data.startswith(_END_64) and data[_END_64_SIZE:].startswith(_LOCATOR):
            wide, wide_length = struct.unpack_from("<QQ", data, 32)
            counts, lengths = [wide], [wide_length]
    if max(counts) > MAX_MEMBERS or max(lengths) > _MAX_DIRECTORY:
        raise _Bomb(f"has more than {MAX_MEMBERS:,} members, the limit")
    file.seek(0)


class _TarInfo(tarfile.TarInfo):
    """A header of tar that refuses to read a huge extension header."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _TarInfo:
        """Read a header.

        Raises:
            _Bomb: it has a huge extension.
        """
        made = super().frombuf(buf, encoding, errors)
        has_extension = made.type in (
            *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
            *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        )
        if has_extension and made.size > _MAX_HEADER:
            raise _Bomb(f"has a header of {made.size:,} bytes, and the limit is {_MAX_HEADER:,}")
        return made


def _unpack_tar(file: BinaryIO, suffix: str, made: _Unpacking) -> None:
    counted = _Counted(_unpacked(file, suffix), made.count)
    with tarfile.open(  # type: ignore[call-overload]  # of a stream it calls read alone
        fileobj=counted, mode="r|", tarinfo=_TarInfo
    ) as archive:
        for info in archive:
            with made.member(info.name):
                if info.isdir():
                    continue
                if not info.isreg() or info.issparse():
                    raise _Refused("is a link, a device or a sparse file")
                content = archive.extractfile(info)
                assert content is not None
                made.write(info.name, content)


def _unpacked(file: BinaryIO, suffix: str) -> _Stream:
    """Return the decompressed stream of a compressed tar file."""
    if suffix in (".tar.gz", ".tgz"):
        return gzip.GzipFile(fileobj=file)
    if suffix in (".tar.bz2", ".tbz2"):
        return bz2.BZ2File(file)
    if suffix in (".tar.xz", ".txz"):
        return lzma.LZMAFile(file)
    if suffix == ".tar.zst":
        if sys.version_info < (3, 14):
            raise SourceFailed("a .tar.zst needs Python 3.14: unpack it, and import the folder")
        return import_module("compression.zstd").ZstdFile(file)
    return file
