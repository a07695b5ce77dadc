"""The page over an empty store, in a real browser: files come in, and the first answer goes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.gateway.page_helpers import page, site

pytestmark = pytest.mark.deep


DROP = """
([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const options = { dataTransfer: data, bubbles: true, cancelable: true };
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", options));
}
"""


def test_files_come_in_and_are_found(browser: Browser, tmp_path: Path) -> None:
    """A folder, files and dropped files are stored; what was not read has its reason."""
    folder = tmp_path / "handbook"
    folder.joinpath("deep").mkdir(parents=True)
    folder.joinpath("deep", "kettle.md").write_text("# Kettle\n\nThe kettle boils at 100 degrees.")
    folder.joinpath("page.html").write_text("<html><body><p>The lantern is lit.</p></body></html>")
    folder.joinpath("broken.pdf").write_bytes(b"%PDF-1.7 broken")
    folder.joinpath("photo.png").write_bytes(b"\x89PNG")
    folder.joinpath(".git").mkdir()
    folder.joinpath(".git", "config").write_text("[core]")
    with site(tmp_path / "store") as own, page(browser, own, expected=("422", "400")) as (tab, _):
        expect(tab.get_by_role("heading", name="Nothing is stored yet")).to_be_visible()
        drop = tab.get_by_role("region", name="Add files")
        expect(drop).to_contain_text(".md .pdf .docx")
        drop.locator("input[type=file]").first.set_input_files(folder)
        expect(drop).to_contain_text("2 of 4 files are stored.")
        refused = drop.locator(".refused li")
        expect(refused.filter(has_text="photo.png")).to_contain_text("its format is not known")
        expect(refused.filter(has_text="broken.pdf")).not_to_have_text("handbook/broken.pdf")
        assert own.client.get("viking://resources/handbook/deep/kettle.md").title == "Kettle"
        assert "lantern" in own.client.get("viking://resources/handbook/page.html").content
        tab.get_by_role("button", name="kettle", exact=True).click()
        expect(tab.locator(".result").first).to_contain_text("boils at 100 degrees")
        tab.go_back()
        tab.get_by_text("Add files, the demo").click()
        expect(drop).to_be_visible()
        tab.evaluate(DROP, ["dropped.txt", "A harbour."])
        expect(drop).to_contain_text("1 of 1 files are stored.")
        assert own.client.get("viking://resources/dropped.txt").content == "A harbour."


def test_the_demo_gives_the_first_answer(browser: Browser, tmp_path: Path) -> None:
    """One press loads the demo, the next one asks; the state of the embedder is told."""
    with site(tmp_path / "store") as own, page(browser, own) as (tab, _):
        expect(tab.get_by_text("No embedder: files are found by their words")).to_be_visible()
        tab.get_by_role("button", name="Load the demo").click()
        tab.get_by_role("button", name="E4102").click()
        expect(tab.locator(".result").first).to_contain_text("Error codes of a request")
        assert own.client.stats().files == 33


def test_commands_are_copied(browser: Browser, tmp_path: Path) -> None:
    """The command of an import and the configuration for a model come by a press."""
    with site(tmp_path / "store") as own, page(browser, own) as (tab, _):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        buttons, copied = tab.get_by_role("button", name="Copy"), []
        expect(buttons).to_have_count(2)
        for button in buttons.all():
            button.click()
            copied.append(tab.evaluate("navigator.clipboard.readText()"))
        command, configuration = copied
        assert command == "vikingctl import ./docs viking://resources/docs"
        assert json.loads(configuration)["mcpServers"]["vikingd"]["url"] == f"{own.url}/mcp"
