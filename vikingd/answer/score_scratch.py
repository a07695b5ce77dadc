"""The scratch memory of scores, which queries use in turn."""

from __future__ import annotations

from viking_kernels import find as kernel
from viking_kernels.arrays import Scratch

from vikingd.index.snapshot import Snapshot

_spare: list[Scratch] = []
"""Scratch that no query uses. The last one is the most likely to be in a processor cache."""


def take_scratch(snapshot: Snapshot) -> Scratch:
    """Return scratch for the scores of one query; `keep_scratch` takes it back at the end."""
    try:
        kept = _spare.pop()
    except IndexError:
        kept = None
    tree = snapshot.tree
    directories, files = len(tree.directories.tombstoned), len(tree.files.tombstoned)
    texts = len(tree.texts.tombstoned)
    if (
        kept is None
        or len(kept.dir_tf) < directories
        or len(kept.best) < files
        or len(kept.lexical) < texts
    ):
        kept = kernel.scratch(*(n + n // 4 + 1024 for n in (directories, files, texts)))
    return kept


def keep_scratch(scratch: Scratch) -> None:
    """Keep scratch for the next query. After a failure it is dropped."""
    _spare.append(scratch)
