"""Numbers of list items and headings in DOCX and ODT files, as their programs show them."""

from __future__ import annotations

import pytest

from tests.ingest.test_office_elements import SPACES, W, docx_of, odt_of, run
from vikingd.ingest.formats.list_numbers import number_text

START = '<w:start w:val="1"/>'


def level(at: int, form: str, text: str, more: str = "") -> str:
    """Return the definition of a level of DOCX."""
    return (
        f'<w:lvl w:ilvl="{at}">{more or START}<w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def restart(start: int) -> str:
    """Return the change of a list that starts anew."""
    return f'<w:lvlOverride w:ilvl="0"><w:startOverride w:val="{start}"/></w:lvlOverride>'


LISTS = {
    "1": ("1", ""),
    "2": ("1", ""),  # goes on
    "3": ("1", restart(1)),
    "4": ("1", restart(7)),
    "5": ("5", ""),
    "6": ("6", ""),
    "7": ("7", ""),
}
NUMBERING = (
    f"<w:numbering {W}>"
    '<w:abstractNum w:abstractNumId="1">'
    + level(0, "decimal", "%1.")
    + level(1, "lowerLetter", "%2)")
    + "</w:abstractNum>"
    '<w:abstractNum w:abstractNumId="5">'
    + level(0, "decimal", "%1", "<w:start w:val='2'/><w:pStyle w:val='Heading1'/>")
    + level(1, "decimal", "%1.%2")
    + "</w:abstractNum>"
    '<w:abstractNum w:abstractNumId="6">'
    + level(0, "japaneseCounting", "第%1条")
    + level(1, "bullet", "•")
    + "</w:abstractNum>"
    '<w:abstractNum w:abstractNumId="7">'
    + level(0, "decimalZero", "%1)")
    + "</w:abstractNum>"
    + "".join(
        f'<w:num w:numId="{name}"><w:abstractNumId w:val="{of}"/>{change}</w:num>'
        for name, (of, change) in LISTS.items()
    )
    + "</w:numbering>"
)
STYLES = (
    f'<w:styles {W}><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
    '<w:pPr><w:numPr><w:numId w:val="5"/></w:numPr></w:pPr></w:style></w:styles>'
)


def item(number: int, text: str, at: int = 0) -> str:
    """Return a paragraph of a list; a paragraph stands open before it."""
    facts = f'<w:ilvl w:val="{at}"/><w:numId w:val="{number}"/>'
    return f"</w:p><w:p><w:pPr><w:numPr>{facts}</w:numPr></w:pPr>{run(text)}"


TEXT = f"</w:p><w:p>{run('between')}"
HEAD = f'</w:p><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>{run("Tides")}'
DOCX = [
    (item(1, "a") + item(1, "b") + TEXT + item(1, "c"), "1. a\n2. b\n\nbetween\n\n3. c"),
    (item(1, "a") + TEXT + item(2, "b"), "1. a\n\nbetween\n\n2. b"),
    (item(1, "a") + item(3, "b") + item(3, "c"), "1. a\n\n1. b\n2. c"),
    (item(1, "a") + item(4, "b") + item(4, "c"), "1. a\n\n7. b\n8. c"),
    (
        item(1, "a") + item(1, "b", 1) + item(1, "c", 1) + item(1, "d") + item(1, "e", 1),
        "1. a\n   - a) b\n   - b) c\n2. d\n   - a) e",
    ),
    (item(6, "a") + TEXT + item(6, "b"), "- 第一条 a\n\nbetween\n\n- 第二条 b"),
    (item(6, "a") + item(6, "b", 1), "- 第一条 a\n  - b"),
    (HEAD + item(5, "b", 1) + HEAD, "# 2 Tides\n\n- - 2.1 b\n\n# 3 Tides"),
    (item(7, "a") + item(7, "b"), "- 01) a\n- 02) b"),
    (item(0, "none"), "none"),
]


@pytest.mark.parametrize(("body", "text"), DOCX)
def test_items_of_a_text_have_their_numbers(body: str, text: str) -> None:
    """Lists of one definition go on, others start anew; letters and headings keep their labels."""
    parts = {"word/numbering.xml": NUMBERING, "word/styles.xml": STYLES}
    document = docx_of(body, **parts)
    assert (document.text, document.lost) == (f"{text}\n", [])


LEVELS = (
    '<text:list-style style:name="L"><text:list-level-style-number text:level="1"'
    ' style:num-suffix="." style:num-format="1"/><text:list-level-style-number text:level="2"'
    ' style:num-suffix=")" style:num-format="i"/></text:list-style>'
)


def listed(items: str, facts: str = "") -> str:
    """Return a list of ODT."""
    return f'<text:list text:style-name="L" {facts}>{items}</text:list>'


def entry(text: str, facts: str = "", more: str = "") -> str:
    """Return an item of a list of ODT."""
    return f"<text:list-item {facts}><text:p>{text}</text:p>{more}</text:list-item>"


BETWEEN = "<text:p>between</text:p>"
ODT = [
    (
        listed(entry("a")) + BETWEEN + listed(entry("b"), 'text:continue-numbering="true"'),
        "1. a\n\nbetween\n\n2. b",
    ),
    (
        listed(entry("a"), 'xml:id="x"')
        + listed(entry("b"), 'xml:id="y"')
        + BETWEEN
        + listed(entry("c"), 'text:continue-list="x"'),
        "1. a\n\n1. b\n\nbetween\n\n2. c",
    ),
    (listed(entry("a") + entry("b", 'text:start-value="5"') + entry("c")), "1. a\n\n5. b\n6. c"),
    (
        listed(entry("a", more=f"<text:list>{entry('b')}{entry('c')}</text:list>") + entry("d")),
        "1. a\n\n   - i) b\n   - ii) c\n2. d",
    ),
]


@pytest.mark.parametrize(("body", "text"), ODT)
def test_items_of_an_open_document_have_their_numbers(body: str, text: str) -> None:
    """A list goes on after another text if it says so, or starts from a stated number."""
    document = odt_of(body, LEVELS)
    assert (document.text, document.lost) == (f"{text}\n", [])


def outline(*levels: str) -> str:
    """Return the styles of an ODT file whose headings have numbers."""
    made = "".join(
        f'<text:outline-level-style text:level="{at}" {facts}/>'
        for at, facts in enumerate(levels, 1)
    )
    return (
        f"<office:document-styles {SPACES}><office:styles>"
        f'<text:outline-style style:name="Outline">{made}</text:outline-style>'
        '<style:style style:name="Annex" style:family="paragraph" style:list-style-name=""/>'
        "</office:styles></office:document-styles>"
    )


def head(level: int, text: str, facts: str = "") -> str:
    """Return a heading of ODT."""
    return f'<text:h text:outline-level="{level}" {facts}>{text}</text:h>'


OF_ANNEX = '<style:style style:name="P9" style:family="paragraph" style:parent-style-name="Annex"/>'
DECIMAL = 'style:num-format="1"'
SECTIONS = outline(DECIMAL, f'{DECIMAL} text:display-levels="2"', 'style:num-format=""')
HEADINGS = [
    (
        SECTIONS,
        head(1, "A") + head(2, "B") + head(2, "C") + head(3, "D") + head(1, "E") + head(2, "F"),
        "# 1 A\n\n## 1.1 B\n\n## 1.2 C\n\n### D\n\n# 2 E\n\n## 2.1 F",
    ),
    (
        SECTIONS,
        head(1, "A", 'text:is-list-header="true"')
        + head(1, "B", 'text:style-name="P9"')
        + head(1, "")
        + head(1, "C"),
        "# A\n\n# B\n\n# 2 C",
    ),
    (
        SECTIONS,
        head(2, "A")
        + head(1, "B", 'text:restart-numbering="true" text:start-value="7"')
        + head(1, "C", 'text:restart-numbering="true"'),
        "## 1.1 A\n\n# 7 B\n\n# 1 C",
    ),
    (
        outline(
            'style:num-format="I" style:num-suffix="." text:start-value="4"',
            'style:num-prefix="§ " style:num-suffix=")" style:num-format="a"',
        ),
        head(1, "Ärger") + head(2, "潮汐") + head(1, "приливы"),
        "# IV. Ärger\n\n## § a) 潮汐\n\n# V. приливы",
    ),
    (
        SECTIONS,  # the style of the list goes before the outline
        listed(f"<text:list-item>{head(1, 'A')}</text:list-item>")
        + BETWEEN
        + listed(
            f"<text:list-item><text:list><text:list-item>{head(2, 'B')}</text:list-item>"
            "</text:list></text:list-item>",
            'text:continue-numbering="true"',
        ),
        "# 1. A\n\nbetween\n\n## i) B",
    ),
    (
        SECTIONS,
        "<text:list text:style-name='Outline'><text:list-item>"
        f"{head(1, 'A')}</text:list-item></text:list>{head(1, 'B')}",
        "# 1 A\n\n# 2 B",
    ),
    (
        SECTIONS,
        listed(f"<text:list-item>{head(1, 'A')}</text:list-item>{entry('b')}"),
        "1. # A\n2. b",
    ),
    (SECTIONS, head(2, "A") + head(1, "B"), "## 1.1 A\n\n# 2 B"),  # one above it is missing
    (outline(), head(1, "A"), "# A"),
]


@pytest.mark.parametrize(("styles", "body", "text"), HEADINGS)
def test_headings_of_an_open_document_have_their_numbers(styles: str, body: str, text: str) -> None:
    """The outline, or the style of a list around them, gives headings the numbers that are seen."""
    document = odt_of(body, LEVELS + OF_ANNEX, **{"styles.xml": styles})
    assert (document.text, document.lost) == (f"{text}\n", [])


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (28, "lowerLetter", "bb"),
        (1994, "upperRoman", "MCMXCIV"),
        (7, "decimalZero", "07"),
        (10, "chineseCounting", "十"),
        (12, "chineseCountingThousand", "十二"),
        (21, "japaneseCounting", "二十一"),
        (0, "lowerRoman", "0"),
        (3, "unknown", "3"),
    ],
)
def test_numbers_have_their_form(value: int, form: str, text: str) -> None:
    """Letters repeat behind z, and what no form has is decimal."""
    assert number_text(value, form) == text
