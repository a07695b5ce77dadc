"""A check against endless listings."""

from __future__ import annotations

from typing import Any

import grpc

from vikingd.client.client_errors import ClientError

MOST_EMPTY = 10_000
"""The most pages in a row without an item; a page of a search may be empty, and the next not."""


class ListingCheck:
    """A check that a listing ends: no page token or first item comes twice."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._firsts: set[bytes] = set()
        self._empty = 0

    def check(self, items: Any, token: str) -> None:
        """Record the items of a page and the token of the next one.

        Raises:
            ClientError: the token or the first item was in an earlier page, or too many pages in a
                row had no item.
        """
        self._empty = 0 if items else self._empty + 1
        first = items[0].SerializeToString(deterministic=True) if items else None
        if token in self._tokens:
            raise _stuck(f"page token {token[:100]!r} came twice")
        if first in self._firsts:
            raise _stuck("two pages begin with the same item")
        if self._empty > MOST_EMPTY:
            raise _stuck(f"{MOST_EMPTY:,} pages in a row are empty")
        if token:
            self._tokens.add(token)
        if first is not None:
            self._firsts.add(first)


def _stuck(why: str) -> ClientError:
    return ClientError(
        grpc.StatusCode.INTERNAL,
        f"the daemon's pages make no progress: {why}; the listing was not read to its end",
        "NO_PROGRESS",
    )
