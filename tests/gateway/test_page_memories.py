"""The memories in a real browser: all of them, their history, and what a person does with one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft, Session

MEMORIES = "viking://user/memories"
NOTES = f"{MEMORIES}/notes.md"
DAYS = {
    "2026-03-02": ("I live in Paris. I prefer oolong to coffee.", "I work at Acme."),
    "2026-05-12": ("I moved to Lyon.",),
    "2026-08-20": ("I moved to Rome.", "I no longer work at Acme."),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over memories of three conversations, notes and a project."""
    with site(tmp_path_factory.mktemp("memories") / "store") as made:
        for day, said in DAYS.items():
            session = Session(id=f"talk-{day}")
            for n, text in enumerate(said):
                session.add("user", text, time=datetime.fromisoformat(f"{day}T09:3{n}:00+00:00"))
            made.client.extract(session)
        made.client.remember("Ship the beta on Friday.", "tasks", project="lantern")
        yield made


def row(tab: Page, text: str) -> Locator:
    """Return the row of a memory."""
    return tab.locator(".memory").filter(has_text=text).first


def opened(tab: Page, text: str) -> Locator:
    """Open a memory and return its row."""
    found = row(tab, text)
    found.locator(".memory-text").click()
    return found


def press(found: Locator, name: str) -> None:
    """Press a button of a memory."""
    found.get_by_role("button", name=name, exact=True).click()


@pytest.mark.deep
def test_a_memory_is_forgotten_and_comes_back(browser: Browser, served: Site) -> None:
    """Undo writes a memory again with its place, pin, counters and time, and tells its new id."""
    served.client.put(
        [Draft(NOTES, content="# Notes\n\n- One.\n- 📌 The key is\n  upstairs. 🔑\n- Two.\n")]
    )
    at = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)
    key = served.client.remember("The key is\nupstairs. 🔑", uri=NOTES, time=at)
    served.client.reinforce([key.id], by=4)
    before = served.client.get(NOTES)
    with page(browser, served, "#mode=recall&kind=notes") as (tab, _):
        press(opened(tab, "upstairs"), "Forget")
        gone = tab.locator(".memory.is-gone")
        expect(gone).to_contain_text("Forgotten: The key is")
        assert "upstairs" not in served.client.get(NOTES).content
        undo = gone.get_by_role("button", name="Undo")
        expect(undo).to_be_focused()
        tab.keyboard.press("Enter")
        expect(row(tab, "upstairs")).to_contain_text("Only its id is new")
        after = served.client.get(NOTES)
        assert after.content == before.content
        states = [[one.memory for one in found.passages] for found in (before, after)]
        assert states[0][1] is not None
        assert states[1][1] is not None
        assert states[1][1].id != states[0][1].id
        expect(row(tab, "upstairs")).to_contain_text(str(states[1][1].id))
        for name in ("time", "create_time", "reinforcement", "access_count"):
            assert getattr(states[1][1], name) == getattr(states[0][1], name), name
        assert [states[0][0], states[0][2]] == [states[1][0], states[1][2]]


@pytest.mark.deep
def test_an_undo_brings_a_whole_file_back(browser: Browser, served: Site) -> None:
    """The last memory of a file takes its file along, and undo brings its fields and links back."""
    uri = f"{MEMORIES}/lonely.md"
    made = Draft(uri, content="- Alone here.", title="Lonely", abstract="Mine.", metadata={"a": 1})
    served.client.put([made])
    served.client.link(uri, f"{MEMORIES}/profile.md", "same person")
    before = served.client.get(uri)
    with page(browser, served, "#mode=recall&kind=lonely", expected=("404",)) as (tab, _):
        press(opened(tab, "Alone here."), "Forget")
        expect(tab.locator(".is-gone")).to_be_visible()
        assert not served.client.exists(uri)
        tab.get_by_role("link", name="Context").click()
        tab.get_by_role("link", name="Memories").click()
        press(tab.locator(".is-gone"), "Undo")
        expect(row(tab, "Alone here.")).to_contain_text("creation time of the file")
        after = served.client.get(uri)
        for name in ("content", "title", "abstract", "metadata", "time", "relations"):
            assert getattr(after, name) == getattr(before, name), name


@pytest.mark.deep
def test_an_undo_keeps_what_others_wrote(browser: Browser, served: Site) -> None:
    """If the file has changed meanwhile, the memory is added to it, and the page says so."""
    uri = f"{MEMORIES}/shared.md"
    served.client.put([Draft(uri, content="# Shared\n\n## Home\n\n- 📌 First.\n- Second.\n")])
    with page(browser, served, "#mode=recall&kind=shared", expected=("409",)) as (tab, _):
        press(opened(tab, "First."), "Forget")
        expect(tab.locator(".is-gone")).to_be_visible()
        served.client.remember("Of another.", uri=uri, section="Home")
        press(tab.locator(".is-gone"), "Undo")
        expect(row(tab, "First.")).to_contain_text("Others have changed its file")
        content = served.client.get(uri).content
        assert content == "# Shared\n\n## Home\n\n- Second.\n- Of another.\n- 📌 First.\n"


@pytest.mark.deep
def test_a_memory_is_edited_pinned_and_reinforced(browser: Browser, served: Site) -> None:
    """An edit and a pin change one entry of the file, and its counters stay."""
    uri = f"{MEMORIES}/house.md"
    served.client.put([Draft(uri, content="# House\r\n\r\n- Boiler: Weiss.\r\n- Roof: Bell.\r\n")])
    with page(browser, served, "#mode=recall&kind=house") as (tab, _):
        found = opened(tab, "Boiler")
        press(found, "Reinforce")
        expect(found).to_contain_text("Reinforced 1 times")
        press(found, "Pin")
        expect(found.locator(".badge")).to_have_text("pinned")
        press(found, "Edit")
        box = found.get_by_role("textbox")
        expect(box).to_be_focused()
        expect(box).to_have_value("Boiler: Weiss.")
        box.fill("Boiler: Weiss,\n- not on Sundays.")
        tab.keyboard.press("Escape")
        expect(found.get_by_role("alert")).to_contain_text("not saved")
        press(found, "Save")
        changed = row(tab, "Sundays")
        expect(changed).to_contain_text("Reinforced 1 times, used 1 times")
    content = served.client.get(uri).content
    assert content == (
        "# House\r\n\r\n- 📌 Boiler: Weiss,\r\n  - not on Sundays.\r\n- Roof: Bell.\r\n"
    )


@pytest.mark.deep
def test_a_memory_has_its_history_and_its_source(browser: Browser, served: Site) -> None:
    """The values are a line in time, and the message that says the present one is a link."""
    with page(browser, served, "#mode=recall&kind=profile") as (tab, _):
        found = opened(tab, "lives in Rome")
        values = found.locator(".value-line li")
        expect(values).to_have_count(3)
        for place, value, days in zip(
            values.all(),
            ("Paris.", "Lyon.", "Rome."),
            ("Mar 2, 2026 – May 12, 2026", "May 12, 2026 – Aug 20, 2026", "since Aug 20, 2026"),
            strict=True,
        ):
            expect(place).to_contain_text(value)
            expect(place).to_contain_text(days)
        expect(found.locator(".values")).to_contain_text("The user lives in …")
        found.get_by_role("button", name="User, 09:30: I moved to Rome.").click()
        article = tab.get_by_role("article")
        expect(article).to_contain_text("I moved to Rome.")
        expect(article.locator(".is-passage")).to_contain_text("Rome")
        tab.keyboard.press("Escape")
        expect(article).to_have_count(0)
        expect(values).to_have_count(3)
        tab.keyboard.press("Escape")
        expect(values).to_have_count(0)


@pytest.mark.deep
def test_all_memories_by_kind_and_by_day(browser: Browser, served: Site) -> None:
    """The kinds have their numbers, days are headings, and a filter finds words in all files."""
    served.client.put(
        [Draft(f"{MEMORIES}/many/n{n}.md", content=f"- Zebra {n}.") for n in range(70)]
    )
    with page(browser, served, "#mode=recall") as (tab, _):
        kinds = tab.get_by_role("group", name="Kind of memory")
        expect(kinds.get_by_role("button", name="Conversations")).to_be_visible()
        expect(tab.locator(".summary")).to_contain_text("files are read")
        tab.get_by_role("searchbox", name="Search within these").fill("zebra 69")
        expect(tab.locator(".memory")).to_have_count(1)
        tab.get_by_role("searchbox", name="Search within these").fill("")
        kinds.get_by_role("button", name="Conversations").click()
        expect(tab.locator(".memory-group")).to_have_count(1)
        tab.get_by_label("Group by").select_option(label="Day")
        expect(tab.locator(".memory-group h2")).to_have_text(
            ["Aug 20, 2026", "May 12, 2026", "Mar 2, 2026"]
        )
        assert "sort=day" in tab.url
        tab.get_by_role("button", name="中文").click()
        expect(tab.get_by_role("group", name="记忆类型")).to_contain_text("对话")
    served.client.delete([f"{MEMORIES}/many"])


@pytest.mark.deep
def test_a_recall_tells_what_was_left_out(browser: Browser, served: Site) -> None:
    """Memories beyond the budget are shown with the reason."""
    uri = f"{MEMORIES}/long.md"
    texts = [f"- Harbour {n}: {'the harbour has a lighthouse and boats ' * 12}." for n in range(20)]
    served.client.put([Draft(uri, content="\n".join(texts))])
    with page(browser, served, f"#mode=recall&q={quote('harbour lighthouse boats')}") as (tab, _):
        expect(tab.locator(".results > .memory").first).to_contain_text("Harbour")
        tab.get_by_role("button", name="What was left out?").click()
        left = tab.locator(".left-out")
        expect(left.locator(".memory").first).to_contain_text("tokens do not fit")
    served.client.delete([uri])


@pytest.mark.deep
def test_a_recall_tells_what_is_below_the_floor(browser: Browser, tmp_path: Path) -> None:
    """If nothing is known about a question, the nearest memories are shown with that reason."""
    with site(tmp_path / "store", "--provider", "e5") as own:
        texts = [f"- {text}" for day in DAYS.values() for text in day]
        own.client.put([Draft(NOTES, content="\n".join(texts))], wait_for_vectors=True)
        question = quote("quantum chromodynamics of pigs")
        with page(browser, own, f"#mode=recall&q={question}") as (tab, _):
            expect(tab.locator(".empty")).to_contain_text("No memory answers")
            tab.get_by_role("button", name="What was left out?").click()
            first = tab.locator(".left-out .memory").first
            expect(first).to_contain_text("nothing here seems to be about the question")


@pytest.mark.deep
def test_an_unsaved_memory_is_kept(browser: Browser, served: Site) -> None:
    """A filter, a reload of the list and a step to another view do not drop a typed text."""
    with page(browser, served, "#mode=recall") as (tab, _):
        found = opened(tab, "oolong to coffee")
        press(found, "Edit")
        found.get_by_role("textbox").fill("typed")
        tab.get_by_role("searchbox", name="Search within these").fill("Friday")
        expect(tab.locator(".memory")).to_have_count(2)
        tab.get_by_role("link", name="State").click()
        question = tab.get_by_role("alertdialog", name="Text is not saved")
        question.get_by_role("button", name="Keep the text").click()
        expect(found.get_by_role("textbox")).to_have_value("typed")
