"""Queries for directories that have no fields, links or children."""

from __future__ import annotations

from vikingd.domain.contexts import Draft
from vikingd.store.reads.database_reads import DatabaseReads

EMPTY_DIRECTORY = Draft("", is_directory=True).content_hash()
"""The content hash of a directory that was made because a context was put below it."""

IS_EMPTY = """
tenant = 'default' AND is_directory = 1 AND parent_id IS NOT NULL AND content_hash = ?
AND NOT EXISTS (SELECT 1 FROM contexts AS below WHERE below.parent_id = contexts.id)
AND NOT EXISTS (SELECT 1 FROM links WHERE a = contexts.id)
AND NOT EXISTS (SELECT 1 FROM links WHERE b = contexts.id)
"""
"""A directory without content, texts, metadata and links of its own; not the root."""


class EmptyDirectoryReads(DatabaseReads):
    """Queries for directories that have no fields, links or children."""

    def empty_directories(self, most: int) -> list[str]:
        """Return the URIs of at most `most` directories that have no fields, links or children.

        A directory that was put without any field is included: its row is the same as that of a
        directory that was made because a context was put below it.
        """
        with self._snapshot() as db:
            rows = db.execute(
                f"SELECT uri FROM contexts WHERE {IS_EMPTY} ORDER BY uri LIMIT ?",
                (EMPTY_DIRECTORY, most),
            )
            return [uri for (uri,) in rows]
