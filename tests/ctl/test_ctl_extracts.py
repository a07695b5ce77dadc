"""Abstracts and overviews that nobody gave, as vikingctl shows them; a daemon makes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vikingd.client import Client, Draft
from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/drinks"
OOLONG = "Oolong tea is brewed at ninety degrees for three minutes."
STEPS = "\n\n".join(f"## Step {n}\n\nPour for {n} minutes. {OOLONG * 3}" for n in range(9))


@pytest.fixture(autouse=True)
def _drinks(client: MessageClient) -> None:
    client.put([Draft(f"{TOP}/hot/tea.md", content=OOLONG), Draft(f"{TOP}/pour.md", content=STEPS)])


def test_listings_have_a_line_for_each_directory(ctl: Ctl) -> None:
    """Ls and tree show the extract on the line of its directory."""
    _, listed, _ = ctl("ls", TOP)
    [line] = [line for line in listed.splitlines() if line.startswith("hot/\t")]
    assert "Oolong tea" in line
    _, shown, _ = ctl("tree", TOP, "-L", "1")
    assert [line for line in shown.splitlines() if "hot/\tOolong tea" in line]
    assert "tea.md" not in shown
    [hot] = [c for c in json.loads(ctl("ls", TOP, "--json")[1])["contexts"] if c.get("isDirectory")]
    assert hot["abstract"] == OOLONG


def test_get_names_the_makers(ctl: Ctl) -> None:
    """A directory has abstract and overview by extract; a text by hand says so."""
    rows = dict(line.split("\t") for line in ctl("get", TOP, "--details")[1].splitlines())
    assert rows["abstract"].endswith("(extract)")
    assert rows["overview"].startswith("- hot/: Oolong tea")
    assert rows["overview"].endswith("(extract)")
    got = json.loads(ctl("get", f"{TOP}/hot", "--json")[1])["context"]
    assert (got["abstractBy"], got["overviewBy"], got["abstract"]) == ("extract", "extract", OOLONG)
    assert ctl("get", TOP, "--overview")[1].startswith("- hot/: ")
    assert "- Step 8" in ctl("get", f"{TOP}/pour.md", "--overview")[1]
    code, shown, note = ctl("get", f"{TOP}/hot/tea.md", "--overview")
    assert (code, shown) == (0, "")
    assert "has no overview" in note
    ctl("put", TOP, "--directory", "--abstract", "Mine.")
    assert "abstract\tMine. (hand)\n" in ctl("get", TOP, "--details")[1]


def test_a_round_trip_gives_no_extract(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """An export, an import and an update leave the slots free, and change no hash."""
    before = {one.uri: one.content_hash for one in client.tree(TOP)}
    lines = tmp_path / "drinks.jsonl"
    assert ctl("export", TOP, "--to", str(lines))[0] == 0
    assert all(not {"abstract", "overview"} & json.loads(line).keys() for line in lines.open())
    assert ctl("import", str(lines))[0] == 0
    assert {one.uri: one.content_hash for one in client.tree(TOP)} == before
    with Client(client.address) as typed:
        typed.update(TOP, title="Drinks")
        assert typed.get(TOP).abstract_by == typed.get(TOP).overview_by == "extract"
        typed.update(TOP, title="")
    assert {one.uri: one.content_hash for one in client.tree(TOP)} == before
