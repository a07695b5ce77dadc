"""Downloads of models into the cache; a file is checked before it is visible there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from vikingd.models.hub.cache import CachedRepository, cache_directory, has_hash, size_of
from vikingd.models.hub.hub_client import Entry, Hub
from vikingd.models.hub.hub_errors import HubFailed, NotOnHub
from vikingd.models.model_files import DESCRIPTIONS, GRAPHS, TOKENIZER, tensor_files
from vikingd.models.pinned_models import PinnedFile, PinnedModel
from vikingd.system.sealed_files import sync

Progress = Callable[[int, int], object]
"""A callback: gets the bytes received so far, and the bytes of all files to get."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that was pulled into the cache.

    Attributes:
        path: the directory with its files.
        commit: its commit, 40 hex digits.
        received: the number of files whose content was downloaded.
    """

    path: Path
    commit: str
    received: int


def pull_pinned(model: PinnedModel, progress: Progress) -> Pulled:
    """Pull a registered model. If it is in the cache and undamaged, no request is sent.

    Raises:
        HubFailed: the model cannot be downloaded, or differs from its pinned hashes.
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
    """Pull the ONNX model of any repository, checked against the hashes that the hub names.

    Args:
        repository: ORG/NAME, checked.
        revision: a commit, branch or tag, checked.
        progress: called while files are downloaded.

    Raises:
        HubFailed: the model cannot be downloaded.
    """
    cache = CachedRepository(cache_directory(), repository)
    with _disk_faults_told(), Hub() as hub:
        tokenizer = hub.entry(repository, revision, TOKENIZER)
        if tokenizer is None:
            raise NotOnHub(f"{repository} has no {TOKENIZER} at {revision}")
        commit = tokenizer.commit

        def found(paths: Iterable[str]) -> Iterator[Entry]:
            entries = (hub.entry(repository, commit, path) for path in paths)
            return (entry for entry in entries if entry is not None)

        graph = next(found(GRAPHS), None)
        if graph is None:
            raise NotOnHub(f"{repository} has none of {', '.join(GRAPHS)} at {revision}")
        pull = _Pull(hub, cache, progress)
        pull.receive([tokenizer, graph, *found(DESCRIPTIONS)])
        tensors = [_beside(graph, name) for name in tensor_files(cache.blob(graph.etag))]
        wanted = list(found(tensors))
        if len(wanted) < len(tensors):
            missing = ", ".join(sorted({*tensors} - {file.path for file in wanted}))
            raise NotOnHub(f"{repository} lacks {missing}, which {graph.path} names")
        pull.receive(wanted)
        pull.link()
        cache.name_commit(revision, commit)
    return Pulled(cache.snapshot(commit), commit, pull.received)


class _Pull:
    """The files of one pull.

    They are linked into their snapshot when all are complete, so that no snapshot has only some of
    them.

    Attributes:
        received: the number of files whose content was downloaded.
    """

    def __init__(self, hub: Hub, cache: CachedRepository, progress: Progress) -> None:
        self.received = 0
        self._hub = hub
        self._cache = cache
        self._progress = progress
        self._files: list[Entry] = []
        self._done = self._total = 0

    def receive(self, files: Sequence[Entry]) -> None:
        """Download the contents of files that are not in the cache.

        Raises:
            HubFailed: a content cannot be downloaded.
            OSError: a file cannot be written.
        """
        self._files += files
        self._total += sum(file.size for file in files)
        self._check_space(files)
        for file in files:
            with self._cache.locked(file.etag):
                self.received += self._fetch(file)

    def link(self) -> None:
        """Link the files into their snapshot.

        Raises:
            OSError: a link cannot be created.
        """
        for file in self._files:
            link = self._cache.snapshot(file.commit) / file.path
            if not (link.is_file() and link.samefile(self._cache.blob(file.etag))):
                self._cache.link(file.commit, file.path, file.etag)

    def _fetch(self, file: Entry) -> bool:
        """Download a content into the cache; return False if it is there already."""
        blob, part = self._cache.blob(file.etag), self._cache.incomplete(file.etag)
        if blob.is_file() and has_hash(blob, file.etag, file.sha256):
            self._advance(file.size)
            return False
        had_part = part.exists()
        try:
            self._hub.receive(self._cache.repository, file, part, self._advance)
            is_good = has_hash(part, file.etag, file.sha256)
            if had_part and not is_good:  # the earlier part is damaged
                part.unlink()
                self._advance(-file.size)
                self._hub.receive(self._cache.repository, file, part, self._advance)
                is_good = has_hash(part, file.etag, file.sha256)
            if not is_good:
                part.unlink()
                raise HubFailed(
                    f"{file.path} of {self._cache.repository} came with another content than that "
                    f"of the hash {file.sha256 or file.etag}; it is deleted"
                )
            sync(part)
            part.replace(blob)
            sync(blob.parent)
            return True
        finally:
            if size_of(part) == 0:
                part.unlink()

    def _check_space(self, files: Sequence[Entry]) -> None:
        cache = self._cache
        needed = sum(file.size for file in files if not cache.blob(file.etag).exists())
        there = next(path for path in (cache.root, *cache.root.parents) if path.is_dir())
        free = shutil.disk_usage(there).free
        if needed > free:
            raise HubFailed(
                f"{cache.root} has {free:,} bytes free, and {needed:,} are needed; HF_HUB_CACHE "
                "names another directory"
            )

    def _advance(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._total)


def _beside(graph: Entry, name: str) -> str:
    """Return the path in the repository of a file that an ONNX graph names relative to itself."""
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise HubFailed(f"{graph.path} names the file {name!r}, which is not beside it")
    return str(PurePosixPath(graph.path).parent / name)


def _is_pinned(path: Path, file: PinnedFile) -> bool:
    return path.is_file() and has_hash(path, file.sha256)


def _as_pinned(hub: Hub, model: PinnedModel, file: PinnedFile) -> Entry:
    """Return the hub's entry of a file with its pinned SHA-256.

    Raises:
        HubFailed: the hub has no such file, or names another size or hash than the pinned one.
    """
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
    return replace(entry, sha256=file.sha256)


@contextmanager
def _disk_faults_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HubFailed(f"{error.filename or cache_directory()}: {error.strerror}") from error
