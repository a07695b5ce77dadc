"""The draft that a stored context was written from, found by the hash that is stored with it.

A draft is a context as a writer sends it. A writer may leave out abstract, passages and time; the
daemon then fills them in, and a model may write the abstract and the overview. The stored context
has all of them, so several drafts could have led to it. The content hash, which is made of the
draft, shows which one it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from vikingd.domain import uri as uris
from vikingd.domain.contexts import HAND, Context, Draft, Passage
from vikingd.ingest.code.parser_process import is_parsed
from vikingd.ingest.limits import as_sent
from vikingd.ingest.passages import default_passages


def as_put(stored: Context) -> Draft:
    """Reconstruct the draft that a stored context was written from, without vectors and memories.

    If no possible draft has the stored hash, the result has all fields but those that an extract or
    a model made.
    """
    return next(_with_its_hash(stored), None) or replace(
        _all_given(stored),
        abstract=stored.abstract if stored.abstract_by in ("", HAND) else "",
        overview=stored.overview if stored.overview_by in ("", HAND) else "",
    )


def is_as_written(stored: Context) -> bool:
    """Return True if a stored context still has the hash that it had when it was written."""
    return any(True for _ in _with_its_hash(stored))


def is_written(draft: Draft, content_hash: bytes, time: int) -> bool:
    """Return True if a put of the draft would not change a context of this hash and time.

    The writer of the context may have left the time and the passages to the daemon while the draft
    states them. The draft may also lack passages that the writer stated.
    """
    draft = replace(draft, metadata=as_sent(draft.metadata), passages=draft.passages or None)
    drafts = [draft, replace(draft, time=None)] if draft.time == time else [draft]
    if any(same.content_hash() == content_hash for same in drafts):
        return True
    if draft.is_directory:
        return False
    if not draft.passages and not is_parsed(draft.content, uris.name(draft.uri)):
        return False  # the daemon may cut it by a grammar that is not here
    cut = default_passages(draft.uri, draft.content)
    if draft.passages:
        plain = (replace(passage, vector=b"", entry=None) for passage in draft.passages)
        if tuple(plain) != cut:
            return False
        cut = ()
    other = cut or None
    return any(replace(same, passages=other).content_hash() == content_hash for same in drafts)


def _all_given(stored: Context) -> Draft:
    return replace(_uncut(stored), passages=_given_passages(stored) or None, time=stored.time)


def _uncut(stored: Context) -> Draft:
    return Draft(
        stored.uri,
        stored.is_directory,
        stored.abstract,
        stored.overview,
        stored.content,
        stored.title,
        stored.metadata,
    )


def _given_passages(stored: Context) -> list[Passage]:
    return [replace(passage, entry=None) for passage in stored.passages]


def _with_its_hash(stored: Context) -> Iterator[Draft]:
    """Yield those of the possible drafts of a stored context that have its content hash.

    Each draft has the stored abstract, overview, passages and time, or lacks some of them.
    """
    draft = _uncut(stored)
    overviews = dict.fromkeys((stored.overview, ""))  # A model's one is rarer than a given one.
    abstracts = dict.fromkeys(("", stored.abstract))
    for overview, abstract in product(overviews, abstracts):
        begun = replace(draft, overview=overview, abstract=abstract)
        yield from begun.with_hash(stored.content_hash, _cuts(stored), (None, stored.time))


def _cuts(stored: Context) -> Iterator[Sequence[Passage] | None]:
    """Yield the passages that the draft may have had: None, then those of the stored context.

    None comes first, because the passages take longer to compute.
    """
    yield None
    yield _given_passages(stored)
