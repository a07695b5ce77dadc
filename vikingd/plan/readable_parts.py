"""The readable parts of a query's target: each is a scope of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from viking_kernels.arrays import is_file

from vikingd.domain import uri as uris
from vikingd.domain.errors import NotFound
from vikingd.domain.find import FindQuery
from vikingd.domain.retrieve import RetrieveQuery
from vikingd.domain.rights import Caller
from vikingd.index.metadata import where as filters
from vikingd.index.snapshot import Snapshot

_Query = TypeVar("_Query", FindQuery, RetrieveQuery)


def parts_of(query: _Query, caller: Caller, snapshot: Snapshot) -> list[_Query]:
    """Return the query below each readable part of its target, in the order of URIs.

    If the whole target is readable, it is the only part, whether it exists or not. Of a target
    that is readable in part, parts that do not exist and parts that are files are left out.

    Raises:
        NotFound: nothing readable exists below a target other than the root.
        InvalidField: `where` is malformed.
    """
    within = caller.readable_above(query.target_uri)
    if within is not None:
        return [query if within == uris.ROOT else replace(query, within=within)]
    if query.where:
        filters.parse(query.where)  # first, as if the target did not exist
    roots = [(part, snapshot.root(part)) for part in caller.parts(query.target_uri)]
    found = [(part, root) for part, root in roots if root is not None]
    if not found and query.target_uri != uris.ROOT:
        raise NotFound(query.target_uri)
    return [
        replace(query, target_uri=part, within=part) for part, root in found if not is_file(root)
    ]
