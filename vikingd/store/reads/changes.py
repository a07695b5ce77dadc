"""Reads for the index: all contexts, or the changes since a revision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vikingd.domain.changes import AllLinks, Change, Filled, Linked, Remove, Upsert
from vikingd.domain.errors import Corrupt
from vikingd.store.connection import Connection
from vikingd.store.reads.database import DatabaseReads, revision_of
from vikingd.store.rows import check_vector, links, upserts, vector_bytes


class ChangeReads(DatabaseReads):
    """Reads of contexts with their texts and vectors, as the index takes them."""

    def scan(self) -> Iterator[Upsert]:
        """Yield all contexts by URI, with texts and vectors, of the revision at the first one."""
        with self._snapshot() as db:
            yield from _contexts(db)

    @contextmanager
    def at_revision(self, revision: int) -> Iterator[tuple[Iterator[Upsert], list[Linked]] | None]:
        """Yield (contexts as in `scan`, links), both of `revision`; None if it is not the newest.

        The contexts are read while they are consumed, within the block.
        """
        with self._snapshot() as db:
            yield None if revision_of(db) != revision else (_contexts(db), links(db))

    def changes_since(self, revision: int, *, with_links: bool = False) -> tuple[list[Change], int]:
        """Return (the changes from the state at `revision` to the newest state, its revision).

        The order is: removals, oldest first; contexts by URI; vectors of other contexts. All links
        come last, if one was made or removed since, or if `with_links` is set.

        Raises:
            Corrupt: removals after `revision` are no longer kept.
        """
        with self._snapshot() as db:
            return self._changes_since(db, revision, with_links=with_links)

    @staticmethod
    def _changes_since(
        db: Connection, revision: int, *, with_links: bool
    ) -> tuple[list[Change], int]:
        state = db.get_state()
        if 0 < revision < state["store.forgotten"]:
            raise Corrupt(f"the removals since revision {revision} are no longer kept")
        removed = db.execute(
            "SELECT uri FROM removals WHERE revision > ? ORDER BY rowid", (revision,)
        )
        changes: list[Change] = [Remove(uri) for (uri,) in removed]
        changed = db.execute(
            "SELECT id FROM contexts INDEXED BY contexts_revision WHERE revision > ? ORDER BY uri",
            (revision,),
        )
        changes.extend(upserts(db, (context_id for (context_id,) in changed)))
        filled = db.execute(
            "SELECT texts.id, vector, uri FROM texts INDEXED BY texts_vector_revision "
            "JOIN contexts ON contexts.id = context_id "
            "WHERE vector_revision > ?1 AND revision <= ?1 ORDER BY texts.id",
            (revision,),
        )
        size = vector_bytes(db)
        for text_id, vector, uri in filled:
            check_vector(vector, size, text_id, uri)
            changes.append(Filled(text_id, vector))
        now: int = state["store.revision"]
        if with_links or state.get("store.linked", now) > revision:
            changes.append(AllLinks(tuple(links(db))))
        return changes, now


def _contexts(db: Connection) -> Iterator[Upsert]:
    """Yield all contexts by URI."""
    rows = db.execute("SELECT id FROM contexts WHERE tenant = 'default' ORDER BY uri")
    return upserts(db, (context_id for (context_id,) in rows))
