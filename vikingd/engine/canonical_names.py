"""The renaming of contexts of older stores whose URIs do not have the canonical form.

Calls can only name URIs in this form, see `vikingd.domain.uri.canonical`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import numpy as np
from viking_kernels.arrays import encode_file

from vikingd.domain import uri as uris
from vikingd.domain.errors import (
    AlreadyExists,
    Corrupt,
    InvalidField,
    NotFound,
    StoreAway,
    VikingError,
)
from vikingd.index.snapshot import Snapshot
from vikingd.store.store_writes import WritableStore

_log = logging.getLogger(__name__)


def rename_contexts(store: WritableStore, newest: Callable[[], Snapshot]) -> None:
    """Rename the contexts whose URIs are not canonical, and log each new name.

    If the new name is taken, it gets a number: `tea (2).md`. A context that cannot be renamed stays
    as it is. If the index cannot be read, nothing is renamed until the next start.

    Args:
        store: the store.
        newest: returns the newest snapshot of its index.
    """
    with suppress(Corrupt, StoreAway):
        while not newest().names.are_canonical():
            moved: list[str] = []
            for uri in _not_canonical(newest()):
                if not any(uris.is_within(uri, above) for above in moved) and _rename(store, uri):
                    moved.append(uri)
            if not moved:
                return


def _not_canonical(snapshot: Snapshot) -> list[str]:
    """Return the URIs that are not canonical, a directory before the contexts below it."""
    tree, revision = snapshot.tree, snapshot.revision
    files = encode_file(np.flatnonzero(tree.files.tombstoned > revision))
    directories = np.flatnonzero(tree.directories.tombstoned > revision)
    found = map(snapshot.uri, [*directories.tolist(), *files.tolist()])
    return sorted(
        (uri for uri in found if uris.canonical(uri) != uri), key=lambda uri: uri.split("/")
    )


def _rename(store: WritableStore, source: str) -> bool:
    """Rename a context to its canonical URI; return False if it could not be renamed."""
    wanted = uris.canonical(source)
    stem, dot, ending = uris.name(wanted).rpartition(".")
    for number in count(1):
        name = uris.name(wanted)
        if number > 1:
            name = f"{stem or name} ({number}){dot if stem else ''}{ending if stem else ''}"
        destination = uris.join(uris.parent(wanted), name)
        try:
            store.move(source, destination).result()
        except AlreadyExists:
            continue
        except (InvalidField, NotFound):  # a root, or renamed by another node
            return False
        except VikingError as error:
            _log.warning("%s keeps its name, which calls cannot name any more: %s", source, error)
            return False
        _log.warning(
            "%a is now %a: names have one form, NFC without hidden characters", source, destination
        )
        return True
    return False
