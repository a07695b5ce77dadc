"""The common parts of all sources: options, names, metadata and checked drafts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import grpc

from vikingd.client.client_errors import ClientError
from vikingd.client.file_import import Item
from vikingd.ctl.migrations.given_vectors import Vectors
from vikingd.ctl.migrations.notes import Notes
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.draft_preparation import check
from vikingd.ingest.files import microseconds
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.jsonl import Tree
from vikingd.ingest.limits import MAX_EXACT
from vikingd.system.install_command import install_command

_FORBIDDEN = re.compile(r"[/%\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_FORBIDDEN_OR_NOT_ASCII = re.compile(r"[/%\x00-\x1f\x7f-\U0010ffff]")


@dataclass(slots=True)
class Asked:
    """The arguments of a migration.

    Attributes:
        place: a path or a URL.
        uri: the URI to import to; "" for the default of the source.
        collections: names of collections of Chroma; none: all.
        columns: the column of a table for each field, such as {"text": "body"}.
        key: the key of a server; "" for none.
        vectors: decides which given vectors are used.
        notes: remarks, which are complete after the last item.
    """

    place: str
    uri: str = ""
    delete: bool = False
    collections: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default="", repr=False)
    vectors: Vectors = field(default_factory=Vectors)
    notes: Notes = field(default_factory=Notes)


@dataclass(slots=True)
class Source:
    """An opened source: the top URI of its items, the items, and an estimate of their number."""

    top: str
    items: Iterator[Item]
    count: int


def name_of(identifier: str) -> str:
    """Return a segment of a URI for an id; different ids have different segments.

    Control characters, "/", "%" and a whole "." or ".." are percent-encoded. So are the characters
    outside of ASCII in an id that a URI cannot have as it is, see `uris.canonical`.
    """
    if identifier in (".", ".."):
        return identifier.replace(".", "%2E")
    forbidden = _FORBIDDEN if uris.canonical(identifier) == identifier else _FORBIDDEN_OR_NOT_ASCII
    return forbidden.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(errors="surrogatepass")),
        identifier,
    )


def fitted(values: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return metadata that can be stored; each changed or omitted value gets a note.

    Values of None are left out without a note. Times become ISO 8601.
    """
    kept = {}
    for key, value in values.items():
        if value is not None:
            fits = _fitted(value, f"metadata {key!r}", notes)
            if fits is not None:
                kept[str(key)] = fits
    return kept


def checked(where: str, draft: Draft, tree: Tree) -> Draft | Unreadable:
    """Return a checked draft that fits into the tree, or the reason why it is not imported.

    Args:
        where: the name of the record for the user.
        draft: the draft of the record.
        tree: the drafts before it; the draft is added.
    """
    try:
        draft = check(draft)
        tree.add(draft)
    except InvalidField as error:
        return Unreadable(where, str(error), valid(draft.uri))
    return draft


def time_of(value: Any, field: str) -> int | None:
    """Return a time in ISO 8601 in microseconds since the epoch; None if there is none.

    Raises:
        InvalidField: it is not ISO 8601.
    """
    try:
        return microseconds(str(value or ""))
    except ValueError:
        raise InvalidField(field, f"{value!r} is not ISO 8601") from None


def is_url(place: str) -> bool:
    """Return True for the URL of a server."""
    return place.startswith(("http://", "https://"))


def missing(package: str, extra: str) -> InvalidField:
    """Return the error for a package that is not installed."""
    return InvalidField("from", f"needs {package}; install it with: {install_command(extra)}")


def stopped(message: str) -> ClientError:
    """Return the error for a source that cannot be read to its end."""
    return ClientError(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"{message}. What was read is imported; the same command continues",
        "NOT_READ",
    )


def valid(uri: str) -> str:
    """Return the URI in canonical form; "" if it is not valid."""
    try:
        return uris.parse(uri)
    except InvalidField:
        return ""


def _fitted(value: Any, what: str, notes: Notes) -> Any:
    """Return a value as JSON; None, with a note, for a value that JSON cannot have."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        if abs(value) <= MAX_EXACT and math.isfinite(value):
            return value
        notes.add(f"{what}: numbers that metadata cannot have are now strings")
        return str(value)
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _fitted(item, what, notes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fitted(item, what, notes) for item in value]
    notes.add(f"{what}: values of the type {type(value).__name__} are left out")
    return None
