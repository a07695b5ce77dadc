"""The clients whose methods return the protobuf messages of vikingd.pb unchanged."""

from __future__ import annotations

from vikingd.client.connection import AsyncConnection, Connection
from vikingd.client.methods import AwaitedMessages, BlockingMessages


class MessageClient(Connection, BlockingMessages):
    """Same as Client, but methods return messages and listings yield them."""

    _converts = False


class AsyncMessageClient(AsyncConnection, AwaitedMessages):
    """Same as AsyncClient, but methods return messages and listings yield them."""

    _converts = False
