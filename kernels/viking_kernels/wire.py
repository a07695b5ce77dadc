"""The check of an encoded protobuf message against a table of limits, before it is parsed.

A table has a row for each message type and field number. The row has the encoding of the field, the
type of its message and its limits. Budgets are shared by the whole message.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I32, I64, U8

MAX_DEPTH = 100
"""The limit of nesting, as in protobuf's own parser."""

WIRE, PACKED, BELOW, COUNT, BYTES, OF_COUNT, OF_BYTES = range(7)
"""Columns of a row.

WIRE is the wire type. PACKED is the width of an element if the field may be packed: VARINT, 4 or 8.
BELOW is the type of the message in the field. COUNT and BYTES limit the field within its message.
OF_COUNT and OF_BYTES are the budgets for its elements and its bytes. Each may be NONE, if there is
no such field, message, limit or budget.
"""
COLUMNS = 7
NONE, VARINT = -1, 1

ALL, UNKNOWN = 0, 1
"""The budgets of every table: for messages and for unknown fields."""

OK, MALFORMED, TOO_DEEP, TOO_MANY, TOO_LONG, SPENT = range(6)
"""The results of a scan."""

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)  # wire types
_MAX_TAG = 0xFFFF_FFFF


@njit
def scan(data: U8, table: I64, budgets: I64, path: I32) -> tuple[int, int, int]:
    """Check a message; return (OK, 0, 0), or the first fault as (code, level, value).

    The level is that of the field at fault in nested messages; the value is a length, a limit or
    the number of a budget.

    Args:
        data: a message of type 0.
        table: [types, numbers, COLUMNS].
        budgets: [budgets]; not changed.
        path: [2, MAX_DEPTH + 1], filled with the number and the index of a field by level.
    """
    left = budgets.copy()
    numbers = table.shape[1]
    counts = np.empty((MAX_DEPTH + 1, numbers), np.int32)
    ends = np.empty(MAX_DEPTH + 1, np.int64)
    types = np.empty(MAX_DEPTH + 1, np.int64)
    groups = np.empty(MAX_DEPTH + 1, np.int64)
    level = 0
    ends[0], types[0], groups[0] = data.shape[0], 0, NONE
    counts[0] = 0
    at = 0
    while True:
        while at == ends[level]:
            if groups[level] != NONE:
                return MALFORMED, level, 0
            if level == 0:
                return OK, 0, 0
            level -= 1
        end = ends[level]
        tag, at = _varint(data, at, end, 5)
        number, wire = tag >> 3, tag & 7
        # The parser does not check field numbers within a group that it skips.
        if at < 0 or tag > _MAX_TAG or (number == 0 and types[level] != NONE):
            return MALFORMED, level, 0
        if wire == _END_GROUP:
            if groups[level] != number:
                return MALFORMED, level, 0
            level -= 1
            continue
        length = np.int64(0)
        if wire == _VARINT:
            after = _skipped(data, at, end)
        elif wire == _FIXED64:
            after = at + 8
        elif wire == _FIXED32:
            after = at + 4
        elif wire == _BYTES:
            length, at = _varint(data, at, end, 10)
            # A sum could pass 63 bits, which compiled code takes for impossible.
            if at < 0 or length < 0 or length > end - at:
                return MALFORMED, level, 0
            after = at + length
        elif wire == _GROUP:
            after = at
        else:
            return MALFORMED, level, 0
        if after < 0 or after > end:
            return MALFORMED, level, 0
        kind = types[level]
        known = kind != NONE and number < numbers
        if known:
            row = table[kind, number]
            packed = row[PACKED] != NONE and wire == _BYTES
            known = packed or row[WIRE] == wire
        path[0, level] = number
        below = np.int64(NONE)
        if not known:
            left[UNKNOWN] -= 1
            if left[UNKNOWN] < 0:
                return SPENT, level, UNKNOWN
        else:
            count = np.int64(1)
            if packed:
                count = _elements(data, at, after, row[PACKED])
                if count < 0:
                    return MALFORMED, level, 0
            total = counts[level, number] + count
            counts[level, number] = total
            path[1, level] = total - 1
            if row[COUNT] != NONE and total > row[COUNT]:
                return TOO_MANY, level, row[COUNT]
            if row[BYTES] != NONE and length > row[BYTES]:
                return TOO_LONG, level, length
            if row[OF_COUNT] != NONE:
                left[row[OF_COUNT]] -= count
                if left[row[OF_COUNT]] < 0:
                    return SPENT, level, row[OF_COUNT]
            if row[OF_BYTES] != NONE:
                left[row[OF_BYTES]] -= length
                if left[row[OF_BYTES]] < 0:
                    return SPENT, level, row[OF_BYTES]
            below = row[BELOW]
            if below != NONE:
                left[ALL] -= 1
                if left[ALL] < 0:
                    return SPENT, level, ALL
        if below == NONE and wire != _GROUP:
            at = after
            continue
        if level == MAX_DEPTH:
            return TOO_DEEP, level, MAX_DEPTH
        level += 1
        path[0, level] = 0  # no field yet: an earlier message of this level left its last one
        if below == NONE:
            ends[level], types[level], groups[level] = end, NONE, number
        else:
            ends[level], types[level], groups[level] = after, below, NONE
            counts[level] = 0


@inlined
def _varint(data: U8, at: int, end: int, most: int) -> tuple[int, int]:
    """Decode a varint of at most `most` bytes; return (value, end), end -1 if it is invalid."""
    if at < end and data[at] < 128:  # the most frequent case
        return np.int64(data[at]), at + 1
    value = np.uint64(0)
    shift = np.uint64(0)
    for i in range(at, min(end, at + most)):
        byte = np.uint64(data[i])
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 128:
            if shift == 63 and byte > 1:
                return 0, -1
            return np.int64(value), i + 1
        shift += np.uint64(7)
    return 0, -1


@inlined
def _skipped(data: U8, at: int, end: int) -> int:
    """Return the end of a varint, which may exceed 64 bits; -1 if it is invalid."""
    for i in range(at, min(end, at + 10)):
        if data[i] < 128:
            return i + 1
    return -1


@inlined
def _elements(data: U8, at: int, end: int, width: int) -> int:
    """Return the number of packed elements in data[at:end]; -1 if the last one is incomplete."""
    if width != VARINT:
        return (end - at) // width if (end - at) % width == 0 else -1
    count = 0
    length = 0
    for i in range(at, end):
        length += 1
        if data[i] < 128:
            count += 1
            length = 0
        elif length == 10:
            return -1
    return count if length == 0 else -1
