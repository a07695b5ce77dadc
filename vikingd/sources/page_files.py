"""The files of the pages of a site: their names, and the state of each between fetches."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from vikingd.domain import hidden_characters
from vikingd.ingest.file_kind_names import CODE, CONFIGURATION, PROSE
from vikingd.ingest.selected_files import SKIPPED_DIRECTORIES
from vikingd.sources.fetch_result import Origin
from vikingd.system.regular_files import read_regular
from vikingd.system.user_cache import put

_MAX_NAME = 100  # bytes of a file or directory
_MAX_PATH = 600  # bytes; a URI has 1,024, and the directory of the import stands before
_MAX_LEVELS = 30
_MAX_FILE = 64 << 20  # bytes, above every limit of a page
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\:*?\"<>|]+")
_SUFFIXES = {"html": ".html", "pdf": ".pdf", "markdown": ".md", "text": ".txt"}
# The suffixes that a file of each kind keeps, since the import reads it in the same way.
_KEPT = {
    "html": frozenset({".html", ".htm", ".xhtml"}),
    "pdf": frozenset({".pdf"}),
    "markdown": frozenset({".md", ".markdown"}),
    "text": CODE
    | CONFIGURATION
    | PROSE
    | frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xml", ".log", ".diff", ".patch"}),
}


@dataclass(slots=True)
class Page:
    """A page that was fetched.

    Attributes:
        path: its file, relative to the directory of the files, with slashes.
        hash: SHA-256 of the file, in hexadecimal.
        title: the title that it states.
        time: Last-Modified at the last change of the content, in ISO 8601; "": unknown.
        etag, modified: ETag and Last-Modified of the last answer; "" without one.
        depth: the number of links from the first page.
        stated: the canonical address that it states for itself; "" for none.
    """

    path: str
    hash: str
    title: str = ""
    time: str = ""
    etag: str = ""
    modified: str = ""
    depth: int = 0
    stated: str = ""

    @classmethod
    def of(cls, value: Any) -> Page | None:
        """Return a page from its JSON value; None if the value is not one."""
        names = {one.name: type(one.default) for one in fields(cls)}
        if not isinstance(value, dict) or value.keys() != names.keys():
            return None
        if any(type(value[name]) is not (int if name == "depth" else str) for name in names):
            return None
        return cls(**value)

    def as_json(self) -> dict[str, Any]:
        """Return the page as a value of JSON."""
        return asdict(self)

    def origin(self, address: str) -> Origin:
        """Return the origin of its file."""
        return Origin(address, datetime.fromisoformat(self.time) if self.time else None, self.title)


class PageFiles:
    """The directory with the files of the pages.

    A file keeps its path as long as its page is there.

    Args:
        root: the directory, in which nothing else may be.
        above: the path of the site on its host; it is left out of the paths of the files.
        is_site: False for a single page, which has no directories.
        pages: the pages of the former fetch, by address.
    """

    def __init__(self, root: Path, above: str, *, is_site: bool, pages: dict[str, Page]) -> None:
        self.root = root
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._above = above
        self._is_site = is_site
        self._former = pages
        self._taken = {_folded(page.path) for page in pages.values()}
        self._directories = {
            one for page in pages.values() for one in _directories(_folded(page.path))
        }

    def has(self, page: Page) -> bool:
        """Return True if the file of a page exists and is unchanged."""
        try:
            data = read_regular(self.root / page.path, _MAX_FILE, follow=False)
        except OSError:
            return False
        return hash_of(data) == page.hash

    def path_for(self, address: str, kind: str) -> str:
        """Return the path for the file of a page: its former one, or a new one."""
        former = self._former.get(address)
        if former and _suffix(former.path).lower() in _KEPT[kind]:
            return former.path
        mark = hashlib.sha256(address.encode()).hexdigest()[:8]
        path = _path(address, kind, self._above if self._is_site else None, mark)
        if not self._is_free(path):
            suffix = _suffix(path)
            path = f"{path.removesuffix(suffix)}~{mark}{suffix}"
            if not self._is_free(path):
                path = f"{mark}{suffix}"
        folded = _folded(path)
        self._taken.add(folded)
        self._directories.update(_directories(folded))
        return path

    def write(self, path: str, data: bytes) -> None:
        """Replace the file of a page in one step.

        Raises:
            OSError: it cannot be written.
        """
        put(self.root / path, data)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Remove all files except `paths`, and then the empty directories."""
        kept = set(paths)
        for place, _, names in os.walk(self.root, topdown=False):
            for name in names:
                file = Path(place, name)
                if file.relative_to(self.root).as_posix() not in kept:
                    file.unlink(missing_ok=True)
            if Path(place) != self.root and not os.listdir(place):
                os.rmdir(place)

    def _is_free(self, path: str) -> bool:
        """Return True if no file or directory has this path, ignoring case."""
        folded = _folded(path)
        is_file_above = any(one in self._taken for one in _directories(folded))
        return folded not in self._taken and folded not in self._directories and not is_file_above


def hash_of(data: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _path(address: str, kind: str, above: str | None, mark: str) -> str:
    """Return the path of the file for an address; `above` is None for a single page."""
    parts = urlsplit(address)
    steps = parts.path.split("/")[1:]
    if above is None:
        last = next((step for step in reversed(steps) if step), parts.hostname or "")
        steps = [last]
    else:
        under = above.split("/")[1:]
        if steps[: len(under)] == under:
            steps = steps[len(under) :] or [""]
        elif parts.path == above:
            steps = [""]
    *directories, name = (_name(unquote(step, errors="replace")) for step in steps)
    directories = [one for one in directories if one]
    name = name or "index"
    if parts.query:
        name = f"{name}-{_name(unquote(parts.query, errors='replace'))[:40]}~{mark}"
    if _suffix(name).lower() not in _KEPT[kind]:
        name += _SUFFIXES[kind]
    whole = "/".join((*(_cut(one) for one in directories), _cut(name)))
    if len(whole.encode()) > _MAX_PATH or whole.count("/") >= _MAX_LEVELS:
        return f"long/{mark}{_suffix(name)}"
    return whole


def _name(step: str) -> str:
    """Return a segment of an address as the name of a file or directory that an import reads."""
    name = unicodedata.normalize("NFC", hidden_characters.removed(_UNFIT.sub("-", step))).strip()
    name = name.encode("utf-8", "replace").decode()
    if name.startswith(".") or name in SKIPPED_DIRECTORIES:
        name = f"_{name.lstrip('.')}"
    return name


def _cut(name: str) -> str:
    """Return a name of at most 100 bytes; the end of a longer one is replaced by a hash."""
    if len(name.encode()) <= _MAX_NAME:
        return name
    end = f"~{hash_of(name.encode())[:8]}{_suffix(name)}"
    return name.encode()[: _MAX_NAME - len(end)].decode("utf-8", "ignore") + end


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return f".{suffix}" if dot and stem and len(suffix) <= 10 else ""


def _folded(path: str) -> str:
    """Return the path as file systems without case compare it."""
    return unicodedata.normalize("NFC", path.casefold())


def _directories(path: str) -> list[str]:
    steps = path.split("/")[:-1]
    return ["/".join(steps[: i + 1]) for i in range(len(steps))]
