"""The comparison of two entries of a memory file by their words."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vikingd.memory.entry_comparison import differs, normalized, wording_of


def lines(name: str) -> list[dict[str, Any]]:
    """Return the pairs of a file beside this one."""
    path = Path(__file__).parent / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


PAIRS = lines("said_again.jsonl")
EDGES = lines("remember_pairs.jsonl")
texts = st.text('aAß1*_ .!?"“”「」中。，ﾞﾟＡ\u0301ﬁ\u00a0\n-', max_size=40) | st.text(max_size=20)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Prefers tea.", "prefers tea"),
        ("Prefers\n tea!!", "prefers tea"),
        ("Prefers tea. Hates coffee.", "prefers tea. hates coffee"),
        ("«Prefers tea.»", "prefers tea"),
        ("__Prefers tea__", "prefers tea"),
        ("_喜欢喝茶_", "喜欢喝茶"),
        ("喜欢喝茶。Python 也行", "喜欢喝茶。python也行"),
        ("Ｐｒｅｆｅｒｓ　ｔｅａ．", "prefers tea"),
        ("Prefers **green** tea", "prefers green tea"),
        ("*Prefers **green** tea*", "prefers green tea"),
        ("***Diet:*** no meat", "diet: no meat"),
        ("**Prefers tea.**", "prefers tea"),
        ("“Prefers tea.”", "prefers tea"),
        ("喜欢喝茶。", "喜欢喝茶"),
        ("喜欢 喝茶！", "喜欢喝茶"),
        ("使用 Python　３", "使用Python 3"),
        ("用户喜欢**绿茶**", "用户喜欢绿茶"),
        ("「喜欢喝茶。」", "喜欢喝茶"),
    ],
)
def test_form_alone_makes_no_other_entry(one: str, other: str) -> None:
    """Width, case, white space, emphasis, quotes and the full stop do not make another text."""
    assert normalized(one) == other == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("- tea", "tea"),
        ("1. tea", "tea"),
        ("tea?", "tea"),
        ("-1", "1"),
        (".env", "env"),
        ("#tea", "tea"),
        ("__init__", "init"),
        ("__init__ and __call__", "init__ and __call"),
        ("run git add .", "run git add"),
        ("cd ..", "cd ."),
        ("is 10² m", "is 102 m"),
        ("ships to US", "ships to us"),
        ("US law", "us law"),
        ("getName fails", "getname fails"),
        ("see getName", "see getname"),
        ("2*3*4", "234"),
        ("2**3**4", "234"),
        ("read *.md and *.txt", "read .md and .txt"),
        ("pass *args", "pass args"),
        ("a * b * c", "a b c"),
        ("* 中*", "中"),
        ("2*3 is b*", "23 is b"),
        ("*a b*c", "a bc"),
        ("*a b**", "a b"),
        ("C++", "C"),
        ("“a” or “b”", "a” or “b"),
        ("tea 👍", "tea 👎"),
    ],
)
def test_what_may_be_content_stays(one: str, other: str) -> None:
    """Bullets, signs, globs, products, the question mark and the case of letters are kept."""
    assert normalized(one) != normalized(other)
    assert normalized(normalized(one)) == normalized(one)


@given(texts)
@example("ß\u0301\uff9e 1")  # folded, the sound mark is before the space, without accent
@example("1 \u0301 \uff9e")  # the marks change places when the spaces are removed
@settings(deadline=None)
def test_to_normalise_again_changes_nothing(text: str) -> None:
    """The normal form of a normal form is the same, and a text does not differ from itself."""
    once = normalized(text)
    assert normalized(once) == once
    assert not differs(text, text)
    assert wording_of(once).text == once


@given(texts, texts)
@settings(deadline=None)
def test_neither_text_comes_first(one: str, other: str) -> None:
    """The comparison of two texts is symmetric."""
    assert differs(one, other) == differs(other, one)
    assert differs(one, other) or wording_of(one).words == wording_of(other).words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user likes the tea", "user likes tea, please"),
        ("Doesn't eat meat", "does not eat meat"),
        ("doesn’t like meat", "Dislikes meat"),
        ("Can't swim", "cannot swim"),
        ("has two kids", "has 2 children"),
        ("meets at three on Fri", "meets at 3 on Friday"),
        ("On Friday, we swim", "We swim on Friday."),
        ("In June, Tom left", "Tom left in June"),
        ("She says they're early", "she says they are early"),
        ("Reads «Emma» on Fri", "reads “Emma” on Friday"),
        ("请用 Python 写", "使用Python写"),
        ("星期五下午三点开会", "周五下午3点开会"),
        ("每天早上都跑步", "每天早晨跑步"),
    ],
)
def test_the_same_words_are_let_through(one: str, other: str) -> None:
    """Articles, contractions, number words, some synonyms and a leading phrase are ignored."""
    assert not differs(one, other)
    assert wording_of(one).words == wording_of(other).words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("meets at 3 pm", "meets at 4 pm"),
        ("meets at 3:15", "meets at 3:45"),
        ("costs 1,000 euros", "costs 1,001 euros"),
        ("has two cats", "has three cats"),
        ("likes tea", "does not like tea"),
        ("喜欢茶", "不喜欢茶"),
        ("Alice likes tea", "Bob likes tea"),
        ("is on Tuesday", "is on Thursday"),
        ("likes tea", "liked tea"),
        ("likes tea", "likes green tea"),
        ("is called Tom", "called Tom"),
        ("vitamin A helps", "vitamin helps"),
        ("likes tea", "likes tea?"),
        ("No, sugar is fine", "No sugar is fine"),
        ("他说不，喜欢茶", "他说不喜欢茶"),
        ("系统使用户满意", "系统用户满意"),
        ("uses C++", "uses C#"),
        ("tea 👍", "tea 👎"),
        ("the", "a"),
        ("x" * 80, "x" * 79 + "y"),
        ("Alice owes Bob 20 euros", "Bob owes Alice 20 euros"),
        ("moved from Tuesday to Thursday", "moved from Thursday to Tuesday"),
        ("屡败屡战", "屡战屡败"),
        ("On Friday we swim", "We swim on Sunday"),
        ("On Friday getName failed", "getname failed on Friday"),
        ("At 5 IT closes", "it closes at 5"),
        ('measures 5" across', "measures 5' across"),
        ('measures 5" across', "measures 5 across"),
        ("returns int[] there", "returns int there"),
        ("runs save! there", "runs save there"),
        ("stored on C: here", "stored on C here"),
        ("type ./run here", "type run here"),
        ("run git add . first", "run git add first"),
        ("用:q退出", "用q退出"),
        ("用.NET写", "用NET写"),
        ("On Friday not the office is closed", "the office is closed on Friday not"),
        ("On Friday only the office is closed", "only the office is closed on Friday"),
        ("likes tea", "喜欢茶"),
    ],
)
def test_other_words_rule_it_out(one: str, other: str) -> None:
    """Another number, negation, name, tense, detail, order or language is another fact."""
    assert differs(one, other)


def test_no_different_pair_is_let_through_by_its_words() -> None:
    """The words alone tell apart each pair that is not the same."""
    assert [
        pair for pair in PAIRS if not pair["same"] and not differs(pair["one"], pair["other"])
    ] == []


def test_the_pairs_are_many_and_in_both_languages() -> None:
    """At least 60 pairs are the same, at least 120 are not, and no pair is repeated."""
    counts = {same: sum(pair["same"] == same for pair in PAIRS) for same in (True, False)}
    assert counts[True] >= 60
    assert counts[False] >= 120
    assert {pair["lang"] for pair in PAIRS} == {"en", "zh", "en-zh"}
    assert len({(pair["one"], pair["other"]) for pair in PAIRS}) == len(PAIRS)


def test_paraphrases_that_are_found_stay_found() -> None:
    """The words find at least 11 of the pairs that say the same."""
    assert sum(pair["same"] and not differs(pair["one"], pair["other"]) for pair in PAIRS) >= 11


def named(pair: dict[str, Any]) -> str:
    """Return the name of a case."""
    return f"{pair['language']}: {pair['one']} / {pair['other']}"


@pytest.mark.parametrize("pair", [p for p in EDGES if p["kind"] == "differs"], ids=named)
def test_signs_case_and_numbers_keep_memories_apart(pair: dict[str, Any]) -> None:
    """A sign at the edge of a word, a letter's case, a number or a unit makes another memory."""
    assert differs(pair["one"], pair["other"])
    assert normalized(pair["one"]) != normalized(pair["other"])


@pytest.mark.parametrize("pair", [p for p in EDGES if p["kind"] == "repeat"], ids=named)
def test_another_form_is_no_other_memory(pair: dict[str, Any]) -> None:
    """Form, a sentence's first letter, articles and contractions make no other memory."""
    one, other = pair["one"], pair["other"]
    assert normalized(one) == normalized(other) or not differs(one, other)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "hostile",
    [
        "a",
        "a ",
        "é",
        "*",
        "*a ",
        "*a* ",
        "**a",
        "中",
        "中 ",
        " *中",
        "“",
        "\"'",
        "n't ",
        "on ",
        "on a ",
        "every ",
        "每",
        "每都",
        "\ufdfa",
        "\u0301\u0316",
        "\u0301\uff9e",
        "a,",
        ",",
        ".",
        "not ",
        "\ud800",
    ],
)
def test_time_is_linear_in_hostile_text(hostile: str) -> None:
    """200,000 hostile characters are compared in seconds."""
    text = "on é" + hostile * (200_000 // len(hostile))
    start = time.thread_time()
    normalized(text)
    differs(text, text[4:] + text[:4])
    assert time.thread_time() - start < 15
