"""The draft that a stored context was written from, found by the hash that is stored with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from vikingd.domain.contexts import Context, Draft, Passage


def as_put(stored: Context) -> Draft:
    """Return the draft of a stored context, without vectors and memories.

    Its writer may have left abstract, passages and time to the daemon: the hash tells. Where no
    draft has the hash, all that is stored counts as given.
    """
    return next(_with_its_hash(stored), _all_given(stored))


def is_as_written(stored: Context) -> bool:
    """Return whether a stored context still has the hash that it was written with."""
    return any(True for _ in _with_its_hash(stored))


def _all_given(stored: Context) -> Draft:
    passages = [replace(passage, entry=None) for passage in stored.passages] or None
    return Draft(
        stored.uri,
        stored.is_directory,
        stored.abstract,
        stored.overview,
        stored.content,
        stored.title,
        stored.metadata,
        passages,
        time=stored.time,
    )


def _with_its_hash(stored: Context) -> Iterator[Draft]:
    draft = _all_given(stored)
    abstracts = dict.fromkeys(("", stored.abstract))
    cuts: tuple[Sequence[Passage] | None, ...] = (None, draft.passages or [])
    for abstract, cut, time in product(abstracts, cuts, (None, stored.time)):
        given = replace(draft, abstract=abstract, passages=cut, time=time)
        if given.content_hash() == stored.content_hash:
            yield given
