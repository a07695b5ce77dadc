"""Ten tasks of a person at the page, in a real browser: how many presses each takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Draft

pytestmark = pytest.mark.deep

ERRORS = "viking://resources/lantern-api/errors.md"


class Person:
    """A person at a page, whose presses and typed texts are counted."""

    def __init__(self, tab: Page, served: Site) -> None:
        self.tab = tab
        self.client = served.client
        self.steps = 0

    def press(self, target: Locator) -> None:
        """Press something."""
        self.steps += 1
        target.click()

    def button(self, name: str, within: Locator | None = None) -> None:
        """Press a button by its name."""
        self.press((within or self.tab).get_by_role("button", name=name, exact=True).first)

    def view(self, name: str) -> None:
        """Go to a view."""
        link = self.tab.get_by_role("navigation").get_by_role("link", name=name)
        self.press(link)
        expect(link).to_have_attribute("aria-current", "page")

    def ask(self, question: str) -> None:
        """Type a question and send it."""
        self.steps += 1
        box = self.tab.get_by_role("searchbox").first
        box.fill(question)
        box.press("Enter")


def load_the_demo(person: Person) -> None:
    """Get the first answer from an empty store."""
    person.button("Load the demo")
    person.button("E4102")
    expect(person.tab.locator(".result").first).to_contain_text("Error codes of a request")


def read_the_answer(person: Person) -> None:
    """Read the passage that answers a question."""
    person.ask("E4102")
    person.press(person.tab.locator(".result-title").first)
    expect(person.tab.locator(".is-passage").first).to_be_in_viewport()


def explain_by_a_directory(person: Person) -> None:
    """Find the directory that explains a score."""
    person.ask("idempotency key")
    person.press(person.tab.locator(".result .why").first)
    rows = person.tab.locator(".walk-row.is-on-path").filter(has_text="lantern-api")
    person.press(rows.locator(".walk-line").first)
    expect(rows.locator(".walk-numbers")).to_contain_text("7 files")


def bound_by_a_type(person: Person) -> None:
    """See the skills alone."""
    person.ask("tables")
    person.press(person.tab.get_by_role("checkbox", name="skill"))
    expect(person.tab.locator(".result .type").first).to_have_text("skill")
    expect(person.tab.locator(".result").filter(has_text="resources ›")).to_have_count(0)


def edit_a_page(person: Person) -> None:
    """Change a sentence of a page that is open."""
    person.tab.goto(person.tab.url.partition("#")[0] + f"#uri={quote(ERRORS, safe='')}")
    person.button("Edit")
    text = person.tab.get_by_role("textbox", name="Content")
    person.steps += 1
    text.fill(text.input_value() + "\nCodes E42xx are new.\n")
    person.button("Save")
    expect(person.tab.get_by_text("Saved.")).to_be_visible()
    assert "E42xx" in person.client.get(ERRORS).content


def make_a_page(person: Person) -> None:
    """Write a new file."""
    person.tab.goto(person.tab.url.partition("#")[0] + "#uri=viking%3A%2F%2Fresources")
    person.press(person.tab.get_by_text("New file"))
    person.steps += 2
    person.tab.get_by_role("textbox", name="Name, such as notes.md").fill("new.md")
    person.tab.get_by_role("textbox", name="Content").fill("A new page.")
    person.button("Create")
    expect(person.tab.get_by_role("article")).to_contain_text("A new page.")


def delete_a_page(person: Person) -> None:
    """Delete a file."""
    person.client.put([Draft("viking://resources/old.md", content="old")])
    person.tab.goto(person.tab.url.partition("#")[0] + "#uri=viking%3A%2F%2Fresources%2Fold.md")
    person.button("Delete")
    person.button("Delete", person.tab.get_by_role("alertdialog"))
    expect(person.tab.get_by_role("treeitem").filter(has_text="old.md")).to_have_count(0)


def forget_and_undo(person: Person) -> None:
    """Forget a memory, and take that back."""
    person.view("Memories")
    memory = person.tab.locator(".memory").filter(has_text="peanut").first
    person.press(memory.locator(".memory-text"))
    person.button("Forget", memory)
    person.button("Undo", person.tab.locator(".memory.is-gone"))
    expect(memory).to_contain_text("peanut")
    expect(person.tab.locator(".memory.is-gone")).to_have_count(0)


def build_a_context(person: Person) -> None:
    """Build the text of a prompt."""
    person.view("Context")
    person.ask("What does E4102 mean?")
    expect(person.tab.locator("pre.prompt")).to_contain_text("idempotency key")


def see_the_state(person: Person) -> None:
    """See whether all is well."""
    person.view("State")
    expect(person.tab.locator(".view")).to_contain_text("Nothing is wrong")


TASKS: dict[Callable[[Person], None], int] = {
    load_the_demo: 4,
    read_the_answer: 2,
    explain_by_a_directory: 3,
    bound_by_a_type: 2,
    edit_a_page: 3,
    make_a_page: 4,
    delete_a_page: 2,
    forget_and_undo: 4,
    build_a_context: 2,
    see_the_state: 1,
}
"""The tasks in their order, each with the most steps that it may take."""


def test_ten_tasks_take_few_steps(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, record_property: Callable[..., None]
) -> None:
    """Each task ends well with no more presses and texts than it is worth; its time is reported."""
    with site(tmp_path_factory.mktemp("tasks") / "store") as served:
        for task, most in TASKS.items():
            # The page asks whether a file is still there whose last memory is forgotten.
            with page(browser, served, expected=("404",)) as (tab, _):
                person = Person(tab, served)
                started = time.perf_counter()
                task(person)
                taken = time.perf_counter() - started
                print(f"{task.__name__:24} {person.steps} steps {taken:6.2f} s")
                record_property(task.__name__, f"{person.steps} steps, {taken:.2f} s")
                assert person.steps <= most, task.__name__
