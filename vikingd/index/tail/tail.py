"""The tail: the mutable segment behind a base.

A commit appends rows behind those that are published, and marks rows as dead from its revision on.
Nothing that a published snapshot shows is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from viking_kernels.arrays import F32

from vikingd.domain.changes import Change, Upsert
from vikingd.index.contents import Contents
from vikingd.index.lexicon.vocabulary import Vocabulary
from vikingd.index.names import Names
from vikingd.index.segment.arrays import Sizes, growing_of
from vikingd.index.segment.disk import Base
from vikingd.index.snapshot import Snapshot
from vikingd.index.tail.commit import Commit, TailParts
from vikingd.index.tail.links import LinkWriter
from vikingd.index.tail.rows import Rows
from vikingd.index.tail.stats import StatsWriter
from vikingd.index.tail.terms import TermWriter
from vikingd.index.tail.vectors import TailVectors


class Tail:
    """The mutable segment behind a base. One thread writes; others read its snapshots.

    Attributes:
        base: the arrays of the base.
        generation: number of the base.
        base_revision: revision of the base.
        revision: the newest commit that was taken.
        snapshot: the newest snapshot.
    """

    def __init__(self, base: Base, prior: F32, room: int, vocabulary: Vocabulary) -> None:
        """Begin a tail.

        Args:
            base: the base.
            prior: [SCRIPTS, dim] the model's mean of each script.
            room: rows of each kind that there is room for at first.
            vocabulary: the known words.
        """
        self.base = base.segment
        self.generation = base.manifest.generation
        self.base_revision = self.revision = base.manifest.revision
        self._inverted_file = base.inverted_file
        self._prior = prior
        names = Names(self.base)
        self.parts = TailParts(
            names=names,
            rows=Rows(self.base, base.growing or growing_of(self.base), names, room),
            vectors=TailVectors(self.base),
            stats=StatsWriter(self.base),
            terms=TermWriter(vocabulary),
            contents=Contents(self.base),
            links=LinkWriter(),
            dir_columns=base.dir_columns,
            file_columns=base.file_columns,
        )
        self._make_room(Sizes(0, 0, 0))
        self.snapshot = self._publish()

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while it is not known."""
        return self.parts.vectors.dimension

    @property
    def texts(self) -> int:
        """Texts in the tail, living or dead."""
        return self.parts.rows.texts - self.base.sizes.texts

    @property
    def dead_texts(self) -> int:
        """Texts in base and tail that ended since the base was written."""
        return self.parts.rows.dead_texts

    @property
    def changed(self) -> int:
        """The number of rows that a compaction would fold in.

        These are texts, or directories and rewritten contexts if there are more of them. All take
        memory, even when no text changes.
        """
        parts = self.parts
        directories = parts.rows.directories - self.base.sizes.directories
        return max(
            self.texts + parts.vectors.filled_in_base + parts.rows.dead_texts,
            directories + parts.rewritten,
        )

    def _make_room(self, more: Sizes) -> None:
        rows = self.parts.rows
        rows.make_room(more)
        self.parts.vectors.make_room(rows.texts, rows.arrays.room.texts)

    def apply(self, changes: Sequence[Change], revision: int) -> Snapshot:
        """Take one commit and return the snapshot that shows it.

        Raises:
            Corrupt: a change does not fit the rows. The tail is of no more use.
        """
        upserts = [change for change in changes if isinstance(change, Upsert)]
        directories = sum(change.is_directory for change in upserts)
        texts = sum(len(change.texts) for change in upserts)
        self._make_room(Sizes(directories, len(upserts), texts))
        in_base = self.parts.names.maybe_in_base([change.uri for change in upserts])
        commit = Commit(self.parts, revision, in_base)
        for change in changes:
            commit.take(change)
        commit.finish()
        self.revision = revision
        before, self.snapshot = self.snapshot, self._publish()
        self.parts.stats.published(before)
        return self.snapshot

    def _publish(self) -> Snapshot:
        parts, arrays = self.parts, self.parts.rows.arrays
        directories, files, texts = parts.rows.used
        return Snapshot(
            revision=self.revision,
            generation=self.generation,
            tree=parts.rows.tree(),
            vectors=parts.vectors.views(arrays.vector_at[:texts]),
            stats=parts.stats.views(),
            dir_type=arrays.dir_type[:directories],
            dir_id=arrays.dir_id[:directories],
            file_id=arrays.file_id[:files],
            text_id=arrays.text_id[:texts],
            text_ordinal=arrays.text_ordinal[:texts],
            text_embeddable=arrays.text_embeddable[:texts],
            names=parts.names,
            contents=parts.contents,
            links=parts.links.published,
            tail_postings=parts.terms.postings,
            dir_columns=parts.dir_columns,
            file_columns=parts.file_columns,
            prior=self._prior,
            inverted_file=self._inverted_file,
        )
