"""Removal of subtrees of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from vikingd.client.client_errors import TooLarge
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.pb.contexts_pb2 import DeleteResponse

MAX_DELETES = 1000
"""The most URIs of one call."""


def delete_in_parts(
    client: MessageClient, names: Sequence[str], *, allow_missing: bool = False
) -> Iterator[DeleteResponse]:
    """Delete contexts with all below them, and yield the reply of each call.

    A deletion that is too large for one call is made in parts, children first. During the deletion
    and after an interruption, other clients see the remaining contexts.
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
    tops = outermost(names)
    half = len(tops) // 2
    for part in (tops[:half], tops[half:]):
        if part:
            yield from delete_in_parts(client, part, allow_missing=allow_missing)


def outermost(names: Iterable[str]) -> list[str]:
    """Return the URIs that are not below another one of them."""
    tops: list[str] = []
    for uri in sorted(names, key=lambda uri: uri.split("/")):
        if not tops or not uris.is_within(uri, tops[-1]):
            tops.append(uri)
    return tops
