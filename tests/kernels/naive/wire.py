"""Plain twins of the kernels: the scan of a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


class _Found(Exception):
    """The first fault of a message: its code, its level and a value."""


def scan(data: bytes, table: Any, budgets: Sequence[int]) -> tuple[tuple[int, int, int], list[int]]:
    """Return ((code, level, value), field numbers on the path); `table` as for the kernel."""
    ok, malformed, too_deep, too_many, too_long, spent = range(6)
    left = list(budgets)
    path: list[int] = []

    def take(budget: int, amount: int) -> None:
        if budget >= 0:
            left[budget] -= amount
            if left[budget] < 0:
                raise _Found(spent, len(path) - 1, budget)

    def varint(at: int, end: int, most: int, *, counts: bool = True) -> tuple[int, int]:
        for size in range(1, most + 1):
            if at + size > end:
                break
            if data[at + size - 1] < 128:
                digits = [byte & 127 for byte in data[at : at + size]]
                value = sum(digit << 7 * i for i, digit in enumerate(digits))
                if counts and value >= 1 << 64:
                    break
                return value, at + size
        raise _Found(malformed, len(path) - 1, 0)

    def message(at: int, end: int, kind: int, group: int) -> int:
        """Read [at, end), or a group up to its end, and return the end."""
        counts: Counter[int] = Counter()
        fields = table[kind] if kind >= 0 else []
        path.append(0)
        while at < end:
            tag, at = varint(at, end, 5)
            number, wire = divmod(tag, 8)
            zero = number == 0 and kind >= 0
            if zero or number >= 1 << 29 or wire > 5 or (wire == 4 and number != group):
                raise _Found(malformed, len(path) - 1, 0)
            if wire == 4:
                path.pop()
                return at
            size = {1: 8, 5: 4}.get(wire, 0)
            if wire == 0:
                size = varint(at, end, 10, counts=False)[1] - at
            if wire == 2:
                size, at = varint(at, end, 10)
            if size > min(end - at, 0x7FFF_FFFF):
                raise _Found(malformed, len(path) - 1, 0)
            path[-1] = number
            below = -1
            field = fields[number] if number < len(fields) else [-1] * 7
            written, packed, *_ = field
            if wire == written or (packed >= 0 and wire == 2):
                count = 1
                if packed == 1 and wire == 2:
                    count, one = 0, at
                    while one < at + size:
                        _, one = varint(one, at + size, 10, counts=False)
                        count += 1
                elif packed > 1 and wire == 2:
                    count, rest = divmod(size, packed)
                    if rest:
                        raise _Found(malformed, len(path) - 1, 0)
                _, _, below, most, longest, of_count, of_bytes = field
                counts[number] += count
                if 0 <= most < counts[number]:
                    raise _Found(too_many, len(path) - 1, most)
                length = size if wire == 2 else 0
                if 0 <= longest < length:
                    raise _Found(too_long, len(path) - 1, length)
                take(of_count, count)
                take(of_bytes, length)
                take(0 if below >= 0 else -1, 1)
            else:
                take(1, 1)
            if (below >= 0 or wire == 3) and len(path) == 101:
                raise _Found(too_deep, len(path) - 1, 100)
            if wire == 3:
                at = message(at, end, -1, number)
            else:
                if below >= 0:
                    message(at, at + size, below, -1)
                at += size
        if group >= 0:
            raise _Found(malformed, len(path) - 1, 0)
        path.pop()
        return at

    try:
        message(0, len(data), 0, -1)
    except _Found as found:
        return found.args, path
    return (ok, 0, 0), []
