"""Files in formats that are not read, and files with very many passages."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from vikingd.client.import_summary import ImportSummary
from vikingd.domain.contexts import Draft
from vikingd.ingest.files import read_tree
from vikingd.ingest.import_remarks import MANY, ManyPassages, Unreadable

TOP = "viking://resources/t"
ARCHIVE = "is an archive within the directory: import it by its own path, or unpack it"


def zipped() -> bytes:
    """Return an archive with a member."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.txt", "a")
    return target.getvalue()


def tarred() -> bytes:
    """Return a compressed archive with a member; its bytes, a part of the test's name, stay."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    return gzip.compress(target.getvalue(), mtime=0)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.zip", zipped(), ARCHIVE),
        ("a.tar.gz", tarred(), ARCHIVE),
        ("large.ZIP", zipped() + bytes(3 << 20), ARCHIVE),
        ("a.7z", b"7z\xbc\xaf\x27\x1c\0\x04", "is an archive: unpack it"),
        ("a.ods", zipped(), "is in a format that is not read: save it as XLSX"),
        ("a.odp", zipped(), "is in a format that is not read: save it as PPTX"),
        ("a.doc", b"\xd0\xcf\x11\xe0\0\0", "is in a format that is not read: save it as DOCX"),
        ("a.txt", rb"{\rtf1\ansi tide}", "is RTF: give it the suffix .rtf"),
        ("a.doc", rb"{\rtf1\ansi tide}", "is RTF: give it the suffix .rtf"),
        ("large.doc", rb"{\rtf1" + b"0" * (3 << 20) + b"}", "is RTF: give it the suffix .rtf"),
        ("a.bin", b"\0\1", "is binary"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_a_remedy(
    name: str, data: bytes, reason: str, tmp_path: Path
) -> None:
    """An archive or an old format says what to do; only other files are "binary"."""
    (tmp_path / name).write_bytes(data)
    found = list(read_tree(tmp_path, TOP))
    assert [one.reason for one in found if isinstance(one, Unreadable)] == [reason]
    assert not [one for one in found if isinstance(one, Draft) and not one.is_directory]


def test_a_text_with_the_name_of_an_old_format_is_read(tmp_path: Path) -> None:
    """The suffix decides only for a file that is no text."""
    (tmp_path / "a.doc").write_text("plain words")
    found = list(read_tree(tmp_path, TOP))
    assert [one.content for one in found if isinstance(one, Draft) and one.content] == [
        "plain words"
    ]


def test_very_many_passages_of_a_file_are_told(tmp_path: Path) -> None:
    """One long line of words gives a remark with its size; nothing of it is left out."""
    text = "harbour lamps tide " * 100_000
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("short\n")
    found = list(read_tree(tmp_path, TOP))
    (many,) = (one for one in found if isinstance(one, ManyPassages))
    (draft,) = (one for one in found if isinstance(one, Draft) and one.uri.endswith("a.txt"))
    assert draft.passages is not None
    assert draft.content == text
    assert (many.uri, many.lines, many.size) == (draft.uri, 1, len(text))
    assert many.passages == len(draft.passages) > MANY
    summary = ImportSummary()
    summary.tell(many)
    assert summary.many_passages == [many]
