"""The work of a call grows no faster than each field of its request, up to the field's limit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

from tests.commands import serve
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

MOST = 8.0
"""Seconds of processor time of one call; a pattern without a bound on its memory took 50."""
SIZES = [1 << bits for bits in range(8, 21, 2)]
STEP, NOISE = 10, 1.0
"""A field of four times the size may take ten times as long, and so many seconds more."""
_QUIET = 0.1  # seconds of processor time in three seconds without a call
TREE = "viking://resources/growth"

FAMILIES: dict[str, Callable[[int], str]] = {
    "letters": lambda n: "a" * n,
    "words": lambda n: "tea " * (n // 4),
    "wide": lambda n: "茶" * (n // 3),
    "marks": lambda n: "a" + "\u0301" * (n // 2),
    "counts": lambda n: "a{1,1000}" * (n // 9),
    "groups": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "levels": lambda n: f"{TREE}/{'a/' * (n // 2)}",
    "items": lambda n: "- a\n" * (n // 4),
    "brackets": lambda n: "[" * n,
    "markup": lambda n: "<a " * (n // 3),
    "emphasis": lambda n: "*a _b " * (n // 6),
    "quotes": lambda n: "> " * (n // 2),
    "joiners": lambda n: "\u200d" * (n // 3),
}
BASES: dict[str, Message] = {
    "Find": retrieval_pb2.FindRequest(query="tea"),
    "BatchFind": retrieval_pb2.BatchFindRequest(requests=[retrieval_pb2.FindRequest(query="tea")]),
    "Search": retrieval_pb2.SearchRequest(query="tea"),
    "Retrieve": retrieval_pb2.RetrieveRequest(query="tea", mode=retrieval_pb2.MODE_KEYWORD),
    "BuildContext": retrieval_pb2.BuildContextRequest(
        find=retrieval_pb2.FindRequest(query="tea"), max_tokens=500
    ),
    "Put": contexts_pb2.PutRequest(
        contexts=[contexts_pb2.ContextInput(uri=f"{TREE}/a.md", content="tea")]
    ),
    "Get": contexts_pb2.GetRequest(uri=f"{TREE}/a.md"),
    "List": contexts_pb2.ListRequest(uri=TREE),
    "Tree": contexts_pb2.TreeRequest(uri=TREE),
    "Glob": contexts_pb2.GlobRequest(pattern="**", target_uri=TREE),
    "Grep": contexts_pb2.GrepRequest(pattern="tea", target_uri=TREE),
    "Move": contexts_pb2.MoveRequest(
        source_uri=f"{TREE}/none.md", destination_uri=f"{TREE}/other.md"
    ),
    "Delete": contexts_pb2.DeleteRequest(uris=[f"{TREE}/none.md"]),
    "Remember": memories_pb2.RememberRequest(text="Drinks tea.", memory_type="journal"),
    "Recall": memories_pb2.RecallRequest(query="tea"),
}
HEAVY = {"Verify", "Optimize", "Reembed", "Describe", "Backup"}
FILES = (access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2)
RPCS = {
    method.name: (service.full_name, method)
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.name not in HEAVY
}

Grow = Callable[[Message, Callable[[int], str], int], None]


class Daemon:
    """A daemon whose processor time is read, and a channel to it."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            serve(path / "store", "--provider", "none"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.channel = grpc.insecure_channel(self.process.stdout.readline().split()[-1])
        self.cost("Put", BASES["Put"])
        self._settle()

    def cost(self, name: str, request: Message) -> tuple[float, bool]:
        """Return the seconds of processor time of a call, and whether its field was refused."""
        service = RPCS[name][0]
        call = self.channel.unary_unary(
            f"/{service}/{name}", request_serializer=lambda message: message.SerializeToString()
        )
        before = self._seconds()
        answer = call.future(request, timeout=600)
        code = answer.code()  # waits
        assert code is not grpc.StatusCode.INTERNAL, answer.details()
        return self._seconds() - before, code is grpc.StatusCode.INVALID_ARGUMENT

    def _settle(self) -> None:
        """Wait until the daemon has loaded what it loads in a quiet second after its start."""
        before = -1.0
        while self._seconds() - before > _QUIET:
            before = self._seconds()
            time.sleep(3)

    def _seconds(self) -> float:
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yield the daemon."""
    made = Daemon(tmp_path_factory.mktemp("growth"))
    yield made
    made.channel.close()
    made.process.terminate()
    made.process.communicate()


def fields(message: Message, depth: int = 3) -> Iterator[tuple[str, Grow]]:
    """Yield the path of each field that can grow, and what grows it in a copy of the message."""
    for field in message.DESCRIPTOR.fields:
        yield from _of_field(message, field, depth)


def _of_field(message: Message, field: FieldDescriptor, depth: int) -> Iterator[tuple[str, Grow]]:
    name = field.name
    if field.message_type is None:
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            yield name, lambda to, family, size: _set(to, field, family(size))
            if field.is_repeated:
                yield (
                    f"{name}[]",
                    lambda to, family, size: getattr(to, name).extend(
                        [_typed(field, f"{family(16)}{number}") for number in range(size // 16)]
                    ),
                )
        return
    if field.message_type.full_name == Struct.DESCRIPTOR.full_name:
        for form, made in (
            ("key", lambda family, size: {family(size): 1}),
            ("value", lambda family, size: {"k": family(size)}),
            ("list", lambda family, size: {"k": {"$in": [family(8)] * (size // 16)}}),
            ("clauses", lambda family, size: {"$or": [{"k": family(8)}] * (size // 16)}),
        ):
            yield (
                f"{name}.{form}",
                lambda to, family, size, made=made: getattr(to, name).update(made(family, size)),
            )
        return
    if field.message_type.full_name.startswith("google."):
        return
    if field.is_repeated:
        given = getattr(message, name)
        one = given[0] if given else GetMessageClass(field.message_type)()
        yield f"{name}[]", lambda to, _, size: getattr(to, name).extend([one] * (size // 16))
    else:
        one = getattr(message, name)
    if depth:
        for path, grow in fields(one, depth - 1):
            yield (
                f"{name}.{path}",
                lambda to, family, size, grow=grow: grow(_entered(to, field), family, size),
            )


def _entered(message: Message, field: FieldDescriptor) -> Message:
    """Return the message in a field; of a repeated one the first, which is added if needed."""
    found = getattr(message, field.name)
    if not field.is_repeated:
        found.SetInParent()
        return found
    return found[0] if found else found.add()


def _typed(field: FieldDescriptor, text: str) -> str | bytes:
    return text.encode() if field.type == field.TYPE_BYTES else text


def _set(message: Message, field: FieldDescriptor, text: str) -> None:
    if field.is_repeated:
        getattr(message, field.name).append(_typed(field, text))
    else:
        setattr(message, field.name, _typed(field, text))


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("name", sorted(RPCS, key=lambda name: (name != "Get", name)))
def test_growth(name: str, growing: Daemon) -> None:
    """No field of this RPC makes a call costly, whatever its size and content are."""
    base = BASES.get(name) or GetMessageClass(RPCS[name][1].input_type)()
    for path, grow in fields(base):
        for family, text in FAMILIES.items():
            last = 0.0
            for size in SIZES:
                request = type(base)()
                request.CopyFrom(base)
                with suppress(ValueError):  # protobuf refuses the text
                    grow(request, text, size)
                seconds, refused = growing.cost(name, request)
                where = (name, path, family, size, seconds, last)
                assert seconds < MOST, where
                assert seconds <= STEP * last + NOISE, where
                last = seconds
                if refused and size >= 1 << 14:
                    break
