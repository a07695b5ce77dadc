"""Models from the hub into the cache: each file is checked before it is visible there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vikingd.models.hub.cache import CachedRepository, cache_directory, has_hash
from vikingd.models.hub.hub_errors import HubFailed, NotOnHub
from vikingd.models.hub.protocol import Entry, Hub
from vikingd.models.model_files import DESCRIPTIONS, GRAPHS, TOKENIZER
from vikingd.models.registry import PinnedFile, PinnedModel
from vikingd.models.tensor_files import tensor_files
from vikingd.system.sealed_files import sync

Progress = Callable[[int, int], object]
"""Is called with the bytes that are there and the bytes of all files to get."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model in the cache.

    Attributes:
        path: the directory with its files.
        commit: its revision.
        received: the number of files whose content was not there before.
    """

    path: Path
    commit: str
    received: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file to get; `sha256` is "" if only its ETag is known."""

    path: str
    entry: Entry
    sha256: str = ""


def pull_pinned(model: PinnedModel, progress: Progress) -> Pulled:
    """Get a model of the registry; no hub is asked if it is there already, and undamaged.

    Raises:
        HubFailed: it cannot be had, or is not what the registry pins.
    """
    cache = CachedRepository(cache_directory(), model.repository)
    snapshot = cache.snapshot(model.revision)
    received = 0
    with _disk_faults_told():
        lacking = [file for file in model.files if not _is_pinned(snapshot / file.path, file)]
        if lacking:
            with Hub() as hub:
                pull = _Pull(hub, cache, progress)
                pull.receive([_as_pinned(hub, model, file) for file in lacking])
                pull.link()
                received = pull.received
    return Pulled(snapshot, model.revision, received)


def pull_repository(repository: str, revision: str, progress: Progress) -> Pulled:
    """Get the ONNX model of any repository, checked against the hashes that the hub tells.

    Args:
        repository: ORG/NAME, checked.
        revision: a commit, branch or tag, checked.
        progress: is called while files are received.

    Raises:
        HubFailed: it cannot be had.
    """
    cache = CachedRepository(cache_directory(), repository)
    with _disk_faults_told(), Hub() as hub:
        tokenizer = hub.entry(repository, revision, TOKENIZER)
        if tokenizer is None:
            raise NotOnHub(f"{repository} has no {TOKENIZER} at {revision}")
        commit = tokenizer.commit

        def found(paths: Iterable[str]) -> Iterator[_Wanted]:
            for path in paths:
                entry = hub.entry(repository, commit, path)
                if entry is not None:
                    yield _Wanted(path, entry)

        graph = next(found(GRAPHS), None)
        if graph is None:
            raise NotOnHub(f"{repository} has none of {', '.join(GRAPHS)} at {revision}")
        pull = _Pull(hub, cache, progress)
        pull.receive([_Wanted(TOKENIZER, tokenizer), graph, *found(DESCRIPTIONS)])
        tensors = [_beside(graph, name) for name in tensor_files(cache.blob(graph.entry.etag))]
        wanted = list(found(tensors))
        if len(wanted) < len(tensors):
            missing = ", ".join(sorted({*tensors} - {file.path for file in wanted}))
            raise NotOnHub(f"{repository} lacks {missing}, which {graph.path} names")
        pull.receive(wanted)
        pull.link()
        cache.name_commit(revision, commit)
    return Pulled(cache.snapshot(commit), commit, pull.received)


class _Pull:
    """The files of one pull, which are linked when all are there: no snapshot shows a part.

    Attributes:
        received: the number of files whose content was not there before.
    """

    def __init__(self, hub: Hub, cache: CachedRepository, progress: Progress) -> None:
        self.received = 0
        self._hub = hub
        self._cache = cache
        self._progress = progress
        self._files: list[_Wanted] = []
        self._done = self._total = 0

    def receive(self, files: Sequence[_Wanted]) -> None:
        """Get the contents that are not in the cache.

        Raises:
            HubFailed: one cannot be had.
            OSError: one cannot be written.
        """
        self._files += files
        self._total += sum(file.entry.size for file in files)
        _check_space(self._cache, files)
        for file in files:
            self.received += _fetch(self._hub, self._cache, file, self._advance)

    def link(self) -> None:
        """Put the files into their snapshot.

        Raises:
            OSError: a link cannot be made.
        """
        for file in self._files:
            commit, etag = file.entry.commit, file.entry.etag
            link = self._cache.snapshot(commit) / file.path
            if not (link.is_file() and link.samefile(self._cache.blob(etag))):
                self._cache.link(commit, file.path, etag)

    def _advance(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._total)


def _beside(graph: _Wanted, name: str) -> str:
    """Return the path of a file that a graph names."""
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise HubFailed(f"{graph.path} names the file {name!r}, which is not beside it")
    return str(PurePosixPath(graph.path).parent / name)


def _is_pinned(path: Path, file: PinnedFile) -> bool:
    return path.is_file() and has_hash(path, file.sha256)


def _as_pinned(hub: Hub, model: PinnedModel, file: PinnedFile) -> _Wanted:
    """Ask for a file; refuse one that is not as the registry says before it is received."""
    entry = hub.entry(model.repository, model.revision, file.path)
    named = f"{file.path} of {model.repository} at {model.revision}"
    if entry is None:
        raise NotOnHub(f"the hub has no {named}")
    if entry.size != file.size:
        raise HubFailed(
            f"the hub says {entry.size:,} bytes of {named}, and {file.size:,} are pinned"
        )
    if len(entry.etag) == len(file.sha256) and entry.etag != file.sha256:
        raise HubFailed(
            f"the hub says the SHA-256 {entry.etag} of {named}, and {file.sha256} is pinned"
        )
    return _Wanted(file.path, entry, file.sha256)


def _fetch(
    hub: Hub, cache: CachedRepository, file: _Wanted, advance: Callable[[int], object]
) -> bool:
    """Get a content into the cache; return False if it was there already."""
    etag = file.entry.etag
    blob, part = cache.blob(etag), cache.incomplete(etag)
    with cache.locked(etag):
        if blob.is_file() and has_hash(blob, etag, file.sha256):
            advance(file.entry.size)
            return False
        had_part = part.exists()
        try:
            hub.receive(cache.repository, file.entry, file.path, part, advance)
            if had_part and not has_hash(part, etag, file.sha256):  # the earlier part is damaged
                part.unlink()
                advance(-file.entry.size)
                hub.receive(cache.repository, file.entry, file.path, part, advance)
            if not has_hash(part, etag, file.sha256):
                part.unlink()
                raise HubFailed(
                    f"{file.path} of {cache.repository} came with another content than that of "
                    f"the hash {file.sha256 or etag}; it is deleted"
                )
            sync(part)
            part.replace(blob)
            sync(blob.parent)
            return True
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()


def _check_space(cache: CachedRepository, wanted: Sequence[_Wanted]) -> None:
    needed = sum(file.entry.size for file in wanted if not cache.blob(file.entry.etag).exists())
    there = next(path for path in (cache.root, *cache.root.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise HubFailed(
            f"{cache.root} has {free:,} bytes free, and {needed:,} are needed; HF_HUB_CACHE names "
            "another directory"
        )


@contextmanager
def _disk_faults_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HubFailed(f"{error.filename or cache_directory()}: {error.strerror}") from error
