"""The lines of passages in replies, and the lines of a file that `get --lines` prints."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from vikingd.client import Draft, Passage
from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]
TOP = "viking://resources/lines"
PADDING = "A sentence of a passage that is long enough to stand alone. " * 25

LINES = {
    "lf.md": (
        f"# One\n\nalder\n{PADDING}\n\n## Two\n\nbirch\n{PADDING}\nend\n",
        {"alder": (1, 4), "birch": (6, 10)},
    ),
    "crlf.md": (
        f"# One\r\n\r\nalder\r\n{PADDING}\r\n\r\n## Two\r\n\r\nbirch\r\n{PADDING}\r\nend\r\n",
        {"alder": (1, 4), "birch": (6, 10)},
    ),
    "open.md": (f"# One\n\n{PADDING}alder\n\n## Two\n\nbirch", {"alder": (1, 3), "birch": (5, 7)}),
    "bom.md": (
        f"\ufeff# One\n{PADDING}alder\n\n# Two\n{PADDING}birch",
        {"alder": (1, 2), "birch": (4, 5)},
    ),
    "chinese.md": (
        f"# 茶\n\n{'乌龙茶要用九十度的水。' * 60}\n\n## 咖啡\n\n{'咖啡要用粗一点的粉。' * 60}\n赤杨\n",
        {"乌龙茶": (1, 3), "赤杨": (5, 8)},
    ),
    "front.md": (
        f"---\ntitle: Trees\ntags: [a, b]\n---\n\n# One\n{PADDING}alder\n\n# Two\n{PADDING}birch\n",
        {"alder": (6, 7), "birch": (9, 10)},
    ),
    "one-line.txt": (f"{PADDING}alder {PADDING}{PADDING}birch", {"alder": (1, 1), "birch": (1, 1)}),
    "return.txt": ("alder\rstill the first line\nbirch", {"alder": (1, 2)}),
}
"""The content of each file; for words of it the first and the last line of their passage."""


@pytest.fixture
def _files(client: MessageClient) -> None:
    client.put([Draft(f"{TOP}/{name}", content=content) for name, (content, _) in LINES.items()])


def lines_of(client: MessageClient, word: str) -> dict[str, tuple[int, int]]:
    """Return the lines of the passages with a word, by file; find and retrieve must agree."""
    items = client.retrieve(word, target_uri=TOP, mode=2, top_k=50).items
    content = {uri: client.get(uri).context.content for uri in {item.uri for item in items}}
    retrieved = {
        item.uri.removeprefix(f"{TOP}/"): (item.first_line, item.last_line)
        for item in items
        if item.passage and word in content[item.uri][item.start : item.end]
    }
    found = {
        match.uri.removeprefix(f"{TOP}/"): (passage.first_line, passage.last_line)
        for match in client.find(word, target_uri=TOP, limit=50).resources
        for passage in match.passages
        if word in passage.text
    }
    assert found == retrieved
    return found


def wanted(word: str) -> dict[str, tuple[int, int]]:
    """Return the lines that the table has for a word, by file."""
    return {name: lines[word] for name, (_, lines) in LINES.items() if word in lines}


@pytest.mark.usefixtures("_files")
def test_passages_tell_their_lines_from_tail_and_base(client: MessageClient) -> None:
    """A line feed ends a line, whatever is before it; a compaction changes nothing."""
    for word in ("alder", "birch", "乌龙茶", "赤杨"):
        assert lines_of(client, word) == wanted(word)
    client.compact()
    for word in ("alder", "birch", "乌龙茶", "赤杨"):
        assert lines_of(client, word) == wanted(word)
