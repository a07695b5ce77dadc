"""The table of rights: for each RPC, the right that it needs on each URI of its request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from vikingd.domain import uri as uris
from vikingd.domain.errors import PermissionDenied
from vikingd.domain.rights import DEFAULT_TENANT, Caller, Right
from vikingd.pb import (
    access_pb2,
    admin_pb2,
    contexts_pb2,
    memories_pb2,
    retrieval_pb2,
)

FILES: Final = (access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2)
"""The modules of all services."""


class Target(Enum):
    """A check of a field that the service makes itself, because it is about more than one URI.

    The values describe the checks.
    """

    PARTS = "answered from the readable parts"
    SERVICE = "the service checks it"
    OF_KEY = "the service checks it, and viking://~ is of the new key's user"


Need = Right | Target


class Needs(NamedTuple):
    """The rights that an RPC needs.

    `audited` calls are written to the audit log. `adds` is True if a call may add contexts.
    """

    whole: Right | None
    """The right on viking://, whatever the request says."""

    fields: dict[str, Need]
    """The right on each URI of the request, by the path of the field."""

    audited: bool = False
    adds: bool = False


def _read(**fields: Need) -> Needs:
    return Needs(None, _paths(fields))


def _write(**fields: Need) -> Needs:
    return Needs(None, _paths(fields), audited=True)


def _paths(fields: dict[str, Need]) -> dict[str, Need]:
    return {name.replace("__", "."): need for name, need in fields.items()}


_ADMIN_OF_ALL = Needs(Right.ADMIN, {}, audited=True)
_KEYS = Needs(None, {"grants.uri_prefix": Target.OF_KEY}, audited=True)
_SERVICE = Needs(None, {}, audited=True)

NEEDS: Final[dict[str, Needs]] = {
    "Find": _read(target_uri=Target.PARTS),
    "BatchFind": _read(requests__target_uri=Target.PARTS),
    "Search": _read(target_uri=Target.PARTS),
    "Retrieve": _read(target_uri=Target.PARTS, boosts__uri_prefix=Target.PARTS),
    "BuildContext": _read(
        find__target_uri=Target.PARTS,
        retrieve__target_uri=Target.PARTS,
        retrieve__boosts__uri_prefix=Target.PARTS,
        uris__uris=Target.PARTS,
        items__items__uri=Target.PARTS,
    ),
    "Get": _read(uri=Right.READ),
    "List": _read(uri=Target.PARTS),
    "Tree": _read(uri=Target.PARTS),
    "Glob": _read(target_uri=Target.PARTS),
    "Grep": _read(target_uri=Target.PARTS),
    "Put": _write(contexts__uri=Right.WRITE)._replace(adds=True),
    "Delete": _write(uris=Right.WRITE),
    "Move": _write(source_uri=Right.WRITE, destination_uri=Right.WRITE),
    "Link": _write(uri=Right.WRITE, other_uri=Right.WRITE),
    "Unlink": _write(uri=Right.WRITE, other_uri=Right.WRITE),
    "Recall": Needs(None, {}),
    "Remember": _write(uri=Target.SERVICE)._replace(adds=True),
    "Extract": _SERVICE._replace(adds=True),
    "Reinforce": _SERVICE,
    "Forget": _SERVICE,
    "Stats": Needs(Right.ADMIN, {}),
    "Verify": Needs(Right.ADMIN, {}),
    "Optimize": _ADMIN_OF_ALL,
    "Reembed": _write(target_uri=Right.ADMIN),
    "Describe": _write(target_uri=Right.ADMIN),
    "Backup": _ADMIN_OF_ALL,
    "CreateKey": _KEYS,
    "ListKeys": _SERVICE,
    "RevokeKey": _SERVICE,
    "RotateKey": _SERVICE,
    "PutTenant": _SERVICE,
    "ListTenants": _SERVICE,
    "DeleteTenant": _SERVICE,
}
"""The rights that each RPC needs, by the name of the RPC."""

_HOME = f"{uris.ROOT}~"


class Rule:
    """The rights that one RPC needs, with the fields of its request resolved.

    Attributes:
        name: the name of the RPC.
        audited: True if each call is written to the audit log.
        is_of_access: True if the RPC is one of the service Access: keys and tenants.
        has_session: True if the RPC reads or writes contexts, so that `vikingd.wire.sessions` keeps
            its calls consistent.
    """

    def __init__(self, method: MethodDescriptor) -> None:
        needs = NEEDS[method.name]
        self.name: str = method.name
        self.audited = needs.audited
        service = method.containing_service.name
        self.is_of_access = service == "Access"
        self.has_session = service not in ("Access", "Admin")
        self._whole = needs.whole
        request = method.input_type
        self._fields = [_Field(request, path, need) for path, need in needs.fields.items()]
        self._adds = needs.adds
        self._named = [name for name in ("id", "name") if name in request.fields_by_name]
        has_revision = "revision" in method.output_type.fields_by_name
        self._reply: Any = GetMessageClass(method.output_type) if has_revision else None

    def tenant_of(self, caller: Caller) -> str:
        """Return the tenant whose handlers answer a call: the caller's tenant.

        For the service Access it is always the default tenant, since keys are in no tenant's store.
        """
        return DEFAULT_TENANT if self.is_of_access else caller.tenant

    def check(self, request: Message, caller: Caller) -> None:
        """Check that the caller has the needed rights on the URIs of a request.

        viking://~ in the request is replaced by the root of the caller's user. The check reads no
        stored data, so it does not tell which contexts exist.

        Raises:
            NotReadable: the caller may not read a URI.
            PermissionDenied: the caller has no right to write or administer a URI.
            InvalidField: a URI begins with viking://~ and the caller has no user.
        """
        if self._whole is not None:
            caller.check(self._whole, uris.ROOT)
        for field in self._fields:
            field.expand(request, caller.user)
        for field in self._fields:
            field.check(request, caller)

    def adds(self, request: Any) -> list[str] | None:
        """Return the URIs of contexts that a request may add; None if the RPC never adds any.

        A URI that the daemon chooses later, such as the file of a memory, is "".
        """
        if not self._adds:
            return None
        if self.name == "Put":
            return [context.uri for context in request.contexts]
        return [getattr(request, "uri", "")]

    def objects(self, request: Message, reply: Any) -> list[str]:
        """Return the objects of a call for the audit log: URIs, keys, tenants, ids of memories."""
        found = [uri for field in self._fields for uri in field.values(request)]
        if self.name == "Put" and reply is not None and reply.refusals:
            refused = {one.index for one in reply.refusals}
            found = [uri for i, uri in enumerate(found) if i not in refused]
        if self.name in ("Reinforce", "Forget"):
            found += map(str, request.ids)  # type: ignore[attr-defined]
        if self.name == "Reinforce":
            found += map(str, request.used)  # type: ignore[attr-defined]
        if self.name == "Remember" and reply is not None:
            found = [reply.uri]
        if self.name == "Extract" and reply is not None:
            turns = [reply.episode.uri] if reply.episode.turns else []
            found = list(dict.fromkeys([*(memory.uri for memory in reply.memories), *turns]))
        if self.is_of_access:
            found += [getattr(request, name) for name in self._named]
            found += [reply.key.id] if self.name == "CreateKey" and reply is not None else []
        return found

    def revision(self, reply: Any) -> int | None:
        """Return the revision in a reply, which may be encoded; None if the reply has none."""
        if self._reply is None or reply is None:
            return None
        if isinstance(reply, bytes):
            reply = self._reply.FromString(reply)
        return int(reply.revision)


def rules() -> dict[str, Rule]:
    """Return the rule of each method, by path such as /viking.retrieval.v1.Contexts/Put."""
    return {
        f"/{service.full_name}/{method.name}": Rule(method)
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


class _Field:
    """A field of a request that has URIs, given by its path, such as `contexts.uri`."""

    def __init__(self, request: Descriptor, path: str, need: Need) -> None:
        self._need = need
        *above, self._name = path.split(".")
        self._above: list[tuple[str, bool]] = []
        owner: Any = request
        for name in above:
            field = owner.fields_by_name[name]
            self._above.append((name, field.is_repeated))
            owner = field.message_type
        last: FieldDescriptor = owner.fields_by_name[self._name]
        self._is_repeated = last.is_repeated

    def expand(self, message: Message, user: str) -> None:
        """Replace viking://~ in the field's URIs by the directory of the user."""
        if self._need is Target.OF_KEY:
            return
        for owner in self._owners(message):
            value = getattr(owner, self._name)
            if self._is_repeated:
                for i, one in enumerate(value):
                    if one.startswith(_HOME):
                        value[i] = uris.expand(one, user, f"{self._name}[{i}]")
            elif value.startswith(_HOME):
                setattr(owner, self._name, uris.expand(value, user, self._name))

    def check(self, message: Message, caller: Caller) -> None:
        """Check that the caller has the needed right on each URI of the field.

        Raises:
            NotReadable: the caller may not read a URI.
            PermissionDenied: the caller has no right to write or administer a URI.
        """
        need = self._need
        if caller.is_operator or not isinstance(need, Right):
            return
        for value in self.values(message):
            uri = value.removesuffix("/") if value != uris.ROOT else value
            if need is Right.READ:
                caller.check_read(uri)
            else:
                caller.check(need, uri or uris.ROOT)

    def values(self, message: Message) -> Iterator[str]:
        for owner in self._owners(message):
            value = getattr(owner, self._name)
            yield from value if self._is_repeated else (value,)

    def _owners(self, message: Any) -> Iterable[Any]:
        owners = [message]
        for name, is_repeated in self._above:
            if is_repeated:
                owners = [below for one in owners for below in getattr(one, name)]
            else:
                owners = [getattr(one, name) for one in owners if one.HasField(name)]
        return owners


def check_operator(caller: Caller) -> None:
    """Raise PermissionDenied unless the caller is an operator."""
    if not caller.is_operator:
        raise PermissionDenied(
            f"the key {caller.key} is not an operator's, and only operators may do this",
            key=caller.key,
        )
