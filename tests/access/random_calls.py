"""A random caller of all RPCs that keeps what it is told, without what may differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from tests.answer.parts_helpers import REQUESTS, Asker, Writer
from tests.wire.wire_helpers import to_struct
from vikingd.client.method_declarations import Stubs
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

Metadata = tuple[tuple[str, str], ...]
SECRET_WORD = "sesame"
"""It is in each text of contexts and memories, and in most queries."""

MISSING = 10**9  # an id and a revision that do not exist
NOW = {"seconds": 1_772_600_000}

CLOCK = frozenset(
    {
        "timings",
        "duration",
        "create_time",
        "update_time",
        "last_use_time",
        "revoke_time",
        "old_expire_time",
        "start_time",
        "retry_time",
    }
)
"""Durations, and times of the daemon's clock. They may always differ."""

CHANCE = frozenset(
    {
        "Key.id",
        "RotateKeyRequest.id",
        "RevokeKeyRequest.id",
        "secret",
        "store_bytes",
        "bytes_on_disk",
        "compacting",
        "data",
    }
)
"""Random ids and secrets of keys, bytes on disk, and backups, which have times in them."""

OF_CLOSING = frozenset(
    ("StatsResponse.index", "FindTrace.directories", "OptimizeResponse.generation")
)
"""What a closing of the store changes, because it folds the index: its figures, and the order of
rows, which is that of equal directories in a trace. Other tenants that need the room cause
closings."""

OF_TENANT = frozenset(("revision",))
NUMBERED = frozenset(("id", "ids", "min_revision", "expected_revision"))
"""What users of one tenant share: its revisions, and the numbers of memories, which are numbered
anew in the order in which a caller sees them."""


class Told(NamedTuple):
    """What a caller is told."""

    rpc: str
    request: str
    code: str
    reply: bytes
    error: str


class Walker:
    """Makes random calls with one key, and keeps what it is told.

    The same seed makes the same calls, as long as the replies are the same.

    Args:
        stubs: of the daemon.
        key: text of the key.
        seed: of what is written and of the choice of calls.
        asked: seed of the queries.
        tops: directories below which it writes.
        targets: of queries and listings.
        hidden: names of fields that may differ; a name may have that of its message before it.
        one_of_many: ids and revisions are shared with other users, so they are numbered anew.
    """

    def __init__(
        self,
        stubs: Stubs,
        key: str,
        seed: int,
        asked: int,
        tops: Sequence[str],
        targets: Sequence[str],
        *,
        hidden: frozenset[str] = CLOCK | CHANCE,
        one_of_many: bool = False,
    ) -> None:
        self.told: list[Told] = []
        self.stubs = stubs
        self._metadata: Metadata = (("authorization", f"Bearer {key}"),)
        self._own = key.split("_")[1]
        self._random = Random(seed)
        self._writer = Writer(seed)
        self._tops, self._targets = list(tops), list(targets)
        self._hidden = hidden | (OF_TENANT if one_of_many else frozenset())
        self._one_of_many = one_of_many
        self._uris = [f"{top}/{i}.md" for top in tops for i in range(3)]
        self._ids: list[int] = []
        self._places: dict[int, int] = {}
        self._keys: list[str] = []
        self._revision = 0
        self._found_at: dict[str, int] = {}
        self._asker = _Asker(asked, self._uris, self._targets)

    def step(self) -> None:
        """Make one random call, or the calls of all pages of a listing."""
        names = ["put"] * 8 + ["ask"] * 14 + ["remember", "recall", "listing", "get"] * 4
        names += ["delete", "move", "link", "link", "unlink", "reinforce", "reinforce", "forget"]
        names += ["wrong", "wrong", "admin", "admin", "access"]
        getattr(self, f"_{self._random.choice(names)}")()

    # Calls

    def call(self, service: str, rpc: str, request: Message, timeout: float = 60.0) -> Any:
        """Make a call and keep what it tells; return the reply, or None after an error."""
        stub = getattr(getattr(self.stubs, service), rpc)
        asked, code, error, shown = self._plain(request), "OK", "", b""
        reply = None
        try:
            sent = stub(request, metadata=self._metadata, timeout=timeout)
            reply = list(sent)[-1] if rpc == "Backup" else sent
        except grpc.RpcError as raised:
            code, error = raised.code().name, self._error(raised)
        if reply is not None:
            shown = self._bytes(reply)
            self._revision = max(self._revision, getattr(reply, "revision", 0))
        self.told.append(Told(rpc, asked, code, shown, error))
        return reply

    def _plain(self, message: Message) -> str:
        return self._bytes(message).hex(" ", -4)

    def _bytes(self, message: Message) -> bytes:
        copy = type(message)()
        copy.CopyFrom(message)
        self._clean(copy)
        return copy.SerializeToString(deterministic=True)

    def _clean(self, message: Any) -> None:
        owner = message.DESCRIPTOR.name
        for field, value in message.ListFields():
            if field.name in self._hidden or f"{owner}.{field.name}" in self._hidden:
                message.ClearField(field.name)
            elif field.name == "time" and value.seconds != NOW["seconds"]:
                message.ClearField("time")  # of a directory that was made for a file
            elif self._one_of_many and field.name in NUMBERED:
                self._number(message, field, value)
            elif field.name == "icc":
                message.icc = round(value, 9)  # its last bits depend on the order of sums
            elif field.message_type is not None and field.message_type.name != "Struct":
                for one in value if field.is_repeated else [value]:
                    self._clean(one)

    def _number(self, message: Any, field: Any, value: Any) -> None:
        """Replace ids by their places in the order of their first appearance."""
        if field.name.endswith("revision"):
            setattr(message, field.name, 1)
        elif field.is_repeated:
            numbered = [self._place(one) for one in value]
            del value[:]
            value.extend(numbered)
        elif field.cpp_type == field.CPPTYPE_UINT64:
            setattr(message, field.name, self._place(value))

    def _place(self, one: int) -> int:
        return one if one >= MISSING else self._places.setdefault(one, len(self._places) + 1)

    def _error(self, raised: grpc.RpcError) -> str:
        if raised.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ""  # whose clock ends the call is chance
        trailing = dict(raised.trailing_metadata())
        status = Status.FromString(trailing.pop("grpc-status-details-bin", b""))
        told = f"{raised.details()} {status.message} {sorted(trailing.items())}"
        for one in status.details:  # the order of a map's bytes is chance
            told += " " + MessageToJson(one, indent=None, sort_keys=True)
        for key in (self._own, *self._keys):
            told = told.replace(key, "KEY")
        if self._one_of_many:
            told = re.sub(r'(revision\D{1,30}|memory |"uri": ")\d+', r"\1N", told)
            told = re.sub(r"\d+ is expected", "N is expected", told)
        return told

    # Random requests

    def _may(self, chance: float) -> bool:
        return self._random.random() < chance

    def _text(self) -> str:
        return f"{SECRET_WORD} {self._writer.text()}"

    def _some(self) -> str:
        return self._random.choice(self._uris)

    def _new(self) -> str:
        folder = self._random.choice(("", "/d", "/d/e", "/f"))
        return f"{self._random.choice(self._tops)}{folder}/{self._random.randint(0, 12)}.md"

    def _target(self) -> str:
        return self._random.choice((*self._targets, *self._tops, ""))

    def _put(self) -> None:
        contexts = []
        for uri in {self._new(): None for _ in range(self._random.choice((1, 1, 2, 6)))}:
            lines = [f"- {self._text()}\n" for _ in range(self._random.randint(1, 3))]
            content = "".join(lines)
            context: dict[str, Any] = {"uri": uri, "abstract": self._text(), "time": NOW}
            context["vector"] = self._writer.vector(context["abstract"])
            if self._may(0.2):
                context |= {"uri": uri.rpartition("/")[0], "is_directory": True}
            else:
                ends = [sum(map(len, lines[: i + 1])) for i in range(len(lines))]
                context["passages"] = [
                    {
                        "start": end - len(line),
                        "end": end,
                        "vector": self._writer.vector(line),
                    }
                    for line, end in zip(lines, ends, strict=True)
                ]
                context |= {"content": content, "title": self._writer.text()}
                context["metadata"] = to_struct(
                    {"year": self._random.randint(2020, 2023), "lang": self._random.choice("ab")}
                )
            if self._may(0.1):
                context["expected_revision"] = self._random.choice((0, self._found_at.get(uri, 1)))
            if self._may(0.1):
                context["update_mask"] = FieldMask(paths=["abstract", "vector"])
            contexts.append(context)
        request = contexts_pb2.PutRequest(contexts=contexts, wait_for_vectors=self._may(0.1))
        if self.call("contexts", "Put", request) is not None:
            self._uris += [context["uri"] for context in contexts]

    def _get(self) -> None:
        uri = self._random.choice(
            (self._some(), f"{self._target()}/{self._random.randrange(3)}.md")
        )
        request = contexts_pb2.GetRequest(uri=uri, min_revision=self._revision)
        reply = self.call("contexts", "Get", request)
        if reply is not None:
            self._found_at[uri] = reply.context.revision

    def _listing(self) -> None:
        uri, depth = self._target(), self._random.choice((0, 1, 2))
        requests: dict[str, Any] = {
            "List": contexts_pb2.ListRequest(uri=uri),
            "Tree": contexts_pb2.TreeRequest(uri=uri, depth=depth),
            "Glob": contexts_pb2.GlobRequest(pattern="**", target_uri=uri),
            "Grep": contexts_pb2.GrepRequest(pattern="a|e", target_uri=uri),
        }
        name, request = self._random.choice(list(requests.items()))
        request.page_size = self._random.choice((2, 5, 1000))
        for _ in range(4):
            reply = self.call("contexts", name, request)
            if reply is None or not reply.next_page_token:
                return
            request.page_token = reply.next_page_token

    def _ask(self) -> None:
        rpc = self._random.choice(list(REQUESTS))
        request = self._asker.request(rpc)
        if rpc in ("Find", "Search", "Retrieve"):
            request.min_revision = self._revision
        if rpc == "Find":
            # Of many texts with equal words a walk looks at 64: those of the oldest rows, whose
            # order is that of the last compaction. A walk of all directories finds the others, too.
            # Its trace has directories of equal scores in that order, too.
            request.max_directories = 0
            request.trace = request.trace and request.method != retrieval_pb2.METHOD_BEST_FIRST
        if rpc != "Retrieve" and hasattr(request, "query") and self._may(0.5):
            request.query = f"{SECRET_WORD} {request.query}"
        for _ in range(3):
            reply = self.call("retrieval", rpc, request)
            if reply is None or not getattr(reply, "next_page_token", ""):
                return
            request.page_token = reply.next_page_token

    def _delete(self) -> None:
        request = contexts_pb2.DeleteRequest(uris=[self._some()], allow_missing=self._may(0.5))
        self.call("contexts", "Delete", request)

    def _move(self) -> None:
        request = contexts_pb2.MoveRequest(source_uri=self._some(), destination_uri=self._new())
        if self.call("contexts", "Move", request) is not None:
            self._uris.append(request.destination_uri)

    def _link(self) -> None:
        request = contexts_pb2.LinkRequest(
            uri=self._some(), other_uri=self._some(), reason=self._text()
        )
        self.call("contexts", "Link", request)

    def _unlink(self) -> None:
        request = contexts_pb2.UnlinkRequest(uri=self._some(), other_uri=self._some())
        self.call("contexts", "Unlink", request)

    def _remember(self) -> None:
        request = memories_pb2.RememberRequest(
            text=f"{SECRET_WORD} likes {self._writer.text()}",
            memory_type=self._random.choice(("", "preference", "event")),
            time=NOW,
            exact=self._may(0.7),
            request_id=self._random.choice(("", f"r{self._random.randrange(6)}")),
        )
        if self._may(0.3):
            request.scope.project = "p"
        if self._may(0.3):
            request.uri = f"{self._tops[0]}/notes.md"
        reply = self.call("memories", "Remember", request)
        if reply is not None and reply.id not in self._ids:
            self._ids.append(reply.id)

    def _recall(self) -> None:
        query = self._random.choice((self._text(), "preferences", "what was yesterday"))
        request = memories_pb2.RecallRequest(
            query=query,
            scope={"with_global": True, "project": self._random.choice(("", "p"))},
            now=NOW,
            no_touch=True,
            min_revision=self._revision,
            top_k=self._random.choice((0, 1, 5)),
            max_tokens=self._random.choice((0, 60)),
        )
        if self._may(0.7):
            request.vector = self._writer.vector(query)
        self.call("memories", "Recall", request)

    def _reinforce(self) -> None:
        ids = self._random.sample(self._ids, min(2, len(self._ids)))
        if self._may(0.2):
            ids.append(MISSING)
        request_id = self._random.choice(("", "", f"r{self._random.randrange(6)}"))
        request = memories_pb2.ReinforceRequest(ids=ids, by=2, request_id=request_id)
        self.call("memories", "Reinforce", request)

    def _forget(self) -> None:
        request = memories_pb2.ForgetRequest(now=NOW, dry_run=self._may(0.5))
        if self._may(0.5):
            request.ids.extend(self._random.sample(self._ids, min(1, len(self._ids))))
        else:
            request.scope.with_global = True
            request.below_salience = 0.12
        self.call("memories", "Forget", request)

    def _wrong(self) -> None:
        """Make a call that fails: what fails for all, and what the key has no right to."""
        service, rpc, request, timeout = self._random.choice(
            (
                ("contexts", "Get", contexts_pb2.GetRequest(uri="viking://nowhere/x"), 60.0),
                ("contexts", "Get", contexts_pb2.GetRequest(uri=f"{self._tops[0]}/no.md"), 60.0),
                ("contexts", "List", contexts_pb2.ListRequest(page_token="f:x"), 60.0),
                (
                    "contexts",
                    "Put",
                    contexts_pb2.PutRequest(
                        contexts=[{"uri": f"{self._tops[0]}/9.md", "vector": b"\0" * 12}]
                    ),
                    60.0,
                ),
                (
                    "contexts",
                    "Delete",
                    contexts_pb2.DeleteRequest(uris=[self._some()], expected_revision=MISSING),
                    60.0,
                ),
                (
                    "contexts",
                    "Get",
                    contexts_pb2.GetRequest(uri=self._some(), min_revision=MISSING),
                    0.2,
                ),
                ("access", "ListTenants", access_pb2.ListTenantsRequest(), 60.0),
                ("access", "DeleteTenant", access_pb2.DeleteTenantRequest(name="globex"), 60.0),
                ("access", "PutTenant", access_pb2.PutTenantRequest(name="globex"), 60.0),
                ("access", "RevokeKey", access_pb2.RevokeKeyRequest(id="0123abcd"), 60.0),
                ("memories", "Forget", memories_pb2.ForgetRequest(ids=[MISSING]), 60.0),
                ("memories", "Remember", memories_pb2.RememberRequest(), 60.0),
            )
        )
        self.call(service, rpc, request, timeout)

    def _admin(self) -> None:
        rpc, request = self._random.choice(
            (
                ("Stats", admin_pb2.StatsRequest()),
                ("Stats", admin_pb2.StatsRequest()),
                ("Verify", admin_pb2.VerifyRequest()),
                ("Optimize", admin_pb2.OptimizeRequest()),
                ("Reembed", admin_pb2.ReembedRequest(target_uri=self._tops[0])),
                ("Describe", admin_pb2.DescribeRequest(target_uri=self._tops[0], dry_run=True)),
                ("Backup", admin_pb2.BackupRequest()),
            )
        )
        self.call("admin", rpc, request)

    def _access(self) -> None:
        kind = self._random.randrange(4)
        if kind == 0 or not self._keys:
            request = access_pb2.CreateKeyRequest(
                user="carl",
                grants=[{"right": access_pb2.RIGHT_READ, "uri_prefix": self._tops[0]}],
                note=SECRET_WORD,
                certificate_subject=self._random.choice(("", "", "CN=carl")),
            )
            reply = self.call("access", "CreateKey", request)
            if reply is not None:
                self._keys.append(reply.key.id)
        elif kind == 1:
            self.call("access", "ListKeys", access_pb2.ListKeysRequest())
        else:
            name = "RevokeKey" if kind == 2 else "RotateKey"
            request_of: Any = getattr(access_pb2, f"{name}Request")
            self.call("access", name, request_of(id=self._random.choice(self._keys)))


class _Asker(Asker):
    """Queries with other targets."""

    def __init__(self, seed: int, uris: Sequence[str], targets: Sequence[str]) -> None:
        super().__init__(seed, uris)
        self._uris = list(uris)
        self._targets = targets

    def _target(self) -> str:
        return self._random.choice(self._targets) if self._may(0.6) else ""
