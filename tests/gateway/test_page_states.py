"""Every state of the page as a picture: for a person's eyes, and without serious faults.

TEST_SHOTS names a directory for the pictures; without it they go with the other files of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gateway.axe_helpers import serious_faults
from tests.gateway.page_helpers import SHOTS, Site, page, site

pytestmark = pytest.mark.deep

ERRORS = "viking%3A%2F%2Fresources%2Flantern-api%2Ferrors.md"
SIZES = {1440: (1440, 900), 1024: (1024, 768), 390: (390, 844)}


def nothing(_: Page) -> None:
    """Leave a view as it is."""


def why(tab: Page) -> None:
    """Explain the first result."""
    tab.locator(".result .why").first.click()
    expect(tab.locator(".walk")).to_be_visible()


def filters(tab: Page) -> None:
    """Show the filters."""
    box = tab.locator("details.filters")
    if box.get_attribute("open") is None:
        box.locator("summary").click()


def edited(tab: Page) -> None:
    """Open the editor with its preview."""
    tab.locator(".context .actions button").nth(0).click()
    tab.locator(".editor + .actions button").nth(2).click()
    expect(tab.locator(".preview")).to_be_visible()


def asked(tab: Page) -> None:
    """Ask for a deletion."""
    tab.locator(".context button.danger").first.click()
    expect(tab.get_by_role("alertdialog")).to_be_visible()


STATES: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "start": ("", ".adding", nothing),
    "results": ("#q=what+does+E4102+mean", ".result", filters),
    "why": ("#q=E4102", ".result", why),
    "nothing": ("#q=zzzz", ".empty", nothing),
    "task": ("#mode=search&q=extract+tables+from+a+pdf", ".result", nothing),
    "passage": (f"#q=E4102&uri={ERRORS}&lines=3-11", ".is-passage", nothing),
    "tree": ("#mode=tree", ".tree-row", nothing),
    "directory": ("#uri=viking%3A%2F%2Fresources%2Flantern-api", ".children li", nothing),
    "file": (f"#uri={ERRORS}", ".text table", nothing),
    "editor": (f"#uri={ERRORS}", ".text table", edited),
    "deletion": ("#uri=viking%3A%2F%2Fresources", ".children li", asked),
    "memories": ("#mode=recall", ".memory", nothing),
    "recalled": ("#mode=recall&q=coffee", ".view", nothing),
    "context": ("#mode=context&q=How+do+we+roll+back+a+release", ".prompt", nothing),
    "state": ("#mode=state", ".view", nothing),
}
"""The states: a fragment, what must be there, and what is done then."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over an empty store."""
    with site(tmp_path_factory.mktemp("empty") / "store") as made:
        yield made


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over the demo."""
    with site(tmp_path_factory.mktemp("states") / "store") as made:
        with page(browser, made) as (tab, _):
            tab.get_by_role("button", name="Load the demo").click()
            expect(tab.get_by_role("button", name="E4102")).to_be_visible()
        yield made


def checked(tab: Page, picture: Path) -> list[str]:
    """Keep a picture of a state; return its serious faults."""
    tab.wait_for_load_state("networkidle")
    tab.screenshot(path=picture)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    return [f"{picture.stem}: {fault}" for fault in serious_faults(tab)]


@pytest.mark.parametrize(
    ("width", "language", "theme"),
    [
        (1440, "en-US", "light"),
        (1440, "zh-CN", "dark"),
        (1024, "zh-CN", "light"),
        (390, "en-US", "dark"),
    ],
)
def test_every_state_is_fit_to_be_seen(
    browser: Browser,
    empty: Site,
    served: Site,
    tmp_path: Path,
    width: int,
    language: str,
    theme: str,
) -> None:
    """At each width no state scrolls sideways or has a serious fault of axe-core."""
    pictures = Path(SHOTS or tmp_path) / f"{width}-{language[:2]}-{theme}"
    pictures.mkdir(parents=True, exist_ok=True)
    look = {"size": SIZES[width], "language": language, "theme": theme}
    faults = []
    with page(browser, empty, **look) as (tab, _):
        expect(tab.locator(".drop")).to_be_visible()
        faults += checked(tab, pictures / "first-run.png")
    for name, (fragment, awaited, then) in STATES.items():
        with page(browser, served, fragment, **look) as (tab, _):
            expect(tab.locator(awaited).first).to_be_visible()
            then(tab)
            faults += checked(tab, pictures / f"{name}.png")
    assert faults == []
