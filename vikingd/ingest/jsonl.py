"""JSON lines, one context each, as drafts, and whole contexts as records for an export.

A record has all fields of a context but vectors and ids. A key without a value is left out.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from vikingd.domain import uri as uris
from vikingd.domain.contexts import Context, ContextType, Draft, Entry, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Linked
from vikingd.domain.text import without_layout
from vikingd.ingest.draft_preparation import check
from vikingd.ingest.file_tree import printable
from vikingd.ingest.files import iso, microseconds
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.limits import as_sent
from vikingd.ingest.original_draft import as_put
from vikingd.ingest.passages import default_passages
from vikingd.system.regular_files import open_regular

_DIRECTORIES, _DOCUMENTS = "directories.jsonl", "documents.jsonl"
_FIELDS = ("uri", "text", "title", "abstract", "time")

_MOST = 8 << 30  # bytes of a file
_HEAD = 1 << 20  # bytes from which the number of lines is estimated
_LONGEST = 32 << 20  # bytes of a line; a content has 2 MiB, and escapes take up to six times that

_MAX_NUMBER = (1 << 63) - 1
_DIGITS = 16  # of a fingerprint: enough to distinguish the memories of one file

_FORM = {
    "uri": str,
    "text": str,
    "title": str,
    "abstract": str,
    "overview": str,
    "metadata": dict,
    "time": str,
    "passages": list,
    "memories": list,
    "relations": list,
}
_PASSAGE = {"section": str, "start": int, "end": int, "continues": bool}
_MEMORY = {"sha256": str, "reinforcement": int, "access_count": int, "time": str, "created_at": str}
_RELATION = {"to": str, "reason": str}
_KINDS = {
    str: "string",
    dict: "object",
    list: "list",
    int: "integer of at least 0",
    bool: "boolean",
}


def is_jsonl(path: Path) -> bool:
    """Return True for a .jsonl file, and for a directory with documents.jsonl."""
    if not path.is_dir():
        return path.suffix == ".jsonl"
    documents = path / _DOCUMENTS
    return documents.is_file() and not documents.is_symlink()


def count_lines(path: Path) -> int:
    """Estimate the number of lines that `read_jsonl` reads, from the beginnings of the files."""
    return sum(map(_estimated, path.glob("*.jsonl") if path.is_dir() else [path]))


def _estimated(file: Path) -> int:
    try:
        with open_regular(file) as lines:
            head, size = lines.read(_HEAD), os.fstat(lines.fileno()).st_size
    except OSError:
        return 0  # reading the file reports the fault
    return head.count(b"\n") * size // max(1, len(head))


def read_jsonl(path: Path) -> Iterator[Draft | Unreadable | Linked]:
    """Read one .jsonl file, or directories.jsonl and documents.jsonl of a directory.

    A line is an object with an absolute `uri`. With `text` it is a file, with `abstract` alone a
    directory. `title`, `abstract` and `time` (ISO 8601) are optional; all other keys are metadata.

    A line with an object as `metadata` is a record of an export. That object is all of its
    metadata. Without `text` it is a directory. `overview`, `passages`, `memories` and `relations`
    are fields too.

    Every draft is checked, and no two of one reading contradict each other. An Unreadable takes the
    place of a faulty line, with its number. The links of all records come last.
    """
    links: list[Linked] = []
    tree = Tree()
    for file in (path / _DIRECTORIES, path / _DOCUMENTS) if path.is_dir() else (path,):
        is_named = file == path  # by the caller: a link is fine then
        try:
            for number, line in enumerate(_lines(file, follow=is_named), start=1):
                where = f"{printable(file)}:{number}"
                if len(line) > _LONGEST:
                    yield Unreadable(
                        where,
                        f"has more than {_LONGEST:,} bytes in one line; it and all after it are "
                        "left out",
                    )
                elif line.strip():
                    yield _read_line(line, where, tree, links)
        except FileNotFoundError:
            if is_named:
                raise
        except OSError as error:
            yield Unreadable(printable(file), error.strerror or str(error))
    yield from links


def _lines(file: Path, *, follow: bool) -> Iterator[bytes]:
    """Yield the lines that a file has now; a line that is too long is cut and ends the iteration.

    Raises:
        OSError: it is no regular file, is too large, or cannot be read.
    """
    with open_regular(file, follow=follow) as lines:
        left = os.fstat(lines.fileno()).st_size
        if left > _MOST:
            raise OSError(f"has {left:,} bytes, at most {_MOST:,} are allowed: split it by lines")
        while left and (line := lines.readline(min(left, _LONGEST + 1))):
            yield line
            if len(line) > _LONGEST:
                return
            left -= len(line)


def record_of(context: Context, exported: Collection[str]) -> dict[str, Any]:
    """Return the record of a context.

    The record has a link only if the other URI is `exported` and sorts after the URI of the
    context, so that each link is in one record.
    """
    text = {} if context.is_directory else {"text": context.content}
    given = as_put(context)  # Without derived texts: an import derives them again.
    kept: dict[str, Any] = {
        "title": context.title,
        "abstract": given.abstract,
        "overview": given.overview,
        "metadata": as_sent(context.metadata),
        "time": iso(context.time),
    }
    if _places(context.passages) != _places(default_passages(context.uri, context.content)):
        kept["passages"] = [
            {"section": p.section, "start": p.start, "end": p.end}
            | ({"continues": True} if p.continues else {})
            for p in context.passages
        ]
    kept["memories"] = [
        _memory(context.content[p.start : p.end], p.entry) for p in context.passages if p.entry
    ]
    kept["relations"] = [
        {"to": r.uri, **({"reason": r.reason} if r.reason else {})}
        for r in context.relations
        if r.uri in exported and r.uri > context.uri
    ]
    filled = {key: value for key, value in kept.items() if value or key == "metadata"}
    return {"uri": context.uri, **text, **filled}


class Tree:
    """The URIs of the drafts of one JSON Lines file, checked against each other."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._files: set[str] = set()
        self._directories: set[str] = set()

    def add(self, draft: Draft) -> None:
        """Add the URI of a draft.

        Raises:
            InvalidField: the URI was added before, is below a file, or is a file with children.
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


def _read_line(line: bytes, where: str, tree: Tree, links: list[Linked]) -> Draft | Unreadable:
    uri = ""
    try:
        record = json.loads(line.decode("utf-8-sig"))
        if not isinstance(record, dict):
            return Unreadable(where, "is no JSON object")
        if not isinstance(record.get("metadata"), dict):
            record = _record_of_line(record)
        draft, relations = _read_record(record)
        draft = check(draft)
        uri = draft.uri
        own = [
            Linked(uri, uris.parse(item["to"], f"{at}to"), item.get("reason", ""))
            for at, item in relations
        ]
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


def _record_of_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a line that no export wrote."""
    given = {key: line[key] for key in _FIELDS if line.get(key) is not None}
    _check(given, _FORM, "")
    if "text" not in given and "abstract" not in given:
        raise InvalidField("text", "is missing, and so is abstract")
    return {**given, "metadata": {key: line[key] for key in line if key not in _FIELDS}}


def _read_record(
    record: Mapping[str, Any],
) -> tuple[Draft, list[tuple[str, dict[str, Any]]]]:
    """Return the draft of a record, and its relations as `_items` does."""
    _check(record, _FORM, "")
    passages = _items(record, "passages", _PASSAGE, "start", "end")
    memories = _items(record, "memories", _MEMORY, "sha256")
    relations = _items(record, "relations", _RELATION, "to")
    uri, content = record.get("uri", ""), record.get("text")
    cut = tuple(
        Passage(p.get("section", ""), p["start"], p["end"], continues=p.get("continues", False))
        for _, p in passages
    )
    if content is not None and not cut:
        cut = default_passages(uri, content)
    draft = Draft(
        uri,
        is_directory=content is None,
        abstract=record.get("abstract", ""),
        overview=record.get("overview", ""),
        content=content or "",
        title=record.get("title", ""),
        metadata=record["metadata"],
        passages=cut or None,
        time=_time(record, "time"),
    )
    states = [(memory["sha256"], _entry(memory, at)) for at, memory in memories]
    return _with_memories(draft, states), relations


def _memory(text: str, entry: Entry) -> dict[str, Any]:
    counters = {"reinforcement": entry.reinforcement, "access_count": entry.access_count}
    times = {"time": entry.time, "created_at": entry.created_at}
    return {
        "sha256": _fingerprint(text),
        **{key: count for key, count in counters.items() if count},
        **{key: iso(time) for key, time in times.items() if time is not None},
    }


def _with_memories(draft: Draft, memories: Sequence[tuple[str, Entry]]) -> Draft:
    """Return the draft with the counters and times of its memories, matched by text.

    Memories of equal texts get theirs in order.
    """
    is_memory = uris.context_type(draft.uri) is ContextType.MEMORY
    if not (draft.passages and memories and is_memory):
        return draft
    states: dict[str, deque[Entry]] = defaultdict(deque)
    for fingerprint, entry in memories:
        states[fingerprint].append(entry)
    passages = list(draft.passages)
    # Of passages with equal texts, the first passages of memories get an entry before others.
    for i in sorted(range(len(passages)), key=lambda i: passages[i].continues):
        of_text = states[_fingerprint(draft.content[passages[i].start : passages[i].end])]
        if of_text:
            passages[i] = replace(passages[i], entry=of_text.popleft(), continues=False)
    # An older version may have cut long memories at other places, so that the texts of their first
    # passages differ. If there are as many of these as entries left, they get them in order.
    left = [states[fingerprint].popleft() for fingerprint, _ in memories if states[fingerprint]]
    long = [
        i
        for i, (one, following) in enumerate(pairwise(passages))
        if one.entry is None and following.continues and not one.continues
    ]
    if len(left) == len(long):
        for i, entry in zip(long, left, strict=True):
            passages[i] = replace(passages[i], entry=entry)
    return replace(draft, passages=tuple(passages))


def _places(passages: Sequence[Passage]) -> list[tuple[str, int, int, bool]]:
    return [(p.section, p.start, p.end, p.continues) for p in passages]


def _fingerprint(text: str) -> str:
    """Return a hash of a memory's text that does not depend on line breaks and indentation."""
    data = without_layout(text).encode(errors="surrogatepass")
    return sha256(data).hexdigest()[:_DIGITS]


def _check(record: Mapping[str, Any], form: Mapping[str, type], at: str) -> None:
    for key, value in record.items():
        if key not in form:
            raise InvalidField(f"{at}{key}", "is an unknown key")
        is_out = isinstance(value, int) and not 0 <= value <= _MAX_NUMBER
        if type(value) is not form[key] or is_out:
            raise InvalidField(f"{at}{key}", f"is no {_KINDS[form[key]]}")


def _items(
    record: Mapping[str, Any], key: str, form: Mapping[str, type], *needed: str
) -> list[tuple[str, dict[str, Any]]]:
    """Check the objects of the list `record[key]`.

    Return each with its name, such as "passages[2].".
    """
    items = [(f"{key}[{i}].", item) for i, item in enumerate(record.get(key, ()))]
    for at, item in items:
        if not isinstance(item, dict):
            raise InvalidField(at[:-1], "is no object")
        _check(item, form, at)
        for name in needed:
            if name not in item:
                raise InvalidField(f"{at}{name}", "is missing")
    return items


def _entry(memory: Mapping[str, Any], at: str) -> Entry:
    return Entry(
        reinforcement=memory.get("reinforcement", 0),
        access_count=memory.get("access_count", 0),
        time=_time(memory, "time", at),
        created_at=_time(memory, "created_at", at),
    )


def _time(record: Mapping[str, Any], key: str, at: str = "") -> int | None:
    try:
        return microseconds(record.get(key, ""))
    except ValueError:
        raise InvalidField(f"{at}{key}", f"{record[key]!r} is not ISO 8601") from None
