"""Reads directory trees and single files as drafts of contexts."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.abstracts import (
    MAX_ABSTRACT,
    derive_abstract,
    derive_title,
    shorten,
    stated_abstract,
)
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.prepare import MAX_CONTENT_BYTES, check, is_shared
from vikingd.ingest.records import (
    SIDECAR,
    Record,
    has_file,
    links_of,
    microseconds,
    own_cut,
    read_sidecar,
    restored,
    with_mark,
)

SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__"})
"""Left out with all that is hidden."""

_DESCRIBING = ("README.md", "readme.md", "index.md", "SKILL.md")
_LISTED = 40
"""Files of a directory that its abstract may name."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be imported, printable, and why.

    `uri` is that of the context it would have been, "" when there can be none.
    """

    path: str
    reason: str
    uri: str = ""


class _FaultyFileError(Exception):
    """The message says why a file cannot be imported."""


def read_tree(path: Path, root_uri: str) -> Iterator[Draft | Unreadable | Linked]:
    """Reads a directory with all below it, or one file; every draft is checked.

    Order: a directory, its files by name, then its subdirectories by name. Hidden files and
    directories, SKIPPED_DIRECTORIES and directories with nothing to read in them are left out.
    Symbolic links are not followed, and reported. A typed root or a directory above one is a draft
    only if a README describes it, since many imports share it.

    A directory that was exported has a sidecar (see vikingd.ingest.records): what that has records
    of is restored, whatever its name; then what has no file, and the links last. Where it has none
    of the top, the top is no draft.

    Args:
        path: the directory or file.
        root_uri: what `path` becomes. A single file goes into it if it ends in "/" or can only
            be a directory.

    Raises:
        InvalidField: `root_uri` is none, or the sidecar has a line that is no record.
    """
    uri = uris.parse(root_uri)
    if path.is_dir():
        records = read_sidecar(path, uri)
        links = (links_of(at, record, uri) for at, record in records.items())
        return chain(
            _read_directory(path, uri, records, is_top=True),
            _without_files(path, uri, records),
            chain.from_iterable(links),
        )
    if root_uri.endswith("/") or is_shared(uri):
        uri = uris.join(uri, path.name)
    return iter([_read_file(path, uri, None)])


def _read_directory(
    path: Path, uri: str, records: Mapping[str, Record], *, is_top: bool = False
) -> Iterator[Draft | Unreadable]:
    try:
        uris.parse(uri)
        with os.scandir(path) as entries:
            wanted = [e for e in entries if _is_wanted(e, uris.join(uri, e.name) in records)]
    except InvalidField as error:
        yield Unreadable(printable(path), str(error))
        return
    except OSError as error:
        yield Unreadable(printable(path), error.strerror or str(error), uri)
        return
    wanted.sort(key=lambda entry: entry.name)
    for entry in wanted:
        if entry.is_symlink():
            at = _uri_of_a_context(uris.join(uri, entry.name))
            yield Unreadable(printable(path / entry.name), "is a symbolic link", at)
    wanted = [entry for entry in wanted if not entry.is_symlink()]
    subdirectories = [path / entry.name for entry in wanted if entry.is_dir()]
    files = (path / entry.name for entry in wanted if not entry.is_dir())
    named = ((file, uris.join(uri, file.name)) for file in files)
    drafts = (_read_file(file, at, records.get(at)) for file, at in named)
    first = list(islice(drafts, _LISTED))
    if uri in records:
        yield _checked(restored(Draft(uri, is_directory=True), records[uri]), path)
    elif not (records and is_top):
        title, abstract = _description(path)
        if not abstract and not is_shared(uri):
            can_be = (d for d in subdirectories if _uri_of_a_context(uris.join(uri, d.name)))
            abstract = _listing(first, can_be)
        if abstract:
            yield _checked(Draft(uri, is_directory=True, title=title, abstract=abstract), path)
    yield from first
    yield from drafts
    for subdirectory in subdirectories:
        yield from _read_directory(subdirectory, uris.join(uri, subdirectory.name), records)


def _is_wanted(entry: os.DirEntry[str], is_recorded: bool) -> bool:
    if entry.name == SIDECAR:
        return False
    is_skipped = entry.name in SKIPPED_DIRECTORIES and entry.is_dir()
    return is_recorded or not (entry.name.startswith(".") or is_skipped)


def _description(directory: Path) -> tuple[str, str]:
    """Title and abstract of what describes the directory; "" each without such a file."""
    for name in _DESCRIBING:
        if (directory / name).is_symlink():
            continue
        try:
            content = _read_text(directory / name)
        except (OSError, _FaultyFileError):
            continue  # a fault is reported when the file itself is read
        return derive_title(content, name), (
            stated_abstract(content, name) or derive_abstract(content, name)
        )
    return "", ""


def _listing(first: Iterable[Draft | Unreadable], subdirectories: Iterable[Path]) -> str:
    """What a directory holds, by titles or names, bounded like an abstract."""
    below = (_description(path)[0] or path.name for path in subdirectories)
    files = (draft.title or uris.name(draft.uri) for draft in first if isinstance(draft, Draft))
    listing = ""
    for label in chain(below, files):
        if len(listing) + len(label) > MAX_ABSTRACT:
            return f"{listing}, …" if listing else shorten(label)
        listing += f", {label}" if listing else label
    return listing


def _read_file(path: Path, uri: str, record: Record | None) -> Draft | Unreadable:
    try:
        content = _read_text(path)
    except _FaultyFileError as error:
        return Unreadable(printable(path), str(error), _uri_of_a_context(uri))
    except OSError as error:
        return Unreadable(printable(path), error.strerror or str(error), _uri_of_a_context(uri))
    if record is not None:
        content = with_mark(content, record)
    return _draft_of(content, path, uri, record)


def _without_files(
    path: Path, top: str, records: Mapping[str, Record]
) -> Iterator[Draft | Unreadable]:
    """What the sidecar alone has, as no file can have its name."""
    for uri, record in records.items():
        below = uri[len(uris.join(top, "")) :]
        if has_file(below):
            continue
        if record.sha256:
            yield _draft_of(record.text, path / below, uri, record)
        else:
            yield _checked(restored(Draft(uri, is_directory=True), record), path / below)


def _draft_of(content: str, path: Path, uri: str, record: Record | None) -> Draft | Unreadable:
    metadata = front_matter(content)[0] if kind_of(path.name) is Kind.MARKDOWN else {}
    try:
        time = microseconds(str(metadata.get("date", "")))
    except ValueError:
        time = None  # a date in words stays metadata
    draft = Draft(
        uri,
        content=content,
        title=derive_title(content, path.name),
        metadata=metadata,
        passages=own_cut(uri, content),
        time=time,
    )
    return _checked(draft if record is None else restored(draft, record), path)


def _read_text(path: Path) -> str:
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _FaultyFileError("is no regular file")
        data = file.read(MAX_CONTENT_BYTES + 1)
    if len(data) > MAX_CONTENT_BYTES:
        raise _FaultyFileError(f"has more than {MAX_CONTENT_BYTES:,} bytes")
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not utf16 and b"\0" in data:
        raise _FaultyFileError("is binary")
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _FaultyFileError(
            f"is neither UTF-8 nor UTF-16: byte {error.start} is wrong"
        ) from None
    if "\0" in text:
        raise _FaultyFileError("is binary")
    return text


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer would wait for ever


def _checked(draft: Draft, path: Path) -> Draft | Unreadable:
    try:
        return check(draft)
    except InvalidField as error:
        return Unreadable(printable(path), str(error), "" if error.field == "uri" else draft.uri)


def _uri_of_a_context(uri: str) -> str:
    """The URI; "" where none can have it."""
    try:
        return uris.parse(uri)
    except InvalidField:
        return ""


def printable(path: Path) -> str:
    """The path with what cannot be shown, such as control characters, as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(path))
