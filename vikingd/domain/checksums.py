"""Checksums of the rows of a store. Each is computed where the values of its row are made.

They are CRC-32 of the values of a row, the same in all stores. A context has two: one of its place
and times, and one of its texts, so that a move of a context need not read its texts. A text has
one, and its vector has another, because vectors are written later. Checksums detect changes by
faulty disks, by faulty memory and by hand. They do not protect against an attacker.
"""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

CONTEXT = "id, uri, parent_id, is_directory, revision, content_hash, time, created_at, updated_at"
"""The columns that `context_checksum` covers."""

CONTENT = "title, abstract, metadata, overview, content"
"""The columns that `content_checksum` covers, after the id and the number of texts."""

TEXT = 'id, context_id, ordinal, section, "start", "end", script, embeddable, text'
"""The columns that the checksum of a text covers."""

VECTOR = "id, vector_revision, digest, vector"
"""The columns that `vector_checksum` covers."""

ENTRY = "text_id, id, reinforcement, access_count, time, created_at"
"""The columns that the checksum of an entry covers."""

LINK = "a, b, reason, created_at"
"""The columns that the checksum of a link covers."""

DESCRIPTION = "context_id, revision, basis, maker, slots"
"""The columns that the checksum of a description covers."""

KEY = (
    'id, digest, old_digest, old_expires_at, tenant, "user", grants, is_operator, created_at, '
    "expires_at, revoked_at, limits, subject, note"
)
"""The columns that the checksum of a caller's key covers: all but the time of its last use."""

_SEAL = 4  # bytes
_numbers = struct.Struct("<8q").pack
_numbers_of_content = struct.Struct("<7q").pack
_numbers_of_vector = struct.Struct("<4q").pack
_ALL = 0xFFFFFFFF
_NONE = -1 << 63  # no row has this number

_UNWRITTEN = (struct.error, AttributeError, TypeError, ValueError)
"""The errors of values that are never written, which a damaged row may have.

A put writes many rows, so sound values have a quicker form than these.
"""


def checksum(*values: object) -> int:
    """Return the CRC-32 of values as a signed 32-bit number, which a column can hold.

    The values are numbers, short texts, bytes and None. A damaged row may have other types.
    """
    return _signed(crc32(ascii(values).encode()))


def context_checksum(
    context_id: Any,
    uri: Any,
    parent_id: Any,
    is_directory: Any,
    revision: Any,
    content_hash: Any,
    time: Any,
    created_at: Any,
    updated_at: Any,
) -> int:
    """Return the checksum of the place and the times of a context: the columns of CONTEXT."""
    above = _NONE if parent_id is None else parent_id
    try:
        data = uri.encode()
        numbers = (context_id, above, is_directory, revision, time, created_at, updated_at)
        return _signed(crc32(b"".join((_numbers(*numbers, len(data)), data, content_hash))))
    except _UNWRITTEN:
        values = (context_id, uri, parent_id, is_directory, revision, content_hash)
        return checksum(*values, time, created_at, updated_at)


def long_checksum(*values: object, parts: tuple[object, ...]) -> int:
    """Return the CRC-32 of values and of `parts`, which are long texts or bytes."""
    pieces = [_bytes(part) for part in parts]
    kinds = [
        len(piece) if type(part) is str else (type(part).__name__, len(piece))
        for part, piece in zip(parts, pieces, strict=True)
    ]
    found = crc32(ascii((*values, *kinds)).encode())
    for piece in pieces:
        found = crc32(piece, found)
    return _signed(found)


def content_checksum(context_id: Any, texts: int, *content: Any) -> int:
    """Return the checksum of a context's contents and of the number of its rows in `texts`."""
    try:
        *short, long = parts = [part.encode() for part in content]
        numbers = _numbers_of_content(context_id, texts, *map(len, parts))
        return _signed(crc32(long, crc32(b"".join((numbers, *short)))))
    except _UNWRITTEN:
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
    """Return the checksum of a text, without its vector; the values are the columns of TEXT."""
    try:
        data = section.encode()
        numbers = (text_id, context_id, ordinal, start, end, script, embeddable, len(data))
        found = crc32(data, crc32(_numbers(*numbers)))
        return _signed(found if text is None else crc32(text.encode(), ~found & _ALL))
    except _UNWRITTEN:
        values = (text_id, context_id, ordinal, start, end, script, embeddable)
        return long_checksum(*values, parts=(section, text))


def vector_checksum(text_id: Any, revision: Any, digest: Any, vector: Any) -> int | None:
    """Return the checksum of the vector of a text; None while the text has no vector.

    Args:
        text_id: the id of the text.
        revision: the revision of the commit that wrote the vector.
        digest: the digest of the text that the vector was made of.
        vector: fp32 numbers as bytes.
    """
    if vector is None and revision is None and digest is None:
        return None
    try:
        known = b"" if digest is None else digest
        numbers = _numbers_of_vector(text_id, revision, len(known), len(vector))
        return _signed(crc32(vector, crc32(known, crc32(numbers))))
    except _UNWRITTEN:
        return long_checksum(text_id, revision, digest, parts=(vector,))


def renewed(kept: int | None, before: int, after: int) -> int | None:
    """Return the checksum to write with a changed row.

    If the row was damaged before the change, the result is wrong, too, so that the damage stays
    visible.

    Args:
        kept: the checksum in the row.
        before, after: the right checksums of the row before and after the change.
    """
    if kept == before:
        return after
    return kept if kept is None or kept != after else ~kept


def sealed(value: bytes) -> bytes:
    """Return a value for the table `meta` with its checksum at the end; `opened` reads it."""
    return value + crc32(value).to_bytes(_SEAL, "little")


def opened(kept: bytes | None) -> bytes | None:
    """Return the value that was passed to `sealed`; None if it is missing or damaged."""
    if kept is None or sealed(kept[:-_SEAL]) != kept:
        return None
    return kept[:-_SEAL]


def _bytes(part: object) -> bytes:
    if type(part) is str:
        return part.encode("utf-8", "surrogatepass")
    return part if type(part) is bytes else ascii(part).encode()


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
