"""The page of the gateway, in a real browser: what a person sees and does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.gateway.page_helpers import Site, go_on, held, page, site
from tests.patience import eventually
from vikingd.client import Draft

pytestmark = pytest.mark.deep

NOTES = "viking://resources/notes"
TEXTS = {
    f"{NOTES}/tea/oolong.md": "# Oolong\n\nSteep oolong at 90 degrees.\n\n- rinse **once**\n- pour",
    f"{NOTES}/tea/green.md": "Green tea takes 75 degrees.",
    f"{NOTES}/茶/乌龙茶.md": "乌龙茶用九十度的水冲泡。",
    "viking://user/memories/preferences/tea.md": "- Prefers oolong to coffee.",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over a small tree in two languages."""
    with site(tmp_path_factory.mktemp("page") / "store") as made:
        made.client.put([Draft(uri, content=text) for uri, text in TEXTS.items()])
        yield made


def ask(tab: Page, question: str) -> None:
    """Type a question and send it."""
    box = tab.get_by_role("searchbox")
    box.fill(question)
    box.press("Enter")


def test_a_question_is_answered_and_explained(browser: Browser, served: Site) -> None:
    """Results have lines and scores; one click draws the directories and says why."""
    with page(browser, served) as (tab, _):
        ask(tab, "oolong degrees")
        first = tab.locator(".result").first
        expect(first.locator(".crumbs bdi")).to_have_attribute("title", f"{NOTES}/tea/oolong.md")
        expect(first).to_contain_text("resources › notes › tea › oolong.md:3-6")
        shown = first.locator(".score").inner_text()
        first.get_by_role("button", name="Why?").click()
        walk = tab.get_by_label("The walk")
        expect(walk).to_contain_text("It has the query's words")
        row = walk.locator(".walk-row.is-chosen")
        expect(row).to_contain_text("oolong.md")
        expect(row.locator(".walk-score")).to_have_text(shown)
        expect(row.locator("code")).to_contain_text(f"{shown} = ")
        assert row.locator("rect:not(.bar-back)").count() >= 1
        expect(walk.locator(".walk-name", has_text="tea/").first).to_be_visible()


def test_the_kind_of_a_file_bounds_a_find(browser: Browser, served: Site) -> None:
    """A chosen kind is in the address and leaves its files alone, in both languages."""
    served.client.put(
        [
            Draft(f"{NOTES}/src/kettle.py", content="kettle = 90", metadata={"kind": "source"}),
            Draft(f"{NOTES}/t/kettle.py", content="assert kettle == 9", metadata={"kind": "test"}),
        ]
    )
    with page(browser, served) as (tab, _):
        ask(tab, "kettle")
        expect(tab.locator(".result")).to_have_count(2)
        kinds = tab.get_by_label("Kind of file")
        kinds.select_option(label="Tests")
        expect(tab.locator(".result")).to_have_count(1)
        expect(tab.locator(".crumbs bdi")).to_have_attribute("title", f"{NOTES}/t/kettle.py")
        assert "kind=test" in tab.url
        tab.get_by_role("button", name="中文").click()
        expect(tab.get_by_label("文件类别").locator("option:checked")).to_have_text("测试")
        tab.get_by_label("文件类别").select_option(label="所有类别")
        expect(tab.locator(".result")).to_have_count(2)


def test_bars_have_the_length_of_their_scores(browser: Browser, served: Site) -> None:
    """The parts of the best score fill its bar, and those of others their share of it."""
    fragment = "#q=oolong+degrees&why=" + quote(f"{NOTES}/tea/oolong.md", safe="")
    with page(browser, served, fragment) as (tab, _):
        walk = tab.get_by_label("The walk")
        expect(walk).to_be_visible()
        rows = walk.locator(".walk-row:has(.walk-score)")
        figures = [
            (
                float(row.locator(".walk-score").inner_text()),
                sum(
                    float(rect.get_attribute("width") or 0) + 0.3
                    for rect in row.locator("rect:not(.bar-back)").all()
                ),
            )
            for row in rows.all()
        ]
        most = max(score for score, _ in figures)
        assert len(figures) > 3
        for score, width in figures:
            assert width == pytest.approx(100 * score / most, abs=1.5)


def test_a_person_asks_in_chinese(browser: Browser, served: Site) -> None:
    """The page speaks the language of the browser, and switches."""
    with page(browser, served, language="zh-CN") as (tab, _):
        ask(tab, "乌龙茶")
        expect(tab.locator(".result").first).to_contain_text("乌龙茶.md")
        tab.get_by_role("button", name="为什么？").first.click()
        expect(tab.get_by_label("检索路径")).to_contain_text("含有查询中的词语")
        assert tab.evaluate("document.documentElement.lang") == "zh-CN"
        tab.get_by_role("button", name="English").click()
        expect(tab.get_by_label("The walk")).to_be_visible()


def test_both_languages_have_all_texts(browser: Browser, served: Site) -> None:
    """Each text exists in both languages, with the same values in it."""
    with page(browser, served) as (tab, _):
        table = tab.evaluate("import('/texts.js').then((texts) => texts.TEXTS)")
    assert len(table) > 150
    for key, (english, chinese) in table.items():
        assert english.strip(), key
        assert chinese.strip(), key
        values = re.findall(r"\{\w+\}", english)
        assert sorted(values) == sorted(re.findall(r"\{\w+\}", chinese)), key


def rows_of(tab: Page, name: str) -> Locator:
    """Return the rows of the tree with a name."""
    return tab.get_by_role("treeitem").filter(has_text=re.compile(f"^{re.escape(name)}$"))


def test_the_tree_works_by_keyboard(browser: Browser, served: Site) -> None:
    """Arrow keys open directories and move; Enter shows a context; / and Escape work."""
    served.client.put(
        [Draft(f"viking://resources/keys/a/{n}.md", content=n) for n in ("one", "two")]
    )
    with page(browser, served, "#mode=tree") as (tab, _):
        rows_of(tab, "resources").click()
        expect(rows_of(tab, "keys")).to_be_visible()
        for directory, child in (("keys", "a"), ("a", "one.md")):
            tab.keyboard.press("ArrowDown")
            expect(rows_of(tab, directory)).to_be_focused()
            tab.keyboard.press("ArrowRight")
            expect(rows_of(tab, child)).to_be_visible()
        tab.keyboard.press("ArrowDown")
        expect(rows_of(tab, "one.md")).to_be_focused()
        tab.keyboard.press("Enter")
        article = tab.get_by_role("article")
        expect(article).to_contain_text("keys/a/one.md")
        expect(rows_of(tab, "one.md")).to_have_attribute("aria-selected", "true")
        tab.keyboard.press("/")
        expect(tab.get_by_role("searchbox")).to_be_focused()
        tab.locator(".brand").focus()
        tab.keyboard.press("Escape")
        expect(article).to_have_count(0)


def test_a_slow_directory_keeps_the_keyboard(browser: Browser, served: Site) -> None:
    """The first child of a directory gets the focus of "Loading…", so that keys go on there."""
    served.client.put([Draft("viking://resources/slow/a.md", content="Slow.")])
    with page(browser, served, "#mode=tree&uri=viking%3A%2F%2Fresources%2Fslow") as (tab, _):
        expect(tab.get_by_role("article")).to_contain_text("a.md")
        waiting = held(tab, "list")
        rows_of(tab, "slow").focus()
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowDown")
        expect(rows_of(tab, "Loading…")).to_be_focused()
        go_on(tab, waiting)
        expect(rows_of(tab, "a.md")).to_be_focused()
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("article")).to_contain_text("Slow.")


def test_a_context_is_read_edited_and_kept_from_conflicts(browser: Browser, served: Site) -> None:
    """An edit is written; one on an older revision is refused, and the text stays."""
    uri = f"{NOTES}/edited.md"
    served.client.put([Draft(uri, content="first")])
    with page(browser, served, f"#uri={quote(uri, safe='')}", expected=("409",)) as (tab, _):
        tab.get_by_role("button", name="Edit").click()
        text = tab.get_by_role("textbox", name="Content")
        text.fill("second")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Saved.")).to_be_visible()
        assert served.client.get(uri).content == "second"
        tab.get_by_role("button", name="Edit").click()
        served.client.put([Draft(uri, content="of another")])
        text.fill("third")
        tab.get_by_role("button", name="Save").click()
        expect(tab.get_by_role("alert")).to_contain_text("Someone changed this context")
        expect(text).to_have_value("third")
        assert served.client.get(uri).content == "of another"
        tab.get_by_role("button", name="Load again").click()
        expect(tab.get_by_role("article")).to_contain_text("of another")


def test_a_file_is_made_and_deleted(browser: Browser, served: Site) -> None:
    """A new file does not replace one, and a deletion asks before."""
    fragment = f"#uri={quote(NOTES, safe='')}"
    with page(browser, served, fragment, expected=("409",)) as (tab, _):
        tab.get_by_text("New file").click()
        tab.get_by_role("textbox", name="Name, such as notes.md").fill("made.md")
        tab.get_by_role("textbox", name="Content").fill("made here")
        tab.get_by_role("button", name="Create").click()
        expect(tab.get_by_role("article")).to_contain_text("made here")
        assert served.client.get(f"{NOTES}/made.md").content == "made here"
        expect(tab.get_by_role("treeitem").filter(has_text="made.md")).to_be_visible()
        tab.get_by_role("button", name="Delete").click()
        question = tab.get_by_role("alertdialog")
        expect(question).to_contain_text(f"Delete {NOTES}/made.md")
        question.get_by_role("button", name="Cancel").click()
        assert served.client.get(f"{NOTES}/made.md")
        tab.get_by_role("button", name="Delete").click()
        question.get_by_role("button", name="Delete").click()
        expect(tab.get_by_role("treeitem").filter(has_text="made.md")).to_have_count(0)


EVIL = (
    '<script>alert("ran")</script><img src=x onerror=alert(1)> '
    "[link](javascript:alert(2)) [data](data:text/html,x) ![i](javascript:alert(3)) "
    '<svg onload=alert(4)> "><b>bold</b> \u202egnp.exe\u202c \x07 ${alert(5)} {{7*7}}'
)


def test_stored_text_never_becomes_markup(browser: Browser, served: Site) -> None:
    """Scripts, handlers, links of other schemes and control characters are shown as text."""
    uri = f"{NOTES}/evil <b>&.md"
    title = "<img src=x onerror=alert(9)>"
    served.client.put(
        [Draft(uri, content=f"# {title}\n\nzebra {EVIL}\n\n- {EVIL}\n\n> {EVIL}", abstract=EVIL)]
    )
    with page(browser, served) as (tab, _):
        ask(tab, "zebra <script>")
        expect(tab.locator(".result").first).to_contain_text("<script>alert")
        tab.get_by_role("button", name="Why?").first.click()
        tab.locator(".result-title").first.click()
        article = tab.get_by_role("article")
        expect(article).to_contain_text('<script>alert("ran")</script>')
        assert article.locator("script, img, iframe, svg, b").count() == 0
        assert article.locator("a").count() == 0
        tab.get_by_role("button", name="Plain text").click()
        expect(article.locator("pre").first).to_contain_text("onerror=alert(1)")
    served.client.delete(uri)


def test_a_recall_shows_its_salience(browser: Browser, served: Site) -> None:
    """A memory has its four parts, and the path of the recall is told."""
    with page(browser, served, "#mode=recall&q=oolong+or+coffee") as (tab, _):
        memory = tab.locator(".result").first
        expect(memory).to_contain_text("Prefers oolong to coffee.")
        for part in ("meaning", "reinforcement", "recency", "access"):
            expect(memory.locator("dt", has_text=part)).to_be_visible()
        expect(tab.locator(".answer")).to_contain_text("Path: a search by salience")


def test_a_context_shows_its_budget(browser: Browser, served: Site) -> None:
    """The text of a prompt has its citations and tokens."""
    with page(browser, served, "#mode=context&q=oolong+degrees") as (tab, _):
        expect(tab.locator(".prompt")).to_contain_text("Steep oolong at 90 degrees")
        expect(tab.get_by_text(re.compile(r"^In the prompt \(\d"))).to_be_visible()
        expect(tab.locator(".summary")).to_contain_text("of 4,000 tokens")


def test_the_state_is_in_the_url(browser: Browser, served: Site) -> None:
    """A link opens the same answer, and the back button returns to the one before."""
    with page(browser, served) as (tab, _):
        ask(tab, "oolong")
        expect(tab.locator(".result").first).to_be_visible()
        ask(tab, "green")
        expect(tab.locator(".result").first).to_contain_text("green.md")
        tab.go_back()
        expect(tab.get_by_role("searchbox")).to_have_value("oolong")
        expect(tab.locator(".result").first).to_contain_text("oolong")


def test_figures_follow_the_daemon(browser: Browser, served: Site) -> None:
    """The live figures change after a write of someone else."""
    with page(browser, served) as (tab, _):
        live = tab.locator(".live")
        expect(live).to_contain_text("files")
        before = live.inner_text()
        served.client.put([Draft(f"{NOTES}/live.md", content="new")])
        expect(live).not_to_have_text(before)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_has_all_views(browser: Browser, served: Site, theme: str) -> None:
    """At 390 pixels nothing is cut off and the tree has a place; by day and by night."""
    size = (390, 844)
    with page(browser, served, "#q=oolong", size=size, theme=theme) as (tab, _):
        expect(tab.locator(".result").first).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        expect(tab.get_by_role("tree")).not_to_be_visible()
        tab.get_by_role("link", name="Tree").click()
        tab.get_by_role("treeitem").filter(has_text="resources").click()
        expect(tab.get_by_role("article")).to_contain_text("viking://resources")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (theme == "dark")


@pytest.mark.deep
def test_a_person_signs_in_and_out(browser: Browser, tmp_path: Path) -> None:
    """A wrong key is refused in words; a right one opens the page and is kept nowhere in it."""
    with site(tmp_path / "store") as own:
        secret = own.client.create_key(operator=True).secret
        with page(browser, own, expected=("401",)) as (tab, seen):
            dialog = tab.get_by_role("dialog", name="Sign in")
            dialog.get_by_label("Key").fill("vk_00000000_" + "0" * 64)
            dialog.get_by_role("button", name="Sign in").click()
            expect(dialog.get_by_role("alert")).to_contain_text("key")
            dialog.get_by_label("Key").fill(secret)
            dialog.get_by_role("button", name="Sign in").click()
            expect(dialog).to_have_count(0)
            expect(tab.locator(".live")).to_contain_text("revision")
            (cookie,) = tab.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            kept = tab.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
            assert secret not in kept + tab.content() + cookie["value"]
            assert not any(secret in url for url in seen.requests)
            tab.get_by_role("button", name="Sign out").click()
            expect(dialog).to_be_visible()
            eventually(lambda: not tab.context.cookies())


@pytest.mark.deep
def test_a_daemon_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    """The page says that nothing answers, and works again when the daemon is back."""
    with site(tmp_path / "store") as own, page(browser, own, expected=("503",)) as (tab, _):
        own.client.put([Draft(f"{NOTES}/a.md", content="lantern")])
        ask(tab, "lantern")
        expect(tab.locator(".result")).to_have_count(1)
        own.stop_daemon()
        ask(tab, "harbour")
        expect(tab.get_by_role("alert")).to_contain_text("daemon")
