"""URIs that exist, near to one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from vikingd.client import ClientError, NotFound
from vikingd.domain.uri import ROOT, is_within, join, name

if TYPE_CHECKING:
    from vikingd.client.messages import MessageClient

_MOST = 2_000  # children of a directory that are compared
_ROOTS = ("user", "users", "agent", "projects", "resources")  # they may be empty


@contextmanager
def naming_near_uris(client: MessageClient) -> Iterator[None]:
    """Run a block; the error for a missing URI then names the nearest one."""
    try:
        yield
    except NotFound as error:
        uri = error.metadata.get("uri", "")
        if near := _near(client, uri):
            above = is_within(uri, near)
            hint = f"the nearest that exists is {near}" if above else f"did you mean {near}?"
            error.message = f"{error.message}; {hint}"
        raise


def _near(client: MessageClient, uri: str) -> str:
    """Return the URI that follows a missing one furthest, with slips in names mended; "" for none.

    Only contexts that the caller may read count.
    """
    if not uri.startswith(ROOT):
        return ""
    near = ROOT
    for wanted in uri.removeprefix(ROOT).split("/"):
        try:
            found = _child(client, near, wanted)
        except ClientError:  # a file has no children
            break
        if not found:
            break
        near = join(near, found)
    return near if near not in (ROOT, uri) else ""


def _child(client: MessageClient, directory: str, wanted: str) -> str:
    """Return the name of a child: the wanted one, or the one most like it; "" for none."""
    names = [name(child.uri) for child in islice(client.list(directory), _MOST)]
    if directory == ROOT:
        if wanted in _ROOTS and wanted not in names:
            return ""  # nothing is below it yet
        names += _ROOTS
    if wanted in names:
        return wanted
    folded = {one.casefold(): one for one in names}
    close = get_close_matches(wanted.casefold(), folded, 1)
    return folded[close[0]] if close else ""
