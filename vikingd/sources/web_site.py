"""Pages and sites of the web as sources of an import."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vikingd.sources.fetch_result import Fetched, SourceFailed
from vikingd.sources.site_options import SiteOptions
from vikingd.system.install_command import install_command

_PACKAGES = ("httpx", "idna", "lxml", "markdownify", "protego", "trafilatura")


def check_packages() -> None:
    """Raise SourceFailed if a package of the extra `web` is missing."""
    for name in _PACKAGES:
        if find_spec(name) is None:
            command = install_command("web")
            raise SourceFailed(f"{name} is not installed; install it with: {command}")


def fetch_site(
    address: str,
    options: SiteOptions,
    folder: Path,
    state: dict[str, Any] | None,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Fetch a page, or a site, and keep the main content of each page in a file.

    The file of a page that is gone (404, 410) is removed. If another error occurs, the file stays,
    and the result has the reason. The file of a page that has not changed is not written again, and
    the request is conditional, so that a host need not send the page again.

    Args:
        address: an address of http or https.
        options: the options.
        folder: a directory for the files of this source alone, with those of the former fetch. All
            other files in it are removed.
        state: the state of the former fetch; None: there was none, or all is fetched anew.
        advance: called with the number of pages that were just finished.
        cancelled: an event that ends the fetch. The result then has the pages that were fetched,
            and the former files of the other pages.

    Raises:
        InvalidField: an argument is invalid.
        SourceFailed: a package is missing, or the robots.txt of the host cannot be read.
        OSError: a file cannot be written.
    """
    check_packages()
    from vikingd.sources.web_crawl import crawl

    return crawl(address, options, folder, state, advance, cancelled)
