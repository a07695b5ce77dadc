"""Calls in raw bytes, and the replies as they are kept."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2  # noqa: F401  # the messages in a status
from google.rpc.status_pb2 import Status

from tests.kept_replies.kept_requests import Asked
from tests.kept_replies.kept_tree import vector
from tests.kept_replies.wire_masks import masked
from vikingd.client.method_declarations import Stubs
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.pb.admin_pb2 import StatsRequest, StatsResponse

METHODS = {
    method.name: method
    for file in (access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""The descriptors of all RPCs by name."""

WRITES = frozenset(("Put", "Move", "Remember", "Extract", "Forget", "Reembed"))
"""RPCs after which texts may wait for vectors."""

_PATIENCE = 300.0  # seconds for the work in the background of a busy machine
_STATUS = "grpc-status-details-bin"
_POINT = re.compile(rb"[0-9a-f]{32}\.[0-9a-f]{16}(?=\.)")
_WAIT = re.compile(r"\b[0-9][0-9.e+]* s\b")


@dataclass(frozen=True)
class KeptReply:
    """A reply without chance.

    Attributes:
        name: unique in a set.
        rpc: name of the RPC.
        request: the bytes that were sent.
        code: name of the status code.
        details: text of the status.
        status: bytes of google.rpc.Status.
        trailing: names and values of metadata.
        replies: bytes of the reply, or of those of a stream.
    """

    name: str
    rpc: str
    request: bytes
    code: str
    details: str
    status: bytes
    trailing: tuple[str, ...]
    replies: tuple[bytes, ...]


class Caller:
    """A sender of requests that keeps all replies.

    Args:
        address: of the daemon.
        daemon: name of the daemon, the beginning of all names.
        makes_vectors: the daemon has an embedder.
    """

    def __init__(self, address: str, daemon: str, *, makes_vectors: bool) -> None:
        self.kept: list[KeptReply] = []
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
        )
        self._daemon = daemon
        self._makes_vectors = makes_vectors
        self._secrets: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._chance: list[tuple[bytes, bytes]] = []
        self._numbers: Counter[str] = Counter()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def ask(self, asked: Asked) -> Any:
        """Send a request, and those of its next pages; return the last reply."""
        fields = {name: self._ids.get(str(value), value) for name, value in asked.fields.items()}
        if fields.get("vector") == "of query":
            fields["vector"] = "" if self._makes_vectors else vector(fields["query"])
        if asked.rpc == "BuildContext":  # Accesses are counted later, by a commit of their own.
            fields["noTouch"] = True
        method = METHODS[asked.rpc]
        reply: Any = None
        replies = 0
        while replies < asked.pages and (not replies or getattr(reply, "next_page_token", "")):
            if replies:
                fields["pageToken"] = reply.next_page_token
            request = ParseDict(fields, GetMessageClass(method.input_type)())
            data = request.SerializeToString(deterministic=True)
            reply = self._send(asked, data if asked.raw is None else bytes.fromhex(asked.raw))
            replies += 1
        if asked.rpc in WRITES and self._makes_vectors:
            self._wait(asked, lambda stats: not stats.embedder.backlog)
        strict = asked.rpc == "Recall" and (fields.get("paths") or fields.get("used"))
        counted = strict and not fields.get("noTouch") and reply is not None
        if counted and any(one.id for one in reply.results):
            self._wait(asked, lambda stats: stats.revision > reply.revision)
        return reply

    def create_key(self, asked: Asked, who: str) -> None:
        """Create the key of a caller."""
        self._secrets[who] = self.ask(asked).secret

    def _send(self, asked: Asked, data: bytes) -> Any:
        method = METHODS[asked.rpc]
        metadata = asked.metadata
        if asked.who:
            key = self._secrets.get(asked.who, asked.who)
            metadata = (*metadata, ("authorization", f"Bearer {key}"))
        if len(self.kept) % 2 and "vikingd-point" not in dict(metadata):
            metadata = (*metadata, ("vikingd-point", ""))
        path = f"/{method.containing_service.full_name}/{asked.rpc}"
        with_metadata: dict[str, Any] = {"timeout": asked.timeout, "metadata": metadata}
        code, details, replies = "OK", "", []
        if method.server_streaming:
            call: Any = self._channel.unary_stream(path)(data, **with_metadata)
        else:
            call = self._channel.unary_unary(path).future(data, **with_metadata)
        try:
            replies = list(call) if method.server_streaming else [call.result()]
        except grpc.RpcError as error:
            code, details = error.code().name, error.details() or ""
        trailing = dict(call.trailing_metadata() or ())
        status = trailing.pop(_STATUS, b"")
        reply = GetMessageClass(method.output_type).FromString(replies[-1]) if replies else None
        if reply is not None and hasattr(reply, "secret"):
            self._learn(reply)
        if code == "DEADLINE_EXCEEDED":  # whose clock ends the call is chance
            details, status, trailing = "", b"", {}
        shown = [masked(one, method.output_type) for one in replies]
        of = f" of {asked.who[:20]}" if asked.who else ""
        self._numbers[asked.section] += 1
        self.kept.append(
            KeptReply(
                f"{self._daemon}, {asked.section} {self._numbers[asked.section]}: {asked.rpc}{of}",
                asked.rpc,
                self._named(data),
                code,
                self._text(details),
                self._status(status),
                tuple(f"{k}: {self._text(v)}" for k, v in sorted(trailing.items())),
                tuple(dict.fromkeys(map(self._named, shown))),
            )
        )
        return reply

    def _learn(self, reply: Any) -> None:
        """Mask the id and the secret of a key from now on."""
        _, id_, secret = reply.secret.split("_")
        self._ids[f"ID of {reply.key.user}"] = id_
        for text in (id_, secret):
            place = str(len(self._chance)).zfill(len(text))
            self._chance.append((text.encode(), place.encode()))

    def _named(self, data: bytes) -> bytes:
        """Return bytes with others of the same length in place of each random word."""
        for word, name in self._chance:
            data = data.replace(word, name)
        return _POINT.sub(lambda found: b"." * len(found[0]), data)

    def _text(self, text: str) -> str:
        return _WAIT.sub("N s", self._named(text.encode()).decode())

    def _status(self, data: bytes) -> bytes:
        status = Status.FromString(masked(data, Status.DESCRIPTOR))
        status.message = self._text(status.message)
        return self._named(status.SerializeToString(deterministic=True))

    def _wait(self, asked: Asked, condition: Callable[[StatsResponse], bool]) -> None:
        """Wait until a write in the background is done, so that later revisions are no chance."""
        stats = Stubs(self._channel).admin.Stats
        ends = time.monotonic() + _PATIENCE
        while not condition(stats(StatsRequest(), metadata=asked.metadata)):
            if time.monotonic() > ends:
                raise TimeoutError(f"the work after {self.kept[-1].name} does not end")
            time.sleep(0.005)


def parsed(kept: KeptReply) -> list[Message]:
    """Return the messages of a reply."""
    made = GetMessageClass(METHODS[kept.rpc].output_type)
    return [made.FromString(one) for one in kept.replies]


def write(path: Path, kept: Sequence[KeptReply]) -> None:
    """Write replies to a file, one in a line."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for one in kept:
            file.write(json.dumps(asdict(one), default=lambda b: base64.b64encode(b).decode()))
            file.write("\n")


def read(path: Path) -> list[KeptReply]:
    """Return the replies of a file."""
    out = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            for name in ("request", "status"):
                row[name] = base64.b64decode(row[name])
            row["trailing"] = tuple(row["trailing"])
            row["replies"] = tuple(map(base64.b64decode, row["replies"]))
            out.append(KeptReply(**row))
    return out
