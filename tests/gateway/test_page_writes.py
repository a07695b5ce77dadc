"""Writes of the page that take long, break off or are shown again, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.gateway.page_helpers import Site, go_on, held, page, site
from tests.gateway.test_page_first_run import DROP
from vikingd.client import Draft

pytestmark = pytest.mark.deep

NOTES = "viking://resources/notes"
MEMORIES = "viking://user/memories"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over a store."""
    with site(tmp_path_factory.mktemp("writes") / "store") as made:
        made.client.put([Draft(f"{NOTES}/first.md", content="first")])
        yield made


def row(tab: Page, text: str) -> Locator:
    """Return the row of a memory."""
    return tab.locator(".memory").filter(has_text=text).first


def test_nothing_is_typed_during_a_save(browser: Browser, served: Site) -> None:
    """The box of a text cannot be changed while it is saved, so that a reply drops no text."""
    uri = f"{NOTES}/slow.md"
    served.client.put([Draft(uri, content="stored")])
    with page(browser, served, f"#uri={quote(uri, safe='')}") as (tab, _):
        article = tab.get_by_role("article")
        article.get_by_role("button", name="Edit").click()
        box = article.get_by_role("textbox", name="Content").first
        box.fill("sent")
        waiting = held(tab, "put")
        article.get_by_role("button", name="Save").click()
        expect(box).not_to_be_editable()
        box.press("End")
        tab.keyboard.type(" and more")
        expect(box).to_have_value("sent")
        go_on(tab, waiting)
        expect(tab.get_by_text("Saved.")).to_be_visible()
    with page(browser, served, "#mode=recall") as (tab, _):
        tab.get_by_text("Remember", exact=True).click()
        box = tab.get_by_role("textbox", name="Remember")
        box.fill("The kettle is blue.")
        waiting = held(tab, "remember")
        tab.get_by_role("button", name="Save").click()
        expect(box).not_to_be_editable()
        go_on(tab, waiting)
        expect(tab.get_by_text("Saved.")).to_be_visible()
        expect(box).to_have_value("")
        expect(box).to_be_editable()
        found = row(tab, "kettle")
        found.locator(".memory-text").click()
        found.get_by_role("button", name="Edit").click()
        box = found.get_by_role("textbox")
        box.fill("The kettle is green.")
        waiting = held(tab, "put")
        found.get_by_role("button", name="Save").click()
        expect(box).not_to_be_editable()
        go_on(tab, waiting)
        expect(row(tab, "kettle is green")).to_be_visible()


def test_an_edited_memory_stays_edited(browser: Browser, served: Site) -> None:
    """The text that is written stands in the list also when its row is made again."""
    served.client.put([Draft(f"{MEMORIES}/boats.md", content="- The boat is red.\n- Two oars.\n")])
    with page(browser, served, "#mode=recall&kind=boats") as (tab, _):
        found = row(tab, "The boat is red.")
        found.locator(".memory-text").click()
        found.get_by_role("button", name="Edit").click()
        found.get_by_role("textbox").fill("The boat is white.")
        found.get_by_role("button", name="Save").click()
        changed = row(tab, "The boat is white.")
        expect(changed.get_by_role("button", name="Edit")).to_be_visible()
        for kind, count in (("preferences", 0), ("boats", 2)):
            tab.evaluate("kind => { location.hash = `mode=recall&kind=${kind}` }", kind)
            expect(tab.locator(".memory-text", has_text="The boat is")).to_have_count(count // 2)
        expect(tab.locator(".memory-text")).to_have_text(["The boat is white.", "Two oars."])


def test_a_reply_that_breaks_off_is_an_error(browser: Browser, served: Site) -> None:
    """A call whose reply ends too soon is not taken for one that found nothing."""
    with page(browser, served, "#mode=find") as (tab, _):
        tab.route(
            "**/v1/find",
            lambda route: route.fulfill(
                status=200, body='{"resources": [', content_type="application/json"
            ),
        )
        box = tab.get_by_role("searchbox").first
        box.fill("first")
        box.press("Enter")
        expect(tab.get_by_role("alert")).to_contain_text("does not answer")


def test_an_upload_waits_and_goes_on(browser: Browser, served: Site, tmp_path: Path) -> None:
    """A daemon that is busy gets the file again; a second drop and a step away do not end it."""
    files = [tmp_path / name for name in ("one.md", "two.md")]
    for file in files:
        file.write_text(f"# {file.stem}\n")
    tries: list[str] = []
    waiting: list[Route] = []

    def answer(route: Route) -> None:
        tries.append(route.request.url.rpartition("/")[2])
        if len(tries) == 1:
            route.fulfill(status=503, headers={"retry-after": "1"}, json={"message": "busy"})
        elif len(tries) == 2:
            waiting.append(route)
        else:
            route.continue_()

    with page(browser, served, "#mode=find", expected=("503",)) as (tab, _):
        tab.get_by_text("Add files, the demo").click()
        drop = tab.get_by_role("region", name="Add files")
        tab.route("**/v1/files/**", answer)
        drop.locator("input[type=file]").nth(1).set_input_files(files)
        expect(drop).to_contain_text("sent again in 1 s")
        expect(drop.get_by_text("Choose files")).to_be_disabled()
        tab.evaluate(DROP, ["third.txt", "not stored"])
        tab.get_by_role("link", name="Memories").click()
        question = tab.get_by_role("alertdialog", name="Files are being sent")
        question.get_by_role("button", name="Send them all").click()
        go_on(tab, waiting)
        expect(drop).to_contain_text("2 of 2 files are stored.")
    # Both files are sent at once, and the busy answer is that to the first to arrive.
    assert len(tries) == 3
    assert set(tries) == {"one.md", "two.md"}
    assert not served.client.exists("viking://resources/third.txt")


def test_a_forgotten_memory_comes_back_though_its_file_was_not_read(
    browser: Browser, served: Site
) -> None:
    """If the reply after a forget fails, Undo is there all the same."""
    uri = f"{MEMORIES}/tools.md"
    served.client.put([Draft(uri, content="- The saw is sharp.\n- A hammer.\n")])
    with page(browser, served, "#mode=recall&kind=tools", expected=("500",)) as (tab, _):
        found = row(tab, "The saw")
        found.locator(".memory-text").click()
        expect(found.get_by_role("button", name="Forget")).to_be_visible()

        def fail(route: Route) -> None:
            if "saw" in served.client.get(uri).content:
                route.continue_()
            else:
                route.fulfill(status=500, json={"message": "broken"})

        tab.route("**/v1/get", fail)
        found.get_by_role("button", name="Forget").click()
        gone = tab.locator(".memory.is-gone")
        expect(gone).to_contain_text("The saw is sharp.")
        tab.unroute("**/v1/get")
        gone.get_by_role("button", name="Undo").click()
        expect(row(tab, "The saw is sharp.")).to_contain_text("its id is new")
    assert served.client.get(uri).content.count("The saw is sharp.") == 1
