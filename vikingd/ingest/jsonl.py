"""Reads JSON lines, one context each, as drafts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.files import Unreadable, printable
from vikingd.ingest.prepare import check
from vikingd.ingest.records import (
    SIDECAR,
    Record,
    links_of,
    microseconds,
    open_regular,
    own_cut,
    parse,
    restored,
)

_NAMES = ("directories.jsonl", "documents.jsonl")
_FIELDS = ("uri", "text", "title", "abstract", "time")


def is_jsonl(path: Path) -> bool:
    """Whether read_jsonl reads this: a .jsonl file, or a directory with documents.jsonl.

    In an exported directory that is a file like any other.
    """
    if not path.is_dir():
        return path.suffix == ".jsonl"
    documents = path / _NAMES[1]
    is_regular = documents.is_file() and not documents.is_symlink()
    return is_regular and not os.path.lexists(path / SIDECAR)


def read_jsonl(path: Path) -> Iterator[Draft | Unreadable | Linked]:
    """Reads one .jsonl file, or directories.jsonl and documents.jsonl of a directory.

    A line is an object with an absolute `uri`; with `text` it is a file, with `abstract` alone a
    directory. `title`, `abstract` and `time` (ISO 8601) are optional, all other keys are metadata.

    A line with an object as `metadata` is one as an export writes it (see
    vikingd.ingest.records): that is all its metadata, without `text` it is a directory, and
    `overview`, `passages`, `memories` and `relations` are fields as well.

    Every draft is checked, and no two in one reading contradict each other; a line that is at
    fault is reported by its number and left out. Links come last.
    """
    links: list[Linked] = []
    tree = _Tree()
    for file in [path / name for name in _NAMES] if path.is_dir() else [path]:
        try:
            # A file that the caller names is followed; one that was found beside others is not.
            with file.open("rb") if file == path else open_regular(file) as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield _read_line(line, f"{printable(file)}:{number}", tree, links)
        except FileNotFoundError:
            if file == path:
                raise
        except InvalidField as error:
            yield Unreadable(printable(file), error.description)
        except OSError as error:
            yield Unreadable(printable(file), error.strerror or str(error))
    yield from links


class _Tree:
    """The URIs that were read, to refuse those that no tree can have together."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._files: set[str] = set()
        self._directories: set[str] = set()

    def add(self, draft: Draft) -> None:
        """Takes the draft in.

        Raises:
            InvalidField: its URI is there, or a file stands where it needs a directory.
        """
        above = uris.ancestors(draft.uri)
        if draft.uri in self._given:
            raise InvalidField("uri", f"{draft.uri} is there twice")
        if not draft.is_directory and draft.uri in self._directories:
            raise InvalidField("uri", f"{draft.uri} is a directory")
        for directory in above:
            if directory in self._files:
                raise InvalidField("uri", f"{directory} is a file")
        self._given.add(draft.uri)
        self._directories.update(above)
        (self._directories if draft.is_directory else self._files).add(draft.uri)


def _read_line(line: bytes, where: str, tree: _Tree, links: list[Linked]) -> Draft | Unreadable:
    uri = ""
    try:
        record = json.loads(line.decode("utf-8-sig"))
        if not isinstance(record, dict):
            return Unreadable(where, "is no JSON object")
        is_whole = isinstance(record.get("metadata"), dict)
        known = parse(record) if is_whole else None
        draft = check(_draft(record) if known is None else _whole(record, known))
        uri = draft.uri
        own = [] if known is None else links_of(uri, known)
        tree.add(draft)
        links += own
    except InvalidField as error:
        return Unreadable(where, str(error), uri)
    except UnicodeDecodeError:
        return Unreadable(where, "is not UTF-8")
    except RecursionError:
        return Unreadable(where, "is nested too deep")
    except ValueError as error:
        return Unreadable(where, f"is not JSON: {error}")
    return draft


def _whole(record: dict[str, Any], known: Record) -> Draft:
    uri, content = record.get("uri", ""), record.get("text")
    if content is None:
        draft = Draft(uri, is_directory=True)
    else:
        draft = Draft(uri, content=content, passages=own_cut(uri, content))
    return restored(draft, known)


def _draft(record: dict[str, Any]) -> Draft:
    texts: dict[str, str] = {}
    for key in _FIELDS:
        value = record.get(key)
        if value is not None and not isinstance(value, str):
            raise InvalidField(key, "is no string")
        texts[key] = value or ""
    uri, content = texts["uri"], texts["text"]
    is_directory = record.get("text") is None
    if is_directory and record.get("abstract") is None:
        raise InvalidField("text", "is missing, and so is abstract")
    try:
        time = microseconds(texts["time"])
    except ValueError:
        raise InvalidField("time", f"{texts['time']!r} is not ISO 8601") from None
    return Draft(
        uri,
        is_directory=is_directory,
        abstract=texts["abstract"],
        content=content,
        title=texts["title"],
        metadata={key: value for key, value in record.items() if key not in _FIELDS},
        passages=own_cut(uri, content),
        time=time,
    )
