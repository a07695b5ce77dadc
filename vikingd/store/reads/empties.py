"""Reads of directories that nothing is in."""

from __future__ import annotations

from vikingd.domain.contexts import Draft
from vikingd.store.reads.store_reads import DatabaseReads

EMPTY_DIRECTORY = Draft("", is_directory=True).content_hash()
"""The hash of a directory that was made for its content."""

IS_EMPTY = """
tenant = 'default' AND is_directory = 1 AND parent_id IS NOT NULL AND content_hash = ?
AND NOT EXISTS (SELECT 1 FROM contexts AS below WHERE below.parent_id = contexts.id)
AND NOT EXISTS (SELECT 1 FROM links WHERE a = contexts.id)
AND NOT EXISTS (SELECT 1 FROM links WHERE b = contexts.id)
"""
"""A directory without content, texts, metadata and links of its own; not the root."""


class EmptyReads(DatabaseReads):
    """Reads of empty directories."""

    def empty_directories(self, most: int) -> list[str]:
        """Return the URIs of the first `most` directories that have nothing, nor anything below.

        One that was put without any field cannot be told from one that was made for its content.
        """
        with self._snapshot() as db:
            rows = db.execute(
                f"SELECT uri FROM contexts WHERE {IS_EMPTY} ORDER BY uri LIMIT ?",
                (EMPTY_DIRECTORY, most),
            )
            return [uri for (uri,) in rows]
