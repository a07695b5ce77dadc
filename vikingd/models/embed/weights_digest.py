"""A hash of a model's files, which identifies its weights; large files are hashed once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

from vikingd.models.model_files import tensor_files
from vikingd.system import user_cache
from vikingd.system.regular_files import open_regular, read_regular, read_text

LARGE = 32 << 20
"""The least bytes of a file whose hash is kept in the cache."""

_log = logging.getLogger(__name__)


def weights_digest(model: Path) -> str:
    """Return a SHA-256, in hex, over a model's file and the files with its tensors.

    Raises:
        OSError: a file can't be read.
    """
    digest = hashlib.sha256()
    for name in (model.name, *tensor_files(model)):
        digest.update(f"{name} {file_digest(model.parent / name)}\n".encode())
    return digest.hexdigest()


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hex.

    For a large file whose size, times and inode have not changed, it comes from a cache.

    Raises:
        OSError: the file can't be read.
    """
    state = file.stat()
    if state.st_size < LARGE:
        return hashlib.sha256(read_regular(file, LARGE)).hexdigest()
    stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
    key = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()
    cached = user_cache.cache_directory() / "weights" / f"{key[:32]}.json"
    try:
        known_stamp, known = json.loads(read_text(cached))
        if known_stamp == stamp and isinstance(known, str):
            return known
    except (OSError, ValueError, TypeError):
        pass  # never computed, or damaged
    _log.info("hashing %s to know its weights", file)
    with open_regular(file) as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    try:
        user_cache.put(cached, json.dumps([stamp, digest]).encode())
    except OSError as error:
        _log.warning("the hash can't be kept, the next start computes it again: %s", error)
    return digest
