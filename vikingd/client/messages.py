"""The client for callers who want the protobuf messages of vikingd.pb."""

from __future__ import annotations

from vikingd.client.connection import Connection
from vikingd.client.methods import BlockingMessages


class MessageClient(Connection, BlockingMessages):
    """A client like Client, but methods return messages and listings yield them."""

    _converts = False
