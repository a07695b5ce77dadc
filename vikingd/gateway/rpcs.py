"""The RPCs of the daemon by the names of the client's methods, such as batch_find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2


@dataclass(frozen=True, slots=True)
class Rpc:
    """An RPC with the classes of its request and reply."""

    name: str
    descriptor: MethodDescriptor
    request: type[Message]
    reply: type[Message]
    streams: bool  # its reply
    path: str  # its name for gRPC


def _rpc(method: MethodDescriptor) -> Rpc:
    return Rpc(
        re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower(),
        method,
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        method.server_streaming,
        f"/{method.containing_service.full_name}/{method.name}",
    )


_ALL = (
    _rpc(method)
    for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2, access_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)

RPCS: Final = MappingProxyType({rpc.name: rpc for rpc in _ALL})
