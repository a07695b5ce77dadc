"""The metadata of all nodes in columns, one for each key, which answer filters at any revision."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vikingd.domain import cancellation
from vikingd.domain.errors import Corrupt
from vikingd.index.metadata.metadata_filters import (
    NO_VALUE,
    ORDER,
    Filter,
    NoValue,
    Value,
    flattened,
)

NEWEST: Final = 2**63 - 2
"""A revision greater than all others."""

_CHUNK: Final = 4096  # values compared at a time

_ENTRY: Final = 0xFFFFFFFF  # the bits of the number of an entry

_ALIVE: Final = NEWEST + 1  # `died` of an entry that is not removed

_HEADER_SIZE: Final = struct.Struct("<q")

_Array = npt.NDArray[Any]
_Mask = npt.NDArray[np.bool_]


class _Entries(NamedTuple):
    """Values of nodes, as four arrays: node, code of the value, first revision, end of validity."""

    nodes: _Array  # int32
    codes: _Array  # int32
    born: _Array  # int64
    died: _Array  # int64

    def at(self, places: slice | _Array) -> _Entries:
        return _Entries(*(column[places] for column in self))

    def alive(self, revision: int) -> _Mask:
        return (self.born <= revision) & (self.died > revision)


_NO_ENTRIES: Final = _Entries(*(np.empty(0, dtype) for dtype in ("<i4", "<i4", "<i8", "<i8")))


class _Values:
    """The distinct values of a column. Each has a code (its number); NO_VALUE has code 0.

    Values are only added. A value is written to all tables before its code is visible.
    """

    def __init__(self, values: Iterable[Value | NoValue] = ()) -> None:
        self.by_code: list[Value | NoValue] = []
        self._codes: dict[Value | NoValue, int] = {}
        self._numbers: _Array = np.empty(0)
        self._texts: _Array = np.empty(0, object)
        for value in (NO_VALUE, *values):
            self.code(value)

    def code(self, value: Value | NoValue) -> int:
        """Return the code of a value; a new value is added and gets the next code."""
        code = self._codes.get(value)
        if code is None:
            code = len(self.by_code)
            if code == len(self._numbers):
                self._numbers = _doubled(self._numbers, np.nan)
                self._texts = _doubled(self._texts, NO_VALUE)
            if isinstance(value, float):
                self._numbers[code] = value
            elif isinstance(value, str):
                self._texts[code] = value
            self.by_code.append(value)
            self._codes[value] = code
        return code

    def satisfying(self, where: Filter, codes: _Array) -> _Mask:
        """Return a mask of `codes`: True where the value satisfies `where`, a single comparison."""
        if where.op == "$in":
            wanted = [self._codes[value] for value in where.operands if value in self._codes]
            if len(wanted) == 1:
                return np.equal(codes, wanted[0])
            holds = np.zeros(len(self._numbers), np.bool_)
            holds[wanted] = True
        else:
            operand = where.operands[0]
            table = self._numbers if isinstance(operand, float) else self._texts
            # numpy's string types drop a NUL at the end.
            holds, right = np.empty(len(table), np.bool_), np.array(operand, table.dtype)
            # In chunks, because numpy holds the GIL while it compares objects.
            for start in range(0, len(table), _CHUNK):
                cancellation.check()
                part = slice(start, start + _CHUNK)
                holds[part] = ORDER[where.op](table[part], right)
        return holds.take(codes)


class _View(NamedTuple):
    """The complete entries of a column. A reader gets all of them by reading one reference."""

    room: _Entries  # with unused places at the end
    length: int  # entries in use
    top: int  # one past the largest node
    newest: int  # the newest revision at which an entry was born

    def entries(self) -> _Entries:
        return self.room.at(slice(self.length))


class _Column:
    """The values of one metadata key for all nodes, as a list of entries.

    A node has an entry for each of its values. A node without a comparable value has one entry of
    NO_VALUE.

    Readers use `view`, the entries in use. A new entry is written after the last entry of the view,
    and then a new view is made. Of the entries in a view only `died` changes, to revisions that are
    newer than the revision of any reader of that view.
    """

    def __init__(self, values: _Values, entries: _Entries = _NO_ENTRIES) -> None:
        self.values = values
        top, newest = (int(items.max(initial=-1)) for items in (entries.nodes, entries.born))
        self.view = _View(entries, len(entries.nodes), top + 1, newest)
        self._removed = bool((entries.died != _ALIVE).any())

    def append(self, node: int, value: Value | NoValue, revision: int) -> int:
        """Append a value of a node, valid from a revision on; return the entry's number."""
        room, length, top, _ = self.view
        if length == len(room.nodes):
            room = _Entries(*(_doubled(items, 0) for items in room))
        room.nodes[length], room.codes[length] = node, self.values.code(value)
        room.born[length], room.died[length] = revision, _ALIVE
        self.view = _View(room, length + 1, max(top, node + 1), revision)
        return length

    def remove(self, place: int, revision: int) -> None:
        """End an entry's validity at a revision; readers of older revisions still see it."""
        self._removed = True
        self.view.room.died[place] = revision

    def mask(self, where: Filter, nodes: int, revision: int) -> _Mask:
        """Return a mask bool[nodes]: True for nodes that satisfy `where`, a single comparison."""
        view = self.view
        entries = view.entries()
        if where.op == "$exists":
            found = np.ones(view.length, np.bool_)
        else:
            found = self.values.satisfying(where, entries.codes)
        if self._removed or revision < view.newest:
            found &= entries.alive(revision)
        out = np.zeros(max(nodes, view.top), np.bool_)
        out[entries.nodes.take(np.flatnonzero(found))] = True
        return out[:nodes]

    def value_at(self, place: int, revision: int) -> tuple[Value | NoValue] | None:
        """Return the value of an entry as a tuple of one; None if it is not valid at the revision.

        The value itself may be None, so it is in a tuple.
        """
        room = self.view.room
        if room.born.item(place) <= revision < room.died.item(place):
            return (self.values.by_code[room.codes.item(place)],)
        return None

    def values_of(self, nodes: list[int], revision: int) -> dict[int, Value | NoValue]:
        """Return the value that each of these nodes had at a revision, by node.

        {} if no entry was added or removed after the revision, because the newest entries of the
        nodes are valid then. Otherwise all entries are scanned.
        """
        view = self.view
        if not self._removed and revision >= view.newest:
            return {}  # the entries of the nodes are the newest ones
        entries = view.entries()
        entries = entries.at(np.flatnonzero(np.isin(entries.nodes, nodes)))
        entries = entries.at(np.flatnonzero(entries.alive(revision)))
        by_code = self.values.by_code
        pairs = zip(entries.nodes.tolist(), entries.codes.tolist(), strict=True)
        return {node: by_code[code] for node, code in pairs}

    def compacted(self, mapping: npt.NDArray[np.integer[Any]], revision: int) -> _Column:
        """Return a new column with the entries valid at a revision, sorted by new node number.

        Node i becomes `mapping[i]`; a negative number drops it.
        """
        entries = self.view.entries()
        # The writer may have more nodes by now, at the same revision while it builds an index.
        known = entries.nodes < len(mapping)
        entries = entries.at(np.flatnonzero(known & entries.alive(revision)))
        entries = entries._replace(nodes=mapping[entries.nodes].astype(np.int32))
        order = np.argsort(entries.nodes, kind="stable")
        entries = entries.at(order[np.count_nonzero(entries.nodes < 0) :])
        used = np.union1d(entries.codes, 0)
        entries = entries._replace(
            codes=np.searchsorted(used, entries.codes).astype(np.int32),
            born=np.zeros_like(entries.born),
            died=np.full_like(entries.died, _ALIVE),
        )
        return _Column(_Values(self.values.by_code[code] for code in used[1:].tolist()), entries)


class Columns:
    """The metadata of all nodes in columns, one for each key, readable at any revision.

    One thread writes, with revisions that never decrease. Other threads read without locks, at
    revisions that are completely written.
    """

    def __init__(self) -> None:
        self._columns: list[_Column] = []
        self._numbers: dict[str, int] = {}  # number of a column, by path
        # The living entries of a node, each as column << 32 | entry, stand in _places from
        # _first[node] on. A -1 ends them.
        self._first = array("q")
        self._places = array("q")

    def add(self, node: int, metadata: Mapping[str, Any], revision: int) -> None:
        """Replace the metadata of a node from a revision on."""
        self.remove(node, revision)
        found = flattened(metadata)
        if not found:
            return
        self._first.extend([-1] * (node + 1 - len(self._first)))
        self._first[node] = len(self._places)
        for path, values in found.items():
            if path not in self._numbers:
                self._columns.append(_Column(_Values()))
                self._numbers[path] = len(self._columns) - 1
            number = self._numbers[path]
            for value in values or (NO_VALUE,):
                entry = self._columns[number].append(node, value, revision)
                self._places.append(number << 32 | entry)
        self._places.append(-1)

    def remove(self, node: int, revision: int) -> None:
        """Remove the metadata of a node from a revision on; readers of older revisions see it."""
        at = self._first[node] if node < len(self._first) else -1
        if at < 0:
            return
        self._first[node] = -1
        while (place := self._places[at]) >= 0:
            self._columns[place >> 32].remove(place & _ENTRY, revision)
            at += 1

    def mask(self, where: Filter, nodes: int, revision: int) -> _Mask:
        """Return a mask bool[nodes]: True for nodes that match a filter at a revision."""
        if where.op == "$not":
            return ~self.mask(where.parts[0], nodes, revision)
        if where.op in ("$and", "$or"):
            combine = np.logical_and if where.op == "$and" else np.logical_or
            out = np.full(nodes, where.op == "$and")
            for part in where.parts:
                combine(out, self.mask(part, nodes, revision), out=out)
            return out
        cancellation.check()
        number = self._numbers.get(where.path)
        if number is None:
            return np.zeros(nodes, np.bool_)
        return self._columns[number].mask(where, nodes, revision)

    def values(self, path: str, nodes: list[int], revision: int) -> dict[int, Value | NoValue]:
        """Return the value of a key by node, at a revision; nodes without the key are left out.

        If a node has a list of values, any one of them is returned.
        """
        number = self._numbers.get(path)
        if number is None:
            return {}
        column, found = self._columns[number], {}
        for node in nodes:
            at = self._first[node] if node < len(self._first) else -1
            while 0 <= at < len(self._places) and (place := self._places[at]) >= 0:
                if place >> 32 == number and (value := column.value_at(place & _ENTRY, revision)):
                    found[node] = value[0]
                at += 1
        # The writer may have replaced the metadata of the other nodes after the revision.
        return column.values_of([one for one in nodes if one not in found], revision) | found

    def copy_for(self, mapping: npt.NDArray[np.integer[Any]], revision: int) -> Columns:
        """Return the columns for a compacted index: the entries that are valid at a revision.

        In the copy they are valid from revision 0 on. Node i becomes `mapping[i]`; a negative
        number drops it. Any thread may call this, with a revision that is completely written.
        """
        columns = {
            path: self._columns[number].compacted(mapping, revision)
            for path, number in list(self._numbers.items())
        }
        return Columns._of({path: column for path, column in columns.items() if column.view.length})

    def save(self, path: Path) -> None:
        """Write all columns to a file: the length of a header, the header as JSON, four arrays."""
        columns = [(name, self._columns[number]) for name, number in self._numbers.items()]
        header = [(name, column.view.length, column.values.by_code[1:]) for name, column in columns]
        parts = [_NO_ENTRIES, *(column.view.entries() for _, column in columns)]
        joined = _Entries(*map(np.concatenate, zip(*parts, strict=True)))
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # aligns the arrays
        with path.open("wb") as file:
            file.write(_HEADER_SIZE.pack(len(text)) + text)
            for items, empty in zip(joined, _NO_ENTRIES, strict=True):
                file.write(items.astype(empty.dtype, copy=False).tobytes())

    @staticmethod
    def of_bytes(data: bytearray, nodes: int) -> Columns:
        """Decode columns that `save` wrote, for this number of nodes.

        The caller has compared the checksum of `data` already.

        Raises:
            Corrupt: the bytes are not columns, or name a node beyond `nodes`.
        """
        try:
            (size,) = _HEADER_SIZE.unpack_from(data)
            at = _HEADER_SIZE.size + size
            header = [
                (str(name), int(length), [_value(value) for value in listed])
                for name, length, listed in json.loads(data[_HEADER_SIZE.size : at])
            ]
            count = sum(length for _, length, _ in header)
            arrays = []
            for empty in _NO_ENTRIES:
                arrays.append(np.frombuffer(data, empty.dtype, count, at))
                at += arrays[-1].nbytes
        except (struct.error, TypeError, ValueError) as error:
            raise Corrupt(f"metadata columns are damaged: {error}") from error
        joined = _Entries(*arrays)
        columns = {}
        start = 0
        for name, length, values in header:
            entries = joined.at(slice(start, start + length))
            # There is one code more than values, that of NO_VALUE.
            for items, limit in ((entries.nodes, nodes), (entries.codes, len(values) + 1)):
                if length < 0 or (items < 0).any() or (items >= limit).any():
                    raise Corrupt("metadata columns are damaged: a number is out of its range")
            columns[name] = _Column(_Values(values), entries)
            start += length
        return Columns._of(columns)

    @staticmethod
    def _of(columns: Mapping[str, _Column]) -> Columns:
        out = Columns()
        out._columns = list(columns.values())
        out._numbers = {path: number for number, path in enumerate(columns)}
        nodes, places = [], []
        for number, column in enumerate(out._columns):
            entries = column.view.entries()
            alive = np.flatnonzero(entries.alive(NEWEST))
            nodes.append(entries.nodes[alive])
            places.append(number << 32 | alive)
        if nodes:
            joined = np.concatenate(nodes)
            order = np.argsort(joined, kind="stable")
            present, starts = np.unique(joined[order], return_index=True)
            first = np.full(joined.max(initial=-1) + 1, -1)
            first[present] = starts + np.arange(len(present))  # after the -1 of each node before
            ends = np.append(starts[1:], len(joined))
            out._first = array("q", first.tobytes())
            out._places = array("q", np.insert(np.concatenate(places)[order], ends, -1).tobytes())
        return out


def _value(listed: Any) -> Value:
    """Decode a value from JSON: a list of one bool is a bool, so that True differs from 1.0."""
    match listed:
        case [bool(boxed)]:
            return (boxed,)
        case None | str() | float():
            return listed
    raise ValueError(f"{listed!r} is no value")


def _doubled(items: _Array, fill: object) -> _Array:
    """Return a copy of an array with twice its length; the new items have the value `fill`."""
    return np.concatenate([items, np.full(max(4, len(items)), fill, items.dtype)])
