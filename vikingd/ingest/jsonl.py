"""JSON lines, one context each, as drafts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.files import FaultyFileError, Unreadable, open_regular, printable
from vikingd.ingest.passages import default_passages
from vikingd.ingest.prepare import check
from vikingd.ingest.records import Relation, links_of, read_record
from vikingd.ingest.times import microseconds

_DIRECTORIES, _DOCUMENTS = "directories.jsonl", "documents.jsonl"
_FIELDS = ("uri", "text", "title", "abstract", "time")


def is_jsonl(path: Path) -> bool:
    """Return True for a .jsonl file, and for a directory with documents.jsonl."""
    if not path.is_dir():
        return path.suffix == ".jsonl"
    documents = path / _DOCUMENTS
    return documents.is_file() and not documents.is_symlink()


def read_jsonl(path: Path) -> Iterator[Draft | Unreadable | Linked]:
    """Read one .jsonl file, or directories.jsonl and documents.jsonl of a directory.

    A line is an object with an absolute `uri`. With `text` it is a file, with `abstract` alone a
    directory. `title`, `abstract` and `time` (ISO 8601) are optional; all other keys are metadata.

    A line with an object as `metadata` is a record of an export (see `vikingd.ingest.records`).
    That object is all of its metadata. Without `text` it is a directory. `overview`, `passages`,
    `memories` and `relations` are fields too.

    Every draft is checked, and no two of one reading contradict each other. A faulty line is
    reported by its number and left out. Links come last.
    """
    links: list[Linked] = []
    tree = _Tree()
    for file in (path / _DIRECTORIES, path / _DOCUMENTS) if path.is_dir() else (path,):
        is_named = file == path  # by the caller: a link or a pipe is fine then
        try:
            with file.open("rb") if is_named else open_regular(file, follow=False) as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield _read_line(line, f"{printable(file)}:{number}", tree, links)
        except FileNotFoundError:
            if is_named:
                raise
        except FaultyFileError as error:
            yield Unreadable(printable(file), str(error))
        except OSError as error:
            yield Unreadable(printable(file), error.strerror or str(error))
    yield from links


class _Tree:
    """The URIs of one reading; it refuses those that no tree can have together."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._files: set[str] = set()
        self._directories: set[str] = set()

    def add(self, draft: Draft) -> None:
        """Add a draft.

        Raises:
            InvalidField: the URI was added before, or a file has a child.
        """
        above = uris.ancestors(draft.uri)
        if draft.uri in self._given:
            raise InvalidField("uri", f"{draft.uri} occurs twice")
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
    relations: Sequence[Relation] = ()
    try:
        record = json.loads(line.decode("utf-8-sig"))
        if not isinstance(record, dict):
            return Unreadable(where, "is no JSON object")
        if isinstance(record.get("metadata"), dict):
            draft, relations = read_record(record)
        else:
            draft = _draft(record)
        draft = check(draft)
        uri = draft.uri
        own = links_of(uri, relations)
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


def _draft(record: dict[str, Any]) -> Draft:
    """Return the draft of a line that is no record of an export."""
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
        passages=default_passages(uri, content) or None,
        time=time,
    )
