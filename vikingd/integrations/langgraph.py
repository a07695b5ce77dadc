"""LangGraph: a store whose namespaces are directories and whose items are files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from vikingd.client import (
    Client,
    Context,
    Draft,
    NodeKind,
    NotFound,
    Passage,
    RevisionDiffers,
)
from vikingd.client.batches import batches
from vikingd.integrations import common
from vikingd.integrations.store_filters import matches, names_match

with common.extra("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )

_SUFFIX = ".json"
_WHOLE = "$"
_MAX_HITS = 1000
_MAX_ABSTRACT = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # a daemon always sends times
_MINUTE = 60_000_000  # microseconds


class VikingdStore(BaseStore):
    """A store of LangGraph below one directory.

    A namespace is a directory, and an item is a file in it, with its value as JSON. Text becomes
    searchable by its words at once, and by its meaning when the daemon has embedded it. A batch
    reads first, then writes; of two writes of one item, the last one counts. Asynchronous methods
    run on threads.

    Args:
        client: the client of the daemon.
        uri: the directory, such as viking://resources/agents. Nothing else may write below it.
        fields: the parts of a value to search, such as ["text", "notes[*].title"]; ["$"]: the
            whole value. `put(..., index=...)` overrides them for one item.
        ttl: `default_ttl` in minutes for items without one, and `refresh_on_read`, which is True
            unless set. `sweep_ttl` removes the expired items; `sweep_interval_minutes` is not used.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Client,
        uri: str,
        *,
        fields: Sequence[str] = (_WHOLE,),
        ttl: TTLConfig | None = None,
    ) -> None:
        self.client = client
        self.uri = common.directory_of(uri)
        self.fields = fields
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations; the results are in their order.

        Raises:
            ValueError: an operation has a wrong limit, offset, filter, namespace or value.
            ClientError: the daemon refuses an operation.
        """
        pending = list(ops)
        for op in pending:
            validate_op_namespace(op)
        writes = {self._file(op): op for op in pending if isinstance(op, PutOp)}
        kept = {uri: op for uri, op in writes.items() if op.value is not None}
        drafts = [self._draft(uri, op) for uri, op in kept.items()]
        results = [self._read(op) for op in pending]
        for batch in batches(drafts):
            self.client.put(batch)
        common.delete(self.client, writes.keys() - kept.keys())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations on a thread; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove all expired items, and return their number."""
        removed = 0
        for stored in self._stored(self.uri, expired=True):
            # A revision: an item that was written or refreshed meanwhile stays.
            with suppress(RevisionDiffers, NotFound):
                self.client.delete(stored.context.uri, expected_revision=stored.context.revision)
                removed += 1
        return removed

    def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                stored = self._get(self._file(op))
                if stored is None:
                    return None
                self._refresh([stored] if op.refresh_ttl else [])
                return stored.item(self)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None
        raise TypeError(f"an operation is of the unknown type {type(op).__name__}")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        _check_page(op.limit, op.offset)
        matches({}, op.filter)  # raises for a wrong filter even if nothing is stored
        directory = self._directory(op.namespace_prefix)
        wanted = op.offset + op.limit
        found: dict[str, tuple[_Stored, float | None]] = {}
        if op.query:
            for uri, score in self._scores(op.query, directory, _MAX_HITS if op.filter else wanted):
                stored = self._get(uri)
                if stored is not None and matches(stored.value(self.client), op.filter):
                    found[uri] = stored, score
                if len(found) >= wanted:
                    break
        if len(found) < wanted:  # without a query, or the rest of the items, which have no score
            for stored in self._stored(directory):
                if stored.context.uri not in found and matches(
                    stored.value(self.client), op.filter
                ):
                    found[stored.context.uri] = stored, None
                if len(found) >= wanted:
                    break
        page = list(found.values())[op.offset : wanted]
        self._refresh([stored for stored, _ in page] if op.refresh_ttl else [])
        return [stored.item(self, score) for stored, score in page]

    def _scores(self, query: str, directory: str, limit: int) -> Iterator[tuple[str, float]]:
        """Yield the URIs of the best items with their scores."""
        if limit == 0:
            return
        with suppress(NotFound):  # the directory does not exist
            for match in self.client.find(
                query, target_uri=directory, where={"indexed": True}, limit=min(limit, _MAX_HITS)
            ):
                yield match.uri, match.score

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        _check_page(op.limit, op.offset)
        found = set()
        with suppress(NotFound):
            for entry in self.client.glob(f"**/*{_SUFFIX}", self.uri, kind=NodeKind.FILE):
                namespace = self._place(entry.uri)[0]
                if all(
                    names_match(namespace, condition.match_type, condition.path)
                    for condition in op.match_conditions or ()
                ):
                    found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _directory(self, namespace: Sequence[str]) -> str:
        # LangGraph refuses dots in labels, so no label is the name of a file.
        return "/".join((self.uri, *map(common.encoded, namespace)))

    def _file(self, op: GetOp | PutOp) -> str:
        return f"{self._directory(op.namespace)}/{common.encoded(op.key)}{_SUFFIX}"

    def _place(self, uri: str) -> tuple[tuple[str, ...], str]:
        """Return the namespace and the key of a file's URI."""
        *labels, name = uri[len(self.uri) + 1 :].split("/")
        return tuple(map(unquote, labels)), unquote(name.removesuffix(_SUFFIX))

    def _get(self, uri: str) -> _Stored | None:
        context = common.existing(self.client, uri)
        stored = _Stored(context) if context else None
        return stored if stored and not stored.is_expired() else None

    def _stored(self, directory: str, *, expired: bool = False) -> Iterator[_Stored]:
        """Yield the items below a directory by URI: the expired ones, or else all others."""
        with suppress(NotFound):
            for context in self.client.tree(directory):
                if context.uri.endswith(_SUFFIX) and not context.is_directory:
                    stored = _Stored(context)
                    if stored.is_expired() == expired:
                        yield stored

    def _refresh(self, read: Iterable[_Stored]) -> None:
        """Renew the time to live of items."""
        for stored in read:
            metadata = stored.context.metadata
            if "ttl" not in metadata:
                continue
            # If the item was written meanwhile, its time has begun anew as well.
            with suppress(RevisionDiffers, NotFound):
                self.client.put(
                    [
                        Draft(
                            stored.context.uri,
                            metadata={**metadata, **_lifetime(metadata["ttl"])},
                            update_mask={"metadata"},
                            expected_revision=stored.context.revision,
                        )
                    ]
                )

    def _draft(self, uri: str, op: PutOp) -> Draft:
        value = dict(op.value or {})
        text = common.to_json(value, "value")
        fields = self.fields if op.index is None else op.index or ()
        metadata = {**common.copy_of(text), "indexed": True, **_lifetime(op.ttl)}
        now = time.time_ns() // 1000
        if list(fields) == [_WHOLE]:
            return Draft(uri, content=text, metadata=metadata, time=now)
        # The first line is the value. The lines below are the texts to search.
        content, abstract, passages = text, "", []
        for field in fields:
            path = field if field == _WHOLE else tokenize_path(field)
            for part in get_text_at_path(value, path):
                # A text cannot have surrogates and NULs.
                searched = part.encode("utf-8", "replace").decode().replace("\0", " ")
                if not searched.strip():
                    continue
                start = len(content) + 1
                content = f"{content}\n{searched}"
                passages.append(Passage("", start, len(content)))
                abstract = abstract or searched[:_MAX_ABSTRACT]
        metadata["indexed"] = bool(passages)
        return Draft(
            uri,
            content=content,
            abstract=abstract,
            passages=passages or None,
            metadata=metadata,
            time=now,
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    """An item of the store, from its context or from a listing without content."""

    context: Context

    def is_expired(self) -> bool:
        expires = self.context.metadata.get("expires")
        return expires is not None and expires <= time.time_ns() // 1000

    def value(self, client: Client) -> dict[str, Any]:
        text = self.context.metadata.get("json") or self.context.content
        if not text:  # from a listing, and too long for it
            context = common.existing(client, self.context.uri)
            if context is None:  # deleted since
                return {}
            text = context.content
        value: dict[str, Any] = json.loads(text.partition("\n")[0])
        return value

    def item(self, store: VikingdStore, score: float | None = None) -> SearchItem:
        namespace, key = store._place(self.context.uri)
        created = self.context.create_time or _EPOCH
        # The time of an item is by the client's clock, which may be behind the daemon's.
        updated = max(created, self.context.time or _EPOCH)
        return SearchItem(namespace, key, self.value(store.client), created, updated, score)


def _lifetime(ttl: float | None) -> Mapping[str, Any]:
    """Return the metadata of a time to live, in minutes from now."""
    if ttl is None:
        return {}
    return {"ttl": ttl, "expires": time.time_ns() // 1000 + round(ttl * _MINUTE)}


def _check_page(limit: int, offset: int) -> None:
    for name, value in (("limit", limit), ("offset", offset)):
        if value < 0:
            raise ValueError(f"{name} is {value}; give 0 or more")
