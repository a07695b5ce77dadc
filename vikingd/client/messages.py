"""The clients for those who want the protobuf messages of vikingd.pb as they come."""

from __future__ import annotations

from vikingd.client.connection import AsyncConnection, Connection
from vikingd.client.methods import AwaitedMessages, BlockingMessages


class MessageClient(Connection, BlockingMessages):
    """As Client, but methods return messages and listings yield them."""

    _converts = False


class AsyncMessageClient(AsyncConnection, AwaitedMessages):
    """As AsyncClient, but methods return messages and listings yield them."""

    _converts = False
