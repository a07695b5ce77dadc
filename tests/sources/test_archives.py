"""Archives, unpacked and imported; those that attack are refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from vikingd.client import Client, NotFetched
from vikingd.client.messages import MessageClient
from vikingd.sources import archives, source_registry
from vikingd.sources.archives import moves_of, unpack
from vikingd.sources.fetch_result import Fetched, SourceFailed

TOP = "viking://resources/tea"
OOLONG = b"# Oolong\n\nAt 90 degrees.\n"
FILES = {"README.md": b"# Tea\n\nAll about tea.\n", "docs/oolong.md": OOLONG}


def zipped(path: Path, members: Iterable[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    """Write a zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def tarred(members: Iterable[tuple[str | tarfile.TarInfo, bytes]]) -> bytes:
    """Return a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for given, content in members:
            info = given if isinstance(given, tarfile.TarInfo) else tarfile.TarInfo(given)
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpacked(path: Path, state: dict[str, object] | None = None) -> Fetched:
    """Unpack an archive beside it."""
    folder = path.parent / "unpacked"
    return unpack(path, "a", folder, state, lambda _: None, threading.Event())


def reasons(fetched: Fetched) -> dict[str, str]:
    """Return why members were not taken, by their names."""
    return {one.address.removeprefix("a#"): one.reason for one in fetched.not_taken}


def zstd(data: bytes) -> bytes:
    """Compress as Zstandard."""
    from compression import zstd as library

    return library.compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tgz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
}
if sys.version_info >= (3, 14):
    PACKERS[".tar.zst"] = zstd


@pytest.mark.parametrize("suffix", [".zip", *PACKERS])
def test_an_archive_is_imported_as_a_folder_is(
    typed: Client, client: MessageClient, tmp_path: Path, suffix: str
) -> None:
    """Each file says its archive and member; a second import writes nothing."""
    path = tmp_path / f"tea{suffix}"
    if suffix == ".zip":
        zipped(path, FILES.items())
    else:
        path.write_bytes(PACKERS[suffix](tarred((f"./{name}", c) for name, c in FILES.items())))
    assert typed.import_path(path, TOP).created == 3
    assert typed.import_path(path, TOP).updated == 0
    context = client.get(f"{TOP}/docs/oolong.md").context
    assert context.content.encode() == OOLONG
    assert context.metadata["source"] == f"{path}#docs/oolong.md"
    assert client.get(TOP).context.metadata["source"] == str(path)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 has Zstandard")
def test_an_archive_of_zstandard_needs_a_newer_python(tmp_path: Path) -> None:
    """The error says what to do."""
    path = tmp_path / "x.tar.zst"
    path.write_bytes(b"x")
    with pytest.raises(SourceFailed, match=r"needs Python 3\.14: unpack it"):
        unpacked(path)


def test_a_changed_archive_moves_writes_and_removes(
    typed: Client, client: MessageClient, tmp_path: Path
) -> None:
    """Members with equal hashes and another name are moved; one folder of files is kept."""
    path = zipped(tmp_path / "tea.zip", [*FILES.items(), ("old.md", b"# Old\n\nOld tea.\n")])
    typed.import_path(path, TOP)
    made = client.get(f"{TOP}/docs/oolong.md").context.create_time
    zipped(path, [("README.md", b"# Tea\n\nMore tea.\n"), ("kinds/oolong.md", OOLONG)])
    summary = typed.import_path(path, TOP, delete=True)
    assert (summary.moved, summary.updated, summary.deleted) == (1, 3, 2)
    assert client.get(f"{TOP}/kinds/oolong.md").context.create_time == made
    [record] = source_registry.records()
    assert isinstance(record, source_registry.Record)
    assert [one.name for one in record.folder.glob("files-*")] == ["files-2"]


def test_names_that_lead_elsewhere_are_refused_and_told(tmp_path: Path) -> None:
    """Nothing is written outside of the folder, and each member is named."""
    names = ["../up.md", "a/../../up.md", "/abs.md", "C:/x.md", "..\\up.md", "\\\\host\\x.md"]
    names += ["a\x01b.md", "x" * 300 + ".md", ".git/config", "d/.GIT/hooks/x", "ok.md"]
    fetched = unpacked(zipped(tmp_path / "x.zip", ((name, b"x") for name in names)))
    assert list(fetched.origins) == ["ok.md"]
    assert len(fetched.not_taken) == len(names) - 1
    assert {one.name for one in tmp_path.iterdir()} == {"home", "x.zip", "unpacked"}
    assert [one.name for one in fetched.folder.rglob("*")] == ["ok.md"]


def test_links_and_devices_are_refused_and_told(tmp_path: Path) -> None:
    """Regular files alone are written."""
    members: list[tuple[str | tarfile.TarInfo, bytes]] = [("ok.md", b"x")]
    for name, kind in (
        ("soft", tarfile.SYMTYPE),
        ("hard", tarfile.LNKTYPE),
        ("fifo", tarfile.FIFOTYPE),
        ("device", tarfile.CHRTYPE),
    ):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        members.append((info, b""))
    members.append(("soft/x.md", b"through the link"))
    path = tmp_path / "x.tar"
    path.write_bytes(tarred(members))
    fetched = unpacked(path)
    assert set(fetched.origins) == {"ok.md", "soft/x.md"}
    assert set(reasons(fetched)) == {"soft", "hard", "fifo", "device"}
    assert not any(one.is_symlink() for one in fetched.folder.rglob("*"))
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    path.unlink()
    fetched.folder.rename(tmp_path / "before")
    assert reasons(unpacked(zipped(tmp_path / "x.zip", [(link, b"/etc/passwd")]))) == {
        "link": "is a link or a device"
    }


def test_names_that_collide_are_refused_and_told(tmp_path: Path) -> None:
    """The first of two names that a file system may hold for one is taken."""
    names = [
        "a.md",
        "a.md",
        "A.md",
        "caf\u00e9.md",
        "cafe\u0301.md",
        "d",
        "d/x.md",
        "E/1.md",
        "e/2.md",
    ]
    path = tmp_path / "x.tar"
    path.write_bytes(tarred((name, name.encode()) for name in names))
    fetched = unpacked(path)
    assert list(fetched.origins) == ["a.md", "caf\u00e9.md", "d", "E/1.md"]
    assert len(fetched.not_taken) == 5
    assert "has the place of E" in reasons(fetched)["e/2.md"]


def test_an_archive_within_an_archive_stays_closed(tmp_path: Path) -> None:
    """It is told, so that a nest of bombs is not opened."""
    fetched = unpacked(zipped(tmp_path / "x.zip", [("in.zip", b"PK"), ("in.TAR.gz", b"x")]))
    assert fetched.origins == {}
    assert all("stays closed" in reason for reason in reasons(fetched).values())


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        ("MAX_MEMBERS", 3, "has more than 3 members"),
        ("MAX_TOTAL", 1 << 20, "unpacks to more than"),
        ("FREE", 1 << 16, "unpacks to more than 200 times"),
        ("MAX_ARCHIVE", 100, "and the limit is 100"),
    ],
)
@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_a_bomb_ends_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, limit: str, value: int, told: str
) -> None:
    """No more than the limit comes to the disk, and nothing is imported."""
    path, members = tmp_path / f"x{suffix}", [(f"{i}.md", bytes(1 << 20)) for i in range(4)]
    if suffix == ".zip":
        zipped(path, members)
    else:
        path.write_bytes(gzip.compress(tarred(members)))
    monkeypatch.setattr(archives, limit, value)
    with pytest.raises(SourceFailed, match=told):
        unpacked(path)
    written = sum(one.stat().st_size for one in (tmp_path / "unpacked").rglob("*") if one.is_file())
    assert written <= (3 << 20)


def test_a_large_member_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is counted, not read from the header."""
    monkeypatch.setattr(archives, "MAX_MEMBER", 1000)
    fetched = unpacked(
        zipped(tmp_path / "x.zip", [("big.md", bytes(1001)), ("ok.md", bytes(1000))])
    )
    assert list(fetched.origins) == ["ok.md"]
    assert [one.name for one in fetched.folder.iterdir()] == ["ok.md"]


def test_a_huge_header_is_not_read(tmp_path: Path) -> None:
    """An extension of tar, and the directory of a zip, are bounded before they are read."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    path = tmp_path / "x.tar"
    path.write_bytes(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    with pytest.raises(SourceFailed, match="has a header of"):
        unpacked(path)
    (tmp_path / "unpacked").rmdir()
    wide = struct.pack(
        "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 30, 1 << 30, 1 << 36, 0
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, 46, 0, 0)
    path = tmp_path / "x.zip"
    path.write_bytes(wide + locator + end)
    with pytest.raises(SourceFailed, match="has more than 65,000 members"):
        unpacked(path)


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz", "x.tar.bz2", "x.tar.xz"])
@pytest.mark.parametrize("content", [b"", b"no archive" * 100])
def test_a_damaged_archive_is_told(
    typed: Client, tmp_path: Path, name: str, content: bytes
) -> None:
    """A file that is no archive is an error that names it, and is not registered."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NotFetched, match=name):
        typed.import_path(path, TOP)
    assert list(source_registry.records()) == []


@pytest.mark.deep_after(30)
@pytest.mark.parametrize("at", range(0, 600, 4))
def test_a_flipped_byte_is_an_error_or_a_told_member(tmp_path: Path, at: int) -> None:
    """No damage of a byte ends in another error than that of an archive."""
    for suffix, data in (
        (".zip", zipped(tmp_path / "good.zip", FILES.items()).read_bytes()),
        (".tar.gz", gzip.compress(tarred(FILES.items()), mtime=0)),
    ):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(data[: at % len(data)] + b"\xff" + data[at % len(data) + 1 :])
        folder = tmp_path / f"unpacked{suffix}"
        with suppress(SourceFailed):
            unpack(path, "a", folder, None, lambda _: None, threading.Event())


def test_equal_hashes_are_renames() -> None:
    """Of several equal files the one with the same name is the origin."""
    before = {"a/x.md": "1", "a/y.md": "1", "gone.md": "2", "kept.md": "3"}
    now = {"b/y.md": "1", "b/x.md": "1", "kept.md": "3", "copy.md": "3", "new.md": "4"}
    assert sorted(moves_of(before, now)) == [("a/x.md", "b/x.md"), ("a/y.md", "b/y.md")]
