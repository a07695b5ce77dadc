"""Records: whole contexts as JSON, for a lossless export and its import.

A record holds all of a context but vectors and ids. A key without a value is left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from vikingd.domain import uri as uris
from vikingd.domain.changes import Linked
from vikingd.domain.contexts import Context, ContextType, Draft, Entry, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import without_layout
from vikingd.ingest.limits import as_sent
from vikingd.ingest.passages import default_passages
from vikingd.ingest.times import iso, microseconds
from vikingd.ingest.written import as_put

_MAX_NUMBER = (1 << 63) - 1
_DIGITS = 16  # of a fingerprint: enough to tell the memories of one file apart

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
_PASSAGE = {"section": str, "start": int, "end": int}
_MEMORY = {"sha256": str, "reinforcement": int, "access_count": int, "time": str, "created_at": str}
_RELATION = {"to": str, "reason": str}
_KINDS = {str: "string", dict: "object", list: "list", int: "integer of at least 0"}


class Relation(NamedTuple):
    """A link from the context of a record."""

    to: str
    reason: str


def record_of(context: Context, exported: Collection[str]) -> dict[str, Any]:
    """Return the record of a context.

    It has the links to those of the `exported` URIs that sort after its own, so that each link
    stands in one record.
    """
    text = {} if context.is_directory else {"text": context.content}
    kept: dict[str, Any] = {
        "title": context.title,
        "abstract": as_put(context).abstract,  # A derived one goes on following the content.
        "overview": context.overview,
        "metadata": as_sent(context.metadata),
        "time": iso(context.time),
    }
    if _places(context.passages) != _places(default_passages(context.uri, context.content)):
        kept["passages"] = [
            {"section": p.section, "start": p.start, "end": p.end} for p in context.passages
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


def read_record(record: Mapping[str, Any]) -> tuple[Draft, list[Relation]]:
    """Return the draft and the links of a record; a record without `text` is a directory.

    Raises:
        InvalidField: naming the key that a record does not have, or whose value has a wrong form.
    """
    _check(record, _FORM, "")
    passages = _items(record, "passages", _PASSAGE, "start", "end")
    memories = _items(record, "memories", _MEMORY, "sha256")
    relations = _items(record, "relations", _RELATION, "to")
    uri, content = record.get("uri", ""), record.get("text")
    cut = tuple(Passage(p.get("section", ""), p["start"], p["end"]) for _, p in passages)
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
    links = [Relation(item["to"], item.get("reason", "")) for _, item in relations]
    return _with_memories(draft, states), links


def links_of(uri: str, relations: Sequence[Relation]) -> list[Linked]:
    """Return the links of a record as changes.

    Raises:
        InvalidField: naming the end that is no URI.
    """
    return [
        Linked(uri, uris.parse(relation.to, f"relations[{i}].to"), relation.reason)
        for i, relation in enumerate(relations)
    ]


def _memory(text: str, entry: Entry) -> dict[str, Any]:
    counters = {"reinforcement": entry.reinforcement, "access_count": entry.access_count}
    times = {"time": entry.time, "created_at": entry.created_at}
    return {
        "sha256": _fingerprint(text),
        **{key: count for key, count in counters.items() if count},
        **{key: iso(time) for key, time in times.items() if time is not None},
    }


def _with_memories(draft: Draft, memories: Sequence[tuple[str, Entry]]) -> Draft:
    """Return the draft with the states of its memories; equal texts take theirs in order."""
    if not (draft.passages and memories):
        return draft
    if uris.context_type(draft.uri) is not ContextType.MEMORY:
        return draft
    states: dict[str, deque[Entry]] = defaultdict(deque)
    for fingerprint, entry in memories:
        states[fingerprint].append(entry)
    passages = []
    for passage in draft.passages:
        of_text = states[_fingerprint(draft.content[passage.start : passage.end])]
        passages.append(replace(passage, entry=of_text.popleft()) if of_text else passage)
    return replace(draft, passages=tuple(passages))


def _places(passages: Sequence[Passage]) -> list[tuple[str, int, int]]:
    return [(p.section, p.start, p.end) for p in passages]


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
    """Return the checked objects of a list, each with the prefix of its keys in errors."""
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
