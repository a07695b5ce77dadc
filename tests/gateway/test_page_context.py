"""The context for a prompt in a real browser: its text, its budget and its sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft

GUIDE = "viking://resources/guide"
ASK = "#mode=context&q=oolong+degrees"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over texts that together have more than a thousand tokens."""
    with site(tmp_path_factory.mktemp("context") / "store") as made:
        for n in range(6):
            text = f"# 茶 {n} 🫖\n\n" + f"Oolong {n}, degrees. " * 50
            made.client.put([Draft(f"{GUIDE}/tea{n}.md", content=text)])
        yield made


# In one step of the browser: a busy machine would press four keys slowly.
FOUR_MOVES = """slider => {
  for (let move = 0; move < 4; move++) {
    slider.stepDown();
    slider.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }
}"""


def watch(tab: Page) -> list[dict[str, Any]]:
    """Return the requests for a context, as they are sent from now on."""
    sent: list[dict[str, Any]] = []

    def on_route(route: Route) -> None:
        sent.append(json.loads(route.request.post_data or ""))
        route.continue_()

    tab.route("**/v1/build_context", on_route)
    return sent


@pytest.mark.deep
def test_the_slider_sets_the_budget(browser: Browser, served: Site) -> None:
    """Quick moves of the slider are one request, and the address keeps the budget."""
    with page(browser, served, ASK) as (tab, _):
        expect(tab.locator(".summary")).to_contain_text("of 4,000 tokens")
        sent = watch(tab)
        slider = tab.get_by_role("slider", name="Budget")
        slider.evaluate(FOUR_MOVES)
        expect(tab.locator(".budget output")).to_have_text("500 tokens")
        expect(tab.locator(".summary")).to_contain_text("of 500 tokens")
        assert [(one["maxTokens"], one["reserveTokens"]) for one in sent] == [(500, 0)]
        assert "budget=500" in tab.url
        dropped = tab.locator(".dropped")
        expect(dropped).to_contain_text("did not fit into what was left")
        decorations = dropped.locator("li, summary, button").evaluate_all(
            "all => all.map((one) => getComputedStyle(one).textDecorationLine)"
        )
        assert "line-through" not in decorations
        tab.go_back()
        expect(tab.locator(".summary")).to_contain_text("of 4,000 tokens")


@pytest.mark.deep
def test_a_source_is_shown_in_the_prompt(browser: Browser, served: Site) -> None:
    """The text comes first; a source lights its passages, and its URI opens them."""
    with page(browser, served, ASK) as (tab, _):
        prompt = tab.locator(".prompt")
        name = tab.locator(".source-name").nth(1)
        marker = name.locator(".badge").inner_text()
        uri = tab.locator(".source .link").nth(1).inner_text()
        name.click()
        lit = prompt.locator(".is-lit").first
        number = re.search(r"tea(\d)", uri)
        assert number
        expect(lit).to_have_text(re.compile(f"^Oolong {number[1]}, degrees"))
        text = prompt.inner_text()
        assert text.index(marker) < text.index(f"Oolong {number[1]}, degrees")
        places = [part.bounding_box() for part in (prompt, name)]
        assert places[0] is not None
        assert places[1] is not None
        assert places[0]["x"] < places[1]["x"]
        tab.locator(".source .link").nth(1).click()
        expect(tab.get_by_role("article")).to_contain_text(f"Oolong {number[1]}")


@pytest.mark.deep
def test_the_prompt_is_copied(browser: Browser, served: Site) -> None:
    """The copy button gives exactly the text of the daemon."""
    with page(browser, served, ASK) as (tab, _):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.get_by_role("button", name="Copy").first.click()
        expect(tab.get_by_role("button", name="Copied")).to_be_visible()
        copied = tab.evaluate("navigator.clipboard.readText()")
        request = {"find": {"query": "oolong degrees"}, "noTouch": True}
        answer = tab.request.post(f"{served.url}/v1/build_context", data=request)
        assert copied == answer.json()["text"]


@pytest.mark.deep
def test_a_budget_may_be_too_small(browser: Browser, served: Site) -> None:
    """Without room for any source, and without a source, the page says which of both it is."""
    uri = f"{GUIDE}/long.md"
    served.client.put([Draft(uri, content=f"# Zeppelin\n\n{'zeppelin hangar ' * 500}")])
    with page(browser, served, "#mode=context&q=unheard-of&budget=250") as (tab, _):
        expect(tab.locator(".empty")).to_have_text("Nothing is sure enough for a prompt.")
        expect(tab.locator(".sources")).to_contain_text("In the prompt (0)")
    served.client.delete([uri])
