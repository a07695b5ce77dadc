"""Overviews of files."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.describe.test_directory_description import HOSTILE
from vikingd.describe.file_overview import MAX_FILE_OVERVIEW, Piece, file_overview
from vikingd.domain.line_numbers import lines_at
from vikingd.ingest.passages import default_passages

FILLER = "These words fill the part with what nobody has to read in it. " * 14


def overview(content: str, name: str) -> str:
    """Return the overview of a file from its passages."""
    passages = default_passages(f"viking://resources/{name}", content)
    lines = lines_at(content, [passage.start for passage in passages])
    pieces = [
        Piece(passage.section, content[passage.start : passage.end], line)
        for passage, line in zip(passages, lines, strict=True)
    ]
    return file_overview(pieces, name)


MANUAL = f"""# Manual

The book tells how to sail. {FILLER}

## Ropes

/// tip
Never pull here.
///

See the other page. Ropes of hemp hold the sail. {FILLER}

### Knots

The following knots:

| Name | Use |
|---|---|
| bowline | loops |

## Anchor {{ #anchor }}

```
code only
```

{FILLER}

## 港口

港口在河的北岸，可以停靠十艘船。
"""

PYTHON = f'''"""A client."""

MOST = 3

@final
class Client(Base):
    """Asks a server. More."""

    def get(
        self, url: str
    ) -> str:
        """Return a page."""
        return get(url)  # {FILLER}

    # Sends a page.
    def put(self, url: str) -> None:
        x = """{FILLER}"""


async def main() -> None:
    """
    Run it.
    """
'''

GO = f"""package a

// Copyright 2020 nobody

// Engine serves requests. More.
type Engine struct {{
	a int // {FILLER}
}}

/* Run starts it. */
func (e *Engine) Run(port int) error {{
	return nil // {FILLER}
}}
"""


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.md", "# T\n\n## A\n\nShort.\n\n## B\n\nShort too.\n", []),
        (
            "a.md",
            MANUAL,
            [
                "- The book tells how to sail.",
                "- Ropes: Ropes of hemp hold the sail.",
                "  - Knots: table: columns Name, Use",
                "- Anchor: These words fill the part with what nobody has to read in it.",
                "- 港口: 港口在河的北岸，可以停靠十艘船。",
            ],
        ),
        (
            "a.rst",
            "Top\n===\n\nBoats sail here.\n\nOne\n---\n\n"
            f"Ropes hold a sail. {FILLER}\n\nTwo\n---\n\n"
            f"Anchors hold a ship. {FILLER}\n",
            ["- Boats sail here.", "- One: Ropes hold a sail.", "- Two: Anchors hold a ship."],
        ),
        (
            "a.py",
            PYTHON,
            [
                "- MOST = 3",
                "- class Client(Base): Asks a server.",
                "  - def get(self, url: str) -> str: Return a page.",
                "  - def put(self, url: str) -> None: Sends a page.",
                "- async def main() -> None: Run it.",
            ],
        ),
        (
            "a.go",
            GO,
            [
                "- type Engine struct: Engine serves requests.",
                "  - func (e *Engine) Run(port int) error: Run starts it.",
            ],
        ),
        (
            "a.hs",
            "module A where\n\n-- | Cuts a text.\ncut :: Text -> [Text]\n"
            f"cut = id -- {FILLER}\n\n"
            f"join :: [Text] -> Text\njoin = id -- {FILLER}\n",
            [
                "- module A where",
                "- cut :: Text -> [Text]: Cuts a text.",
                "- join :: [Text] -> Text",
            ],
        ),
        ("a.json", '{\n  "name": "a",\n  "scripts": {}\n}\n' + FILLER * 2, ["- name", "- scripts"]),
        ("a.csv", "day,price,客户\n" + "1,2,3\n" * 400, ["- 表格：day、price、客户"]),
    ],
    ids=["short", "manual", "rst", "python", "go", "haskell", "json", "csv"],
)
def test_the_overview_of_a_file(name: str, content: str, lines: list[str]) -> None:
    """It has headings with a sentence, definitions with their comments, keys or columns."""
    assert [one for one in overview(content, name).split("\n") if one] == lines


def test_a_text_without_headings_is_told_from_all_over() -> None:
    """Sentences come from the beginning, the middle and the end, in order."""
    topics = ("harbours", "lighthouses", "glaciers", "volcanoes", "libraries", "orchards")
    content = "\n\n".join(f"Chapter about {topic} in winter. {FILLER}" for topic in topics)
    found = overview(content, "a.txt")
    places = [found.find(topic) for topic in topics]
    assert places == sorted(places)
    assert min(places) >= 0


def test_what_does_not_fit_is_counted() -> None:
    """Long files have shorter lines, then fewer levels, then some of all parts."""
    one = f"## Part N\n\nA sentence about part N. {FILLER}\n\n### Deep N\n\nMore.\n\n"
    some = "".join(one.replace("N", str(n)) for n in range(40))
    found = overview(f"# Top\n\n{some}", "a.md")
    assert "- Part 0" in found
    assert "- Part 39" in found
    assert "(+1)" in found
    many = "".join(f"## Part {n}\n\nText.\n\n" for n in range(500))
    found = overview(f"# Top\n\n{many}", "a.md")
    shown = [int(one) for one in re.findall(r"^- Part (\d+)", found, re.MULTILINE)]
    assert found.endswith(f"- … {500 - len(shown)} more")
    assert len(shown) > 50
    assert max(b - a for a, b in pairwise([0, *shown, 500])) < 10
    assert len(found) <= MAX_FILE_OVERVIEW


@pytest.mark.parametrize("name", ["a.md", "a.py", "a.txt"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_passages_have_short_overviews(text: str, name: str) -> None:
    """No text raises or makes a long overview, and the overview is always the same."""
    sections = ("A > b, c", "", "A …", text[:1000], " > , > ")
    pieces = [Piece(section, text, line) for line, section in enumerate(sections, start=1)]
    found = file_overview(pieces, name)
    assert len(found) <= MAX_FILE_OVERVIEW
    assert file_overview(pieces, name) == found
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", found)
