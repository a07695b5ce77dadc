"""The results of a search in a real browser: what they show, the filters, the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft

pytestmark = pytest.mark.deep

NOTES = "viking://resources/notes"
FILLING = "".join(f"Line {n} says nothing of it.\n\n" for n in range(60))
KETTLE = f"""# The kettle {{#kettle}}

{FILLING}## Heat [¶](#heat "Permanent link")

:::{{note}}
The **kettle** boils with `steam` at 100 degrees, see [the cups](cups.md).
:::

| tea | degrees |
|---|---|
| oolong | 90 |
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over notes of several types, days and languages."""
    with site(tmp_path_factory.mktemp("search") / "store") as made:
        old = datetime.now(UTC) - timedelta(days=90)
        made.client.put(
            [
                Draft(f"{NOTES}/kettle.md", content=KETTLE),
                Draft(f"{NOTES}/old/pot.md", content="A kettle and a pot.", time=old),
                Draft("viking://user/memories/tea.md", content="- Owns a kettle of steel."),
            ]
        )
        made.client.put(
            [
                Draft(
                    f"{NOTES}/many/{n:02}.md",
                    content=f"Lantern {n} of the harbour.",
                    metadata={"lang": "en" if n % 5 else "fr", "number": n},
                )
                for n in range(25)
            ]
        )
        yield made


def titles(tab: Page) -> list[str]:
    """Return the titles of the results."""
    return tab.locator(".result-title").all_inner_texts()


def test_a_result_reads_as_a_text(browser: Browser, served: Site) -> None:
    """A result has the title of its file, and its passage with the question's words marked."""
    with page(browser, served, "#q=boiling+kettles+steam") as (tab, _):
        first = tab.locator(".result").first
        expect(first.locator(".result-title")).to_have_text("The kettle")
        passage = first.locator(".passage").first
        expect(passage.locator(".passage-heading")).to_have_text("Heat")
        expect(passage.locator("strong")).to_have_text("kettle")
        expect(passage.locator("code").first).to_have_text("steam")
        assert passage.locator("mark").all_inner_texts() == ["kettle", "boils", "steam"]
        shown = passage.inner_text()
        assert not [mark for mark in (":::", "**", "`", "](", "¶", "|") if mark in shown], shown
        expect(first.locator(".strength")).to_contain_text("match")


def test_a_weak_result_has_no_full_bar(browser: Browser, served: Site) -> None:
    """The bar of the best result is as long as the answer is sure, and the word says the same."""
    with page(browser, served, "#q=kettle") as (tab, _):

        def filled() -> float:
            bar = tab.locator(".result .bar").first
            rects = bar.locator("rect:not(.bar-back)").all()
            return sum(float(rect.get_attribute("width") or 0) + 0.3 for rect in rects)

        expect(tab.locator(".strength").first).to_contain_text("Strong match")
        assert filled() > 60
        box = tab.get_by_role("searchbox")
        box.fill("which railway bridges of Peru cross a pot")
        box.press("Enter")
        expect(tab.locator(".strength").first).to_contain_text("Weak match")
        assert filled() < 60


def test_a_result_opens_at_its_passage(browser: Browser, served: Site) -> None:
    """The passage is marked and in view; a link and the back button keep it."""
    with page(browser, served, "#q=kettle+steam") as (tab, _):
        tab.locator(".result-title").first.click()
        marked = tab.get_by_role("article").locator(".is-passage").filter(has_text="boils")
        expect(marked).to_be_in_viewport()
        assert "lines=" in tab.url
        tab.reload()
        expect(marked).to_be_in_viewport()
        tab.go_back()
        expect(tab.get_by_role("article")).to_have_count(0)


def test_further_passages_are_folded(browser: Browser, served: Site) -> None:
    """The further passages of a file stand below it when a person asks for them."""
    text = "".join(f"## Part {n}\n\nThe zither has {n} strings.\n\n{FILLING}" for n in range(3))
    served.client.put([Draft(f"{NOTES}/zither.md", content=text)])
    with page(browser, served, "#q=zither+strings") as (tab, _):
        result = tab.locator(".result").first
        further = result.locator(".further-passage")
        expect(further.first).not_to_be_visible()
        result.get_by_text("2 more passages").click()
        expect(further).to_have_count(2)
        further.first.get_by_role("button").click()
        expect(tab.get_by_role("article").locator(".is-passage").first).to_be_in_viewport()


def test_filters_bound_the_results(browser: Browser, served: Site) -> None:
    """Type, directory, time, metadata and strength are in the URL, and one button clears them."""
    with page(browser, served, "#q=kettle") as (tab, _):
        results = tab.locator(".result")
        expect(results).to_have_count(3)
        tab.get_by_role("checkbox", name="memory").check()
        expect(results).to_have_count(1)
        assert "type=memory" in tab.url
        tab.get_by_role("button", name="Clear all filters").click()
        expect(results).to_have_count(3)
        tab.get_by_role("button", name="resources/notes/old 1").click()
        expect(results).to_have_count(1)
        assert quote(f"{NOTES}/old", safe="") in tab.url
        tab.get_by_role("button", name="resources/notes/old ×").click()
        tab.get_by_label("Time").select_option(label="Last 30 days")
        expect(results).to_have_count(2)
        expect(tab.get_by_text("1 of the 3 loaded results")).to_be_visible()
        tab.reload()
        expect(results).to_have_count(2)
        tab.get_by_role("button", name="Clear all filters").click()
        tab.get_by_label("Strength").select_option(label="Strong only")
        expect(results.filter(has_text="Strong match").first).to_be_visible()
        expect(results.filter(has_not_text="Strong match")).to_have_count(0)


def test_metadata_that_exist_can_be_chosen(browser: Browser, served: Site) -> None:
    """A field that parts the results is a filter; one with a value of its own for each is none."""
    with page(browser, served, "#q=lantern&count=40") as (tab, _):
        expect(tab.locator(".result")).to_have_count(25)
        tab.get_by_role("button", name="fr 5").click()
        expect(tab.locator(".result")).to_have_count(5)
        expect(tab.get_by_role("button", name="fr 5")).to_have_attribute("aria-pressed", "true")
        expect(tab.get_by_role("group", name="number")).to_have_count(0)
        tab.get_by_role("button", name="fr 5").click()
        expect(tab.locator(".result")).to_have_count(25)


def test_results_are_put_in_order_and_continued(browser: Browser, served: Site) -> None:
    """Twenty results come first and more on request; by time or by name on request."""
    with page(browser, served, "#q=lantern") as (tab, _):
        expect(tab.locator(".result")).to_have_count(20)
        tab.get_by_role("button", name="More results").click()
        expect(tab.locator(".result")).to_have_count(25)
        tab.get_by_label("Order").select_option(label="By name")
        expect(tab.locator(".result-title").first).to_have_text("00.md")
        assert titles(tab) == [f"{n:02}.md" for n in range(25)]
    with page(browser, served, "#q=kettle&sort=newest") as (tab, _):
        expect(tab.locator(".result .crumbs").last).to_contain_text("pot.md")


def test_questions_are_remembered_and_forgotten(browser: Browser, served: Site) -> None:
    """The questions of this browser can be asked again, and are forgotten on request."""
    with page(browser, served) as (tab, _):
        box = tab.get_by_role("searchbox")
        for question in ("kettle", "lantern"):
            box.fill(question)
            box.press("Enter")
            expect(tab.locator(".result").first).to_be_visible()
        recent = tab.get_by_role("group", name="Asked before")
        recent.get_by_role("button", name="kettle").click()
        expect(box).to_have_value("kettle")
        expect(tab.locator(".result").first).to_contain_text("kettle")
        recent.get_by_role("button", name="Forget these").click()
        expect(recent).to_have_count(0)
        assert "kettle" not in tab.evaluate("JSON.stringify({...localStorage})")


def test_the_keyboard_alone_reads_a_result(browser: Browser, served: Site) -> None:
    """/ asks, arrows walk the results, Enter opens; Escape closes what was opened last."""
    with page(browser, served) as (tab, _):
        expect(tab.get_by_role("contentinfo")).to_contain_text("revision")  # the page listens
        tab.keyboard.press("/")
        expect(tab.get_by_role("searchbox")).to_be_focused()
        tab.keyboard.type("kettle")
        tab.keyboard.press("Enter")
        expect(tab.locator(".result")).to_have_count(3)
        tab.keyboard.press("ArrowDown")
        expect(tab.locator(".result-title").nth(0)).to_be_focused()
        tab.keyboard.press("ArrowDown")
        second = tab.locator(".result-title").nth(1)
        expect(second).to_be_focused()
        outline = second.evaluate("one => getComputedStyle(one).outlineStyle")
        assert outline == "solid"
        tab.keyboard.press("Enter")
        article = tab.get_by_role("article")
        expect(article).to_be_visible()
        second.focus()
        tab.keyboard.press("Tab")
        expect(tab.locator(".result .why").nth(1)).to_be_focused()
        tab.keyboard.press("Enter")
        walk = tab.get_by_label("The walk")
        expect(walk).to_be_visible()
        tab.keyboard.press("Escape")
        expect(walk).to_have_count(0)
        expect(article).to_be_visible()
        tab.keyboard.press("Escape")
        expect(article).to_have_count(0)
        expect(tab.locator(".result")).to_have_count(3)
