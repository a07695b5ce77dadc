"""Regular files alone are opened, without waiting and up to a limit."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from vikingd.system import regular_files


def make_fifo(path: Path) -> None:
    """Make a FIFO without a writer."""
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    """Make a link to a device without an end."""
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    """Make a unix socket that nobody listens on."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_directory(path: Path) -> None:
    """Make a directory."""
    path.mkdir()


KINDS = [make_fifo, make_endless, make_socket, make_directory]
any_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


@any_kind
def test_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    """A FIFO, a device, a socket and a directory are refused at once, for reading and writing."""
    make(path := tmp_path / "file")
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT):
        with pytest.raises(OSError, match="not a regular file") as refused:
            regular_files.descriptor_of(path, flags)
        assert refused.value.strerror == "not a regular file"
    with pytest.raises(OSError, match="not a regular file"):
        regular_files.check_regular(path)


def test_limit(tmp_path: Path) -> None:
    """A file up to the limit is read, a larger one is refused; a sparse one of 1 TB, too."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert regular_files.read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        regular_files.read_regular(path, 4)
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="has more than 1,048,576 bytes"):
        regular_files.read_text(path)


def test_links(tmp_path: Path) -> None:
    """A link is followed only if that is wanted, and a missing file is none."""
    (tmp_path / "file").write_text("text")
    link = tmp_path / "link"
    link.symlink_to("file")
    assert regular_files.read_text(link) == "text"
    with pytest.raises(OSError, match="is a symbolic link"):
        regular_files.open_regular(link, follow=False)
    with pytest.raises(FileNotFoundError):
        regular_files.read_text(tmp_path / "none")
    regular_files.check_regular(tmp_path / "none")
