"""The fetch of a source by the kind of its address, into its folder of the user's cache."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from vikingd.domain.errors import InvalidField
from vikingd.sources.addresses import Address, Kind, check_below
from vikingd.sources.archives import suffix_of, unchanged_files, unpack
from vikingd.sources.fetch_result import Fetched, SourceFailed
from vikingd.sources.git_checkouts import check_ref, fetch_repository
from vikingd.sources.site_options import SiteOptions
from vikingd.sources.source_registry import Record, SourceOptions, discard_unused
from vikingd.sources.web_site import check_packages, fetch_site

_CHECKOUT = "checkout"
_FOLDER = "folder"  # the key of the name of the folder of files in the state


def check_options(address: Address, options: SourceOptions) -> None:
    """Raise InvalidField for an option that an address of this kind does not take."""
    if options.ref and address.kind is not Kind.REPOSITORY:
        raise InvalidField("ref", "is for repositories: git+https:// and the like")
    check_ref(options.ref)
    if options.below and address.kind is not Kind.PAGE:
        raise InvalidField("below", "is for pages: https:// and http://")
    check_below(options.below)
    if options.max_pages is not None and not options.below:
        raise InvalidField("max_pages", "needs below, the prefix of a site")
    _site_options(options)


def fetch(
    address: Address,
    record: Record,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Fetch a source.

    The files are written to a new folder. The folder of the last import is not changed, and stays
    until `settle`, because the new files may not be imported. A repository keeps one checkout.

    Args:
        address: the address, with its credentials.
        record: the source, with the state of the last import.
        advance: called with the number of objects, pages or members that just came.
        cancelled: an event that ends the fetch.

    Raises:
        SourceFailed: it cannot be fetched.
        InterruptedError: `cancelled` was set.
        OSError: the cache cannot be written.
    """
    state = record.state or None
    if address.kind is Kind.REPOSITORY:
        folder = record.folder / _CHECKOUT
        return fetch_repository(address, record.options.ref, folder, state, advance, cancelled)
    last = _last(record)
    discard_unused(record.folder, last)
    folder = _next(record, last)
    if address.kind is Kind.PAGE:
        fetched = _fetch_site(address, record, last, folder, advance, cancelled)
    elif address.is_local:
        if not Path(address.url).is_file():
            raise SourceFailed(f"{address.text} is no longer there")
        fetched = unpack(Path(address.url), address.text, folder, state, advance, cancelled)
    else:
        fetched = _fetch_archive(address, record, last, folder, advance, cancelled)
    if cancelled.is_set():  # a cancelled fetch of a site returns a part of it
        raise InterruptedError
    fetched.state[_FOLDER] = fetched.folder.name
    return fetched


def settle(record: Record) -> None:
    """Remove the file folders of a source, except the one that its stored state names."""
    discard_unused(record.folder, _last(record))


def _last(record: Record) -> Path | None:
    """Return the folder with the files of the last import; None if there is none."""
    name = record.state.get(_FOLDER)
    folder = record.folder / str(name)
    return folder if name and folder.is_dir() else None


def _next(record: Record, last: Path | None) -> Path:
    """Return the path of a new folder of files."""
    number = int(last.name.rpartition("-")[2]) + 1 if last else 1
    return record.folder / f"files-{number}"


def _fetch_site(
    address: Address,
    record: Record,
    last: Path | None,
    folder: Path,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    if last is None:
        folder.mkdir(mode=0o700, parents=True)
    else:
        try:
            shutil.copytree(last, folder)
        except shutil.Error as error:  # a list of all that failed
            source, _, reason = error.args[0][0]
            raise OSError(errno.EIO, reason, source) from None
    state = record.state if last else None
    options = _site_options(record.options)
    return fetch_site(address.url, options, folder, state, advance, cancelled)


def _site_options(options: SourceOptions) -> SiteOptions:
    limits = {} if options.max_pages is None else {"max_pages": options.max_pages}
    return SiteOptions(below=options.below, depth=options.depth, **limits)


def _fetch_archive(
    address: Address,
    record: Record,
    last: Path | None,
    folder: Path,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Download an archive and unpack it; do nothing if its host says that it has not changed."""
    check_packages()
    from vikingd.sources.archive_downloads import download

    state = record.state if last else {}
    name = urlsplit(address.url).path.rpartition("/")[2]
    file = record.folder / f"download{suffix_of(name)}"
    try:
        found = download(address.url, file, state, cancelled)
        if found.is_unchanged and last is not None:
            return unchanged_files(address.text, last, record.state)
        fetched = unpack(file, address.text, folder, state, advance, cancelled)
    finally:
        file.unlink(missing_ok=True)
    said = {"etag": found.etag, "modified": found.modified, "is_public": found.is_public}
    fetched.state.update(said)
    return fetched
