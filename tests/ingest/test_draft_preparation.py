"""The texts of a context, and the limits of a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.ingest.ingest_helpers import FILE
from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import HAN, LATIN
from vikingd.ingest.draft_preparation import check, prepare

# Texts of a context


def test_a_directory_has_one_text_or_none() -> None:
    """A directory has one text of its title and abstract, or none without them."""
    directory = Draft("viking://resources/a", is_directory=True)
    assert prepare(directory).texts == ()
    (text,) = prepare(replace(directory, title="T", abstract="About.", vector=b"1234")).texts
    assert (text.ordinal, text.text, text.script, text.vector) == (0, "T\nAbout.", LATIN, b"1234")


def test_a_short_file_is_its_passage_alone() -> None:
    """An abstract that repeats the only passage is no text, and its vector is the passage's."""
    prepared = prepare(
        Draft(FILE, content="# T\n\n我们在周二发布新版本。", title="T", vector=b"1234")
    )
    (text,) = prepared.texts
    assert prepared.abstract == "我们在周二发布新版本。"
    assert (text.ordinal, text.text, text.script, text.vector) == (
        1,
        "T\n我们在周二发布新版本。",
        HAN,
        b"1234",
    )
    assert prepared.draft.content[text.start : text.end] == "我们在周二发布新版本。"


def test_an_abstract_of_its_own_is_a_text() -> None:
    """An abstract from the writer or the front matter is a text of its own."""
    given_one = prepare(Draft(FILE, content="The only passage.", abstract="Given.", vector=b"1234"))
    stated = prepare(Draft(FILE, content="---\nsummary: Stated.\n---\nThe only passage."))
    assert [(t.ordinal, t.text, t.vector) for t in given_one.texts] == [
        (0, "Given.", b"1234"),
        (1, "The only passage.", b""),
    ]
    assert [(t.ordinal, t.text) for t in stated.texts] == [(0, "Stated."), (1, "The only passage.")]


def test_several_passages_follow_the_abstract() -> None:
    """Given passages are taken as they are, with their vectors and headings."""
    draft = Draft(
        FILE,
        content="First here. Second.",
        title="T",
        passages=[Passage("S", 0, 11, b"1234"), Passage("T > U", 12, 19)],
    )
    assert [(t.ordinal, t.text, t.vector) for t in prepare(draft).texts] == [
        (0, "T\nFirst here. Second.", b""),
        (1, "T > S\nFirst here.", b"1234"),
        (2, "T > U\nSecond.", b""),
    ]


def test_a_title_is_not_repeated_out_of_all_proportion() -> None:
    """A long title is shortened in the texts of a file with thousands of short passages."""
    uri, title = "viking://user/memories/notes.md", "word " * 200
    for count in (1, 60, 4000):
        content = "".join(f"- entry {i}\n" for i in range(count))
        _, *texts = prepare(Draft(uri, content=content, title=title, abstract="x")).texts
        assert len(texts) == count
        assert all(text.text.startswith("word word ") for text in texts)
        whole = [text.text.startswith(title) for text in texts]
        assert all(whole) if count < 100 else not any(whole)
    assert sum(len(text.text) for text in texts) < 20 * len(content)


def test_an_empty_file_has_an_empty_text() -> None:
    """A file without content has one text of its title, which may be empty."""
    assert [(t.ordinal, t.text) for t in prepare(Draft(FILE)).texts] == [(0, "")]
    assert [(t.ordinal, t.text) for t in prepare(Draft(FILE, title="T")).texts] == [(0, "T")]


# Limits


def test_a_valid_draft_comes_back_with_its_uri_in_one_form() -> None:
    """A draft exactly at the limits is valid, and its URI is normalized."""
    draft = Draft(
        "viking://resources/a/",
        abstract="中" * 2730,
        overview="o" * 65_536,
        content="c" * (2 << 20),
        title="t" * 1024,
        vector=bytes(8),
        time=0,
        metadata={"a": [1, 2.5, None, True, {"b": "c"}]},
        passages=[Passage("s" * 1024, i, i + 2) for i in range(4096)],
    )
    assert check(draft) == replace(draft, uri="viking://resources/a")
    assert check(Draft("viking://agent", is_directory=True, abstract="x"))
    overlapping = [Passage("s" * 1024, i, 8192 - 16 + i) for i in range(16)]
    assert check(Draft(FILE, content="c" * 8192, title="t" * 1024, passages=overlapping))
    short = [Passage("s" * 1024, i, i + 1) for i in range(4096)]
    assert check(Draft(FILE, content="c" * 4096, title="t" * 1024, passages=short))


def _nested(depth: int) -> dict[str, Any]:
    return {"a": _nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uri": "viking://resources/../a"}, "uri"),
        ({"uri": "viking://elsewhere/a"}, "uri"),
        ({"uri": "viking://user/a"}, "uri"),
        ({"uri": "viking://resources"}, "uri"),
        ({"uri": "viking://projects/x/memories"}, "uri"),
        ({"abstract": "中" * 2731}, "abstract"),
        ({"overview": "x" * 65_537}, "overview"),
        ({"content": "x" * ((2 << 20) + 1)}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"content": "a\ud800"}, "content"),
        ({"title": "x" * 1025}, "title"),
        ({"title": "\udfff"}, "title"),
        ({"metadata": {"a": {"b": [float("nan")]}}}, "metadata.a.b[0]"),
        ({"metadata": {"a": 10**400}}, "metadata.a"),
        ({"metadata": {"a": b"x"}}, "metadata.a"),
        ({"metadata": {1: "x"}}, "metadata"),
        ({"metadata": {"a\0": "x"}}, "metadata"),
        ({"metadata": {"a": "x" * 65_536}}, "metadata"),
        ({"metadata": _nested(200)}, "metadata" + ".a" * 33),
        ({"vector": b"12345"}, "vector"),
        ({"passages": [Passage("", 0, 1)] * 4097}, "passages"),
        ({"passages": [Passage("", 0, 1), Passage("", 0, 2)]}, "passages[1].start"),
        ({"passages": [Passage("", -1, 1)]}, "passages[0].start"),
        ({"passages": [Passage("", 2, 2)]}, "passages[0].end"),
        ({"passages": [Passage("", 0, 8)]}, "passages[0].end"),
        ({"passages": [Passage("x" * 1025, 0, 1)]}, "passages[0].section"),
        ({"passages": [Passage("", 0, 1, b"1")]}, "passages[0].vector"),
        (
            {"content": "c" * 8192, "passages": [Passage("", i, 8192) for i in range(17)]},
            "passages",
        ),
        ({"is_directory": True}, "content"),
        ({"is_directory": True, "content": "", "passages": [Passage("", 0, 1)]}, "passages"),
        ({"time": 1 << 62}, "time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_limit_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    """A draft above a limit is refused, and the error has the path of the field."""
    with pytest.raises(InvalidField) as refused:
        check(replace(Draft(FILE, content="content"), **change), "contexts[3]")
    assert refused.value.field == f"contexts[3].{field}"


def test_a_checked_draft_has_its_uri_and_title_as_they_are_read() -> None:
    """The URI becomes NFC and the title loses hidden characters; an equal draft stays itself."""
    checked = check(
        Draft("viking://resources/cafe\u0301.md", title="Con\xadfer\u200bence می\u200cخواهم")
    )
    assert checked.uri == "viking://resources/caf\xe9.md"
    assert checked.title == "Conference می\u200cخواهم"
    assert check(checked) is checked
