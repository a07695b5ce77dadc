"""Removal of subtrees of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from vikingd import uri as uris
from vikingd.client.errors import TooLarge

if TYPE_CHECKING:
    from vikingd.client.contexts import DeleteResult
    from vikingd.client.messages import MessageClient
    from vikingd.client.sync import Client
    from vikingd.pb.contexts_pb2 import DeleteResponse

    Reply: TypeAlias = DeleteResult | DeleteResponse

MAX_DELETES = 1000
"""URIs that one call removes."""


def delete_in_parts(client: Client | MessageClient, names: Sequence[str]) -> Iterator[Reply]:
    """Delete contexts with all below them, and yield the reply of each call.

    What is too large for one call goes in parts, children first: others see what is left meanwhile,
    and so does whoever comes after an interruption.
    """
    try:
        yield client.delete(*names)
        return
    except TooLarge:
        if len(names) == 1:
            (uri,) = names
            while children := [child.uri for child in islice(client.list(uri), MAX_DELETES)]:
                yield from delete_in_parts(client, children)
            yield client.delete(uri)
            return
    outermost: list[str] = []
    for uri in sorted(names, key=lambda uri: uri.split("/")):
        if not outermost or not uris.is_within(uri, outermost[-1]):
            outermost.append(uri)
    if len(outermost) == 1:
        yield from delete_in_parts(client, outermost)
        return
    half = len(outermost) // 2
    yield from delete_in_parts(client, outermost[:half])
    yield from delete_in_parts(client, outermost[half:])
