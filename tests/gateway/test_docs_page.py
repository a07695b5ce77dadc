"""The API's description in a real browser: its list of calls, its commands, its replies."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.gateway.axe_helpers import serious_faults
from tests.gateway.page_helpers import Browser, Page, Site, chromium, page, site
from vikingd.client import Client
from vikingd.domain.contexts import Draft

NOTE = "viking://resources/notes/tea.md"
DOCS = "v1/docs"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a headless Chromium."""
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a daemon with a note, and its gateway."""
    with site(tmp_path_factory.mktemp("docs") / "store") as made:
        made.client.put([Draft(NOTE, content="Oolong: 90 degrees.", metadata={"topic": "tea"})])
        yield made


def tried(tab: Page, name: str) -> str:
    """Make a call by its button; return the line about its reply."""
    section = tab.locator(f"#{name}")
    section.get_by_role("button", name="Try", exact=True).click()
    told = section.locator(".told", has_text=" ms · ")
    told.wait_for()
    return str(told.inner_text())


def test_a_call_is_found_tried_and_copied_by_the_keyboard_alone(
    browser: Browser, docs: Site
) -> None:
    """The list narrows to a name and leads to its call; the reply has status, time and body."""
    with page(browser, docs, DOCS) as (tab, _):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.get_by_text("Without a key").wait_for()
        tab.keyboard.press("/")
        tab.keyboard.type("post find")
        names = tab.locator("nav li:visible").all_inner_texts()
        assert [name.split()[-1] for name in names] == ["/find", "/batch_find"]
        tab.keyboard.press("Enter")
        tab.wait_for_url("**#find")
        tab.locator("nav a[aria-current]", has_text="/find").wait_for()
        assert tab.locator("nav li:visible").count() > 30
        button = tab.locator("#find").get_by_role("button", name="Try", exact=True)
        button.focus()
        tab.keyboard.press("Enter")
        told = tab.locator("#find .told", has_text=" ms · ")
        told.wait_for()
        assert re.fullmatch(r"200 OK · [\d.]+ ms · \d+ bytes", told.inner_text())
        reply = json.loads(tab.locator("#find-reply").inner_text())
        assert [one["uri"] for one in reply["resources"]] == [NOTE]
        tab.locator("#find").get_by_role("button", name="Copy the reply").focus()
        tab.keyboard.press("Enter")
        tab.get_by_text("Copied").wait_for()
        assert json.loads(tab.evaluate("navigator.clipboard.readText()")) == reply


@pytest.mark.deep
def test_each_command_is_the_call_of_its_form(browser: Browser, docs: Site) -> None:
    """The script makes the commands that the page has without it, and follows what is typed."""
    with page(browser, docs, DOCS) as (tab, seen):
        tab.get_by_text("Without a key").wait_for()
        source = tab.request.get(f"{docs.url}/{DOCS}").text()
        plain = re.findall(r'<pre id="([\w-]+)" class="curl"[^>]*>(.*?)</pre>', source, re.DOTALL)
        assert len(plain) > 40
        for name, command in plain:
            wanted = unescape(command).replace("http://127.0.0.1:7717", docs.url)
            assert tab.locator(f"#{name}").text_content() == wanted
        tab.locator("#find-body").fill('{"query": "it\'s"}')
        words = shlex.split(str(tab.locator("#find-curl").text_content()).replace("\\\n", ""))
        assert words[-1] == '{"query": "it\'s"}'
        tab.locator("#find_by_query-query-q").fill("a&b c")
        words = shlex.split(str(tab.locator("#find_by_query-curl").text_content()))
        assert words[-1].startswith(f"{docs.url}/v1/find?q=a%26b%20c&target=")
        assert tried(tab, "find_by_query").startswith("200 OK")
        assert any("q=a%26b%20c" in url for url in seen.requests)


@pytest.mark.deep
def test_errors_and_files_are_tried_too(browser: Browser, docs: Site, tmp_path: Path) -> None:
    """An error shows its status and its body, and a file is sent as it is."""
    file = tmp_path / "sencha.md"
    file.write_text("# Sencha\n\n70 degrees.\n")
    with page(browser, docs, DOCS, expected=("400",)) as (tab, _):
        tab.locator("#get-body").fill('{"uri": 5}')
        assert tried(tab, "get").startswith("400 Bad Request")
        assert "uri: must be text, not 5" in tab.locator("#get-reply").inner_text()
        section = tab.locator("#put_file")
        section.get_by_role("button", name="Try", exact=True).click()
        section.get_by_text("Choose a file first.").wait_for()
        section.locator("[type=file]").set_input_files(file)
        assert "--data-binary '@sencha.md'" in tab.locator("#put_file-curl").inner_text()
        assert tried(tab, "put_file").startswith("200 OK")
        assert json.loads(tab.locator("#put_file-reply").inner_text())["status"] == "created"
    assert docs.client.get("viking://resources/notes/sencha.md").title == "Sencha"


@pytest.mark.deep
def test_enter_in_a_field_writes_nothing(browser: Browser, docs: Site) -> None:
    """Enter in a field makes a call that reads, and none that may write; a bad header is told."""
    with page(browser, docs, DOCS) as (tab, seen):
        tab.locator("#delete_context-path-path").press("Enter")
        tab.locator("#find_by_query-query-q").press("Enter")
        tab.locator("#find_by_query .told", has_text=" ms · ").wait_for()
        assert not any("/v1/contexts/" in url for url in seen.requests)
        assert docs.client.exists(NOTE)
        tab.locator("#find_by_query details.more summary").click()
        tab.locator("#find_by_query-header-vikingd-tenant").fill("茶")
        tab.locator("#find_by_query-header-vikingd-tenant").press("Enter")
        tab.locator("#find_by_query .told", has_text="No reply").wait_for()


@pytest.mark.deep
def test_a_try_has_the_key_of_the_session(browser: Browser, tmp_path: Path) -> None:
    """Without a key a call is refused, and after the sign-in it is made; no key is in the page."""
    with site(tmp_path / "store") as made:
        key = made.client.create_key(operator=True).secret
        with Client(made.address, key=key) as client:
            client.put([Draft(NOTE, content="Oolong.")])
        with page(browser, made, DOCS, expected=("401",)) as (tab, _):
            assert tried(tab, "stats").startswith("401 Unauthorized")
            tab.locator("#sign_in-body").fill(json.dumps({"key": key}))
            assert tried(tab, "sign_in").startswith("200 OK")
            tab.get_by_text("Signed in", exact=True).wait_for()
            assert "--header @key.header" in tab.locator("#stats-curl").inner_text()
            assert tried(tab, "stats").startswith("200 OK")


PARTS = ("header", "nav", "#find_by_query", "#put_file", "#stats", "#Status")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("theme", "width", "parts"),
    [("light", 1440, PARTS), ("dark", 1440, PARTS), ("dark", 390, PARTS), ("light", 390, ())],
)
def test_the_page_is_for_all(
    browser: Browser, docs: Site, theme: str, width: int, parts: tuple[str, ...]
) -> None:
    """axe-core finds no serious fault, nothing is wider than the window, the list stays in view."""
    with page(browser, docs, f"{DOCS}#stats", theme=theme, size=(width, 900)) as (tab, _):
        tab.get_by_text("Without a key").wait_for()
        tried(tab, "stats")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        if width == 390:
            assert tab.get_by_role("searchbox").is_hidden()
            tab.get_by_text("All calls").click()
        box = tab.get_by_role("searchbox").bounding_box()
        assert box
        assert 0 < box["y"] < 900
        assert serious_faults(tab, *parts) == []
