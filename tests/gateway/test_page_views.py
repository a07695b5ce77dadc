"""The views of memories, context and state as a person sees them: widths, languages, day and night.

With TEST_SHOTS each test leaves a picture of its state in that directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gateway.axe_helpers import serious_faults
from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft, Session

pytestmark = pytest.mark.deep

GUIDE = "viking://resources/guide"
LOOKS = {
    "large": ("en-US", "light", (1440, 900)),
    "middle": ("zh-CN", "dark", (1024, 768)),
    "phone": ("zh-CN", "light", (390, 844)),
    "phone-night": ("en-US", "dark", (390, 844)),
}


def open_memory(tab: Page) -> None:
    """Open the memory with a history."""
    tab.locator(".memory").filter(has_text="Lyon").locator(".memory-text").first.click()
    expect(tab.locator(".value-line")).to_be_visible()


def edit_memory(tab: Page) -> None:
    """Begin an edit of a memory."""
    tab.locator(".memory-text").first.click()
    tab.locator(".memory-details .actions button").first.click()
    expect(tab.locator(".memory-details textarea")).to_be_focused()


def forget_memory(tab: Page) -> None:
    """Forget a memory."""
    tab.locator(".memory-text").first.click()
    tab.locator(".memory-details .danger").click()
    expect(tab.locator(".is-gone")).to_be_visible()


def show_left_out(tab: Page) -> None:
    """Ask what a recall left out."""
    tab.locator(".results > .memory").first.wait_for()
    tab.locator(".answer > button.small").click()
    expect(tab.locator(".left-out")).to_be_visible()


def choose_source(tab: Page) -> None:
    """Choose the first source of a context."""
    tab.locator(".source-name").first.click()
    expect(tab.locator(".prompt .is-lit").first).to_be_visible()


STATES: dict[str, tuple[str, Callable[[Page], object]]] = {
    "all": ("#mode=recall", lambda tab: tab.locator(".memory").first.wait_for()),
    "days": ("#mode=recall&sort=day", lambda tab: tab.locator(".memory").first.wait_for()),
    "memory": ("#mode=recall&kind=profile", open_memory),
    "edit": ("#mode=recall&kind=preferences", edit_memory),
    "forgotten": ("#mode=recall&kind=notes", forget_memory),
    "recall": ("#mode=recall&q=user+lives", show_left_out),
    "no-answer": ("#mode=recall&q=zeppelin", lambda tab: tab.locator(".empty").wait_for()),
    "before": ("#mode=context", lambda tab: tab.locator(".empty").wait_for()),
    "context": ("#mode=context&q=oolong&budget=250", choose_source),
    "state": ("#mode=state", lambda tab: tab.locator(".card").first.wait_for()),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over memories and documents."""
    with site(tmp_path_factory.mktemp("views") / "store") as made:
        for said in ("I live in Paris. I prefer oolong to coffee.", "I moved to Lyon."):
            session = Session()
            session.add("user", said)
            made.client.extract(session)
        for n in range(len(LOOKS) + 1):
            made.client.remember(f"Key {n} is at the neighbour's.", "notes", pinned=True)
        for n in range(4):
            text = f"# Oolong {n}\n\n" + f"Oolong {n} takes 90 degrees. " * 40
            made.client.put([Draft(f"{GUIDE}/a-rather-long-directory/oolong-{n}.md", content=text)])
        yield made


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("state", STATES)
def test_a_view_is_whole_and_for_all(browser: Browser, served: Site, state: str, look: str) -> None:
    """Nothing is wider than the window, and axe-core finds no serious fault."""
    language, theme, size = LOOKS[look]
    fragment, prepare = STATES[state]
    with page(browser, served, fragment, language=language, theme=theme, size=size) as (tab, _):
        prepare(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert serious_faults(tab) == []
