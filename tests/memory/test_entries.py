"""Entries of memory files, which are added, replaced and removed in any content."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.domain.contexts import Passage
from vikingd.domain.errors import InvalidField
from vikingd.ingest import markdown
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.passages import MAX_PASSAGES, MAX_TOKENS, split
from vikingd.memory import entries as memories
from vikingd.memory.entries import check_section, check_short, check_text, clean, is_bare

ODD = [
    "# x",
    "- y",
    "1. z",
    "> q",
    "```",
    "```py",
    "~~~",
    "---",
    "***",
    "- - -",
    "* * *",
    "===",
    "    code",
    "\tcode",
    "<!--",
    "-->",
    "<div>",
    "<script>",
    "|a|b|",
    "|-|-|",
    "back\\",
    "",
    "",
    "  two",
    "中文。",
    "👍",
    "a\u2028b",
    "\u3000x",
    "[a]: http://b",
    "-",
    "1.",
    "+",
    "x  ",
    "[ ] task",
    "\ufeff",
    "&amp;",
    "word",
    "## Food",
    "\x0b",
    "a\tb",
]
BLOCKS = [
    "# Title",
    "## Food",
    "## 工作",
    "### Food",
    "Food\n----",
    "Title\n===",
    "  ## Indented",
    "A paragraph\nof two lines.",
    "- hand one\n- hand two",
    "* star\n\n* loose\n\n  two",
    "9. nine\n10. ten",
    "1) one",
    "-   wide\n    more",
    "  - indented",
    "- [ ] task",
    "+\n  low",
    "- # h\nfollows",
    "- outer\n  - inner",
    "-",
    "```\n- code\n# code\n```",
    "    - code",
    "<!-- hidden -->",
    "<div>\n- no\n</div>",
    "> - quoted",
    "|a|\n|-|",
    "-\ttab\n\tmore",
    "***",
]
TITLE = "About me"
SECTIONS = ["", "Food", "工作", "Work & play"]


def is_valid(text: str) -> bool:
    """Return whether the text can be remembered."""
    try:
        return bool(check_text(text))
    except InvalidField:
        return False


texts = st.one_of(
    st.builds(
        lambda lines, eol: eol.join(lines),
        st.lists(st.sampled_from(ODD), min_size=1, max_size=6),
        st.sampled_from(["\n", "\r\n", "\r"]),
    ),
    st.text(alphabet="ab中-*+#>`~=|\\<!1.)[]: \t\r\n", max_size=30),
)
files = st.builds(
    lambda head, blocks, gap, end, eol: (head + gap.join(blocks) + end).replace("\n", eol),
    st.sampled_from(["", "", "\ufeff", "---\nkind: x\n---\n", "\n"]),
    st.lists(st.sampled_from(BLOCKS), max_size=6),
    st.sampled_from(["\n\n", "\n\n\n"]),
    st.sampled_from(["", "\n", "\n\n"]),
    st.sampled_from(["\n", "\n", "\r\n", "\r"]),
)


def added(content: str, text: str, section: str, title: str) -> tuple[str, int]:
    """Return the content with one more entry, and the start of that entry."""
    written = memories.added(content, text, section, title)
    assert written.passages[0] in written.cut == passages(written.content)
    return written.content, written.start


def replaced(content: str, start: int, end: int, text: str) -> str:
    """Return the content with another text in this range."""
    return memories.replaced(content, start, end, text).content


def removed(content: str, *places: int) -> str:
    """Return the content without the ranges that these pairs of places bound."""
    result, edits = memories.removed(content, list(zip(places[::2], places[1::2], strict=True)))
    assert memories.edited(content, edits) == result
    return result


def passages(content: str) -> list[Passage]:
    """Return the passages of a memory file."""
    return split(content, "x.md", entries=True)


def items(content: str) -> list[Passage]:
    """Return the passages that begin at a list item."""
    parts = markdown.outline(content, front_matter(content)[1])
    starts = {part.start for part in parts if part.item >= 0}
    return [p for p in passages(content) if p.start in starts]


def entries(content: str) -> list[tuple[str, str]]:
    """Return the section and the text of each list item."""
    return [(p.section, clean(content[p.start : p.end])) for p in items(content)]


def place(content: str, text: str) -> Passage:
    """Return the passage with this text."""
    return next(p for p in passages(content) if clean(content[p.start : p.end]) == text)


def assert_inserted(small: str, large: str) -> None:
    """Check that the large text is the small text with one insertion."""
    ahead = next((i for i, c in enumerate(small) if large[i : i + 1] != c), len(small))
    assert large.endswith(small[ahead:])


def words(content: str) -> list[str]:
    """Return the lines that have text, except the comment that ends a list."""
    lines = re.split(r"\r\n?|\n", content.lstrip("\ufeff"))
    return [line for line in lines if line.strip() and line != "<!-- -->"]


# Any sequence of changes


@examples(150)
@given(files, st.data())
def test_whatever_changes_each_entry_stays_a_passage_of_its_own(
    content: str, data: st.DataObject
) -> None:
    """After any sequence of changes, each entry is one passage, and other text is unchanged."""
    mine: list[tuple[str, str]] = []
    for number in range(data.draw(st.integers(1, 6))):
        before = entries(content)
        kind = data.draw(st.sampled_from(["add", "replace", "remove"])) if mine else "add"
        said = f"{number} {data.draw(texts)}" if kind != "remove" else ""
        if data.draw(st.booleans()):
            said = data.draw(texts.filter(is_valid))
        text = clean(said)
        if kind != "remove" and (not is_valid(text) or text in [t for _, t in before]):
            continue
        if kind == "add":
            section = data.draw(st.sampled_from(SECTIONS))
            result, start = added(content, said, section, TITLE)
            if content.strip():
                assert_inserted(content, result)
            after = entries(result)
            i = [p.start for p in items(result)].index(start)
            assert after[i][1] == text
            assert not section or after[i][0].split(" > ")[-1] == section
            assert after[:i] + after[i + 1 :] == before
            mine.append(after[i])
        else:
            old = data.draw(st.sampled_from(mine))
            p = place(content, old[1])
            mine.remove(old)
            if kind == "replace":
                result = replaced(content, p.start, p.end, said)
                assert result.startswith(content[: p.start])
                assert result.endswith(content[p.end :])
                mine.append((old[0], text))
                assert entries(result) == [
                    (s, text) if (s, t) == old else (s, t) for s, t in before
                ]
            else:
                result = removed(content, p.start, p.end)
                assert result[:1] == content[:1] or "\ufeff" not in content[:1]
                assert entries(result) == [e for e in before if e != old]
                kept = words(content[: p.start])[:-1] + words(content[p.end :])
                assert words(result) == kept
        content = result


# The form of a text


@examples(300)
@given(texts)
def test_a_text_has_one_form(text: str) -> None:
    """`clean` is idempotent and removes outer and trailing white space."""
    once = clean(text)
    assert clean(once) == once == once.strip()
    assert "\r" not in once
    assert "\n\n\n" not in once
    assert all(line == line.rstrip() for line in once.split("\n"))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("  one \r\n  two\r\r  three ", "one\ntwo\n\nthree"),
        ("list:\n    - a\n      - b", "list:\n- a\n  - b"),
        ("a\n\n\n\n  b", "a\n\nb"),
        ("---\n* * *\n\n  word\n---", "word\n---"),
        ("# x", "# x"),
        ("\n \n", ""),
    ],
    ids=range(6),
)
def test_the_form_is_what_markdown_shows(text: str, form: str) -> None:
    """`clean` removes outer white space, shared indentation and leading rules from a text."""
    assert clean(text) == form


def test_a_text_must_say_something_and_a_fact_fits_one_passage() -> None:
    """Empty and wordless texts are refused; the longest fact is one passage."""
    for text in ("", " \n", "---", "...!", "📌", "📌 ---", "a\0b"):
        with pytest.raises(InvalidField, match=r"^text: "):
            check_text(text)
    assert check_text(" likes tea\r\n") == "likes tea"
    with pytest.raises(InvalidField, match="has some 321 tokens, at most 320"):
        check_short("x" * (4 * MAX_TOKENS + 1))
    with pytest.raises(InvalidField, match="at most 320"):
        check_short("\n".join(["ab"] * 250))  # too long with its indentation
    for text in ("x" * 4 * MAX_TOKENS, "中" * MAX_TOKENS, "\n".join(["ab"] * 182)):
        for file in ("", "- a\r\n", "1. a\r\n"):
            content, start = added(file, check_text(text), "", TITLE)
            last = passages(content)[-1]
            assert (last.start, clean(content[start : last.end])) == (start, text)


def test_what_is_much_too_long_is_refused_unread() -> None:
    """A text of more than a file may have, or a long section, is refused by its length."""
    with pytest.raises(InvalidField, match=r"^text: has 3,000,000 bytes.* 2,097,152: split"):
        check_text("a\n" * 1_500_000)
    with pytest.raises(InvalidField, match=r"^section: .*at most 120 characters"):
        check_section("a\n" * 500_000)
    assert check_text("\n" * 60_000 + "tea") == "tea"


@pytest.mark.parametrize(
    "section",
    [
        " a",
        "a\nb",
        "#",
        "a #",
        "*a*",
        "a `b`",
        "A > B",
        "x" * 121,
        "a  b",
        "a {#b}",
        "\u2028",
        "\0",
        "<b>",
        "&amp;",
        "a\\#",
        "\t",
    ],
    ids=range(16),
)
def test_a_section_must_read_as_it_is_written(section: str) -> None:
    """A section name that Markdown would change, or that is a path of headings, is refused."""
    with pytest.raises(InvalidField, match=r"^section: "):
        check_section(section)
    with pytest.raises(InvalidField, match=r"^section: "):
        added("# T\n", "text", section, TITLE)


# Where an entry goes


@pytest.mark.parametrize(
    ("content", "section", "result"),
    [
        ("", "", "# About me\n\n- new\n"),
        (" \n", "Food", "# About me\n\n## Food\n\n- new\n"),
        ("# T\n\n- a\n", "Food", "# T\n\n- a\n\n## Food\n\n- new\n"),
        ("# T\n\n- a\n", "", "# T\n\n- a\n- new\n"),
        ("# T\n\n- a\n\n## S\n- b", "", "# T\n\n- a\n- new\n\n## S\n- b"),
        ("# T\n\n## S\n- b", "", "# T\n\n- new\n\n## S\n- b"),
        ("## S\n- b\n", "", "- new\n\n## S\n- b\n"),
        ("intro\n\n# A\n- a\n\n# B\n", "", "intro\n\n- new\n\n# A\n- a\n\n# B\n"),
        ("x", "", "x\n\n- new"),
        ("---\nk: v\n---\n", "", "---\nk: v\n---\n\n- new\n"),
        ("# T\n## S\n\npara\n\n### U\n- u\n", "S", "# T\n## S\n\npara\n\n- new\n\n### U\n- u\n"),
        ("# T\n### *S*\n- a\n\npara\n", "S", "# T\n### *S*\n- a\n- new\n\npara\n"),
        ("S\n---\n* a\n  * b\n", "S", "S\n---\n* a\n  * b\n* new\n"),
        ("## s\n- a\n", "S", "## s\n- a\n\n## S\n\n- new\n"),
        ("## S\n## S\n- a\n", "S", "## S\n\n- new\n## S\n- a\n"),
        ("1. a\r\n2. b\r\n", "", "1. a\r\n2. b\r\n3. new\r\n"),
        ("# T\r\n", "S", "# T\r\n\r\n## S\r\n\r\n- new\r\n"),
        ("  + a  \n", "", "  + a  \n  + new\n"),
        ("999999999) a", "", "999999999) a\n999999999) new"),
        ("- # h\ntext\n", "", "- # h\n- new\n\ntext\n"),
        ("# T\n\n   ## S\n", "", "# T\n\n-   new\n\n   ## S\n"),
        ("```\n## S\n```\n", "S", "```\n## S\n```\n\n## S\n\n- new\n"),
    ],
    ids=range(22),
)
def test_an_entry_goes_where_people_expect_it(content: str, section: str, result: str) -> None:
    """An entry goes to the end of its section's list in the list's form, else after its text."""
    assert added(content, "new", section, TITLE) == (result, result.index("new"))


def test_an_entry_is_indented_as_far_as_its_text_begins() -> None:
    """The lines of an entry are indented to its first character, with the file's line ends."""
    assert added("10. a\r\n", "b\n\nc", "", "")[0] == "10. a\r\n11. b\r\n\r\n    c\r\n"
    assert replaced("-\ta\n", 2, 3, "b\nc") == "-\tb\n    c\n"
    assert replaced("-\n   a\n", 5, 6, "b\nc") == "-\n   b\n   c\n"


@pytest.mark.parametrize("open_end", ["```\ncode", "<!-- note", "<script>\n"])
def test_what_is_never_closed_has_no_place_for_an_entry(open_end: str) -> None:
    """A file whose code block or comment would swallow the entry is refused."""
    with pytest.raises(InvalidField, match="not closed"):
        added(f"# T\n\n{open_end}\n", "text", "", TITLE)


@pytest.mark.deep
def test_a_full_file_takes_no_more_entries() -> None:
    """A file with the largest number of passages takes no more entries."""
    content = "# T\n\n" + "- entry\n" * (MAX_PASSAGES - 1)
    content, _ = added(content, "last", "", TITLE)
    assert len(passages(content)) == MAX_PASSAGES
    with pytest.raises(InvalidField, match="4,096 passages already"):
        added(content, "one more", "", TITLE)


# Replaced and removed entries


def test_a_paragraph_that_is_said_anew_becomes_an_entry() -> None:
    """A replaced paragraph becomes an entry; a piece of a longer text is refused."""
    assert replaced("# T\n\nold\n\n## S\n", 5, 8, "# new") == "# T\n\n- # new\n\n## S\n"
    assert replaced("old\n\n  ## S\n", 0, 3, "new") == "-  new\n\n  ## S\n"
    content = "A sentence of a long text. " * 80
    piece = passages(content)[1]
    with pytest.raises(InvalidField, match=r"^text: "):
        replaced(content, piece.start, piece.end, "new")


@pytest.mark.parametrize(
    ("content", "gone", "result"),
    [
        ("# T\n\n- a\n- b\n- c\n", "b", "# T\n\n- a\n- c\n"),
        ("# T\n\n- b\n", "b", "# T\n"),
        ("# T\r\n\r\n- b\r\n\r\n## S\r\n", "b", "# T\r\n\r\n## S\r\n"),
        ("- a\n\n-\n  b\n  more\n\n- c\n", "b\n  more", "- a\n\n- c\n"),
        ("- a\n- b", "b", "- a\n"),
        ("text\n- b\n---\n", "b", "text\n\n---\n"),
        ("- a\n- # b\nlazy\n", "# b", "- a\n\nlazy\n"),
        ("text\n1. b\n2. c\n", "b", "text\n\n2. c\n"),
        ("# T\n\nold text\n\n- a\n", "old text", "# T\n\n- a\n"),
        ("- a\n\n1) b\n\n  ## S\n", "b", "- a\n<!-- -->\n\n  ## S\n"),
        ("- a\n\n1) b\n  - c\n- d\n", "b", "- a\n\n<!-- -->\n  - c\n- d\n"),
    ],
    ids=range(11),
)
def test_a_forgotten_entry_leaves_no_trace(content: str, gone: str, result: str) -> None:
    """A removed entry loses its marker and its line, and the blocks around it stay separate."""
    start = content.index(gone)
    assert removed(content, start, start + len(gone)) == result
    assert entries(result) == [entry for entry in entries(content) if entry[1] != clean(gone)]


@examples(150)
@given(files, st.data())
def test_entries_that_go_together_leave_the_others(content: str, data: st.DataObject) -> None:
    """Removed entries leave all others unchanged and in their places."""
    there = items(content)
    gone = [p for p in there if data.draw(st.booleans())]
    kept = [p for p in there if p not in gone]
    places = [(p.start, p.end) for p in gone]
    result, edits = memories.removed(content, places)
    assert memories.edited(content, edits) == result
    said = [clean(content[p.start : p.end]) for p in kept]
    assert [text for _, text in entries(result)] == said
    at = memories.moved([p.start for p in kept], edits)
    assert at == [p.start for p in items(result)]


def test_all_pieces_of_a_long_item_take_its_marker_along() -> None:
    """A removed item of several pieces leaves no marker."""
    content = f"- a\n- {'First part. ' * 120}\n\n  {'Second part. ' * 120}\n- b\n"
    pieces = passages(content)[1:-1]
    assert len(pieces) > 2
    assert removed(content, *(at for p in pieces for at in (p.start, p.end))) == "- a\n- b\n"


def test_a_thousand_entries_go_in_one_reading() -> None:
    """One call removes a thousand entries."""
    content = "# T\n\n" + "".join(f"- entry {i}\n" for i in range(2000))
    places = [(p.start, p.end) for p in passages(content)[::2]]
    result, _ = memories.removed(content, places)
    assert result == "# T\n\n" + "".join(f"- entry {i}\n" for i in range(1, 2000, 2))


@pytest.mark.parametrize("sentences", [100, 120])  # a paragraph is one passage, or several
def test_a_piece_of_a_long_item_goes_alone(sentences: int) -> None:
    """A long item remains one item after one of its pieces is removed."""
    content = f"- a\n- {'First part. ' * sentences}\n\n  {'Second part. ' * sentences}\n- b\n"
    mark = passages(content)[1:-1]
    for gone in mark:
        left = removed(content, gone.start, gone.end)
        first, *found, last = (left[p.start : p.end] for p in passages(left))
        kept = (content[p.start : p.end] for p in mark if p != gone)
        assert " ".join(found).split() == " ".join(kept).split()
        assert (first, last) == ("a", "b")
        assert len(list(markdown.outline(left, 0))) == 3


def test_a_file_is_bare_when_nobody_would_miss_it() -> None:
    """A file of only headings, front matter and white space is bare; a comment is content."""
    for content in ("", "\ufeff", "# T\n\nS\n---\n", "---\nk: v\n---\n\n## S\n \n"):
        assert is_bare(content)
    for content in ("# T\n\n- a\n", "text", "# T\n<!-- mine -->\n", "***", "-"):
        assert not is_bare(content)
