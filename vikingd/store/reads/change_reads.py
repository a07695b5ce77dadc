"""Reads for the index: all contexts, or the changes since a revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vikingd.domain.errors import Corrupt
from vikingd.domain.store_changes import AllLinks, Change, Filled, Linked, Remove, Upsert
from vikingd.domain.uri import ROOT, ancestors, parent
from vikingd.store.checked_rows import Checked, vector_damage
from vikingd.store.connection import Connection
from vikingd.store.damage import Damage, raise_damage, store_damaged
from vikingd.store.reads.database_reads import DatabaseReads, revision_of
from vikingd.store.rows import check_descriptions, links, sound_contexts, upsert_of, upserts

Found = Callable[[Damage], object]
"""A callback for each damage. A damaged context is left out, a damaged vector is dropped."""

_FILLED = """
SELECT texts.id, vector_checksum, vector_revision, digest, vector, uri
FROM texts INDEXED BY texts_vector_revision JOIN contexts ON contexts.id = context_id
WHERE vector_revision > ?1 AND revision <= ?1 AND context_id NOT IN (
    SELECT context_id FROM descriptions INDEXED BY descriptions_revision WHERE revision > ?1)
ORDER BY texts.id
"""
# A description changes texts of a context, but not its revision.
_CHANGED = """
SELECT uri, id FROM contexts INDEXED BY contexts_revision WHERE revision > ?1
UNION SELECT uri, contexts.id
FROM descriptions INDEXED BY descriptions_revision JOIN contexts ON contexts.id = context_id
WHERE descriptions.revision > ?1 ORDER BY 1
"""

# The first count reads the index of URIs; the second one the table, since no index has its column.
_COUNTS = """
SELECT (SELECT count(uri) FROM contexts WHERE tenant = 'default'),
    (SELECT count(content_hash) FROM contexts)
"""


class ChangeReads(DatabaseReads):
    """Reads of all that the index stores: contexts with their texts and vectors, and links."""

    def scan(self, found: Found = raise_damage) -> Iterator[Upsert]:
        """Yield all contexts with texts and vectors, in the order of their URIs, of one revision.

        Damaged contexts are left out, and `found` is called with the damage.
        """
        with self._snapshot() as db:
            yield from _contexts(db, found)

    @contextmanager
    def at_revision(
        self, revision: int, found: Found = raise_damage
    ) -> Iterator[tuple[Iterator[Upsert], list[Linked]] | None]:
        """Yield (contexts as from `scan`, links) if `revision` is the newest one, else None.

        The contexts are read while they are iterated, within the block.
        """
        with self._snapshot() as db:
            is_newest = revision_of(db) == revision
            if is_newest:
                check_descriptions(db, found)
                yield _contexts(db, found), links(db, found)
            else:
                yield None

    def changes_since(
        self, revision: int, *, with_links: bool = False, found: Found = raise_damage
    ) -> tuple[list[Change], int]:
        """Return (the changes after `revision`, the newest revision).

        The order is: removals, oldest first; changed contexts, in the order of their URIs; new
        vectors of unchanged contexts. If a link was made or removed after `revision`, or with
        `with_links`, all links come last.

        Raises:
            Corrupt: removals after `revision` are no longer kept, or a changed context is damaged.
        """
        with self._snapshot() as db:
            return self._changes_since(db, revision, with_links=with_links, found=found)

    @staticmethod
    def _changes_since(
        db: Connection, revision: int, *, with_links: bool, found: Found
    ) -> tuple[list[Change], int]:
        def found_in_context(damage: Damage) -> None:
            if not damage.text_id:  # an older state of it may be in the index
                raise Corrupt(str(damage))
            found(damage)

        state = db.get_state()
        if 0 < revision < state["store.forgotten"]:
            raise Corrupt(f"the removals since revision {revision} are no longer kept")
        removed = db.execute(
            "SELECT uri FROM removals WHERE revision > ? ORDER BY rowid", (revision,)
        )
        changes: list[Change] = [Remove(uri) for (uri,) in removed]
        ids = (context_id for _, context_id in db.execute(_CHANGED, (revision,)))
        changes.extend(upserts(db, ids, found_in_context))
        for text_id, *row, uri in db.execute(_FILLED, (revision,)):
            if what := vector_damage(text_id, row, state.get("store.dimension")):
                found(Damage(uri, what, text_id))
            else:
                changes.append(Filled(text_id, row[-1]))
        now: int = state["store.revision"]
        if with_links or state.get("store.linked", now) > revision:
            changes.append(AllLinks(tuple(links(db, found))))
        return changes, now


def _contexts(db: Connection, found: Found) -> Iterator[Upsert]:
    """Yield all sound contexts in the order of their URIs.

    A damaged directory with sound contexts below it is yielded as an empty directory.
    """
    for context in _checked_tree(db, found):
        if isinstance(context, str):  # a directory without a sound row
            yield Upsert(0, context, True, "", "", {}, ())
        else:
            yield upsert_of(context)


def all_damage(
    db: Connection,
    check: Callable[[], object] = lambda: None,
    *,
    with_descriptions: bool = True,
) -> list[Damage]:
    """Return a Damage for each row that is damaged.

    Args:
        db: a connection to the store.
        check: called now and then; an error that it raises ends the reads.
        with_descriptions: False for an older schema, without the table of descriptions.

    Raises:
        StoreDamaged: the index of URIs does not match the contexts.
    """
    found: list[Damage] = []
    for _ in _checked_tree(db, found.append):
        check()
    links(db, found.append)
    if with_descriptions:
        check_descriptions(db, found.append)
    return found


def _checked_tree(db: Connection, found: Found) -> Iterator[Checked | str]:
    """Yield all sound contexts in the order of their URIs.

    For a damaged directory with sound contexts below it, its URI is yielded in place of a context.
    """
    directories: dict[str, int | None] = {}
    last = ""
    rows = db.execute("SELECT id FROM contexts WHERE tenant = 'default' ORDER BY uri")
    ids = (context_id for (context_id,) in rows)
    for context in sound_contexts(db, ids, found, entries=True):
        row = context.row
        if row.uri <= last:
            raise store_damaged(f"its index of URIs names {row.uri} in a wrong place")
        last, above = row.uri, parent(row.uri)
        for missing in ancestors(row.uri) if above not in directories else ():
            if missing not in directories and missing != ROOT:
                directories[missing] = None
                found(Damage(missing, "it is not in the store as a directory"))
                yield missing
        parent_id = directories.get(above) if row.uri != ROOT else None
        if parent_id not in (None, row.parent_id):
            found(Damage(row.uri, "it does not belong to the directory above it"))
        if row.is_directory:
            directories[row.uri] = row.id
        yield context
    if ROOT not in directories:
        found(Damage(ROOT, "it is not in the store as a directory"))
    indexed, stored = db.execute(_COUNTS).fetchone()
    if indexed != stored:
        raise store_damaged(f"it has {stored:,} contexts, its index of URIs has {indexed:,}")
