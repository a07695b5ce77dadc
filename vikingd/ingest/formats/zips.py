"""Zip archives of office programs and books, checked before a parser reads them."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, BinaryIO

from vikingd.ingest.formats.document import Failed, time_of, title_of

MAX_MEMBERS = 10_000
MAX_BYTES = 512 << 20
"""The most unpacked bytes of all members together."""

MAX_XML_BYTES = 128 << 20
"""The most bytes of all XML members together; a parsed one takes several times its size."""

_XML = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".svg", ".vml")
_CHUNK = 1 << 20
_OVERLAP = 64
# In UTF-8 and in UTF-16: a declaration of entities, and a document type.
_ENTITY = re.compile(rb"<\0?!\0?E\0?N\0?T\0?I\0?T\0?Y")
_DOCTYPE = re.compile(rb"<\0?!\0?D\0?O\0?C\0?T\0?Y\0?P\0?E")
_CORE = "docProps/core.xml"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_TERMS = "{http://purl.org/dc/terms/}"
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError)
"""Errors of zipfile for a damaged archive or member."""


@contextmanager
def checked(file: BinaryIO, *, doctype: bool = False) -> Iterator[zipfile.ZipFile]:
    """Open an archive and check the number, names and sizes of its members and all its XML.

    Sizes are those that the archive states. A member that unpacks to more is damaged for zipfile;
    the limit of memory holds while it is unpacked.

    Args:
        file: the archive.
        doctype: XML may have a document type, as that of books does; entities are always refused.

    Raises:
        Failed: it is no archive, it is encrypted, or a check failed.
    """
    try:
        archive = zipfile.ZipFile(file)
    except BROKEN as error:
        file.seek(0)
        if file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            raise Failed("is encrypted, or in the format of an old program") from None
        raise Failed(f"is damaged: {error}") from None
    with archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise Failed(f"has {len(members):,} members, at most {MAX_MEMBERS:,} are allowed")
        for member in members:
            name = member.filename.replace("\\", "/")
            if name.startswith("/") or ".." in name.split("/"):
                raise Failed(f"has a member outside of itself: {member.filename[:100]!r}")
            if member.flag_bits & 1:
                raise Failed("is encrypted")
        _check_size(sum(member.file_size for member in members), MAX_BYTES, "")
        texts = [m for m in members if m.filename.lower().endswith(_XML)]
        _check_size(sum(member.file_size for member in texts), MAX_XML_BYTES, " of XML")
        for member in texts:
            with suppress(*BROKEN):  # The parser reports the fault of the part.
                _check_xml(archive, member, doctype)
        yield archive


def xml(data: bytes) -> Any:
    """Parse XML and return its root; entities and external files are not read.

    Raises:
        Failed: the XML is damaged.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise Failed(f"is damaged: {error}") from None


def stated(archive: zipfile.ZipFile) -> tuple[str, int | None]:
    """Return the title and the last change of an office document, by its properties."""
    try:
        root = xml(archive.read(_CORE))
    except (KeyError, Failed, *BROKEN):
        return "", None  # These properties are optional.
    times = (root.findtext(f"{_TERMS}{name}") for name in ("modified", "created"))
    time = next(filter(None, times), "")
    return title_of(root.findtext(_TITLE)), moment(time)


def moment(text: str) -> int | None:
    """Convert ISO 8601 to microseconds since the epoch; None for any other text."""
    try:
        return time_of(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def joined(base: str, path: str) -> str:
    """Resolve a relative path in the archive member `base`; return the name of the other member."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))


def _check_size(size: int, limit: int, kind: str) -> None:
    if size > limit:
        raise Failed(f"has {size:,} bytes{kind} unpacked, at most {limit:,} are allowed")


def _check_xml(archive: zipfile.ZipFile, member: zipfile.ZipInfo, doctype: bool) -> None:
    before = b""
    with archive.open(member) as file:
        while data := file.read(_CHUNK):
            text = before + data
            if _ENTITY.search(text):
                raise Failed(f"declares XML entities in {member.filename[:100]!r}")
            if not doctype and _DOCTYPE.search(text):
                raise Failed(f"has a document type in {member.filename[:100]!r}")
            before = data[-_OVERLAP:]
