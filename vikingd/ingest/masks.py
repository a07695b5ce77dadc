"""Puts with an update mask: the other fields keep their stored values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vikingd.domain.contexts import Context, Draft, Passage, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.ingest.draft_preparation import check_passages, cut, prepare
from vikingd.ingest.original_draft import as_put

FIELDS = ("title", "abstract", "overview", "content", "passages", "metadata", "vector", "time")
"""The names in an update mask, besides "*"."""

ALL = "*"


def fields_of(paths: Iterable[str], field: str) -> frozenset[str]:
    """Return the fields that an update mask names.

    Raises:
        InvalidField: the mask has no name, or a name that is not in `FIELDS`.
    """
    names = list(paths)
    if names == [ALL]:
        return frozenset(FIELDS)
    if not names:
        raise InvalidField(field, "names no field; leave it unset to write the context whole")
    for i, name in enumerate(names):
        if name not in FIELDS:
            known = ", ".join(FIELDS)
            raise InvalidField(
                f"{field}.paths[{i}]", f'is {name!r}, not one of {known}, nor "*" alone'
            )
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class Masked:
    """A put of the fields that the mask of a checked draft names."""

    draft: Draft
    cut: Sequence[Passage] | None = None  # of the new content, if the draft gives none

    @classmethod
    def of(cls, draft: Draft) -> Masked:
        """Return the put of a draft, and cut its content now, before the write transaction.

        Raises:
            InvalidField: as `draft_preparation.cut`.
        """
        named = draft.update_mask or ()
        is_cut = "passages" in named and draft.passages is not None
        if "content" not in named or is_cut:
            return cls(draft)
        return cls(draft, cut(draft))

    def merged(self, stored: Context) -> Prepared:
        """Return the stored context with the fields that the mask names replaced.

        A content that stays keeps its passages.

        Raises:
            InvalidField: a directory gets content or passages, or passages do not fit the content.
        """
        draft, named = self.draft, frozenset(self.draft.update_mask or ())
        if draft.is_directory != stored.is_directory and named == frozenset(FIELDS):
            kind = "directory" if stored.is_directory else "file"
            raise InvalidField("uri", f"is a {kind}; delete it to change that")
        if stored.is_directory:
            for name in ("content", "passages"):
                if name in named and getattr(draft, name):
                    raise InvalidField(name, "must be empty for a directory")
        whole = replace(as_put(stored), **{name: getattr(draft, name) for name in named})
        pieces = self.cut
        if stored.is_directory:
            return prepare(replace(whole, passages=None))
        if "content" in named:
            if "passages" not in named:
                whole = replace(whole, passages=None)
        elif "passages" in named:
            if not draft.passages:
                raise InvalidField(
                    "passages", "is empty; give content too, and the daemon cuts new passages"
                )
            check_passages(draft.passages, len(whole.content), "passages")
        else:
            pieces = [replace(passage, entry=None) for passage in stored.passages]
        if pieces is None:
            return prepare(whole)
        return replace(prepare(replace(whole, passages=pieces)), content_hash=whole.content_hash())
