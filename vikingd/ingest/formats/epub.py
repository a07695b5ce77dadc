"""EPUB books: the chapters in the order of reading."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import unquote

from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    heading,
    lost_parts,
    title_of,
)
from vikingd.ingest.formats.hypertext import decoded, hidden_parts, markdown, parse
from vikingd.ingest.formats.zips import BROKEN, checked, joined, moment, xml

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_TEXTS = ("application/xhtml+xml", "text/html")


def read(file: BinaryIO) -> Document:
    """Read an EPUB file.

    Raises:
        Failed: it is protected or damaged, or it has no text.
    """
    with checked(file, doctype=True) as archive:
        encrypted = _encrypted(archive)
        package = _package(archive)
        root = xml(_member(archive, package))
        chapters = list(dict.fromkeys(_chapters(root, package)))
        if not chapters:
            raise Failed("is damaged: it names no chapters")
        if encrypted.issuperset(chapters):
            raise Failed("is encrypted: it is protected from copying")
        names = _names(archive, root, package)
        pages = Pages()
        failed = []
        has_text = False
        hidden_count = 0
        for chapter in chapters:
            try:
                if chapter in encrypted:
                    raise Failed("is encrypted")
                soup, hidden = parse(decoded(_member(archive, chapter)).text)
                hidden_count += hidden
                if soup.head:
                    soup.head.decompose()
                text = markdown(soup)
            except Failed as error:
                failed.append((f"chapter {chapter!r}", str(error)))
                continue
            if text and not soup.find(["h1", "h2", "h3", "h4", "h5", "h6"]):
                pages.add(heading(1, names.get(chapter, "")))
            has_text = has_text or bool(text)
            pages.add(text)
    if not has_text:
        raise Failed("has no text" if not failed else f"is damaged: {failed[0][1]}")
    title = title_of(_first(root, "title"))
    changed = next(
        (e.text for e in _all(root, "meta") if e.get("property") == "dcterms:modified"), None
    )
    metadata: dict[str, str | int] = {"format": "epub", "chapters": len(chapters)}
    for name, stated in (("author", "creator"), ("language", "language")):
        if values := [" ".join(e.text.split()) for e in _all(root, stated) if e.text]:
            metadata[name] = ", ".join(values)
    return Document(
        pages.text(),
        title,
        metadata,
        moment(changed or _first(root, "date") or ""),
        [*lost_parts(failed), *hidden_parts(hidden_count)],
    )


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        raise Failed("is damaged: a member is missing") from None
    except BROKEN as error:
        raise Failed(f"is damaged: {error}") from None


def _package(archive: zipfile.ZipFile) -> str:
    """Return the name of the member that lists all others."""
    for file in _all(xml(_member(archive, _CONTAINER)), "rootfile"):
        if path := file.get("full-path"):
            return str(path)
    raise Failed("is damaged: it names no package")


def _chapters(root: Any, package: str) -> Iterator[str]:
    """Yield the names of the chapters' members, without tables of contents."""
    items = {item.get("id"): item for item in _all(root, "item")}
    for reference in _all(root, "itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _TEXTS:
            continue
        if "nav" not in (item.get("properties") or "").split():
            yield joined(package, unquote(item.get("href") or ""))


def _names(archive: zipfile.ZipFile, root: Any, package: str) -> dict[str, str]:
    """Return the first name that a table of contents gives each chapter."""
    names: dict[str, str] = {}
    for item in _all(root, "item"):
        is_nav = "nav" in (item.get("properties") or "").split()
        is_ncx = item.get("media-type") == "application/x-dtbncx+xml"
        if not (is_nav or is_ncx):
            continue
        at = joined(package, unquote(item.get("href") or ""))
        try:
            data = _member(archive, at)
            if is_nav:
                links = parse(decoded(data).text)[0].find_all("a", href=True)
                found = [(str(link["href"]), link.get_text()) for link in links]
            else:
                points = _all(xml(data), "navPoint")
                found = [(_source(point), _first(point, "text") or "") for point in points]
        except Failed:
            continue  # The names are a help; the chapters are read without them.
        for target, name in found:
            names.setdefault(joined(at, unquote(target.partition("#")[0])), name)
    return names


def _source(point: Any) -> str:
    return next((str(e.get("src") or "") for e in _all(point, "content")), "")


def _encrypted(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of encrypted members; fonts may be encrypted too."""
    if _ENCRYPTION not in archive.namelist():
        return set()
    found = _all(xml(_member(archive, _ENCRYPTION)), "CipherReference")
    return {unquote(e.get("URI") or "") for e in found}


def _all(root: Any, name: str) -> list[Any]:
    """Return all elements of a local name, in any namespace."""
    return list(root.iter(f"{{*}}{name}"))


def _first(root: Any, name: str) -> str | None:
    return next((e.text for e in _all(root, name) if e.text), None)
