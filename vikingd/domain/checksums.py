"""Checksums of rows: each row that is truth has one, made where the row is made.

They are CRC-32 of the values of a row, the same in all stores. A context has two: one of its place
and times, and one of its texts, so that a move need not read them. A text has one, too, and its
vector another, because vectors come later. They find what disks, memory and hands change. They are
no signature.
"""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

CONTEXT = "id, uri, parent_id, is_directory, revision, content_hash, time, created_at, updated_at"
"""The columns of `checksum` in the order of `checksum`, of a context."""

CONTENT = "title, abstract, metadata, overview, content"
"""The columns of `content_checksum`, after the id and the number of texts."""

TEXT = 'id, context_id, ordinal, section, "start", "end", script, embeddable, text'
"""The columns of `checksum` of a text."""

VECTOR = "id, vector_revision, digest, vector"
"""The columns of `vector_checksum` of a text."""

ENTRY = "text_id, id, reinforcement, access_count, time, created_at"
"""The columns of `checksum` of an entry."""

LINK = "a, b, reason, created_at"
"""The columns of `checksum` of a link."""

KEY = (
    'id, digest, old_digest, old_expires_at, tenant, "user", grants, is_operator, created_at, '
    "expires_at, revoked_at, limits, subject, note"
)
"""The columns of `checksum` of a caller's key: all but the time of its last use."""

_numbers = struct.Struct("<8q").pack
_ALL = 0xFFFFFFFF


def checksum(*values: object) -> int:
    """Return the CRC-32 of values, as a signed number: the tables have 32 bits for it.

    The values are numbers, short texts, bytes and None. A damaged row may have others.
    """
    return _signed(crc32(ascii(values).encode()))


def long_checksum(*values: object, parts: tuple[object, ...]) -> int:
    """Return the same of values and of long parts, without a copy of these in another form."""
    pieces = [_bytes(part) for part in parts]
    kinds = [
        len(piece) if type(part) is str else (type(part).__name__, len(piece))
        for part, piece in zip(parts, pieces, strict=True)
    ]
    found = crc32(ascii((*values, *kinds)).encode())
    for piece in pieces:
        found = crc32(piece, found)
    return _signed(found)


def content_checksum(context_id: object, texts: int, *content: object) -> int:
    """Return the checksum of the texts of a context, and of the number of its rows in `texts`."""
    return long_checksum(context_id, texts, parts=content)


def text_checksum(
    text_id: Any,
    context_id: Any,
    ordinal: Any,
    section: Any,
    start: Any,
    end: Any,
    script: Any,
    embeddable: Any,
    text: Any,
) -> int:
    """Return the checksum of a text, without its vector; the values are the columns of TEXT.

    A put of one context writes many texts, so sound values take a quicker form.
    """
    try:
        data = section.encode()
        numbers = (text_id, context_id, ordinal, start, end, script, embeddable, len(data))
        found = crc32(data, crc32(_numbers(*numbers)))
        return _signed(found if text is None else crc32(text.encode(), ~found & _ALL))
    except (struct.error, AttributeError, ValueError):  # values that are never written
        values = (text_id, context_id, ordinal, start, end, script, embeddable)
        return long_checksum(*values, parts=(section, text))


def vector_checksum(
    text_id: object, revision: object, digest: object, vector: object
) -> int | None:
    """Return the checksum of the vector of a text; None while there is none."""
    if vector is None and revision is None and digest is None:
        return None
    return long_checksum(text_id, revision, digest, parts=(vector,))


def renewed(kept: int | None, before: int, after: int) -> int | None:
    """Return the checksum of a changed row, so that an earlier damage stays one.

    Args:
        kept: the checksum in the row.
        before, after: the checksums of the values before and after the change.
    """
    if kept == before:
        return after
    return kept if kept is None or kept != after else ~kept


def _bytes(part: object) -> bytes:
    if type(part) is str:
        return part.encode("utf-8", "surrogatepass")
    return part if type(part) is bytes else ascii(part).encode()


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
