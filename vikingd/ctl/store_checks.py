"""The checks of the store and the models that this machine's configuration names."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from vikingd.ctl.doctor_checks import OK, WARN, WRONG, Check
from vikingd.ctl.render import size
from vikingd.system import platform
from vikingd.system.regular_files import open_regular

if TYPE_CHECKING:
    from vikingd.config import Settings

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LITTLE, _TOO_LITTLE = 1 << 30, 64 << 20  # bytes free
_VERSION = slice(60, 64)  # of user_version in the header of a file of SQLite
_DATABASE, _KEYS = "store.sqlite3", "access.sqlite3"


def store(path: Path, *, is_served: bool) -> Iterator[Check]:
    """Yield the checks of a store directory; a database that a daemon has open is not opened.

    Args:
        path: the directory.
        is_served: the checked daemon has this store open, so that its lock is no fault.
    """
    database = path / _DATABASE
    if not database.exists():
        yield _no_store(path)
        return
    schema = _schema(database)
    from vikingd.store.sqlite.sqlite_schema import MIGRATIONS

    whole = sum(map(_size, path.rglob("*")))
    # A new store has its schema in the log alone, until that is written to the file.
    found = f"{path}, {size(whole)}, schema {schema or 'in the log'}"
    if schema > len(MIGRATIONS):
        found = f"{found}, which is newer than this vikingd ({len(MIGRATIONS)})"
        yield Check(WRONG, "store", found, "install the vikingd that made it, or a newer one")
    elif 0 < schema < len(MIGRATIONS):
        found = f"{found}; the next start brings it to {len(MIGRATIONS)}"
        yield Check(WARN, "store", found, "vikingctl backup PATH before an upgrade")
    else:
        yield Check(OK, "store", found)
    holder = platform.holder_of(path / "lock")
    if holder is not None and not is_served:
        command = platform.command_of(holder) or "unknown"
        found = f"process {holder} has {path} ({command[:80]})"
        yield Check(WARN, "lock", found, "--address with the address that it listens on, or end it")
    open_to_others = [one for one in (path, database, path / _KEYS) if _is_open(one)]
    if open_to_others:
        found = f"other users have access to {open_to_others[0]}"
        yield Check(WARN, "access", found, f"chmod -R go= {path}; the next start does it, too")


def disk(path: Path) -> Iterator[Check]:
    """Yield the check of the free space for a store that exists or would be created."""
    there = next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(there).free
    found = f"{size(free)} free at {there}"
    if free < _TOO_LITTLE:
        yield Check(WRONG, "disk", f"{found}: writes are refused soon", "make room on it")
    elif free < _LITTLE:
        yield Check(WARN, "disk", f"{found}: a compaction needs as much as the index", "make room")
    else:
        yield Check(OK, "disk", found)


def _no_store(path: Path) -> Check:
    there = next(one for one in (path, *path.parents) if one.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Check(OK, "store", f"none in {path} yet; the first start makes it")
    found = f"none in {path}, and this user may not make it"
    return Check(WRONG, "store", found, f"--path DIR with another directory, or chown {there}")


def _size(path: Path) -> int:
    """Return the size of a file, 0 of a directory and of a file that has just gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _schema(database: Path) -> int:
    with open_regular(database) as file:
        return int.from_bytes(file.read(_VERSION.stop)[_VERSION], "big")


def _is_open(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & _OTHERS)


def embedder(settings: Settings) -> Iterator[Check]:
    """Yield the check whether the configured embedder works here, without a daemon.

    An endpoint is not called. Nothing is written: weights that the first start converts are not
    tried.
    """
    given = settings.embedding
    if given.provider == "none":
        found = "none is configured: texts are found by words alone"
        yield Check(WARN, "embedder", found, "vikingd serve --provider e5")
        return
    if given.provider == "openai":
        found = f"openai {given.openai_model}; not asked without a daemon"
        yield Check(OK, "embedder", found)
        return
    from vikingd.domain.errors import EmbedderFailed
    from vikingd.models.embed import e5_file, e5_weights
    from vikingd.models.embed.provider_choice import open_provider
    from vikingd.system.user_cache import cache_directory

    try:
        if given.provider == "e5" and not e5_weights.is_kept(cache_directory()):
            e5_file.installed()
            yield Check(
                OK, "embedder", "e5; its files are there, and the first start prepares them"
            )
            return
        with closing(open_provider(given)) as provider:
            provider.embed_query("vikingctl doctor")
            yield Check(OK, "embedder", f"{provider.name}, {provider.dimension} dimensions")
            if not settings.store:
                yield from _vectors_check(settings.path, provider.model, provider.dimension)
    except EmbedderFailed as error:
        yield Check(WRONG, "embedder", str(error), "see the section [embedding]: vikingd config")


def _vectors_check(path: Path, model: str, dimension: int | None) -> Iterator[Check]:
    """Yield a fault if the store has vectors of another model than the configured one.

    A store that a daemon has open is not read.
    """
    from vikingd.store.sqlite.sqlite_schema import connect
    from vikingd.store.store_meta import describe_model, fits

    database = path / _DATABASE
    if not database.exists() or not _schema(database):
        return
    if platform.holder_of(path / "lock") is not None:
        return  # a daemon has it, and its log may have more
    with closing(connect(database, read_only=True, immutable=True)) as db:
        state = db.get_state()
    if state and state["store.model"] != "none" and not fits(state, model, dimension):
        old = describe_model(state["store.model"], state.get("store.dimension"))
        found = f"the store has vectors of {old}, not of {describe_model(model, dimension)}"
        yield Check(WRONG, "vectors", found, "configure the former, or vikingd serve --reembed")
