"""Abstracts and overviews of directories."""

from __future__ import annotations

import random
import re

import pytest

from vikingd.describe.directory_description import (
    MAX_OVERVIEW,
    Child,
    directory_abstract,
    directory_overview,
)
from vikingd.domain.text import HAN, LATIN, script_of
from vikingd.ingest.abstracts import MAX_ABSTRACT


def file(name: str, abstract: str = "", title: str = "") -> Child:
    """Return a file."""
    return Child(name, False, title, abstract)


def directory(name: str, abstract: str = "", title: str = "") -> Child:
    """Return a directory."""
    return Child(name, True, title, abstract)


def turns(*said: str) -> list[Child]:
    """Return the turns of a conversation."""
    return [file(f"{at:03}", text) for at, text in enumerate(said)]


LOGIN = file("login.md", "Users log in with a password or a passkey.", "Login")
BILLS = file("bills.md", "Invoices are sent monthly as PDF. They have numbers.", "Invoices")
CODE = file("app.py", "class App; def run(self, host: str); def stop(self)", "src/app.py")
BAR = file("bar.md", "柱状图用柱子的高度显示数值。", "柱状图")
LINE = file("line.md", "折线图展示随着时间推移的变化。", "折线图")


@pytest.mark.parametrize(
    ("children", "abstract"),
    [
        ([], ""),
        ([file("a.md")], "a"),
        ([file("a.md", "One is here. It says two things.")], "One is here. It says two things."),
        # A file that describes the directory does so, in the order of an import.
        ([LOGIN, file("README.md", "How to use the shop.")], "How to use the shop."),
        ([file("index.md", "The index."), file("SKILL.md", "The skill."), LOGIN], "The index."),
        ([file("README.md"), LOGIN], "Login: Users log in with a password or a passkey. README"),
        (
            [directory("README.md", "No file."), BILLS],
            "README.md: No file. Invoices are sent monthly as PDF.",
        ),
        # Sentences of all, with a title where the sentence lacks its words.
        (
            [LOGIN, BILLS],
            "Invoices are sent monthly as PDF. Login: Users log in with a password or a passkey.",
        ),
        ([CODE], "class App; def run(self, host: str); def stop(self)"),
        (
            [CODE, LOGIN],
            "app.py: class App; def run(self, host: str); def stop(self); "
            "Login: Users log in with a password or a passkey.",
        ),
        ([BAR, LINE], "柱状图用柱子的高度显示数值。折线图展示随着时间推移的变化。"),
        ([BAR, directory("高级"), directory("入门")], "柱状图用柱子的高度显示数值。入门、高级"),
        # Directories without abstracts are named; of numbered ones the first and the last one.
        ([directory("widgets"), directory("events"), directory("css")], "css, events, widgets"),
        ([directory(f"session_{n:02}") for n in range(1, 20)], "session_01 … session_19"),
        # Of a conversation neither speakers, greetings nor thanks count.
        (
            turns(
                "Mel: Hey! Long time no see!",
                "Ann: I adopted a puppy from the shelter.",
                "Mel: Wow!",
                "Ann: Thanks! Bye!",
            ),
            "Ann: I adopted a puppy from the shelter.",
        ),
        (
            turns("User: Thanks, that helps!", "User: My flight to Oslo leaves on Monday."),
            "My flight to Oslo leaves on Monday.",
        ),
        (
            turns("用户：你好！", "用户：我下周一去北京出差。", "用户：谢谢！"),
            "我下周一去北京出差。",
        ),
        # Data, tables and code tell nothing.
        (
            [file("a.txt", "layout: false index: true"), LOGIN],
            "Login: Users log in with a password or a passkey. a.txt",
        ),
        ([file("a.md", "```\nx = 1\n```"), file("b.md", "| a | b |")], "a, b"),
    ],
)
def test_the_abstract_of_a_directory(children: list[Child], abstract: str) -> None:
    """It is what a README says, else sentences of the children, and labels of the others."""
    assert directory_abstract(children) == abstract


def test_many_children_are_told_by_few_sentences_and_many_labels() -> None:
    """A sentence about what many children share comes before one about a single child."""
    rules = [file(f"rule-{n}.md", f"Rule {n} checks commas in arrays.") for n in range(30)]
    found = directory_abstract([*rules, file("zebra.md", "A zebra eats grass.")])
    assert "commas in arrays" in found
    assert len(found) <= MAX_ABSTRACT


def test_the_overview_of_few_children_has_a_line_for_each() -> None:
    """Directories come first; a title is told where name and sentence lack its words."""
    children = [LOGIN, BILLS, CODE, directory("sub"), file("pay.md", "How to pay here.", "Money")]
    assert directory_overview(children).split("\n") == [
        "- sub/",
        "- app.py: class App; def run(self, host: str); def stop(self)",
        "- bills.md: Invoices are sent monthly as PDF.",
        "- login.md: Users log in with a password or a passkey.",
        "- pay.md (Money): How to pay here.",
    ]
    assert directory_overview(children, 7).endswith("\n- … 7 more")
    assert directory_overview([]) == ""


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (
            [f"2024-{m:02}-{d:02}.md" for m in range(1, 5) for d in range(1, 29)],
            ["2024-01 (28)", "2024-04 (28)"],
        ),
        (
            [f"{p}_{n:03}" for p in ("test", "bench") for n in range(100)],
            ["bench* (100)", "test* (100)"],
        ),
        ([f"{n:04}" for n in range(300)], ["0000 – 0009 (10)"]),
        ([f"{c}word{n}.md" for c in "abcdefgh" for n in range(40)], ["A (40)", "H (40)"]),
    ],
    ids=["months", "beginnings", "numbers", "letters"],
)
def test_many_children_are_grouped(names: list[str], groups: list[str]) -> None:
    """Each group has a name and a count, and the counts are those of all children."""
    children = [file(name, "A sentence that says something about a thing. " * 2) for name in names]
    found = directory_overview(children, 5)
    assert all(f"- {group}" in found for group in groups)
    assert counted(found) == len(names) + 5
    assert len(found) <= MAX_OVERVIEW


def counted(overview: str) -> int:
    """Return the children that the lines of groups count, and those that are left out."""
    numbers = re.findall(r"^- .*? \(([\d,]+)\)|^- … ([\d,]+) more", overview, re.MULTILINE)
    return sum(int(one.replace(",", "")) for pair in numbers for one in pair if one)


WORDS = (
    "harbour boat sail wind invoice customer payment shelf library reader lamp garden tree river "
    "帆船 港口 客户 发票 图书馆 花园 河流"
)


def random_children(count: int, seed: int) -> list[Child]:
    """Return children of many kinds."""
    one = random.Random(seed)

    def sentence() -> str:
        said = [one.choice(WORDS.split()) for _ in range(one.randint(1, 30))]
        return " ".join(said).capitalize() + one.choice((".", "!", "。", "", ":", "?"))

    return [
        Child(
            one.choice(
                (
                    f"{n:03}",
                    f"{one.choice(WORDS.split())}-{n}.md",
                    f"{one.choice(WORDS.split())}{n}.py",
                )
            ),
            one.random() < 0.2,
            one.choice(("", sentence()[:50])),
            one.choice(("", " ".join(sentence() for _ in range(one.randint(1, 9))))),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [1, 3, 12, 60, pytest.param(2000, marks=pytest.mark.deep)])
def test_what_is_said_of_any_children(count: int) -> None:
    """It is short, the same in any order, and has no word that is not below."""
    for seed in range(3 if count < 100 else 1):
        children = random_children(count, seed)
        abstract, overview = directory_abstract(children), directory_overview(children)
        assert len(abstract) <= MAX_ABSTRACT
        assert len(overview) <= MAX_OVERVIEW
        random.Random(seed).shuffle(children)
        assert (directory_abstract(children), directory_overview(children)) == (abstract, overview)
        below = words(" ".join(f"{name} {title} {said}" for name, _, title, said in children))
        # The last word of a text that is cut may be a part of a word.
        assert words(re.sub(r"\w+…", "", abstract)) <= below


def words(text: str) -> set[str]:
    """Return the words and Chinese characters of a text."""
    return set(re.findall(r"[a-z0-9]+|[^\W\x00-\x7f]", text.lower()))


def test_the_language_is_that_of_the_children() -> None:
    """Chinese children give Chinese text, and English ones English text."""
    assert script_of(directory_abstract([BAR, LINE])) == HAN
    assert script_of(directory_abstract([LOGIN, BILLS])) == LATIN


HOSTILE = {
    "long": "a" * 1_000_000,
    "sentences": "A b c d. " * 100_000,
    "Chinese": "中文句子。" * 200_000,
    "space": " " * 1_000_000,
    "lines": "\n" * 1_000_000,
    "control": "".join(map(chr, range(32))) * 30_000,
    "right to left": "\u202eשלום עולם. " * 80_000,
    "links": "[[a|" * 250_000,
    "quotes": "`<" * 500_000,
    "colons": "a: " * 300_000,
    "marks": "。！？" * 300_000,
    "signs": "({[|" * 250_000,
    "surrogates": "\ud800 \udfff. " * 1_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_children_are_described_in_bounded_space(text: str) -> None:
    """No text raises or makes a long answer, and no control character is shown."""
    names = text[:200] or "a", f"{text[:20]}.py", "b.md"
    children = [Child(name, at == 0, text, text) for at, name in enumerate(names)]
    for found, most in (
        (directory_abstract(children), MAX_ABSTRACT),
        (directory_overview(children), MAX_OVERVIEW),
    ):
        assert len(found) <= most
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", found)
