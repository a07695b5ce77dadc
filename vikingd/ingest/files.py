"""Directory trees and single files as drafts of contexts, and contexts as files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from vikingd.domain import uri as uris
from vikingd.domain.contexts import Context, ContextType, Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.abstracts import (
    derive_abstract,
    derive_title,
    stated_abstract,
)
from vikingd.ingest.code.parser_process import is_source
from vikingd.ingest.data_heads import head_of
from vikingd.ingest.draft_preparation import check, is_shared
from vikingd.ingest.file_kind_names import DESCRIBING
from vikingd.ingest.file_kinds import KEY, file_kind, without_derived_kind
from vikingd.ingest.file_syntax import Syntax, document_format, syntax_of
from vikingd.ingest.file_tree import TOP, FileTree, normal, printable, uri_of_a_context
from vikingd.ingest.formats.document import Document, Failed
from vikingd.ingest.formats.document_reader import Documents, Limits
from vikingd.ingest.formats.encodings import Decoded, decode
from vikingd.ingest.formats.svg import NO_TEXT
from vikingd.ingest.frontmatter import canonical, front_matter, with_front_matter
from vikingd.ingest.import_remarks import (
    MANY,
    Assumed,
    LeftOut,
    ManyPassages,
    Remark,
    Renamed,
    SecretLeftOut,
    Unreadable,
)
from vikingd.ingest.limits import MAX_CONTENT_BYTES
from vikingd.ingest.original_draft import as_put
from vikingd.ingest.passages import default_passages
from vikingd.ingest.secret_files import is_configuration, is_secret_store, is_service_account
from vikingd.ingest.secrets import lines_of, masked, secrets_in
from vikingd.ingest.selected_files import DRAWING, HEAD_ONLY, PAGE_FRAME, SECRETS, Selection
from vikingd.ingest.stated_dates import time_of
from vikingd.ingest.unread_files import unread_text
from vikingd.ingest.unread_formats import advice, is_rtf
from vikingd.system.regular_files import open_regular, read_regular

_FORMER_SIDECAR = ".vikingd.jsonl"  # in which old exports kept all that files do not hold
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEAD = 16  # bytes that tell a format
_FRONT = b"---\n"  # of an export's file; no document begins so
_WHOLE = Selection(no_ignore=True)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The result for a file that is the same as at the last reading and is not read again."""

    uri: str


FileItem: TypeAlias = Draft | Unreadable | LeftOut | Assumed | SecretLeftOut | ManyPassages
"""The results that the reading of a file yields: a draft, and remarks."""

Read: TypeAlias = FileItem | Unchanged
T = TypeVar("T", bound=Read)


def read_tree(
    path: Path, root_uri: str, limits: Limits | None = None, selection: Selection | None = None
) -> Iterator[Draft | Unreadable | Remark]:
    """Read a directory with all below it, or one file, as checked drafts; see `read_files`.

    Raises:
        InvalidField: `root_uri` is no valid URI.
    """
    return read_files(find_files(path, root_uri, selection), limits)


def find_files(path: Path, root_uri: str, selection: Selection | None = None) -> FileTree:
    """Find the files of an import.

    Args:
        path: a directory or a file.
        root_uri: the URI of `path`. If `path` is a file, and the URI ends in "/" or is one that
            imports share (see `is_shared`), the file gets a URI below it.
        selection: the choice of the files; None: all files that are not hidden, and no ignore file
            is read.

    Raises:
        InvalidField: `root_uri` is no valid URI.
    """
    uri = uris.parse(root_uri)
    if path.is_dir():
        return FileTree.of_directory(path, uri, selection)
    if root_uri.endswith("/") or is_shared(uri):
        uri = uris.join(uri, normal(path.name))
    return FileTree.of_file(path, uri, selection)


def read_files(
    tree: FileTree, limits: Limits | None = None
) -> Iterator[Draft | Unreadable | Remark]:
    """Read the files of a tree as checked drafts.

    Order: the entries that are left out or renamed, then each directory, its files by name, and its
    subdirectories by name. Symbolic links are reported. Directories without readable files are left
    out. A root such as viking://resources, or a directory above it, is a draft only if a README
    describes it, since many imports share it.

    PDF and other documents become Markdown in a child process with `limits`, which ends with the
    iterator. A draft is followed by an Unreadable for each part of its file that the text lacks, by
    an Assumed if the encoding is not certain, by a ManyPassages if it has very many of them, and by
    a SecretLeftOut for each secret that a marker replaces. Files that nobody reads, such as lock
    files, give a LeftOut.
    """
    yield from remarks(tree)
    with Documents(limits) as documents:
        if any(document_format(_name(entry)) for entry in tree.stamps):
            documents.start()
        if not tree.stamps[TOP].is_directory and TOP not in tree.left_out:
            yield from read_file(tree, TOP, documents)
        for directory in tree.directories():
            yield from read_directory(
                tree, directory, lambda below: read_file(tree, below, documents)
            )


def remarks(tree: FileTree) -> Iterator[Unreadable | LeftOut | Renamed]:
    """Yield the entries of a tree that are left out, renamed or refused."""
    if tree.stamps[TOP].is_directory:
        yield from former_sidecar(tree.path)
    yield from tree.left_out.values()
    yield from tree.renamed
    for path, reason in tree.refused:
        yield Unreadable(printable(path), reason)


def file_text(context: Context, path: str = "") -> str:
    """Return the text of the file that an export writes for a context.

    A Markdown file gets front matter with the title, abstract, metadata and time that its content
    does not state, so that `read_tree` reads them. Other files are the content alone.

    `path` is the path of the file from the top of the export. The kind that an import derives from
    it is not written.
    """
    name, content = uris.name(context.uri), context.content
    is_document = bool(document_format(name)) and "format" in context.metadata
    if syntax_of(name, content) is not Syntax.MARKDOWN and not is_document:
        return content
    stated = front_matter(content)[0]
    given = as_put(context)
    values = {**stated, **without_derived_kind(context.metadata, path or name)}
    if given.title and given.title != derive_title(content, context.uri):
        values["title"] = given.title
    derived = stated_abstract(content, name) or derive_abstract(content, name)
    if given.abstract and given.abstract != derived:
        values["description"] = given.abstract
    # The time of a memory file is the time of its first memory, which is of little use here.
    is_memory = uris.context_type(context.uri) is ContextType.MEMORY
    if given.time is not None and given.time != time_of(stated.get("date")) and not is_memory:
        values["date"] = iso(given.time)
    if canonical(values) == canonical(stated):
        return content
    text = with_front_matter(content, values)
    is_readable = canonical(front_matter(text)[0]) == canonical(values)
    return text if is_readable else content


def microseconds(text: str) -> int | None:
    """Convert ISO 8601 to microseconds since the epoch; None for ""; UTC if the text names no zone.

    Raises:
        ValueError: the text is not ISO 8601.
    """
    if not text:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)


def iso(time: int) -> str:
    """Return microseconds since the epoch as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")


def former_sidecar(directory: Path) -> Iterator[Unreadable]:
    """Yield an Unreadable for each metadata file (sidecar) that an older vikingd exported."""
    sidecar = directory / _FORMER_SIDECAR
    if os.path.lexists(sidecar):
        yield Unreadable(
            printable(sidecar),
            "is ignored: exports no longer have this file, and an export to a .jsonl file holds "
            "everything",
        )


def read_directory(
    tree: FileTree, directory: str, read: Callable[[str], Iterable[T]]
) -> Iterator[T | Draft | Unreadable]:
    """Read a directory of a tree and its files, without its subdirectories.

    Args:
        tree: the tree.
        directory: the path of the directory in the tree.
        read: reads a file by its path in the tree.
    """
    path, uri = tree.file(directory), tree.uri_of(directory)
    try:
        uris.parse(uri)
    except InvalidField as error:
        yield Unreadable(printable(path), str(error))
        return
    if fault := tree.faults.get(directory):
        yield Unreadable(printable(path), fault, uri)
        return
    entries = tree.entries(directory)
    for link in entries:
        if tree.stamps[link].is_link:
            at = uri_of_a_context(tree.uri_of(link))
            yield Unreadable(printable(tree.file(link)), "is a symbolic link", at)
    stamps = [(entry, tree.stamps[entry]) for entry in entries]
    files = (entry for entry, stamp in stamps if not (stamp.is_directory or stamp.is_link))
    described = _description(tree, directory)
    if described and (described.abstract or not is_shared(uri)):
        draft = Draft(uri, is_directory=True, title=described.title, abstract=described.abstract)
        yield _checked(draft, path)
    for file in files:
        yield from read(file)


class _Description(NamedTuple):
    """The title and the abstract of the file that describes a directory."""

    title: str
    abstract: str


def describing_files(tree: FileTree, directory: str) -> list[str]:
    """Return the paths of the files that may describe a directory, the first choice first."""
    entries = {_name(entry): entry for entry in tree.entries(directory)}
    there = (entries[name] for name in DESCRIBING if name in entries)
    return [entry for entry in there if not tree.stamps[entry].is_link]


def _description(tree: FileTree, directory: str) -> _Description | None:
    """Return the title and abstract from the file that describes a directory, such as its README.

    None if there is no such file that can be read.
    """
    encoding = tree.selection.encoding if tree.selection else ""
    for entry in describing_files(tree, directory):
        name = _name(entry)
        try:
            content = decoded_file(tree.file(entry), encoding).text
            if not (tree.selection and tree.selection.with_secrets):
                content = masked(content, secrets_in(content))
        except OSError:
            continue  # The fault is reported when the file itself is read.
        abstract = stated_abstract(content, name) or derive_abstract(content, name)
        return _Description(derive_title(content, name), abstract)
    return None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def read_file(tree: FileTree, below: str, documents: Documents) -> Iterator[FileItem]:
    """Yield the draft of a file, and a remark for each part that is missing, secret or assumed.

    No draft is yielded for a file that only holds secrets, or that nobody reads.
    """
    path, uri = tree.file(below) if below else tree.path, tree.uri_of(below)
    shown, at = printable(path), uri_of_a_context(uri)
    selection = tree.selection or _WHOLE
    takes_all = selection.takes(below)
    try:
        read = _read(path, documents, selection.encoding, is_whole=takes_all)
    except (OSError, Failed) as error:
        reason = getattr(error, "strerror", "") or str(error)
        is_drawing = reason == NO_TEXT and document_format(path.name) == "svg"
        yield LeftOut(shown, DRAWING, "", at) if is_drawing else Unreadable(shown, reason, at)
        return
    content = read.text
    kind = file_kind(below or path.name, content, tree.attributes)
    if not takes_all and (rule := unread_text(path.name, content, kind)):
        yield LeftOut(shown, rule, "", at, path.stat().st_size)
        return
    title = read.title
    if not selection.with_secrets:
        is_store = is_secret_store(path.name)
        found = secrets_in(content, is_config=is_configuration(path.name), is_store=is_store)
        for line, one in zip(lines_of(content, found), found, strict=True):
            yield SecretLeftOut(shown, line, one.kind, at)
        if found and (is_store or is_service_account(content)):
            yield LeftOut(shown, SECRETS, found[0].kind, at)
            return
        if found:
            content, title = masked(content, found), masked(title, secrets_in(title))
    metadata, time = read.metadata, read.time
    if metadata is None:
        metadata = front_matter(content)[0] if syntax_of(path.name) is Syntax.MARKDOWN else {}
        time = time_of(metadata.get("date"))
    if uris.context_type(uri) is not ContextType.MEMORY:
        metadata = {KEY: kind.value, **metadata}
    title = title or derive_title(content, uri)
    # The daemon cuts source code as it makes its abstract, so that it is parsed once.
    passages = None if is_source(content, path.name) else default_passages(uri, content) or None
    draft = _checked(
        Draft(uri, content=content, title=title, metadata=metadata, passages=passages, time=time),
        path,
    )
    yield draft
    if isinstance(draft, Draft):
        for reason in read.lost:
            yield Unreadable(shown, f"{reason}; the rest is imported", draft.uri)
        if read.rest:
            yield LeftOut(shown, HEAD_ONLY, "", draft.uri, read.rest)
        if read.around:
            yield LeftOut(shown, PAGE_FRAME, "", draft.uri, read.around)
        if read.how in ("assumed", "detected"):
            yield Assumed(shown, read.encoding, read.how, draft.uri)
        if passages and len(passages) > MANY and uris.context_type(uri) is not ContextType.MEMORY:
            lines = content.count("\n") + (not content.endswith("\n"))
            yield ManyPassages(shown, len(passages), lines, len(content.encode()), draft.uri)


@dataclass(slots=True)
class _Text:
    """The text of a file, with the title, time and metadata that a document states.

    `metadata` is None for a file that is not a document; its front matter may have metadata.
    `rest` and `around` are bytes that are left out, behind the head of data and around the main
    part of a page.
    """

    text: str
    encoding: str
    how: str
    lost: list[str] = field(default_factory=list)
    title: str = ""
    metadata: Mapping[str, Any] | None = None
    time: int | None = None
    rest: int = 0
    around: int = 0


def _read(path: Path, documents: Documents, encoding: str, *, is_whole: bool) -> _Text:
    """Read a file; of a large data file only its beginning, unless `is_whole`.

    Raises:
        Failed: it cannot be read.
        OSError: it cannot be opened.
    """
    if one := _read_document(path, documents, encoding):
        return _Text(
            one.text,
            one.encoding,
            one.how,
            one.lost,
            one.title,
            one.metadata,
            one.time,
            around=one.around,
        )
    head = None if is_whole else head_of(path)
    decoded = _decoded(head.data, encoding) if head else decoded_file(path, encoding)
    read = _Text(decoded.text, decoded.encoding, decoded.how)
    if decoded.wrong:
        read.lost = [f"{decoded.wrong:,} places are not {decoded.encoding}, and became U+FFFD"]
    if head:
        end = "" if read.text.endswith("\n") else "\n"
        read.text += f"{end}[{head.rest:,} more bytes of this file are left out]\n"
        read.rest = head.rest
    return read


def _read_document(path: Path, documents: Documents, encoding: str) -> Document | None:
    """Read a document such as a PDF file as Markdown; None if the file is none.

    A file with the suffix of a document may be Markdown that an export wrote: None, too.

    Raises:
        Failed: it cannot be read.
        OSError: it cannot be opened.
    """
    format_ = document_format(path.name)
    if not format_:
        return None
    with open_regular(path) as file:
        if file.read(len(_FRONT)) == _FRONT:
            with suppress(OSError):
                if front_matter(text_of_file(path))[0].get("format") == format_:
                    return None
        return documents.read(file, format_, encoding)


def text_of_file(path: Path) -> str:
    """Return the text of a file; see `decoded_file`."""
    return decoded_file(path).text


def decoded_file(path: Path, encoding: str = "") -> Decoded:
    """Return the text of a file, and its encoding.

    A file that has no byte order mark and is not UTF-8 is read in `encoding`; "": it is detected.

    Raises:
        OSError: the file cannot be read, is too large, is no text, or has an unknown encoding.
    """
    try:
        data = read_regular(path, MAX_CONTENT_BYTES)
        if is_rtf(data):
            raise OSError("is RTF")
        return _decoded(data, encoding)
    except OSError as error:
        if error.errno in (None, errno.EFBIG):
            with open_regular(path) as file:
                reason = advice(path.name, file.read(_HEAD))
            if reason:
                raise OSError(reason) from None
        raise


def _decoded(data: bytes, encoding: str) -> Decoded:
    try:
        decoded = decode(data, assumed=encoding or None)
    except ValueError as error:
        raise OSError("is binary" if b"\0" in data else str(error)) from None
    if "\0" in decoded.text:
        raise OSError("is binary")
    return decoded


def _checked(draft: Draft, path: Path) -> Draft | Unreadable:
    try:
        return check(draft)
    except InvalidField as error:
        return Unreadable(printable(path), str(error), "" if error.field == "uri" else draft.uri)
