"""Requests for every RPC: real, mutated, and random ones made from their descriptors."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.chaos import worlds
from vikingd.client import retrieval_calls, value_conversion
from vikingd.pb import admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.pb.contexts_pb2 import ContextInput

HEAVY = {"Optimize", "Verify", "Reembed"}
"""RPCs that are rarely sent."""

URIS = (
    "viking://resources/fuzz/a.md",
    "viking://resources/fuzz/d/b.md",
    "viking://resources/fuzz",
    "viking://resources/fuzz/d",
    "viking://user/memories/preferences.md",
    "viking://",
    "viking://resources",
    "viking://resources/none.md",
    "viking://projects/p/memories/n.md",
    "viking://a//b",
    "http://x",
    "viking://resources/\u202e\x1b[2J.md",
    "viking://" + "d/" * 80,
)
STRINGS = (
    "",
    "harbour",
    "the harbour light",
    "港口的灯",
    "\x00",
    "\ud7ff",
    "a" * 2000,
    "o200k_base",
    "approx",
    "hf:/dev/null",
    "hf:/nonexistent",
    "UTC",
    "Europe/Berlin",
    "../../etc/passwd",
    "journal",
    "preferences",
    "salience",
    "- item\n- item\n",
    "# h\n\ntext\n",
    "viking://resources/fuzz/a.md",
    "\u202eabc",
    "%s%n{}",
    "'; drop table contexts; --",
    "yesterday",
)
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    10,
    100,
    1000,
    1001,
    4096,
    65535,
    2**31 - 1,
    2**32 - 1,
    2**40,
    2**53 + 1,
    2**63 - 1,
    2**64 - 1,
    -1,
    -(2**31),
    -(2**63),
)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
OPERATORS = (
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$exists",
    "$and",
    "$or",
    "$not",
    "n",
    "lang",
    "a.b",
    "",
    "$x",
)


def methods() -> dict[str, type[Message]]:
    """Return all RPCs but streams, as /package.Service/Method, with their request classes."""
    found = {}
    for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                if method.server_streaming or method.client_streaming:
                    continue
                found[f"/{service.full_name}/{method.name}"] = GetMessageClass(method.input_type)
    return found


def corpus() -> dict[str, list[Message]]:
    """Return real requests for every RPC by method name, such as "Put"."""
    where = value_conversion.struct({"$or": [{"n": {"$gte": 3}}, {"lang": {"$in": ["en", "zh"]}}]})
    find = retrieval_calls.find("harbour light", limit=5)
    full = retrieval_pb2.FindRequest(
        query="harbour",
        vector=worlds.vector(1),
        target_uri="viking://resources",
        limit=20,
        context_types=[1, 2, 3],
        levels=3,
        score_threshold=0.1,
        where=where,
        alpha=0.5,
        trace=True,
        method=2,
        max_directories=8,
    )
    retrieve = retrieval_pb2.RetrieveRequest(
        query="harbour",
        vector=worlds.vector(2),
        where=where,
        top_k=10,
        include=[1, 2, 3],
        diversity=0.3,
        boosts=[retrieval_pb2.Boost(uri_prefix=URIS[2], where=where, factor=2)],
        optional_clauses=["lang"],
        trace=True,
        rrf=retrieval_pb2.Rrf(k=60, vector_weight=1),
    )
    session = retrieval_pb2.SearchSession(
        summary="boats", messages=[retrieval_pb2.SessionMessage(role="user", content="tea?")]
    )
    scope = memories_pb2.MemoryScope(project="p")
    when = timestamp_pb2.Timestamp(seconds=1_700_000_000)
    content = "# Head\n\n- one harbour\n- two lights\n\nText of a passage.\n"
    put = ContextInput(
        uri=URIS[0],
        abstract="boats",
        overview="harbour",
        content=content,
        title="Boats",
        time=when,
        metadata=value_conversion.struct({"n": 1, "lang": "en", "tags": ["a", {"b": None}]}),
        passages=[contexts_pb2.Passage(section="Head", start=0, end=9, vector=worlds.vector(3))],
    )
    return {
        "Find": [find, full],
        "BatchFind": [retrieval_calls.batch_find([find, full, find])],
        "Search": [retrieval_pb2.SearchRequest(query="help", session=session, where=where)],
        "Retrieve": [retrieve, retrieval_calls.retrieve("harbour")],
        "BuildContext": [
            retrieval_pb2.BuildContextRequest(find=full, max_tokens=500, tokenizer="o200k_base"),
            retrieval_pb2.BuildContextRequest(
                uris={"uris": URIS[:3]}, separator="--", citation=2, order=2
            ),
            retrieval_pb2.BuildContextRequest(retrieve=retrieve, reserve_tokens=100),
        ],
        "Put": [
            contexts_pb2.PutRequest(contexts=[put]),
            contexts_pb2.PutRequest(contexts=[ContextInput(uri=URIS[1], content="x y z"), put]),
            contexts_pb2.PutRequest(contexts=[ContextInput(uri=URIS[3], is_directory=True)]),
        ],
        "Delete": [contexts_pb2.DeleteRequest(uris=[URIS[0]])],
        "Move": [contexts_pb2.MoveRequest(source_uri=URIS[1], destination_uri=f"{URIS[2]}/c.md")],
        "Get": [contexts_pb2.GetRequest(uri=uri) for uri in URIS[:4]],
        "List": [contexts_pb2.ListRequest(uri=URIS[2], page_size=1)],
        "Tree": [contexts_pb2.TreeRequest(uri=URIS[2], depth=2, page_size=3)],
        "Link": [contexts_pb2.LinkRequest(uri=URIS[0], other_uri=URIS[1], reason="because")],
        "Unlink": [contexts_pb2.UnlinkRequest(uri=URIS[0], other_uri=URIS[1])],
        "Recall": [
            memories_pb2.RecallRequest(
                query="what tea",
                scope=scope,
                max_tokens=200,
                now=when,
                time_zone="UTC",
                no_touch=True,
                profile="salience",
            ),
            memories_pb2.RecallRequest(query="yesterday", top_k=5),
        ],
        "Remember": [
            memories_pb2.RememberRequest(text="the harbour opens at six", memory_type="notes"),
            memories_pb2.RememberRequest(text="tea at five", uri=URIS[8], section="Day", time=when),
        ],
        "Extract": [
            memories_pb2.ExtractRequest(
                session=retrieval_pb2.SearchSession(
                    summary="They talk.",
                    messages=[retrieval_pb2.SessionMessage(role="user", content="I love tea.")],
                ),
                time_zone="Asia/Tokyo",
                request_id="one",
            )
        ],
        "Reinforce": [memories_pb2.ReinforceRequest(ids=[1, 2], by=3)],
        "Forget": [
            memories_pb2.ForgetRequest(ids=[3]),
            memories_pb2.ForgetRequest(scope=scope, older_than=when, dry_run=True),
        ],
        "Stats": [admin_pb2.StatsRequest()],
        "Verify": [admin_pb2.VerifyRequest()],
        "Optimize": [admin_pb2.OptimizeRequest()],
        "Reembed": [admin_pb2.ReembedRequest(target_uri=URIS[2])],
        "Describe": [admin_pb2.DescribeRequest(target_uri=URIS[2], dry_run=True)],
    }


def hostile_texts(text: Callable[[], str]) -> Iterator[tuple[str, str, bytes]]:
    """Yield real requests with each text replaced: (field, method, bytes)."""
    real = corpus()
    for path in methods():
        for number, message in enumerate(real.get(_name(path), ())):
            for field in _texts(message):
                changed = type(message)()
                changed.CopyFrom(message)
                _replace(changed, field, text())
                yield f"{_name(path)} {number} {'.'.join(field)}", path, changed.SerializeToString()


def _texts(message: Message) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all texts of a message, also in its nested messages."""
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            yield (field.name,)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not _is_map(field):
            value: Any = getattr(message, field.name)
            for below in list(value)[:1] if field.is_repeated else [value]:
                if field.is_repeated or message.HasField(field.name):
                    yield from ((field.name, *rest) for rest in _texts(below))
        elif _is_map(field) and getattr(message, field.name):
            yield (field.name,)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _replace(message: Any, path: tuple[str, ...], text: str) -> None:
    name, *rest = path
    value = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[name]
    if rest:
        _replace(value[0] if field.is_repeated else value, tuple(rest), text)
    elif _is_map(field):
        value[text].string_value = text
    elif field.is_repeated:
        value[:] = [text]
    else:
        setattr(message, name, text)


def random_message(kind: type[Message], dice: random.Random, depth: int = 0) -> Message:
    """Return a message with random values of the right types."""
    if kind is struct_pb2.Struct:
        return random_struct(dice, depth)
    message = kind()
    for field in message.DESCRIPTOR.fields:
        if dice.random() < (0.55 if depth < 3 else 0.9):
            continue
        if _is_map(field):
            continue
        count = dice.choice((1, 1, 2, 5, 40)) if field.is_repeated else 1
        for _ in range(count if depth < 4 else 0):
            _set(message, field, dice, depth)
    return message


def _set(message: Message, field: FieldDescriptor, dice: random.Random, depth: int) -> None:
    target: Any = getattr(message, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        value = random_message(GetMessageClass(field.message_type), dice, depth + 1)
        target.append(value) if field.is_repeated else target.CopyFrom(value)
        return
    value = _scalar(field, dice)
    if field.is_repeated:
        target.append(value)
    else:
        setattr(message, field.name, value)


def _scalar(field: FieldDescriptor, dice: random.Random) -> Any:
    kinds = FieldDescriptor
    if field.name == "min_revision":
        return dice.choice((0, 1, 1, 1))  # a later revision would make the call wait
    if field.type == kinds.TYPE_STRING:
        return dice.choice(URIS if "uri" in field.name and dice.random() < 0.8 else STRINGS)
    if field.type == kinds.TYPE_BYTES:
        return dice.choice((b"", worlds.vector(7), worlds.vector(8)[:-1], b"\xff" * 64, bytes(64)))
    if field.type == kinds.TYPE_BOOL:
        return dice.random() < 0.5
    if field.type == kinds.TYPE_ENUM:
        return dice.choice((*[v.number for v in field.enum_type.values], 99, -1))
    if field.type in (kinds.TYPE_DOUBLE, kinds.TYPE_FLOAT):
        return dice.choice(FLOATS)
    low, high = {
        kinds.TYPE_INT32: (-(2**31), 2**31),
        kinds.TYPE_UINT32: (0, 2**32),
        kinds.TYPE_UINT64: (0, 2**64),
    }.get(field.type, (-(2**63), 2**63))
    return dice.choice([n for n in NUMBERS if low <= n < high])


def random_struct(dice: random.Random, depth: int = 0) -> struct_pb2.Struct:
    """Return metadata or a filter with valid and invalid values."""
    found = struct_pb2.Struct()
    for _ in range(dice.choice((0, 1, 1, 2, 5))):
        found.fields[dice.choice(OPERATORS)].CopyFrom(_random_value(dice, depth))
    return found


def _random_value(dice: random.Random, depth: int) -> struct_pb2.Value:
    roll = dice.random()
    if roll < 0.25 and depth < 6:
        return struct_pb2.Value(struct_value=random_struct(dice, depth + 1))
    if roll < 0.45 and depth < 6:
        values = [_random_value(dice, depth + 1) for _ in range(dice.choice((0, 1, 3, 20)))]
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=values))
    return dice.choice(
        (
            struct_pb2.Value(number_value=dice.choice((*FLOATS, 2.0**60, 3.0))),
            struct_pb2.Value(string_value=dice.choice(STRINGS)),
            struct_pb2.Value(bool_value=True),
            struct_pb2.Value(null_value=struct_pb2.NULL_VALUE),
            struct_pb2.Value(),
        )
    )


def varint(number: int) -> bytes:
    """Return a varint as protobuf writes it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def nested(tag: int, levels: int) -> bytes:
    """Return a field nested within itself many times."""
    data = b""
    for _ in range(levels):
        data = varint(tag << 3 | 2) + varint(len(data)) + data
        if len(data) > 200_000:
            break
    return data


def _flip(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 1, 2, 8))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.randbytes(dice.choice((1, 1, 4, 32)))


def _cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


def _drop(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice((1, 1, 4, 16))]


def _double(data: bytearray, dice: random.Random) -> None:
    a, b = sorted((dice.randrange(len(data) + 1), dice.randrange(len(data) + 1)))
    data[b:b] = data[a:b] * dice.choice((1, 1, 3, 50))


def _twice(data: bytearray, dice: random.Random) -> None:
    data += data * dice.choice((1, 1, 7))


def _nest(data: bytearray, dice: random.Random) -> None:
    tag = dice.choice((1, 2, 3, 5, 6, 7, 8))
    data += nested(tag, dice.choice((10, 64, 101, 300)))


def _length(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at : at + 1] = varint(dice.choice((127, 2**14, 2**28, 2**31 - 1, 2**32, 2**63, 2**64 - 1)))


def _unknown(data: bytearray, dice: random.Random) -> None:
    number, kind = dice.choice((50, 1000, 536_870_911)), dice.choice((0, 1, 2, 5, 3, 4, 6, 7))
    data += varint(number << 3 | kind) + dice.randbytes(dice.choice((0, 1, 8)))


def _float(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at : at + 8] = struct.pack("<d", dice.choice(FLOATS))


def _many(data: bytearray, dice: random.Random) -> None:
    tag = dice.randrange(1, 12)
    data += (varint(tag << 3 | 2) + b"\x00") * dice.choice((100, 1001, 5000))


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _flip,
    _flip,
    _insert,
    _cut,
    _drop,
    _double,
    _twice,
    _nest,
    _length,
    _unknown,
    _float,
    _many,
)


class Requests:
    """An endless source of requests that depends on the seed only."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._methods = methods()
        real = corpus()
        self._real = {
            path: [message.SerializeToString() for message in real.get(_name(path), ())]
            for path in self._methods
        }
        light = [path for path in self._methods if _name(path) not in HEAVY]
        self._paths = [*light * 12, *(path for path in self._methods if path not in light)]

    def next(self) -> tuple[str, bytes]:
        """Return a method and the bytes to send."""
        dice, path = self._dice, self._dice.choice(self._paths)
        if dice.random() < 0.3 or not self._real[path]:
            data = random_message(self._methods[path], dice).SerializeToString()
            if dice.random() < 0.7:
                return path, data
        else:
            data = dice.choice(self._real[path])
        raw = bytearray(data)
        for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
            if raw:
                dice.choice(MUTATIONS)(raw, dice)
        return path, bytes(raw)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
