"""Differences between two kept sets, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_format import MessageToString
from google.rpc.status_pb2 import Status

from tests.kept_replies.kept_calls import METHODS, KeptReply, parsed


@dataclass(frozen=True)
class Difference:
    """A difference between two replies of the same name.

    Attributes:
        name: of the reply.
        is_in_bytes_alone: both have the same message in other bytes.
        text: the lines that differ.
    """

    name: str
    is_in_bytes_alone: bool
    text: str


def differences(before: Sequence[KeptReply], after: Sequence[KeptReply]) -> Iterator[Difference]:
    """Yield the differences of two sets, in their order."""
    old, new = {one.name: one for one in before}, {one.name: one for one in after}
    for name in dict.fromkeys((*old, *new)):
        a, b = old.get(name), new.get(name)
        if a is None or b is None:
            where = "before" if b is None else "after"
            yield Difference(name, False, f"  exists only {where}")
        elif a != b:
            yield _difference(a, b)


def _difference(a: KeptReply, b: KeptReply) -> Difference:
    if _meaning(a) == _meaning(b):
        text = f"  before {_hex(a)}\n  after  {_hex(b)}"
        return Difference(a.name, True, f"  the same message, other bytes\n{text}")
    lines = unified_diff(_lines(a), _lines(b), "before", "after", n=6, lineterm="")
    return Difference(a.name, False, "\n".join(f"  {line}" for line in lines))


def _meaning(kept: KeptReply) -> object:
    """Return a reply with messages in place of bytes."""
    return replace(kept, status=b"", replies=()), Status.FromString(kept.status), parsed(kept)


def _lines(kept: KeptReply) -> list[str]:
    request = GetMessageClass(METHODS[kept.rpc].input_type)
    try:
        asked = MessageToString(request.FromString(kept.request), as_utf8=True)
    except ValueError:
        asked = kept.request.hex()
    status = MessageToString(Status.FromString(kept.status), as_utf8=True)
    replies = [MessageToString(one, as_utf8=True) for one in parsed(kept)]
    text = (
        f"request {{\n{asked}}}\ncode: {kept.code}\ndetails: {kept.details}\n"
        + f"status {{\n{status}}}\n"
        + "".join(f"trailing {one}\n" for one in kept.trailing)
        + "".join(f"reply {{\n{one}}}\n" for one in replies)
    )
    return text.splitlines()


def _hex(kept: KeptReply) -> str:
    """Return the bytes of a status and of replies; long ones are cut."""
    return " ".join(one.hex()[:400] for one in (kept.status, *kept.replies))
