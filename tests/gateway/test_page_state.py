"""The state of the daemon in a real browser: figures, faults, keys and tenants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gateway.page_helpers import Site, page, site
from vikingd.client import Client, Draft

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a page over two files with three texts."""
    with site(tmp_path_factory.mktemp("state") / "store") as made:
        made.client.put(
            [
                Draft("viking://resources/a.md", content="One text."),
                Draft("viking://user/memories/notes.md", content="- One.\n- Two.\n"),
            ]
        )
        yield made


def figure(tab: Page, card: str, name: str) -> str:
    """Return a figure of a card."""
    rows = tab.locator(".card").filter(has=tab.get_by_role("heading", name=card, exact=True))
    return rows.locator("dl > div").filter(has_text=name).locator("dd").inner_text()


def test_the_figures_are_those_of_the_daemon(browser: Browser, served: Site) -> None:
    """The cards show what Stats tells, in both languages, and links lead to the API."""
    with page(browser, served, "#mode=state", expected=("404",)) as (tab, _):
        expect(tab.get_by_text("Nothing is wrong.")).to_be_visible()
        stats = served.client.stats()
        assert figure(tab, "Contents", "Files") == str(stats.files)
        assert stats.texts != stats.files
        assert figure(tab, "Contents", "Texts") == str(stats.texts)
        assert figure(tab, "Index", "Texts in the tail") == str(stats.index.tail_texts)
        assert figure(tab, "Queues", "Heavy calls") == "0 wait, 0 refused"
        assert figure(tab, "Daemon", "Version") == stats.version
        expect(tab.locator("main")).to_contain_text("There are no keys")
        tab.get_by_role("button", name="中文").click()
        expect(tab.get_by_text("一切正常。")).to_be_visible()
        tab.get_by_role("link", name="API 说明").click()
        expect(tab).to_have_url(f"{served.url}/v1/docs")


def test_a_fault_is_told(browser: Browser, served: Site) -> None:
    """Each error that Stats tells stands above the figures, with the next attempt."""
    stats = {
        "problem": "the disk is full",
        "embedder": {"backlog": "7", "lastError": "no answer", "retryTime": "2026-03-01T09:30:00Z"},
        "queues": [{"queue": "heavy", "refused": "3"}],
    }
    with page(browser, served) as (tab, _):
        tab.route("**/v1/stats", lambda route: route.fulfill(json=stats))
        tab.get_by_role("link", name="State").click()
        faults = tab.locator(".state .note.is-warning")
        expect(faults).to_have_count(3)
        expect(faults.nth(0)).to_contain_text("the disk is full")
        expect(faults.nth(1)).to_contain_text("no answer · next attempt Mar 1, 2026")
        expect(faults.nth(2)).to_contain_text("3 calls refused")
        expect(tab.get_by_text("Nothing is wrong.")).to_have_count(0)


def test_keys_and_tenants_are_for_those_who_may(browser: Browser, tmp_path: Path) -> None:
    """An operator sees keys without their secrets, and tenants; a reader's key sees neither."""
    with site(tmp_path / "store") as own:
        secret = own.client.create_key(operator=True, note="first").secret
        with Client(own.address, key=secret) as client:
            reader = client.create_key(user="ana", read=["viking://resources"]).secret
        for key, sees in ((secret, True), (reader, False)):
            with page(browser, own, "#mode=state", expected=("401", "403")) as (tab, _):
                dialog = tab.get_by_role("dialog", name="Sign in")
                dialog.get_by_label("Key").fill(key)
                dialog.get_by_role("button", name="Sign in").click()
                main = tab.locator("main")
                if sees:
                    keys = tab.get_by_role("region", name="Keys")
                    expect(keys).to_contain_text("operator")
                    expect(keys).to_contain_text("read viking://resources")
                    expect(tab.get_by_role("region", name="Tenants")).to_contain_text("default")
                else:
                    expect(main).to_contain_text("may not see the state")
                    expect(main.locator("table")).to_have_count(0)
                expect(tab.get_by_role("alert")).to_have_count(0)
                assert secret not in tab.content()
                expect(main).to_contain_text("/v1/openapi.json")
