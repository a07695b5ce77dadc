"""The client for callers who want the protobuf messages of vikingd.pb."""

from __future__ import annotations

from vikingd.client.client_connection import Connection, with_functions
from vikingd.client.method_declarations import BlockingMessages


@with_functions
class MessageClient(Connection, BlockingMessages):
    """A client like Client, but methods return messages and listings yield them."""

    _reads = False
