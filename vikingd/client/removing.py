"""Removal of subtrees of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from vikingd.client.errors import TooLarge
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.pb.contexts_pb2 import DeleteResponse

MAX_DELETES = 1000
"""URIs that one call removes."""


def delete_in_parts(
    client: MessageClient, names: Sequence[str], *, allow_missing: bool = False
) -> Iterator[DeleteResponse]:
    """Delete contexts with all below them, and yield the reply of each call.

    A subtree that is too large for one call goes in parts, children first. Others see the rest,
    and an interruption leaves it.
    """
    try:
        yield client.delete(*names, allow_missing=allow_missing)
        return
    except TooLarge:
        if len(names) == 1:
            (uri,) = names
            while children := [child.uri for child in islice(client.list(uri), MAX_DELETES)]:
                yield from delete_in_parts(client, children, allow_missing=allow_missing)
            yield client.delete(uri, allow_missing=allow_missing)
            return
    outermost: list[str] = []
    for uri in sorted(names, key=lambda uri: uri.split("/")):
        if not outermost or not uris.is_within(uri, outermost[-1]):
            outermost.append(uri)
    if len(outermost) == 1:
        yield from delete_in_parts(client, outermost, allow_missing=allow_missing)
        return
    half = len(outermost) // 2
    yield from delete_in_parts(client, outermost[:half], allow_missing=allow_missing)
    yield from delete_in_parts(client, outermost[half:], allow_missing=allow_missing)
