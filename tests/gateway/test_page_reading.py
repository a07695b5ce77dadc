"""The reader of the page in a real browser: links, headings, directories, the editor."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft

pytestmark = pytest.mark.deep

GUIDE = "viking://resources/guide"
FILLING = "".join(f"Line {n}.\n\n" for n in range(80))
TEA = f"""# Tea {{#tea}}

Tea is a drink. See [the cups](cups.md#handles), [the pots](../pots/), [the index](/guide/),
[nothing](missing.md) and [the heat](#heat).

{FILLING}## Water

Soft.

## Heat [¶](#heat "Permanent link")

Ninety degrees.

## Time ##

Three minutes.
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over a guide."""
    with site(tmp_path_factory.mktemp("reading") / "store") as made:
        made.client.put(
            [
                Draft(f"{GUIDE}/tea.md", content=TEA, title="Tea", abstract="Tea is a drink."),
                Draft(f"{GUIDE}/cups.md", content="# Cups\n\n## Handles\n\nOne."),
                Draft("viking://resources/pots/index.md", content="# Pots"),
                *(Draft(f"{GUIDE}/more/{n}.md", content=f"Part {n}.") for n in range(3)),
            ]
        )
        yield made


def at(uri: str) -> str:
    """Return the fragment that shows a context."""
    return f"#uri={quote(uri, safe='')}"


def test_links_between_files_work(browser: Browser, served: Site) -> None:
    """A relative link opens what it means: a file, an index, a part; a dead one is told."""
    with page(browser, served, at(f"{GUIDE}/tea.md"), expected=("404",)) as (tab, _):
        article = tab.get_by_role("article")
        for name, uri in (
            ("the cups", f"{GUIDE}/cups.md"),
            ("the pots", "viking://resources/pots"),
            ("the index", GUIDE),
        ):
            article.get_by_role("button", name=name, exact=True).click()
            expect(tab.get_by_role("article", name=uri, exact=True)).to_be_visible()
            tab.go_back()
        article.get_by_role("button", name="nothing", exact=True).click()
        expect(tab.get_by_text("is not stored here")).to_be_visible()
        article.get_by_role("button", name="the heat", exact=True).click()
        heat = article.locator(".text").get_by_role("heading", name="Heat")
        expect(heat).to_be_focused()
        expect(heat).to_be_in_viewport()


def test_a_title_stands_once(browser: Browser, served: Site) -> None:
    """The heading and the abstract of a file are not repeated, and headings have no marks."""
    with page(browser, served, at(f"{GUIDE}/tea.md")) as (tab, _):
        article = tab.get_by_role("article")
        expect(article.get_by_role("heading", name="Tea")).to_have_count(1)
        assert article.inner_text().count("Tea is a drink.") == 1
        headings = article.locator(".text").get_by_role("heading").all_inner_texts()
        assert headings == ["Water", "Heat", "Time"]


def test_a_table_of_contents_leads_to_the_headings(browser: Browser, served: Site) -> None:
    """The headings of a text are listed, and a press shows one."""
    with page(browser, served, at(f"{GUIDE}/tea.md")) as (tab, _):
        contents = tab.get_by_role("navigation", name="Contents")
        expect(contents.get_by_role("button")).to_have_text(["Water", "Heat", "Time"])
        contents.get_by_role("button", name="Time").click()
        expect(tab.get_by_role("article").get_by_text("Three minutes.")).to_be_in_viewport()


def test_a_directory_lists_its_children(browser: Browser, served: Site) -> None:
    """Each child has its abstract, and a directory the number of its files; so has a deletion."""
    with page(browser, served, at(GUIDE)) as (tab, _):
        entries = tab.get_by_role("region", name="Entries").get_by_role("listitem")
        expect(entries.filter(has_text="more/")).to_contain_text("3 files")
        expect(entries.filter(has_text="tea.md")).to_contain_text("Tea is a drink.")
        tab.get_by_role("button", name="Delete").click()
        question = tab.get_by_role("alertdialog")
        expect(question).to_contain_text(f"Delete {GUIDE} and the 5 files below it?")
        tab.keyboard.press("Escape")
        expect(question).to_have_count(0)
        entries.get_by_role("button", name="more/").click()
        expect(tab.get_by_role("article", name=f"{GUIDE}/more", exact=True)).to_be_visible()


def test_the_editor_shows_what_it_makes(browser: Browser, served: Site) -> None:
    """The editor has letters of one width, and a preview follows the text beside it."""
    with page(browser, served, at(f"{GUIDE}/cups.md")) as (tab, _):
        tab.get_by_role("button", name="Edit").click()
        text = tab.get_by_role("textbox", name="Content")
        assert "monospace" in text.evaluate("one => getComputedStyle(one).fontFamily")
        tab.get_by_role("button", name="Preview").click()
        text.fill("# New\n\n- a **bold** word")
        preview = tab.get_by_role("region", name="Preview")
        expect(preview.locator("strong")).to_have_text("bold")
        boxes = [one.bounding_box() for one in (text, preview)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
