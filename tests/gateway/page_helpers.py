"""A daemon, its gateway, and a real browser that looks at the page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser as Browser
from playwright.sync_api import Page as Page
from playwright.sync_api import Route as Route
from playwright.sync_api import expect, sync_playwright

from tests.metrics_helpers import running
from tests.patience import SECONDS
from tests.programs import needed
from vikingd.client import Client

PATIENCE = SECONDS * 1000
"""The limit of a wait for a state of the page, in milliseconds."""

expect.set_options(timeout=PATIENCE)

SHOTS = os.environ.get("TEST_SHOTS", "")
"""The directory for the screenshots of a run; "" keeps none."""


@dataclass
class Site:
    """A gateway with its daemon."""

    url: str
    address: str  # of the daemon
    client: Client
    stop_daemon: Callable[[], None]


@dataclass
class Seen:
    """The reports of a browser: errors, refusals of the content security policy, dialogs."""

    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def site(store: Path, *options: str, **environment: str) -> Iterator[Site]:
    """Run a daemon, and a gateway in front of it."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    with running(store, "--provider", "none", *options, **environment) as daemon:
        command = [sys.executable, "-m", "vikingd.daemon.server", "gateway"]
        with subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--daemon", daemon.address],
            stdout=subprocess.PIPE,
            text=True,
            env=own,
        ) as gateway:
            try:
                assert gateway.stdout is not None
                url = gateway.stdout.readline().split()[-1]

                def stop_daemon() -> None:
                    daemon.process.terminate()
                    daemon.process.wait(60)

                with Client(daemon.address) as client:
                    yield Site(url, daemon.address, client, stop_daemon)
            finally:
                gateway.terminate()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a headless Chromium."""
    path = needed("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def page(
    browser: Browser,
    at: Site,
    fragment: str = "",
    *,
    language: str = "en-US",
    theme: str = "light",
    size: tuple[int, int] = (1280, 800),
    expected: tuple[str, ...] = (),
) -> Iterator[tuple[Page, Seen]]:
    """Open the page in a fresh profile; fail if the browser reports a fault.

    `expected` are parts of messages that are no fault, such as the status of a refused call.
    """
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, locale=language, color_scheme=theme
    )
    context.set_default_timeout(PATIENCE)
    tab, seen = context.new_page(), Seen()

    def tell(text: str) -> None:
        if not any(part in text for part in expected):
            seen.faults.append(text)

    def on_dialog(dialog: Any) -> None:
        tell(f"dialog: {dialog.message}")
        dialog.dismiss()

    tab.on("dialog", on_dialog)
    tab.on("pageerror", lambda error: tell(f"error: {error}"))
    tab.on("console", lambda said: tell(f"{said.type}: {said.text}"))
    tab.on("request", lambda request: seen.requests.append(request.url))
    tab.goto(f"{at.url}/{fragment}")
    try:
        yield tab, seen
        if SHOTS:
            name = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].partition(" ")[0]
            tab.screenshot(path=Path(SHOTS) / f"{name}.png")
        assert seen.faults == [], seen.faults
        assert all(url.startswith((at.url, "data:")) for url in seen.requests)
    finally:
        context.close()


def held(tab: Page, rpc: str) -> list[Route]:
    """Hold the calls of an RPC; each waits in the list until it is continued."""
    found: list[Route] = []

    def hold(route: Route) -> None:
        found.append(route)

    tab.route(f"**/v1/{rpc}", hold)
    return found


def go_on(tab: Page, waiting: list[Route]) -> None:
    """Let the call that waits go on."""
    while not waiting:
        tab.wait_for_timeout(20)
    waiting.pop().continue_()
