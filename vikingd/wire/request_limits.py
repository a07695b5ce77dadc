"""The limits of request fields, which are checked on the bytes of a message before it is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from viking_kernels import wire as kernel

from vikingd.access.records import MAX_GRANTS
from vikingd.domain import uri as uris
from vikingd.domain.contexts import MAX_DIMENSION
from vikingd.domain.errors import InvalidField
from vikingd.domain.long_queries import MAX_QUERY_BYTES
from vikingd.domain.pattern_queries import MAX_GLOB_BYTES, MAX_PATTERN_BYTES
from vikingd.domain.retrieve_query import MAX_BOOSTS
from vikingd.index.metadata.metadata_filters import MAX_CLAUSES, MAX_PATH
from vikingd.ingest.limits import MAX_METADATA_BYTES
from vikingd.ingest.markdown import MAX_HEADING
from vikingd.ingest.passages import MAX_PASSAGES, MAX_SECTION_BYTES
from vikingd.memory.entries import MAX_TEXT_BYTES
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

MAX_BATCH = 1000
MAX_FINDS = 256
MAX_CHOICES = 100
"""The most values of an enum in one field, repeats included."""
MAX_FILTER_BYTES = 256 << 10
"""The most bytes of all filters of a request together."""
MAX_MESSAGES = 1000
MAX_ITEMS = 1000
MAX_IDS = 1000
MAX_REASON_BYTES = 1024
MAX_SEPARATOR = 64
MAX_NAME_BYTES = 1024
"""The most bytes of a name in a request, such as that of a tokenizer, a time zone or a project."""
MAX_TOKEN_BYTES = 2048
"""The most bytes of a page token, which holds a URI as base64."""

_VECTOR_BYTES = 4 * MAX_DIMENSION
_UTF8 = 4  # bytes that a character has at most
_STRUCT = 4  # bytes of a Struct for a byte of JSON, at most: 11 for a number in a list, "1, "


class Budget(NamedTuple):
    """A limit of a sum over a whole request, such as the bytes of all contents.

    `what` names the sum in errors.
    """

    most: int
    what: str


BUDGETS: Final[Mapping[str, Budget]] = {  # the first two are the kernel's
    "all": Budget(262_144, "messages and entries of lists"),
    "unknown": Budget(65_536, "fields that this daemon does not know"),
    "passages": Budget(8192, "passages"),
    "values": Budget(32_768, "values in metadata and filters"),
    "filters": Budget(MAX_FILTER_BYTES, "bytes of filters"),
}
_NAMES = tuple(BUDGETS)


@dataclass(frozen=True, slots=True)
class FieldLimit:
    """The limits of one field in its message; a limit of None is not checked."""

    entries: int | None = None
    bytes: int | None = None  # on the wire, of each entry
    of_count: str | None = None  # the budget that entries are taken from
    of_bytes: str | None = None  # the budget that bytes are taken from


_URI = FieldLimit(bytes=uris.MAX_BYTES)
_NAME = FieldLimit(bytes=MAX_NAME_BYTES)
_TOKEN = FieldLimit(bytes=MAX_TOKEN_BYTES)
_QUERY = FieldLimit(bytes=MAX_QUERY_BYTES)
_VECTOR = FieldLimit(bytes=_VECTOR_BYTES)
_CHOICES = FieldLimit(entries=MAX_CHOICES)
_FILTER = FieldLimit(of_bytes="filters")
_VALUES = FieldLimit(of_count="values")
_MESSAGE_ALONE = FieldLimit()

TABLE: Final[Mapping[str, FieldLimit]] = {
    "other_uri": _URI,
    "page_token": _TOKEN,
    "query": _QUERY,
    "request_id": _NAME,
    "target_uri": _URI,
    "time_zone": _NAME,
    "tokenizer": _NAME,
    "uri": _URI,
    "uri_prefix": _URI,
    "vector": _VECTOR,
    "where": _FILTER,
    "google.protobuf.FieldMask.paths": FieldLimit(MAX_CHOICES, MAX_NAME_BYTES),
    "google.protobuf.ListValue.values": _VALUES,
    "google.protobuf.Struct.fields": _VALUES,
    "BatchFindRequest.requests": FieldLimit(MAX_FINDS),
    "BuildContextRequest.separator": FieldLimit(bytes=_UTF8 * MAX_SEPARATOR),
    "CreateKeyRequest.certificate_subject": _NAME,
    "CreateKeyRequest.grants": FieldLimit(MAX_GRANTS),
    "CreateKeyRequest.note": _NAME,
    "CreateKeyRequest.user": _NAME,
    "DeleteTenantRequest.name": _NAME,
    "PutTenantRequest.name": _NAME,
    "RevokeKeyRequest.id": _NAME,
    "RotateKeyRequest.id": _NAME,
    "ContextInput.abstract": _MESSAGE_ALONE,
    "ContextInput.content": _MESSAGE_ALONE,
    "ContextInput.metadata": FieldLimit(bytes=_STRUCT * MAX_METADATA_BYTES),
    "ContextInput.overview": _MESSAGE_ALONE,
    "ContextInput.passages": FieldLimit(MAX_PASSAGES, of_count="passages"),
    "ContextInput.title": _MESSAGE_ALONE,
    "ContextItems.items": FieldLimit(MAX_ITEMS),
    "ContextUris.uris": FieldLimit(MAX_ITEMS, uris.MAX_BYTES),
    "DeleteRequest.uris": FieldLimit(MAX_BATCH, uris.MAX_BYTES),
    "FindRequest.context_types": _CHOICES,
    "ForgetRequest.ids": FieldLimit(MAX_IDS),
    "GlobRequest.pattern": FieldLimit(bytes=MAX_GLOB_BYTES),
    "GrepRequest.context_types": _CHOICES,
    "GrepRequest.glob": FieldLimit(bytes=MAX_GLOB_BYTES),
    "GrepRequest.pattern": FieldLimit(bytes=MAX_PATTERN_BYTES),
    "LinkRequest.reason": FieldLimit(bytes=MAX_REASON_BYTES),
    "MemoryScope.project": _NAME,
    "MoveRequest.destination_uri": _URI,
    "MoveRequest.source_uri": _URI,
    "Passage.section": FieldLimit(bytes=MAX_SECTION_BYTES),
    "PutRequest.contexts": FieldLimit(MAX_BATCH),
    "RecallRequest.paths": _CHOICES,
    "RecallRequest.profile": _NAME,
    "RecallRequest.used": FieldLimit(MAX_IDS),
    "RecallRequest.without": _CHOICES,
    "ReinforceRequest.ids": FieldLimit(MAX_IDS),
    "ReinforceRequest.used": FieldLimit(MAX_IDS),
    "RememberRequest.memory_type": _NAME,
    "RememberRequest.section": FieldLimit(bytes=_UTF8 * MAX_HEADING),
    "RememberRequest.text": FieldLimit(bytes=MAX_TEXT_BYTES),
    "RetrieveRequest.boosts": FieldLimit(MAX_BOOSTS),
    "RetrieveRequest.context_types": _CHOICES,
    "RetrieveRequest.include": _CHOICES,
    "RetrieveRequest.optional_clauses": FieldLimit(MAX_CLAUSES, _UTF8 * MAX_PATH),
    "SearchRequest.context_types": _CHOICES,
    "SearchSession.id": _NAME,
    "SearchSession.messages": FieldLimit(MAX_MESSAGES),
    "SearchSession.summary": _MESSAGE_ALONE,
    "SessionMessage.content": _MESSAGE_ALONE,
    "SessionMessage.role": _NAME,
}
"""The limits by FIELD, which is a field of any message, or by MESSAGE.FIELD."""

DAMAGED = "cannot be decoded: it is damaged, is nested too deeply or has text that is not UTF-8"

_PACKAGE = f"{contexts_pb2.DESCRIPTOR.package}."
_FILES = (access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2)

_BYTES = 2  # wire type
_WIRE = {  # wire types; of all other types of fields 0, varints
    FieldDescriptor.TYPE_DOUBLE: 1,
    FieldDescriptor.TYPE_FIXED64: 1,
    FieldDescriptor.TYPE_SFIXED64: 1,
    FieldDescriptor.TYPE_FLOAT: 5,
    FieldDescriptor.TYPE_FIXED32: 5,
    FieldDescriptor.TYPE_SFIXED32: 5,
    FieldDescriptor.TYPE_STRING: _BYTES,
    FieldDescriptor.TYPE_BYTES: _BYTES,
    FieldDescriptor.TYPE_MESSAGE: _BYTES,
}
_PACKED = {0: kernel.VARINT, 1: 8, 5: 4}  # by wire type


class Guard:
    """Checks the bytes of one type of request against the limits."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor
        self.types = types = _reachable(descriptor)
        at = {one.full_name: i for i, one in enumerate(types)}
        numbers = 1 + max((field.number for one in types for field in one.fields), default=0)
        self._table = np.full((len(types), numbers, kernel.COLUMNS), kernel.NONE, np.int64)
        for i, one in enumerate(types):
            for field in one.fields:
                below = at[field.message_type.full_name] if field.message_type else kernel.NONE
                self._table[i, field.number] = _row(field, below)
        self._budgets = np.array([budget.most for budget in BUDGETS.values()], np.int64)

    def check(self, data: bytes) -> None:
        """Check all fields of a message in one pass over its bytes.

        Raises:
            InvalidField: a field exceeds a limit; the error names it, or `request` if the bytes are
                damaged.
        """
        if not data:
            return
        path = np.zeros((2, kernel.MAX_DEPTH + 1), np.int32)
        scanned = np.frombuffer(data, np.uint8)
        code, level, value = kernel.scan(scanned, self._table, self._budgets, path)
        if code != kernel.OK:
            raise self._fault(code, path[:, : level + 1].T.tolist(), value)

    def _fault(self, code: int, path: list[list[int]], value: int) -> InvalidField:
        if code == kernel.MALFORMED:
            return InvalidField("request", DAMAGED)
        first = self.descriptor.fields_by_number.get(path[0][0])
        if code in (kernel.TOO_DEEP, kernel.SPENT):  # no single entry is at fault
            name = first.name if first else "request"
            if code == kernel.TOO_DEEP:
                return InvalidField(name, f"is nested deeper than {kernel.MAX_DEPTH} messages")
            budget = BUDGETS[_NAMES[value]]
            return InvalidField(
                name,
                f"has more than {budget.most:,} {budget.what}, the limit of one request; "
                "send less at once",
            )
        name, field = self._named(path)
        most = _most(field)
        if code == kernel.TOO_MANY:
            return InvalidField(
                name.rpartition("[")[0],
                f"has more than {most.entries:,} entries, the limit; send fewer at once",
            )
        return InvalidField(name, f"has {value:,} bytes, at most {most.bytes:,} are allowed")

    def _named(self, path: list[list[int]]) -> tuple[str, FieldDescriptor]:
        """Return the path of a field as errors write it ("contexts[3].uri"), and its descriptor."""
        names: list[str] = []
        below: Any = self.descriptor
        for number, index in path:
            field = below.fields_by_number[number]
            names.append(f"{field.name}[{index}]" if field.is_repeated else field.name)
            below = field.message_type
        return ".".join(names), field


def guards() -> dict[str, Guard]:
    """Return the guard of each method, by path such as /viking.retrieval.v1.Contexts/Put."""
    return {
        f"/{service.full_name}/{method.name}": Guard(method.input_type)
        for file in _FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def _reachable(descriptor: Descriptor) -> list[Descriptor]:
    """Return a message type and all message types of its fields, at any depth, each once."""
    found = {descriptor.full_name: descriptor}
    for one in (waiting := [descriptor]):
        for field in one.fields:
            below = field.message_type
            if below and below.full_name not in found:
                found[below.full_name] = below
                waiting.append(below)
    return list(found.values())


def _row(field: FieldDescriptor, below: int) -> list[int]:
    wire = _WIRE.get(field.type, 0)
    most = _most(field)
    of_count = most.of_count
    if of_count is None and field.is_repeated and below == kernel.NONE:
        of_count = "all"  # each message is taken from it as it is
    return [
        wire,
        _PACKED[wire] if field.is_repeated and wire != _BYTES else kernel.NONE,
        below,
        kernel.NONE if most.entries is None else most.entries,
        kernel.NONE if most.bytes is None else most.bytes,
        kernel.NONE if of_count is None else _NAMES.index(of_count),
        kernel.NONE if most.of_bytes is None else _NAMES.index(most.of_bytes),
    ]


def _most(field: FieldDescriptor) -> FieldLimit:
    own = TABLE.get(field.full_name.removeprefix(_PACKAGE))
    return TABLE.get(field.name, _MESSAGE_ALONE) if own is None else own
