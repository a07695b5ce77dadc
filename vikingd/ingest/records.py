"""Records: all of a context that its content does not say, as JSON, out of the store and back in.

An export writes one for each context: beside the text, as a line of JSON lines, or in the sidecar
of a directory of files, where `path` is the file's and `sha256` tells whether it was edited since.
A context whose name no file can have has its `text` in the sidecar, and no file.
Each key is left out where there is nothing to say; in a sidecar `title` and `metadata` also where
the content says them by itself. Vectors and ids are not kept.
"""

from __future__ import annotations

import json
import os
import stat
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Context, ContextType, Draft, Entry, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import without_layout
from vikingd.ingest.abstracts import derive_title, stated_abstract
from vikingd.ingest.frontmatter import front_matter, stated
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.limits import MAX_EXACT
from vikingd.ingest.passages import split

SIDECAR = ".vikingd.jsonl"
"""The file at the top of an exported directory that has the records of all that is in it."""

_MAX_NAME = 255  # bytes of a file name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NUMBER = (1 << 63) - 1
_DIGITS = 16  # of a fingerprint: enough to tell the memories of one file apart

_FORM = {
    "uri": str,
    "path": str,
    "sha256": str,
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
_PASSAGE = {"section": str, "start": int, "end": int}
_MEMORY = {"sha256": str, "reinforcement": int, "access_count": int, "time": str, "created_at": str}
_RELATION = {"to": str, "reason": str}
_KINDS = {str: "string", dict: "object", list: "list", int: "whole number from 0 on"}


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. None, like "" and (), means that it does not say."""

    sha256: str
    text: str
    title: str | None
    abstract: str
    overview: str
    metadata: Mapping[str, Any] | None
    time: int | None
    passages: tuple[Passage, ...]
    memories: tuple[tuple[str, Entry], ...]
    relations: tuple[tuple[str, str], ...]


def line_of(context: Context, exported: Collection[str]) -> dict[str, Any]:
    """A context whole, as a line of JSON lines; links to what is not exported are left out."""
    text = {} if context.is_directory else {"text": context.content}
    kept = _kept(context)
    return {"uri": context.uri, **text, **kept, **_relations(context, exported, "")}


def sidecar_line_of(context: Context, top: str, exported: Collection[str]) -> dict[str, Any]:
    """What the content does not say of a context, as a line of the sidecar of `top`."""
    kept, digest = _kept(context), {}
    title, metadata = _said(context.uri, context.content)
    if _canonical(kept["metadata"]) == _canonical(as_sent(metadata)):
        del kept["metadata"]
    kept.pop("title", None)
    if context.title != title:
        kept["title"] = context.title
    if not context.is_directory:
        digest = {"sha256": _digest(context.content)}
    path = _path(context.uri, top)
    if digest and not has_file(path):
        digest["text"] = context.content
    return {"path": path, **digest, **kept, **_relations(context, exported, top)}


def has_file(path: str) -> bool:
    """Whether a path of a sidecar is that of a file or a directory beside it."""
    return all(name != SIDECAR and len(name.encode()) <= _MAX_NAME for name in path.split("/"))


def open_regular(file: Path) -> BinaryIO:
    """Open a file of records; a link is not followed, and a pipe is not waited for.

    Raises:
        InvalidField: naming the file, which is a link or no regular file.
        FileNotFoundError: there is none.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "is a symbolic link" if file.is_symlink() else error.strerror or str(error)
        raise InvalidField(file.name, reason) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidField(file.name, "is no regular file")
    return open(descriptor, "rb")


def parse(record: Mapping[str, Any]) -> Record:
    """A record from JSON.

    Raises:
        InvalidField: naming the key that is not as a record has it.
    """
    _check(record, _FORM, "")
    passages = _items(record, "passages", _PASSAGE, "start", "end")
    memories = _items(record, "memories", _MEMORY, "sha256")
    relations = _items(record, "relations", _RELATION, "to")
    return Record(
        record.get("sha256", ""),
        record.get("text", ""),
        record.get("title"),
        record.get("abstract", ""),
        record.get("overview", ""),
        record.get("metadata"),
        _time(record, "time"),
        tuple(Passage(p.get("section", ""), p["start"], p["end"]) for _, p in passages),
        tuple((memory["sha256"], _entry(memory, at)) for at, memory in memories),
        tuple((item["to"], item.get("reason", "")) for _, item in relations),
    )


def read_sidecar(directory: Path, top: str) -> dict[str, Record]:
    """The records of an exported directory by their URIs below `top`; none without a sidecar.

    Raises:
        InvalidField: naming the line that is none. What it told is unknown then, and an import
            without it would overwrite that.
    """
    records: dict[str, Record] = {}
    file = directory / SIDECAR
    try:
        with open_regular(file) as opened:
            lines = opened.read().splitlines()
    except FileNotFoundError:
        return records
    except OSError as error:
        raise InvalidField(SIDECAR, error.strerror or str(error)) from None
    for number, line in enumerate(lines, start=1):
        where = f"{SIDECAR}:{number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or not isinstance(record.get("path"), str):
                raise InvalidField("path", "is missing")
            uri = uris.parse(_uri(record["path"], top), "path")
            records[uri] = parse(record)
            links_of(uri, records[uri], top)
        except InvalidField as error:
            raise InvalidField(where, str(error)) from None
        except (ValueError, RecursionError):
            raise InvalidField(where, "is not JSON") from None
    return records


def restored(draft: Draft, record: Record) -> Draft:
    """The draft, made of a content alone, with all that the record says of it.

    Where the content was edited since the record was made, what its front matter says comes before
    the record, it is cut anew, and the memories whose text is still there keep what is known of
    them; those of equal texts in order.
    """
    content, name = draft.content, uris.name(draft.uri)
    title = draft.title if record.title is None else record.title
    metadata = draft.metadata if record.metadata is None else record.metadata
    abstract, time, passages = record.abstract, record.time, record.passages or draft.passages
    if record.sha256 and record.sha256 != _digest(content):
        own = _front_matter(content, name)
        title = draft.title if stated(own, "title") else title
        abstract = "" if stated_abstract(content, name) else abstract
        time = time if draft.time is None else draft.time
        metadata, passages = {**metadata, **own}, draft.passages
    return replace(
        draft,
        title=title,
        abstract=abstract,
        overview=record.overview,
        metadata=metadata,
        time=time,
        passages=_with_memories(draft.uri, content, passages, record.memories),
    )


def with_mark(content: str, record: Record) -> str:
    """The content of a file, with the byte order mark that it began with when it was exported."""
    marked = f"\ufeff{content}"
    return marked if record.sha256 == _digest(marked) else content


def links_of(uri: str, record: Record, top: str = "") -> list[Linked]:
    """The links that a record has; those of a sidecar below `top`.

    Raises:
        InvalidField: naming the end that is no URI.
    """
    return [
        Linked(uri, uris.parse(_uri(to, top) if top else to, f"relations[{i}].to"), reason)
        for i, (to, reason) in enumerate(record.relations)
    ]


def own_cut(uri: str, content: str) -> tuple[Passage, ...] | None:
    """How the daemon cuts the content of a file where it is not told."""
    is_memory = uris.context_type(uri) is ContextType.MEMORY
    return tuple(split(content, uris.name(uri), entries=is_memory)) or None


def stands(draft: Draft, content_hash: bytes, time: int) -> bool:
    """Whether a context of this hash and time is what the draft would make of it.

    Its writer may have left the time and the cut to the daemon, which a draft says.
    """
    draft = replace(draft, metadata=as_sent(draft.metadata), passages=draft.passages or None)
    drafts = [draft, replace(draft, time=None)] if draft.time == time else [draft]
    if any(same.content_hash() == content_hash for same in drafts):
        return True
    cut = None if draft.is_directory else own_cut(draft.uri, draft.content)
    if not cut or _places(draft.passages or ()) != _places(cut):
        return False
    return any(replace(same, passages=None).content_hash() == content_hash for same in drafts)


def microseconds(text: str) -> int | None:
    """ISO 8601 as microseconds since the epoch, UTC where it names no zone; None for ""."""
    if not text:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)


def as_sent(value: Any) -> Any:
    """JSON as the daemon has it, with numbers known by their value only; keys are sorted."""
    if isinstance(value, Mapping):
        return {key: as_sent(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [as_sent(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number
    return value


def _canonical(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata)  # where True is not 1


def _iso(time: int) -> str:
    return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")


def _kept(context: Context) -> dict[str, Any]:
    """What both forms have."""
    draft = Draft(
        context.uri,
        context.is_directory,
        "",
        context.overview,
        context.content,
        context.title,
        context.metadata,
        context.passages,
        time=context.time,
    )
    # One that the daemon made of the content goes on following it.
    is_stated = context.is_directory or not stands(draft, context.content_hash, context.time)
    kept: dict[str, Any] = {
        "title": context.title,
        "abstract": context.abstract if is_stated else "",
        "overview": context.overview,
        "metadata": as_sent(context.metadata),
        "time": _iso(context.time),
    }
    if _places(context.passages) != _places(own_cut(context.uri, context.content) or ()):
        kept["passages"] = [
            {"section": p.section, "start": p.start, "end": p.end} for p in context.passages
        ]
    kept["memories"] = [
        _memory(context.content[p.start : p.end], p.entry) for p in context.passages if p.entry
    ]
    return {key: value for key, value in kept.items() if value or key == "metadata"}


def _memory(text: str, entry: Entry) -> dict[str, Any]:
    said = {"reinforcement": entry.reinforcement, "access_count": entry.access_count}
    times = {"time": entry.time, "created_at": entry.created_at}
    return {
        "sha256": _fingerprint(text),
        **{key: count for key, count in said.items() if count},
        **{key: _iso(time) for key, time in times.items() if time is not None},
    }


def _with_memories(
    uri: str,
    content: str,
    passages: Sequence[Passage] | None,
    memories: Sequence[tuple[str, Entry]],
) -> Sequence[Passage] | None:
    if not passages or not memories or uris.context_type(uri) is not ContextType.MEMORY:
        return passages
    known: dict[str, deque[Entry]] = defaultdict(deque)
    for fingerprint, entry in memories:
        known[fingerprint].append(entry)
    entries = (known[_fingerprint(content[p.start : p.end])] for p in passages)
    return tuple(
        replace(passage, entry=of_text.popleft()) if of_text else passage
        for passage, of_text in zip(passages, entries, strict=True)
    )


def _relations(context: Context, exported: Collection[str], top: str) -> dict[str, Any]:
    """The links, each at its first end only."""
    relations = [
        {"to": _path(r.uri, top) if top else r.uri, **({"reason": r.reason} if r.reason else {})}
        for r in context.relations
        if r.uri in exported and r.uri > context.uri
    ]
    return {"relations": relations} if relations else {}


def _path(uri: str, top: str) -> str:
    return "." if uri == top else uri[len(uris.join(top, "")) :]


def _uri(path: str, top: str) -> str:
    return top if path == "." else uris.join(top, path)


def _said(uri: str, content: str) -> tuple[str, Mapping[str, Any]]:
    """Title and metadata as an import reads them from the content."""
    name = uris.name(uri)
    return derive_title(content, name), _front_matter(content, name)


def _front_matter(content: str, name: str) -> Mapping[str, Any]:
    return front_matter(content)[0] if kind_of(name) is Kind.MARKDOWN else {}


def _places(passages: Sequence[Passage]) -> list[tuple[str, int, int]]:
    return [(p.section, p.start, p.end) for p in passages]


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _fingerprint(text: str) -> str:
    """Of a memory: the same where an editor breaks its lines otherwise, or ends them in CRLF."""
    return _digest(without_layout(text))[:_DIGITS]


def _check(record: Mapping[str, Any], form: Mapping[str, type], at: str) -> None:
    for key, value in record.items():
        if key not in form:
            raise InvalidField(f"{at}{key}", "is no key that is known here")
        is_out = isinstance(value, int) and not 0 <= value <= _MAX_NUMBER
        if type(value) is not form[key] or is_out:
            raise InvalidField(f"{at}{key}", f"is no {_KINDS[form[key]]}")


def _items(
    record: Mapping[str, Any], key: str, form: Mapping[str, type], *needed: str
) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a list, each with where it stands."""
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
        0,
        memory.get("reinforcement", 0),
        memory.get("access_count", 0),
        _time(memory, "time", at),
        _time(memory, "created_at", at),
    )


def _time(record: Mapping[str, Any], key: str, at: str = "") -> int | None:
    try:
        return microseconds(record.get(key, ""))
    except ValueError:
        raise InvalidField(f"{at}{key}", f"{record[key]!r} is not ISO 8601") from None
