"""Contents that are cut into passages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.ingest_helpers import LONG, SENTENCE, pieces
from tests.tiers import examples
from vikingd.domain.contexts import Passage
from vikingd.domain.text import approximate_tokens
from vikingd.ingest.passages import MAX_PASSAGES, MAX_TOKENS, TARGET_TOKENS, TokenCount, split

NAMES = ("a.md", "a.txt", "a.py")


def assert_sound(content: str, name: str) -> list[Passage]:
    """Split a content, check order and form of the passages, and return them."""
    passages = split(content, name)
    position = 0
    for p in passages:
        text = content[p.start : p.end]
        assert position <= p.start < p.end
        assert text == text.strip()
        assert len(p.section.encode()) <= 1024
        position = p.end
    assert len(passages) <= MAX_PASSAGES
    return passages


# Cutting


@pytest.mark.deep_after(12)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content",
    [
        "x" * 1_000_000,
        "中" * 150_000,
        "\n" * 100_000 + "}",
        "." * 500_000,
        "[" * 200_000,
        "> " * 50_000,
        "```\n" + "code\n" * 10_000,
        "中文。" * 20_000,
        "a\r\n\r\n" * 15_000,
        SENTENCE * 5_000,
        "def f():\n    return 1\n\n\n" * 4_000,
    ],
    ids=range(11),
)
def test_hostile_contents_are_cut_soundly_and_soon(content: str, name: str) -> None:
    """Passages of hostile contents are in order and within the bound."""
    passages = assert_sound(content, name)
    assert all(approximate_tokens(content[p.start : p.end]) <= MAX_TOKENS for p in passages)


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            [
                "# A\n",
                "## B {#b}\n",
                "Title\n===\n",
                "```\n",
                "- item\n",
                "> quote\n",
                "|a|\n|-|\n",
                "\n",
                "\r\n",
                "   ",
                LONG,
                "中文句子。" * 20,
                "<!-- -->",
                "---\n",
                "\ufeff",
                "word\n",
            ]
        ),
        max_size=40,
    ),
    st.sampled_from(NAMES),
)
def test_any_mixture_of_markup_is_cut_soundly(parts: list[str], name: str) -> None:
    """Passages of any markup are in order and within the bound; plain files lose no sentence."""
    content = "".join(parts)
    passages = assert_sound(content, name)
    kept = "".join(content[p.start : p.end] for p in passages)
    assert all(approximate_tokens(content[p.start : p.end]) <= MAX_TOKENS for p in passages)
    if name != "a.md":
        assert kept.count("fox") == content.count("fox")
        assert kept.count("句") == content.count("句")


@examples(200)
@given(st.text(alphabet="ab 中文한カ。é", max_size=60), st.data())
def test_ranges_have_the_tokens_of_their_text(content: str, data: st.DataObject) -> None:
    """`count` equals `approximate_tokens` of the range, and `reach` is its inverse."""
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    bound = data.draw(st.integers(1, 20))
    tokens = TokenCount(content)
    assert tokens.count(start, end) == approximate_tokens(content[start:end])
    fitting = [i for i in range(start, end + 1) if approximate_tokens(content[start:i]) <= bound]
    assert tokens.reach(start, end, bound) == fitting[-1]


def test_headings_give_the_section_path() -> None:
    """The section of a passage is the path of its headings, without anchors and markup."""
    content = (
        f"# The *Guide* {{ #guide }}\n\n{LONG}\n\n## Set up {{.wide}}\n\n{LONG}\n\n"
        f"Deeper `code`\n-------------\n\n### Third\n\n{LONG}\n\n# Other\n\n{LONG}"
    )
    assert pieces(content) == [
        ("The Guide", LONG.strip()),
        ("The Guide > Set up", LONG.strip()),
        ("The Guide > Deeper code > Third", LONG.strip()),
        ("Other", LONG.strip()),
    ]


def test_a_heading_with_nothing_below_it_is_still_text() -> None:
    """A heading without text joins the passage before it, unless it has a subsection."""
    content = f"# A\n\n{LONG * 3}\n\n## Bare words\n\n## B\n\n### C\n\n{LONG}"
    assert pieces(content) == [
        ("A", f"{LONG * 3}\n\n## Bare words"),
        ("A > B > C", LONG.strip()),
    ]


def test_front_matter_and_a_byte_order_mark_are_in_no_passage() -> None:
    """Front matter and byte order mark are in no passage, and headings after them are found."""
    content = f"\ufeff---\ntitle: T\n---\n# H\n\n{LONG * 4}"
    passages = pieces(content)
    assert {section for section, _ in passages} == {"H"}
    assert not any("title: T" in text or "\ufeff" in text for _, text in passages)


def test_a_fence_that_fits_is_never_cut() -> None:
    """A code fence within the bound stays whole, and its comments are no headings."""
    fence = "```python\n# not a heading\n\n" + "call(argument)\n\n" * 60 + "```"
    assert TARGET_TOKENS < approximate_tokens(fence) <= MAX_TOKENS
    content = f"# H\n\n{LONG * 3}\n\n{fence}\n\n{LONG * 3}"
    assert ("H", fence) in pieces(content)


def test_a_fence_that_is_too_long_is_cut_at_its_lines() -> None:
    """A fence above the bound is cut between its lines, even if the fence is not closed."""
    content = "# H\n\n```\n" + "".join(f"line number {i} of the code\n" for i in range(200))
    passages = pieces(content)
    assert len(passages) > 3
    assert all(text.splitlines()[0].startswith(("line", "```")) for _, text in passages)
    assert all(text.endswith("of the code") for _, text in passages)


@pytest.mark.parametrize("line", ["- an item of the list with words", "| a cell | and another |"])
def test_lists_and_tables_that_fit_stay_whole(line: str) -> None:
    """A list or table within the bound stays whole between long texts."""
    rows = [line] * 30
    if line.startswith("|"):
        rows.insert(1, "|---|---|")
    block = "\n".join(rows)
    assert approximate_tokens(block) <= MAX_TOKENS
    assert ("H", block) in pieces(f"# H\n\n{LONG * 3}\n\n{block}\n\n{LONG * 3}")


def test_a_list_that_is_too_long_is_cut_between_its_items() -> None:
    """A list above the bound is cut between items, and a fence inside an item stays whole."""
    item = f"- {SENTENCE}\n\n  ```\n  one\n\n  two\n  ```\n"
    passages = pieces("# H\n\n" + item * 30)
    assert len(passages) > 2
    assert all(text.count("```") % 2 == 0 for _, text in passages)


def test_small_neighbours_join_within_a_section_only() -> None:
    """Short paragraphs of one section are one passage, without paragraphs of other sections."""
    content = f"# A\n\none\n\ntwo\n\n## B\n\nthree\n\nfour\n\n## C\n\n{LONG * 4}"
    assert pieces(content)[:2] == [("A", "one\n\ntwo"), ("A > B", "three\n\nfour")]


def test_a_short_content_is_one_passage() -> None:
    """A short content is one passage below the headings that all of it shares."""
    assert pieces("# A\n\none\n\n## B\n\ntwo") == [("A", "one\n\n## B\n\ntwo")]


def test_lines_end_alike_on_all_systems() -> None:
    """CRLF, CR and LF give the same sections and texts."""
    content = f"# A\n\n{LONG}\n\n- x\n- y\n\n## B\n\n{LONG * 5}\n\n{LONG}"
    expected = [(s, t.split()) for s, t in pieces(content)]
    for end in ("\r\n", "\r"):
        assert [(s, t.split()) for s, t in pieces(content.replace("\n", end))] == expected


def test_text_is_cut_at_the_ends_of_sentences() -> None:
    """A long paragraph is cut at the ends of sentences, in English and in Chinese."""
    for content in (SENTENCE * 40, "我们在周二和周四发布新版本，周五从不发布。" * 40):
        passages = pieces(content, "a.txt")
        assert len(passages) > 2
        assert all(text.endswith((".", "。")) for _, text in passages)


def test_code_without_a_grammar_is_cut_at_top_level_blocks() -> None:
    """Code without a grammar is cut at top-level blocks. None of them has a heading."""
    body = "".join(f"    value_{i} = compute(value, {i})\n\n" for i in range(25))
    content = f"require x\n\n\n# why\n@cached\ndef first(a)\n{body}\n\nmodule Second\n{body}"
    assert [(section, text.split("\n")[0]) for section, text in pieces(content, "a.ex")] == [
        ("", "require x"),  # a short block joins the next one
        ("", "module Second"),
    ]


def test_too_many_headings_still_make_a_valid_draft() -> None:
    """Passages of neighbours join until the limit of passages holds, and no text is lost."""
    content = "".join(f"# h{i}\n\nbody {i}\n" for i in range(9_000))
    passages = assert_sound(content, "a.md")
    assert "".join(content[p.start : p.end] for p in passages).count("body") == 9_000


def test_contents_without_a_word_have_no_passages() -> None:
    """Contents of white space, rules or a byte order mark alone have no passages."""
    for name in NAMES:
        assert [split(content, name) for content in ("", " \n\t", "---\n\n***\n", "\ufeff")] == [
            []
        ] * 4


@pytest.mark.parametrize("size", [1 << 14, pytest.param(2 << 20, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("space", "name"), [(" ", "a.md"), ("\t", "a.py"), ("\n", "a.txt"), ("\u3000", "a.md")]
)
def test_much_white_space_is_passed_over(space: str, name: str, size: int) -> None:
    """White space of up to two mebibytes around words is in no passage."""
    white = space * (size // 3)
    content = f"{white}One.{white}Two.{white}"
    assert [content[p.start : p.end] for p in split(content, name)] == ["One.", "Two."]
    assert split(white, name) == []


# Entries


def test_each_list_item_of_a_memory_is_a_passage_of_its_own() -> None:
    """Each item is a passage without its marker; a nested list belongs to its item."""
    content = (
        "---\nk: v\n---\n# T\n\nIntro.\n\n- tea\n- [ ] buy milk\n\n* star  \n  more\n\n"
        "## S\n\n9. nine\n   - inner\n10) ten\n\n-\n  low\n\n-\n\nOne.\n\nTwo.\n\n> - quoted\n"
    )
    assert pieces(content, entries=True) == [
        ("T", "Intro."),
        ("T", "tea"),
        ("T", "[ ] buy milk"),
        ("T", "star  \n  more"),
        ("T > S", "nine\n   - inner"),
        ("T > S", "ten"),
        ("T > S", "low"),
        ("T > S", "One.\n\nTwo.\n\n> - quoted"),
    ]
    found = pieces(content.replace("\n", "\r\n"), entries=True)
    assert [(s, t.replace("\r\n", "\n")) for s, t in found] == pieces(content, entries=True)


def test_a_memory_without_a_list_is_cut_like_any_file() -> None:
    """A memory without a list, or without Markdown, is cut like any other file."""
    for content in ("# A\n\none\n\n## B\n\ntwo", f"# A\n\n{LONG * 4}\n\n```\n- x\n```\n\n{LONG}"):
        assert pieces(content, entries=True) == pieces(content)
    assert pieces("- a\n- b", "a.txt", entries=True) == [("", "- a\n- b")]


def test_a_long_item_is_cut_and_joins_no_neighbour() -> None:
    """A long item is cut into passages of its own, and an item that just fits stays whole."""
    fits = "x" * (4 * MAX_TOKENS)
    content = f"- {fits}\n{' ' * 500}\n\n- a\n- {SENTENCE * 30}\n\n  b\n\n  c\n- d\n"
    (_, first), (_, second), *cut, (_, last) = pieces(content, entries=True)
    assert (first, second, last) == (fits, "a", "d")
    assert len(cut) > 1
    assert cut[0][1].startswith("The quick")
    assert cut[-1][1].endswith("b\n\n  c")


def test_headings_of_many_spaces_are_read_soon() -> None:
    """Attributes of a heading are removed even after thousands of spaces."""
    content = f"# a{' ' * 4000}b\n" * 250 + f"# c{' ' * 3000}{{#id}}\n\ntext\n"
    found = split(content, "a.md")
    assert [p.section for p in found if content[p.start : p.end] == "text"] == ["c"]


@pytest.mark.deep
def test_many_entries_are_cut_soon() -> None:
    """Long, deep and empty items give few passages, and many items stay apart."""
    assert len(split("- entry\n" * 30_000, "a.md", entries=True)) == 30_000
    for content in ("- " + "line\n  " * 30_000, "- " * 20_000, "-\n\n" * 20_000):
        assert len(split(content, "a.md", entries=True)) <= MAX_PASSAGES
