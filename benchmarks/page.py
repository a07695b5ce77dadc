"""The page of the gateway over a large tree, in a headless Chromium.

`python -m benchmarks.page` writes 5,000 directories with 100,000 files, opens the page several
times, and measures the first paint, the tree, a search and the opening of a directory. Chromium
must be installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from benchmarks.daemon import running, say, serving, temporary_store
from vikingd.client import Client, Document

_ROOT = "viking://resources/harbours"
_BATCH = 1000
_GROUP = 100  # directories in a directory above them


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.page", description=__doc__)
    parser.add_argument("--directories", type=int, default=5000)
    parser.add_argument("--files", type=int, default=20, help="files in each directory")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    given = parser.parse_args()
    with (
        temporary_store() as store,
        serving(store) as server,
        Client(server.address, 120) as client,
    ):
        count = 0
        for batch in _batches(given.directories, given.files):
            client.put(batch)
            count += len(batch)
        say(f"{count:,} files are written")
        with gateway(server.address) as url, chromium() as browser:
            taken = [_round(browser, url) for _ in range(given.rounds)]
    figures = {
        name: round(float(np.median([each[name] for each in taken])), 1) for name in taken[0]
    }
    for name, value in figures.items():
        print(f"{name:36} {value}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


@contextmanager
def gateway(daemon: str) -> Iterator[str]:
    """Start a gateway in front of a daemon; yield its URL."""
    command = ("-m", "vikingd.daemon.server", "gateway", "--listen", "127.0.0.1:0")
    with running(*command, "--daemon", daemon) as server:
        yield server.address


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a headless Chromium.

    Raises:
        SystemExit: it is not installed.
    """
    if not (path := shutil.which("chromium")):
        raise SystemExit("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _batches(directories: int, files: int) -> Iterator[list[Document]]:
    batch = []
    for d in range(directories):
        for f in range(files):
            uri = f"{_ROOT}/g{d // _GROUP:02}/d{d:04}/f{f:02}.md"
            text = f"Harbour {d} keeps the lantern {f} at pier {d % 97}."
            batch.append(Document(uri, content=text))
            if len(batch) == _BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _round(browser: Browser, url: str) -> dict[str, float]:
    """Return the milliseconds of each measured action, in a new browser profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    items = page.get_by_role("treeitem")
    taken = {}
    started = time.perf_counter()
    page.goto(f"{url}/#mode=tree")
    items.first.wait_for()
    taken["tree is there, ms"] = _since(started)
    taken["first contentful paint, ms"] = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    page.get_by_role("link", name="Search").click()
    page.get_by_role("searchbox").fill("lantern pier 12")
    taken["search, ms"] = _until(page, "Enter", page.locator(".result").first)
    page.get_by_role("link", name="Tree").click()
    for name in ("resources", "harbours", "g00"):
        items.filter(has_text=name).click()
    directory = items.filter(has_text="d0000")
    directory.wait_for()
    directory.focus()
    taken["directory opened, ms"] = _until(page, "ArrowRight", items.filter(has_text="f00.md"))
    context.close()
    return taken


def _until(page: Page, key: str, shown: Locator) -> float:
    """Press a key; return the milliseconds until an element is visible."""
    started = time.perf_counter()
    page.keyboard.press(key)
    shown.wait_for()
    return _since(started)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
