"""A copy of a store from one place to another: SQLite and PostgreSQL, in both directions.

All rows with their ids, revisions, counters, times and vectors are the same in the copy. The copy
is a store of its own: it has another id, so that no index of the source is used with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from vikingd.store.connection import LastIds
from vikingd.store.damage import Damage, listed, store_damaged

TABLES: Mapping[str, tuple[str, str]] = {
    "contexts": (
        "id, uri, parent_id, is_directory, revision, content_hash, time, created_at, updated_at, "
        "title, abstract, metadata, overview, content, checksum, content_checksum",
        "id",
    ),
    "texts": (
        'id, context_id, ordinal, section, "start", "end", script, embeddable, vector_revision, '
        "text, vector, digest, checksum, vector_checksum",
        "id",
    ),
    "entries": ("text_id, id, reinforcement, access_count, time, created_at, checksum", "text_id"),
    "links": ("a, b, reason, created_at, checksum", "a, b"),
    "descriptions": ("context_id, revision, basis, maker, slots, checksum", "context_id"),
    "removals": ("revision, uri", "revision, rowid"),
    "requests": ("number, id, digest, revision, reply, time", "number"),
}
"""The columns of each table, and the order of its rows."""

_STATE = ("model", "dimension", "revision", "linked", "forgotten")
_SHOWN = 20  # differences
_STEP = 500  # rows between two calls of `advance`


class State(NamedTuple):
    """The state of a store, without its id and epochs.

    `meta` holds the values that other packages keep in the store.
    """

    model: str
    dimension: int | None
    revision: int
    linked: int
    forgotten: int
    last: LastIds
    meta: Mapping[str, Any]


class Source(Protocol):
    """A store that is read at one revision."""

    def state(self) -> State:
        """Return the state of the store, such as its newest revision and its model."""

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield all rows of a table in the order that `TABLES` gives."""

    def damage(self) -> list[Damage]:
        """Return the rows whose checksum is wrong."""


class Target(Protocol):
    """A new store that is written."""

    def write(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert these rows into an empty table."""

    def finish(self, state: State) -> None:
        """Write the state of the copied store, with a new id and a new epoch for the copy."""


def copy(source: Source, target: Target, advance: Callable[[int], None]) -> State:
    """Copy all rows and the state of a store.

    The copy becomes visible when the `with` block that opened the target ends.

    Args:
        source: the store to read.
        target: a new, empty store.
        advance: called with the number of rows that were copied since the last call.

    Returns:
        The state that was copied.

    Raises:
        StoreDamaged: the source is damaged, and nothing was copied.
    """
    check(source)

    def counted(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        count = 0
        for row in rows:
            yield row
            count += 1
            if count == _STEP:
                advance(count)
                count = 0
        advance(count)

    for table in TABLES:
        target.write(table, counted(source.rows(table)))
    state = source.state()
    target.finish(state)
    return state


def check(source: Source) -> None:
    """Raise StoreDamaged if a row of the store does not match its checksum."""
    if damage := source.damage():
        raise store_damaged(listed(damage))


def differences(one: Source, other: Source, advance: Callable[[int], None]) -> list[str]:
    """Return lines that describe the first differences of two stores; [] if they are equal.

    State, meta values and all rows are compared. Damage of either store is listed first.
    """
    found = [str(damage) for source in (one, other) for damage in source.damage()][:_SHOWN]
    a, b = one.state(), other.state()
    found += [
        f"{name}: {getattr(a, name)} and {getattr(b, name)}"
        for name in (*_STATE, "last")
        if getattr(a, name) != getattr(b, name)
    ]
    found += [
        f"meta {key}" for key in sorted({*a.meta, *b.meta}) if a.meta.get(key) != b.meta.get(key)
    ]
    for table, (columns, _) in TABLES.items():
        names = [name.strip(' "') for name in columns.split(",")]
        for count, (row, same) in enumerate(zip_longest(one.rows(table), other.rows(table))):
            if count % _STEP == 0:
                advance(_STEP)
            if row == same:
                continue
            if row is None or same is None:
                found.append(
                    f"{table}: {'the second' if row is None else 'the first'} has more rows"
                )
                break
            changed = [n for n, x, y in zip(names, row, same, strict=True) if x != y]
            found.append(f"{table} {row[0]}: {', '.join(changed)}")
            if len(found) >= _SHOWN:
                return found
    return found


def new_identity(revision: int) -> tuple[str, str, list[tuple[str, int]]]:
    """Return (a random store id, a random epoch, the list of epochs) for a copy.

    Its only epoch begins at `revision`.
    """
    epoch = secrets.token_hex(8)
    return secrets.token_hex(16), epoch, [(epoch, revision)]
