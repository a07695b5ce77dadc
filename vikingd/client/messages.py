"""The clients for those who want the protobuf messages of vikingd.pb as they come."""

from __future__ import annotations

from vikingd.client.connection import AsyncConnection, Connection


class MessageClient(Connection):
    """As Client, but methods return messages and listings yield them."""

    _converts = False


class AsyncMessageClient(AsyncConnection):
    """As AsyncClient, but methods return messages and listings yield them."""

    _converts = False
