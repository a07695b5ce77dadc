"""Migration of memory files of the first schema.

A file of that schema held one memory. Every list item of the file becomes a memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from vikingd.domain.contexts import Context, ContextType, Entry, Prepared
from vikingd.domain.errors import VikingError
from vikingd.domain.uri import context_type
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.original_draft import as_put
from vikingd.memory.memory_types import StoredEntry
from vikingd.store.store_writes import WritableStore

WHOLE = "memories.whole"
"""The key in the table `meta` of a store whose old memory files are not split yet."""

_RANGE = ("viking://agent/", "viking://users0")  # all roots of memories are between

_log = logging.getLogger(__name__)


def split_memories(store: WritableStore) -> None:
    """Split old memory files: each list item becomes a memory. A file that fails stays as it is."""
    if not store.get_meta(WHOLE):
        return
    split = 0
    for uri, _ in store.files_between(*_RANGE):
        if context_type(uri) is not ContextType.MEMORY:
            continue
        try:
            file = store.memory_file(uri)
            made = _split(store.get(uri), file.entries if file else ())
            if made is not None:
                store.put([made]).result()
                split += 1
        except VikingError as error:
            _log.warning("%s keeps the memories that it had: %s", uri, error)
    store.set_meta(WHOLE, b"")
    _log.info("%d memory files of an older store are split into their items", split)


def _split(context: Context, stored: Sequence[StoredEntry]) -> Prepared | None:
    """Return a memory file with a memory for each list item; None if nothing is to be split.

    The first list item of an old memory keeps its id, counters and times. The other items get its
    times, new ids and counters of 0. A file whose writer gave the passages is not split.
    """
    draft = as_put(context)
    if draft.passages is not None or not stored:
        return None
    made = prepare(replace(draft, expected_revision=context.revision))
    pieces = [text for text in made.texts if text.ordinal]
    if len(pieces) <= len(stored):
        return None
    given: dict[int, Entry] = {}
    left = list(stored)
    owner = left[0].entry
    is_taken = True
    for text in pieces:
        while left and left[0].start <= text.start:
            owner, is_taken = left.pop(0).entry, False
        if text.continues and is_taken:
            continue
        rest = Entry(time=owner.time, created_at=owner.created_at)
        given[text.ordinal] = rest if is_taken else owner
        is_taken = True
    return replace(made, entries=given)
