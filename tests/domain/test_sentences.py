"""Sentences of texts in English, Chinese and both; `sentence_cuts.jsonl` was cut by people."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingd.domain.sentences import sentence_ends, sentences

TABLE = [
    json.loads(line)
    for line in (Path(__file__).parent / "sentence_cuts.jsonl").read_text("utf-8").splitlines()
]

IN_DOUBT = ("It failed.Try again.It worked.", "这个 API 太慢了...换一个吧。")
"""Texts of the table that could be names in code, or go on."""

SIGNS = st.text(st.sampled_from(list("aI1A .!?…。！？”“\"')（）》\n-🎉,她说")), max_size=60)


@pytest.mark.parametrize("row", TABLE, ids=range(len(TABLE)))
def test_sentences_are_those_that_people_see(row: dict[str, object]) -> None:
    """Every text of the table is cut as people cut it, but for two that are in doubt."""
    cut = sentences(str(row["text"]))
    assert (cut == row["sentences"]) is (row["text"] not in IN_DOUBT), cut


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("He lives at 5 Main St. and works a lot. She lives on Oak St. It is long.", 3),
        ("See e.g. Fig. 3 or Sec. 4.2, i.e. the end. Then stop.", 2),
        ("J. R. R. Tolkien wrote it. So did C. S. Lewis.", 2),
        ("So do I. Tom does too. It is made in 3D. Movies are fun.", 4),
        ("Takes .5 mg daily. Takes -5 mg. Use :q! Read a.b/c?d=e!f. Then go.", 5),
        ("Steps: 1. Open it. 2. Close it. Is it No. 5? No. It is 6.", 5),
        ("We met at 5 p.m. Monday. He came at 5 p.m. Tom left.", 3),
        ('"Stop!" Tom said. "Go!" We left. **Note.** Then this.', 5),
        ("I need:\n- milk\n- eggs", 3),
        ("A title\r\n\r\nA text of\r\ntwo lines.", 2),
        ("See approx.\n\nNext", 2),
        ("他问：“好吗？”我说好。“真的？”他问。", 3),
        ("真的吗?我不信!看https://a.cn/?问题，好吧", 3),
        ("今天（真的吗？）下雨了。他说“好。”的时候，我在Node.js里写。", 2),
        ("好的！🎉 🎉 我们走。", 2),
        ("。。。", 1),
        (" \n \n ", 0),
    ],
)
def test_sentences_end_where_they_should(text: str, count: int) -> None:
    """Abbreviations, initials, numbers, paths, quotations and items do not hide or make ends."""
    assert len(sentences(text)) == count, sentences(text)


@given(SIGNS)
def test_the_ends_part_the_whole_text(text: str) -> None:
    """The ends rise, are behind white space, and the last one is the end of the text."""
    ends = sentence_ends(text)
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(text)] if text else [])
    assert all(end == len(text) or not text[end].isspace() for end in ends)
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


REPEATED = (
    *(".", "!x", ".\n", "\n", "\r\n", " ", "\n ", "\n\n- ", "a. ", "1. ", "… ", "。", ".)))"),
    *("U.S.", ".😀 ", '."', "？”说", "（？）", "a（？）", "“好？”说 ", "x/y?是", "\n    a"),
)


@pytest.mark.parametrize("unit", REPEATED)
def test_no_text_takes_long(unit: str) -> None:
    """A text of 256 KiB is cut in a second, whatever it repeats; a quadratic rule takes minutes."""
    text = unit * ((1 << 18) // len(unit))
    began = time.process_time()
    assert sentence_ends(text)[-1] == len(text)
    assert time.process_time() - began < 20
