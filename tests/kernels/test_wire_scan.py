"""The scan of requests: valid messages, damaged ones and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import wire

from tests.kernels import naive
from tests.tiers import examples
from vikingd.domain.errors import InvalidField
from vikingd.pb import contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.wire.request_intake import fault_in, parsed
from vikingd.wire.request_limits import BUDGETS, TABLE, FieldLimit, Guard, guards

GUARDS = {
    kind: Guard(kind.DESCRIPTOR)
    for kind in (
        contexts_pb2.PutRequest,
        contexts_pb2.DeleteRequest,
        contexts_pb2.GrepRequest,
        retrieval_pb2.BatchFindRequest,
        retrieval_pb2.RetrieveRequest,
        retrieval_pb2.BuildContextRequest,
        retrieval_pb2.SearchRequest,
        memories_pb2.ForgetRequest,
        memories_pb2.RecallRequest,
    )
}
KINDS = st.sampled_from(list(GUARDS))


def varint(value: int) -> bytes:
    """Return a number as a protobuf varint."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes) -> bytes:
    """Return a field of bytes, a string or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def nested(*numbers: int, within: bytes) -> bytes:
    """Return a field within fields, the outermost first."""
    for number in reversed(numbers):
        within = field(number, within)
    return within


NUMBERS = st.one_of(
    st.integers(1, 20), st.sampled_from([0, 100, 1 << 20, (1 << 29) - 1, 1 << 29, (1 << 32) - 1])
)
VARINTS = st.one_of(
    st.integers(0, 300).map(varint),
    st.integers(0, (1 << 64) - 1).map(varint),
    st.integers((1 << 63) - 99, (1 << 63) + 99).map(varint),
    st.sampled_from([b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 10]),
)


def fields(below: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for fields of every wire type, right or wrong for their number."""
    one = st.one_of(
        st.builds(field, NUMBERS, below),
        st.builds(field, NUMBERS, st.binary(max_size=12)),
        st.builds(lambda n, size, data: varint(n << 3 | 2) + size + data, NUMBERS, VARINTS, below),
        st.builds(lambda n, data: varint(n << 3) + data, NUMBERS, VARINTS),
        st.builds(lambda n, data: varint(n << 3 | 1) + data, NUMBERS, st.binary(max_size=9)),
        st.builds(lambda n, data: varint(n << 3 | 5) + data, NUMBERS, st.binary(max_size=5)),
        st.builds(lambda n, data: varint(n << 3 | 3) + data + varint(n << 3 | 4), NUMBERS, below),
        st.binary(max_size=3),
    )
    return st.lists(one, max_size=5).map(b"".join)


MESSAGES = st.recursive(st.just(b""), fields, max_leaves=20)


def kernel(guard: Guard, data: bytes, table: Any = None, budgets: Any = None) -> Any:
    """Return ((code, level, value), numbers on the path) of the kernel."""
    path = np.zeros((2, wire.MAX_DEPTH + 1), np.int32)
    found = wire.scan(
        np.frombuffer(data, np.uint8),
        guard._table if table is None else table,
        guard._budgets if budgets is None else budgets,
        path,
    )
    return found, path[0, : found[1] + 1].tolist() if found[0] != wire.OK else []


@examples(600)
@given(KINDS, MESSAGES)
def test_what_the_parser_takes_the_scan_takes(kind: Any, data: bytes) -> None:
    """The scan accepts each message that the parser accepts and that is within the limits."""
    (code, _, _), _ = kernel(GUARDS[kind], data) if data else ((wire.OK, 0, 0), [])
    try:
        kind.FromString(data)
    except DecodeError:
        assert fault_in(data, kind.DESCRIPTOR).field
    else:
        assert code == wire.OK


@examples(600)
@given(KINDS, MESSAGES, st.lists(st.integers(0, 6), min_size=5, max_size=5), st.integers(0, 3))
@example(contexts_pb2.PutRequest, b"\x0b\n\x00\x0c\x0b", [0, 3, 0, 0, 0], 0)
def test_the_kernel_finds_what_its_naive_twin_finds(
    kind: Any, data: bytes, budgets: list[int], most: int
) -> None:
    """The kernel and its naive twin find the same fault with very low limits."""
    guard = GUARDS[kind]
    table = guard._table.copy()
    limits = table[:, :, [wire.COUNT, wire.BYTES]]
    table[:, :, [wire.COUNT, wire.BYTES]] = np.where(limits == wire.NONE, wire.NONE, most)
    if data:
        found = kernel(guard, data, table, np.array(budgets, np.int64))
        assert found == naive.scan(data, table.tolist(), budgets)


DAMAGED = {
    "a number of 30 bits": varint(1 << 32 | 2) + b"\0",
    "no number": b"\x02\0",
    "a length of 63 bits": b"\xf8\x01\0\xfa\x01" + varint((1 << 63) - 1) + b"a",
    "a tag of six bytes": b"\xfa\x80\x80\x80\x80\0\0",
    "a wire type that is none": b"\xfe\x01",
    "a varint of eleven bytes": b"\xf8\x01" + b"\xff" * 10 + b"\x01",
    "a varint without its end": b"\xf8\x01\xff",
    "eight bytes of which one is there": b"\xf9\x01\0",
    "four bytes of which one is there": b"\xfd\x01\0",
    "a tag without its end": b"\xfa",
    "a length without its end": b"\xfa\x01\x80",
    "a length beyond 64 bits": b"\xfa\x01" + b"\x80" * 9 + b"\x02",
    "a negative length": b"\xfa\x01" + b"\xff" * 9 + b"\x01",
    "a length beyond the request": b"\xfa\x01\x05",
    "a group without its end": b"\xfb\x01",
    "an end without its group": b"\xfc\x01",
    "the end of another group": b"\xfb\x01\xf4\x01",
    "a group that ends beyond its message": b"\x0a\x02\xfb\x01\xfc\x01",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_found_in_bytes_that_the_parser_refuses(damage: str) -> None:
    """The kernel and its naive twin find each damage that the parser refuses."""
    data = DAMAGED[damage]
    for kind, guard in GUARDS.items():
        # The parser of protobuf 6 cuts a length to 64 bits.
        if damage != "a length beyond 64 bits":
            with pytest.raises(DecodeError):
                kind.FromString(data)
        found = kernel(guard, data)
        assert found[0][0] == wire.MALFORMED
        assert found == naive.scan(data, guard._table.tolist(), guard._budgets.tolist())


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (memories_pb2.ForgetRequest, field(1, b"\x01\x80")),
        (contexts_pb2.PutRequest, field(1, b"\xfa\x01\x03") + b"\xfa\x01\x00"),
        (contexts_pb2.PutRequest, nested(1, 7, within=b"\x0a\x01") + b"\xfa\x01\x00"),
    ],
    ids=["a packed number", "a field", "a message"],
)
def test_nothing_goes_on_behind_the_end_of_its_message(kind: Any, data: bytes) -> None:
    """A field that continues after the end of its message is malformed."""
    with pytest.raises(DecodeError):
        kind.FromString(data)
    assert kernel(GUARDS[kind], data)[0][0] == wire.MALFORMED


@pytest.mark.parametrize("depth", [99, 100, 101])
def test_the_depth_is_that_of_the_parser(depth: int) -> None:
    """The scan allows the parser's depth of 100, for messages, groups and both."""
    guard = GUARDS[contexts_pb2.PutRequest]
    group = b"\xfb\x01" * depth + b"\xfc\x01" * depth
    lists = nested(1, 7, 1, 2, *[6, 1] * ((depth - 4) // 2), within=b"\x10\x01" * ((depth - 4) % 2))
    lists = (
        lists if depth % 2 == 0 else nested(1, 7, 1, 2, *[6, 1] * ((depth - 5) // 2), 6, within=b"")
    )
    for data in (group, lists):
        code = kernel(guard, data)[0][0]
        assert code == (wire.OK if depth <= 100 else wire.TOO_DEEP)
        try:
            contexts_pb2.PutRequest.FromString(data)
        except DecodeError:
            assert depth > 100
        else:
            assert depth <= 100


MANY = 1 << 20
EMPTY = b"\x0a\x00" * MANY


@pytest.mark.parametrize(
    ("method", "data", "name", "says"),
    [
        ("Contexts/Put", EMPTY, "contexts", "more than 1,000 entries"),
        ("Contexts/Put", field(1, b"\x42\0" * MANY), "contexts[0].passages", "more than 4,096"),
        ("Contexts/Put", field(1, b"\x42\0" * 4096) * 3, "contexts", "more than 8,192 passages"),
        ("Contexts/Put", nested(1, 7, within=EMPTY), "contexts[0].metadata", "at most 262,144"),
        ("Contexts/Put", nested(1, 7, within=EMPTY[:65_536]) * 2, "contexts", "32,768 values"),
        ("Contexts/Put", field(1, b"\x52\0" * MANY), "contexts", "more than 262,144 messages"),
        (
            "Contexts/Put",  # 100 names in each mask
            field(1, field(11, EMPTY[:200]) * 5000),
            "contexts",
            "more than 262,144 messages and entries",
        ),
        ("Contexts/Put", b"\xfa\x01\0" * MANY, "request", "more than 65,536 fields"),
        ("Contexts/Put", nested(1, 1, within=b"x" * 1025), "contexts[0].uri", "1,025 bytes"),
        ("Contexts/Put", b"\xfb\x01" * MANY, "request", "nested deeper"),
        ("Contexts/Delete", EMPTY, "uris", "more than 1,000"),
        ("Contexts/Delete", field(1, b"viking://") + field(1, b"x" * 1025), "uris[1]", "1,025"),
        ("Contexts/Glob", field(1, bytes(1025)), "pattern", "1,025 bytes, at most 1,024"),
        ("Contexts/Grep", field(1, bytes(16 << 10)), "pattern", "16,384 bytes, at most 4,096"),
        ("Contexts/Grep", field(5, bytes(1025)), "glob", "1,025 bytes, at most 1,024"),
        ("Contexts/Grep", field(6, b"\1" * MANY), "context_types", "more than 100"),
        ("Contexts/Grep", field(9, bytes(2049)), "page_token", "2,049 bytes, at most 2,048"),
        ("Retrieval/BatchFind", EMPTY, "requests", "more than 256"),
        ("Retrieval/BatchFind", nested(1, 8, 1, 2, 6, within=EMPTY), "requests", "bytes of"),
        ("Retrieval/BatchFind", nested(1, 8, 1, 2, 6, within=EMPTY[:70_000]), "requests", "32,768"),
        (
            "Retrieval/BatchFind",
            nested(1, 4, within=b"\1" * MANY),
            "requests[0].context_types",
            "more than 100",
        ),
        ("Retrieval/Find", field(4, b"\1" * MANY), "context_types", "more than 100"),
        ("Retrieval/Find", b"\x20\x01" * MANY, "context_types", "more than 100"),
        ("Retrieval/Find", field(2, bytes(65_540)), "vector", "65,540 bytes, at most 65,536"),
        ("Retrieval/Retrieve", b"\x72\0" * MANY, "boosts", "more than 32"),
        ("Retrieval/Retrieve", field(14, field(2, bytes(200_000))) * 2, "boosts", "cannot"),
        ("Retrieval/Retrieve", b"\x7a\0" * MANY, "optional_clauses", "more than 256"),
        ("Retrieval/Search", field(2, b"\x12\0" * MANY), "session.messages", "more than 1,000"),
        ("Retrieval/BuildContext", field(1, EMPTY), "items.items", "more than 1,000"),
        ("Retrieval/BuildContext", field(2, EMPTY), "uris.uris", "more than 1,000"),
        ("Retrieval/BuildContext", field(7, bytes(2000)), "tokenizer", "2,000 bytes"),
        ("Memories/Recall", field(7, b"\1" * MANY), "without", "more than 100"),
        ("Memories/Remember", field(1, bytes((2 << 20) + 1)), "text", "at most 2,097,152"),
        ("Memories/Reinforce", field(1, b"\1" * MANY), "ids", "more than 1,000"),
        ("Memories/Forget", b"\x08\1" * MANY, "ids", "more than 1,000"),
    ],
)
def test_very_much_is_refused_by_its_field(method: str, data: bytes, name: str, says: str) -> None:
    """A request beyond a limit is refused with the field and the limit."""
    with pytest.raises(InvalidField) as caught:
        guards()[f"/viking.retrieval.v1.{method}"].check(data)
    if says == "cannot":  # zeros are not valid fields
        name = "request"
    assert caught.value.field == name
    assert says in caught.value.description


def test_what_is_beyond_a_limit_is_not_parsed() -> None:
    """A request beyond a limit is refused before it is parsed."""
    guard = guards()["/viking.retrieval.v1.Contexts/Put"]
    refused = parsed(EMPTY, guard, lambda _: pytest.fail("it was parsed"))
    assert isinstance(refused, InvalidField)
    assert refused.field == "contexts"


def test_each_message_has_counts_of_its_own() -> None:
    """The limit of passages counts for each context alone, and the fault names the context."""
    guard = GUARDS[contexts_pb2.PutRequest]
    guard.check(field(1, b"\x42\0" * 3000) * 2)
    with pytest.raises(InvalidField) as caught:
        guard.check(field(1, b"\x42\0") + field(1, b"\x42\0" * 5000))
    assert caught.value.field == "contexts[1].passages"


OF_ONE_CONTEXT = {f"ContextInput.{name}" for name in ("abstract", "content", "overview", "title")}
"""Fields that are checked after the parsing: a Put may refuse one context and write the others."""

BOUNDED_BY_THE_MESSAGE = {"SearchSession.summary", "SessionMessage.content", *OF_ONE_CONTEXT}
"""Fields that have no limit of their own before they are parsed."""


def test_every_field_that_can_be_long_has_a_limit_in_the_table() -> None:
    """Each string, byte field and list of a request has a limit; a Struct limits its own fields."""
    known = set()
    for guard in guards().values():
        for kind in guard.types:
            if not kind.full_name.startswith("viking."):
                continue
            for one in kind.fields:
                name = one.full_name.removeprefix("viking.retrieval.v1.")
                known |= {name, one.name}
                long = one.type in (one.TYPE_STRING, one.TYPE_BYTES) or one.is_repeated
                is_struct = one.message_type and one.message_type.name == "Struct"
                is_limited = name in TABLE or one.name in TABLE
                assert is_limited or not (long or is_struct), name
    assert {name for name in TABLE if not name.startswith("google.")} <= known
    assert {name for name, most in TABLE.items() if most == FieldLimit()} == BOUNDED_BY_THE_MESSAGE
    assert list(BUDGETS)[: wire.UNKNOWN + 1] == ["all", "unknown"]
