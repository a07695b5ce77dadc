"""The page of the gateway, in a real browser: safe edits, texts that deceive nobody."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.gateway.page_helpers import Site, page, site
from tests.patience import eventually
from tests.store.store_helpers import file, opened, put
from vikingd.client import Draft

pytestmark = pytest.mark.deep

NOTES = "viking://resources/notes"
MEMORIES = {
    "viking://user/memories/preferences/tea.md": "- Prefers oolong of all teas.",
    "viking://projects/harbour/memories/tea.md": "- The harbour office drinks oolong.",
    "viking://projects/tower/memories/tea.md": "- The tower office drinks oolong.",
}
UNSEEN = f"{NOTES}/invoice\u202egpj.exe"
"""A URI of an older store; a new one may not have a hidden character."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over a small tree."""
    path = tmp_path_factory.mktemp("page") / "store"
    path.mkdir()
    text = "giraffe \u2066x\u2069 \u200e\u200f \x07 \x85 `\u202d` [l\u202e](https://example.org)"
    with opened(path, model="none", dimension=None) as store:
        put(store, file(UNSEEN, text))
    with site(path) as made:
        made.client.put([Draft(uri, content=text) for uri, text in MEMORIES.items()])
        yield made


def at(uri: str) -> str:
    """Return the fragment that shows a context."""
    return f"#uri={quote(uri, safe='')}"


def stored(served: Site, name: str, content: str) -> str:
    """Store a note, and return its URI."""
    uri = f"{NOTES}/{name}"
    served.client.put([Draft(uri, content=content)])
    return uri


def edit(tab: Page, text: str) -> None:
    """Open the editor and type a text."""
    tab.get_by_role("button", name="Edit").click()
    box(tab).fill(text)


def box(tab: Page) -> Locator:
    """Return the text box of the editor."""
    return tab.get_by_role("article").get_by_role("textbox", name="Content").first


MEBIBYTE = 1024 * 1024
LONGEST_TASK = 2.0  # seconds
WATCH = """
window.longest = 0;
new PerformanceObserver((seen) => {
  for (const task of seen.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
UNITS = {
    "brackets": "[",
    "stars": "*",
    "ticks": "`",
    "angles": "<",
    "images": "![",
    "links": "[a](b",
    "shared": "[" * 1000 + "](x ",
    "fence": "```" + " " * 999 + "a b",
    "items": "- `a` **b**\n",
    "runs": "".join("`" * n + " " for n in range(1, 90)),
    "controls": "\u202ea",
}


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("name", UNITS)
def test_a_hostile_text_does_not_stop_the_page(browser: Browser, served: Site, name: str) -> None:
    """A mebibyte of marks is shown in part, formatted and plain, and clicks are answered."""
    unit = UNITS[name]
    text = (unit * (MEBIBYTE // len(unit.encode()) + 1))[:MEBIBYTE]
    text = text.encode()[:MEBIBYTE].decode(errors="ignore")
    uri = stored(served, f"hostile-{name}.md", text)
    with page(browser, served) as (tab, _):
        tab.evaluate(WATCH)
        tab.evaluate("hash => { location.hash = hash }", at(uri))
        article = tab.get_by_role("article")
        expect(
            article.get_by_text(re.compile("^The first 65,536 of [0-9,]+ characters"))
        ).to_be_visible()
        click_the_theme(tab, "dark")
        article.locator(".parts").get_by_role("button", name="Plain text").click()
        expect(article.locator("pre").first).to_be_visible()
        expect(article).to_contain_text("Characters 1 to 65,536 of")
        click_the_theme(tab, "light")
        assert tab.evaluate("longest") / 1000 < LONGEST_TASK
    served.client.delete(uri)


def click_the_theme(tab: Page, theme: str) -> None:
    """Switch the theme, and fail if the page takes too long."""
    started = time.perf_counter()
    tab.get_by_role("button", name="Light or dark").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", theme)
    assert time.perf_counter() - started < LONGEST_TASK


def test_a_long_text_is_read_to_its_end(browser: Browser, served: Site) -> None:
    """The parts of a plain text are the whole text, also where a character has two halves."""
    text = "a" + "\U0001f375" * 70_000 + " the end"
    uri = stored(served, "long.md", text)
    with page(browser, served, at(uri)) as (tab, _):
        article = tab.get_by_role("article")
        article.locator(".parts").get_by_role("button", name="Plain text").click()
        read = article.locator("pre").first.text_content() or ""
        forward, back = (article.get_by_role("button", name=name) for name in ("Next", "Previous"))
        expect(back).to_be_disabled()
        while forward.is_enabled():
            forward.click()
            read += article.locator("pre").first.text_content() or ""
        assert read == text
        expect(back).to_be_enabled()


def test_marks_become_elements(browser: Browser, served: Site) -> None:
    """Code, bold text and links are shown as such; what only looks like them stays text."""
    text = (
        "a `b` ``c`d`` **e** [f](https://example.org) [g](viking://resources) "
        "[](x) [h]() [i](a b) [j] **k `l [m](javascript:1)"
    )
    uri = stored(served, "marks.md", text)
    with page(browser, served, at(uri)) as (tab, _):
        shown = tab.get_by_role("article").locator(".text p")
        expect(shown).to_have_text("a b c`d e f g [](x) [h]() [i](a b) [j] **k `l m (javascript:1)")
        assert shown.locator("code").all_text_contents() == ["b", "c`d"]
        assert shown.locator("strong").all_text_contents() == ["e"]
        assert shown.locator("a").all_text_contents() == ["f"]
        assert shown.locator("button").all_text_contents() == ["g"]


def test_a_changed_context_is_not_deleted(browser: Browser, served: Site) -> None:
    """Delete removes what the person sees; a context changed meanwhile stays, with a word."""
    uri = stored(served, "deleted.md", "seen")
    with page(browser, served, at(uri), expected=("409",)) as (tab, _):
        expect(tab.get_by_role("article")).to_contain_text("seen")
        served.client.put([Draft(uri, content="of another")])
        delete(tab)
        expect(tab.get_by_role("alert")).to_contain_text("Nothing was deleted")
        assert served.client.get(uri).content == "of another"
        tab.get_by_role("button", name="Load again").click()
        expect(tab.get_by_role("article")).to_contain_text("of another")
        delete(tab)
        expect(tab.get_by_role("article")).not_to_contain_text("deleted.md")
        assert [one.uri for one in served.client.list(NOTES) if one.uri == uri] == []


def delete(tab: Page) -> None:
    """Delete the context that is shown."""
    tab.get_by_role("button", name="Delete").click()
    tab.get_by_role("alertdialog").get_by_role("button", name="Delete").click()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("one\r\ntwo\r\n", "one\r\ntwo\r\nthree"),
        ("one\ntwo\n", "one\ntwo\nthree"),
        ("one\rtwo\r", "one\rtwo\rthree"),
    ],
    ids=["CRLF", "LF", "CR"],
)
def test_line_ends_stay(browser: Browser, served: Site, before: str, after: str) -> None:
    """An edited text keeps the line ends of the stored one."""
    uri = stored(served, "ends.md", before)
    with page(browser, served, at(uri)) as (tab, _):
        edit(tab, "one\ntwo\nthree")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Saved.")).to_be_visible()
    assert served.client.get(uri).content.encode() == after.encode()


def test_mixed_line_ends_are_told(browser: Browser, served: Site) -> None:
    """The editor says that mixed line ends become LF; a save without a change keeps them."""
    uri = stored(served, "mixed.md", "one\r\ntwo\nthree")
    with page(browser, served, at(uri)) as (tab, _):
        tab.get_by_role("button", name="Edit").click()
        expect(tab.get_by_role("article")).to_contain_text("line ends of several kinds")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Saved.")).to_be_visible()
        assert served.client.get(uri).content == "one\r\ntwo\nthree"
        edit(tab, "one\ntwo\n3")
        tab.get_by_role("button", name="Save").click()
        # "Saved." may still be that of the save before.
        eventually(lambda: served.client.get(uri).content == "one\ntwo\n3")


def test_a_draft_is_not_dropped_unasked(browser: Browser, served: Site) -> None:
    """Another context, Escape, the back button and the cross ask first; both answers hold."""
    uri, other = stored(served, "draft.md", "stored"), stored(served, "other.md", "another text")
    with page(browser, served, at(other)) as (tab, _):
        tab.get_by_role("treeitem").filter(has_text="draft.md").click()
        expect(tab.get_by_role("article")).to_contain_text("stored")
        edit(tab, "my draft")
        steps = [
            tab.get_by_role("treeitem").filter(has_text="other.md").click,
            tab.get_by_role("article").get_by_role("button", name="Close").click,
            tab.go_back,
            lambda: (tab.locator(".brand").focus(), tab.keyboard.press("Escape")),
        ]
        question = tab.get_by_role("alertdialog", name="Text is not saved")
        for step in steps:
            step()
            expect(question).to_be_visible()
            question.get_by_role("button", name="Keep the text").click()
            expect(question).to_have_count(0)
            expect(box(tab)).to_have_value("my draft")
            assert quote(uri, safe="") in tab.url
        steps[0]()
        expect(question).to_be_visible()
        tab.keyboard.press("Escape")
        expect(question).to_have_count(0)
        expect(box(tab)).to_have_value("my draft")
        steps[0]()
        question.get_by_role("button", name="Drop the text").click()
        expect(tab.get_by_role("article")).to_contain_text("another text")
        tab.get_by_role("treeitem").filter(has_text="draft.md").click()
        expect(tab.get_by_role("article")).to_contain_text("stored")
        assert served.client.get(uri).content == "stored"


def test_a_draft_without_a_change_asks_nothing(browser: Browser, served: Site) -> None:
    """An opened editor whose text is as before, or is saved, is left without a question."""
    uri, other = stored(served, "same.md", "a\r\nb"), stored(served, "other.md", "another text")
    with page(browser, served, at(uri)) as (tab, _):
        edit(tab, "changed")
        box(tab).fill("a\nb")
        tab.get_by_role("treeitem").filter(has_text="other.md").click()
        expect(tab.get_by_role("article")).to_contain_text("another text")
        edit(tab, "saved text")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Saved.")).to_be_visible()
        tab.get_by_role("treeitem").filter(has_text="same.md").click()
        expect(tab.get_by_role("article")).to_contain_text("same.md")
        assert served.client.get(other).content == "saved text"


def test_new_texts_are_not_dropped_unasked(browser: Browser, served: Site) -> None:
    """The text of a new file, and of a memory to store, ask as well."""
    stored(served, "other.md", "another text")
    with page(browser, served, at(NOTES)) as (tab, _):
        tab.get_by_role("treeitem").filter(has_text="notes").click()
        tab.get_by_text("New file").click()
        box(tab).fill("new text")
        tab.get_by_role("treeitem").filter(has_text="other.md").click()
        question = tab.get_by_role("alertdialog", name="Text is not saved")
        question.get_by_role("button", name="Keep the text").click()
        expect(box(tab)).to_have_value("new text")
        tab.get_by_role("textbox", name="Name, such as notes.md").fill("new.md")
        tab.get_by_role("button", name="Create").click()
        expect(tab.get_by_role("article")).to_contain_text("new text")
        expect(question).to_have_count(0)
    with page(browser, served, "#mode=recall&q=oolong") as (tab, _):
        tab.get_by_text("Remember", exact=True).click()
        memory = tab.get_by_role("textbox", name="Remember")
        memory.fill("a memory")
        views = tab.get_by_role("navigation", name="Views")
        views.get_by_role("link", name="Search").click()
        tab.get_by_role("alertdialog").get_by_role("button", name="Keep the text").click()
        expect(memory).to_have_value("a memory")
        expect(views.locator("[aria-current]")).to_have_text("Memories")


@pytest.mark.parametrize("way", ["close", "reload"])
def test_a_tab_with_a_draft_asks_before_it_ends(browser: Browser, served: Site, way: str) -> None:
    """The browser asks before it closes or reloads a page with a draft, and only then."""
    uri = stored(served, "ending.md", "stored")
    with page(browser, served, at(uri), expected=("dialog",)) as (tab, _):
        kinds: list[str] = []
        tab.on("dialog", lambda dialog: kinds.append(dialog.type))
        edit(tab, "my draft")
        if way == "close":
            tab.close(run_before_unload=True)
        else:
            tab.evaluate("setTimeout(() => location.reload())")
        eventually(lambda: (tab.is_closed() or tab.wait_for_timeout(20), kinds)[1])
        assert kinds == ["beforeunload"]
        expect(box(tab)).to_have_value("my draft")
        tab.get_by_role("button", name="Cancel").click()
        tab.reload()
        expect(tab.get_by_role("article")).to_contain_text("stored")
        assert kinds == ["beforeunload"]


def test_unseen_characters_are_shown(browser: Browser, served: Site) -> None:
    """A text that turns its direction, or hides a character, is shown with codes."""
    name = "invoicegpj.exe"
    with page(browser, served) as (tab, _):
        tab.get_by_role("searchbox").fill("giraffe")
        tab.get_by_role("searchbox").press("Enter")
        result = tab.locator(".result").first
        expect(result.locator(".crumbs")).to_contain_text(name)
        snippet = result.locator(".passage")
        expect(snippet).to_contain_text("giraffe U+2066xU+2069 U+200E U+200F U+0007 U+0085")
        expect(snippet.locator(".unseen").first).to_have_text("U+2066")
        result.get_by_role("button", name="Why?").click()
        expect(tab.locator(".walk-name", has_text=name)).to_be_visible()
        result.locator(".result-title").click()
        article = tab.get_by_role("article")
        expect(article.locator("h1")).to_have_text(name)
        expect(article.locator(".uri")).to_contain_text(name)
        expect(article.locator(".text a")).to_have_text("lU+202E")
        expect(article.locator(".text code")).to_have_text("U+202D")
        tab.get_by_role("link", name="Tree").click()
        expect(tab.get_by_role("treeitem").filter(has_text=name)).to_be_visible()
        article.get_by_role("button", name="Plain text").click()
        expect(article.locator("pre").first).to_contain_text("[lU+202E](https")
        article.get_by_role("button", name="Delete").click()
        expect(tab.get_by_role("alertdialog")).to_contain_text(name)
        assert re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x07\x85]", tab.content()) is None
    served.client.delete(f"{NOTES}/invoicegpj.exe")


FORBID = """
for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, {
  get() { throw new DOMException("Access is denied for this document.", "SecurityError"); },
});
"""


def test_a_browser_without_storage_shows_the_page(browser: Browser, served: Site) -> None:
    """A browser that forbids storage shows the page, its themes and its languages."""
    context = browser.new_context(locale="en-US", color_scheme="light")
    context.add_init_script(FORBID)
    try:
        tab = context.new_page()
        faults: list[str] = []
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(f"{served.url}/#mode=tree")
        expect(tab.get_by_role("tree")).to_contain_text("resources")
        click_the_theme(tab, "dark")
        tab.get_by_role("button", name="中文").click()
        expect(tab.get_by_role("link", name="目录树")).to_be_visible()
        assert faults == []
    finally:
        context.close()


@pytest.mark.deep
def test_a_refused_key_is_cleared(browser: Browser, tmp_path: Path) -> None:
    """A refused key leaves its field, and the dialog says why; one that was not checked stays."""
    with site(tmp_path / "store") as own:
        secret = own.client.create_key(operator=True).secret
        with page(browser, own, expected=("401", "503")) as (tab, _):
            dialog = tab.get_by_role("dialog", name="Sign in")
            key = dialog.get_by_label("Key")
            key.fill("vk_00000000_" + "0" * 64)
            dialog.get_by_role("button", name="Sign in").click()
            expect(dialog.get_by_role("alert")).to_contain_text(
                "The key was refused and is cleared:"
            )
            expect(key).to_have_value("")
            expect(key).to_be_focused()
            own.stop_daemon()
            key.fill(secret)
            dialog.get_by_role("button", name="Sign in").click()
            expect(dialog.get_by_role("alert")).to_contain_text("daemon")
            expect(key).to_have_value(secret)


@pytest.mark.deep
def test_a_sign_in_closes_its_dialog(browser: Browser, tmp_path: Path) -> None:
    """A key that is right closes the dialog, also if the page cannot be filled then."""
    with site(tmp_path / "store") as own:
        secret = own.client.create_key(operator=True).secret
        with page(browser, own, expected=("401", "503")) as (tab, _):
            dialog = tab.get_by_role("dialog", name="Sign in")
            dialog.get_by_label("Key").fill(secret)
            tab.route("**/v1/list", lambda route: route.fulfill(status=503))
            dialog.get_by_role("button", name="Sign in").click()
            expect(tab.get_by_role("alert")).to_contain_text("503")
            expect(dialog).to_have_count(0)


@pytest.mark.deep
def test_a_draft_outlives_a_session(browser: Browser, tmp_path: Path) -> None:
    """A session that ends while a person types asks for the key again, and the text stays."""
    with site(tmp_path / "store") as own:
        uri = stored(own, "long-work.md", "stored")
        secret = own.client.create_key(operator=True).secret
        with page(browser, own, at(uri), expected=("401",)) as (tab, _):
            dialog = tab.get_by_role("dialog", name="Sign in")
            for ending in (True, False):
                dialog.get_by_label("Key").fill(secret)
                dialog.get_by_role("button", name="Sign in").click()
                expect(dialog).to_have_count(0)
                if ending:
                    edit(tab, "hours of work")
                    tab.context.clear_cookies()
                    tab.get_by_role("button", name="Save").click()
                    expect(dialog).to_be_visible()
            tab.get_by_role("button", name="Save").click()
            expect(tab.get_by_text("Saved.")).to_be_visible()
            edit(tab, "more work")
            tab.get_by_role("button", name="Sign out").click()
            question = tab.get_by_role("alertdialog", name="Text is not saved")
            question.get_by_role("button", name="Keep the text").click()
            expect(box(tab)).to_have_value("more work")
            tab.get_by_role("button", name="Sign out").click()
            question.get_by_role("button", name="Drop the text").click()
            expect(dialog).to_be_visible()


def test_a_phone_has_room_for_the_project(browser: Browser, served: Site) -> None:
    """At 390 pixels the question, the project and the button of a recall are whole."""
    with page(browser, served, "#mode=recall&q=oolong", size=(390, 844)) as (tab, _):
        form = tab.get_by_role("search")
        for part in form.locator("select, input, button").all():
            place = part.bounding_box()
            assert place is not None
            assert place["width"] > 40
            assert place["x"] + place["width"] <= 390


def test_a_recall_of_a_project(browser: Browser, served: Site) -> None:
    """Without a project the shared memories answer; with one, those and its own."""
    with page(browser, served, "#mode=recall&q=oolong") as (tab, _):
        results = tab.locator(".result")
        expect(results).to_have_count(1)
        expect(results).to_contain_text("of all teas")
        project = tab.get_by_role("textbox", name="Project")
        project.fill("harbour")
        project.press("Enter")
        expect(results).to_have_count(2)
        expect(tab.locator(".results")).to_contain_text("The harbour office")
        expect(tab.locator(".results")).to_contain_text("of all teas")
        assert "project=harbour" in tab.url
        tab.get_by_text("Remember in the project harbour").click()
        tab.get_by_role("textbox", name="Remember").fill("The harbour has three kettles.")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Saved.")).to_contain_text("viking://projects/harbour/memories/")
        tab.reload()
        expect(project).to_have_value("harbour")
        project.fill("")
        project.press("Enter")
        expect(results).to_have_count(1)
        tab.get_by_role("link", name="Search").click()
        expect(project).to_have_count(0)
