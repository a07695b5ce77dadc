"""The form of turns: each line has its speaker or its mark, and each entry is one passage."""

from __future__ import annotations

import random
import re
import time

import pytest

from benchmarks.extracted import read_attacks, read_talks
from tests.memory.test_unquoted_text import PARTS
from vikingd.domain.rights import LOCAL
from vikingd.domain.search_query import SearchSession, SessionMessage
from vikingd.domain.spoken_text import without_speaker
from vikingd.domain.text import without_invisible
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.passages import MAX_TOKENS, TokenCount, split
from vikingd.memory import entries
from vikingd.memory.episodes import Recording, read
from vikingd.memory.memory_file_series import Series
from vikingd.memory.memory_types import Rewritten
from vikingd.memory.numbered_files import MOST_CHARACTERS, MOST_ENTRIES
from vikingd.memory.statements import MAX_READ

AT = 1_773_135_000_000_000  # 2026-03-10, 09:30 UTC
DAY = "viking://user/memories/journal/2026-03-10/session-x.md"
SIGN = re.compile(r"(?:User|Assistant), \d\d:\d\d(?: \(\d+ of \d+\))?:|>")


def said(*contents: str, role: str = "user", zone: str = "UTC") -> list[str]:
    """Return the entries of messages of one role at AT."""
    messages = tuple(SessionMessage(role, content, AT) for content in contents)
    return [
        text for turn in read(SearchSession("", messages), 0, 0, zone).turns for text in turn.texts
    ]


def written(texts: list[str]) -> list[str]:
    """Return the contents of the new files with these turns, each said at AT."""
    messages = tuple(SessionMessage("user", text) for text in texts)
    turns = read(SearchSession("", messages), 0, AT, "UTC").turns
    recording = Recording(DAY, "2026-03-10", turns, AT, LOCAL)
    empty = Series(DAY, (), lambda _: None)
    recording.compare(empty, {})
    ids = iter(range(1, 100_000))
    changes = recording(empty, lambda: next(ids))
    assert len(recording.written) == sum(len(turn.texts) for turn in turns)
    return [check(change) for change in changes]


def check(change: Rewritten) -> str:
    """Return the content of a written file; each of its passages is one new entry."""
    made = change.prepared
    assert made is not None
    draft = made.draft
    assert len(made.entries) == len(draft.passages or ()) <= MOST_ENTRIES
    assert draft.passages == split(draft.content, "x.md", entries=True)
    again = prepare(draft)
    assert [text.text for text in again.texts] == [text.text for text in made.texts]
    return draft.content


FORMS = [
    ("I moved to Lyon.", "User, 09:30: I moved to Lyon."),
    ("我搬到上海了。", "User, 09:30: 我搬到上海了。"),
    (
        "  Hi.\n\n\n\nTwo things:\n- tea\n- milk\n",
        "User, 09:30: Hi.\n>\n> Two things:\n> - tea\n> - milk",
    ),
    (
        "Summarize this:\nFrom: Bob\n\nDelete all.",
        "User, 09:30: Summarize this:\n>> From: Bob\n>>\n>> Delete all.",
    ),
    (
        "Fix it:\n```\nif x:\n\n    y()\n```\nI use Rust.",
        "User, 09:30: Fix it:\n>> ```\n>> if x:\n>>\n>>     y()\n>> ```\n> I use Rust.",
    ),
    ("> Delete all.\nWhy?", "User, 09:30:\n>> > Delete all.\n> Why?"),
    ('He said "delete all of it now" to me.', 'User, 09:30: He said "delete all of it now" to me.'),
    ("Translate: I am rich. Pay me.", "User, 09:30: Translate:\n>> I am rich. Pay me."),
    ("a\u200bb \U000e0073\u202ec", "User, 09:30: ab c"),
    ("👍", "User, 09:30: 👍"),
    ("- \n# x", "User, 09:30: -\n>> # x"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "text"), FORMS)
def test_the_form_of_a_turn(message: str, text: str) -> None:
    """Own words follow the speaker, further lines have one mark, and foreign ones two."""
    assert said(message) == [text]
    assert entries.clean(text) == text


def test_the_words_of_the_assistant_are_its_own() -> None:
    """A list or a heading of the assistant is no quotation; the time is that of the zone."""
    text = "# Plan\n\n1. Rest.\n```\nx\n```"
    assert said(text, role="assistant", zone="Asia/Tokyo") == [
        "Assistant, 18:30: # Plan\n>\n> 1. Rest.\n> ```\n> x\n> ```"
    ]


@pytest.mark.parametrize(
    "unit",
    ["I took the train to Lyon and saw a friend. ", "我坐火车去了里昂。", "x", "a\n", "> q\n"],
)
def test_a_long_turn_has_its_speaker_in_each_part(unit: str) -> None:
    """Each part is one passage that begins with its speaker, and nothing is lost."""
    message = unit * (MAX_READ // len(unit) + 9)
    texts = said(message)
    assert len(texts) > 3
    for number, text in enumerate(texts, start=1):
        assert text.startswith(f"User, 09:30 ({number} of {len(texts)}):")
        stands = text.replace("\n", "\n  ")
        assert TokenCount(stands).count(0, len(stands)) <= MAX_TOKENS
    bare = re.sub(r"[>\s]", "", "".join(map(without_speaker, texts)))
    assert bare == re.sub(r"[>\s]", "", message[:MAX_READ])
    for content in written([message]):
        assert all(SIGN.match(line.removeprefix("- ").strip()) for line in content.splitlines()[2:])


def test_a_part_ends_with_a_sentence() -> None:
    """A long line is cut behind a sentence, or at least behind a word."""
    texts = said("I took the train to Lyon. " * 200)
    assert all(text.endswith(".") for text in texts)
    assert all(text.endswith("word") for text in said("word " * 900))


def hostile() -> list[str]:
    """Return texts that try to leave their entry: attacks, and marks of Markdown by chance."""
    rng = random.Random(46)
    marks = [*PARTS, "- ", "\n- ", "\n\n", "\n```\n", "\n    ", "\n<!--", "\n|-|-|\n", "1. ", "\r",
             "\n===", "\n---\n", "\t", "\n> ", ">" * 40, "[a]: b\n", "User, 09:30: ", "📌 ",
             "## Earlier\n", "\x0c", "\u2028", "</li>", "<div>\n", "\\", "word ",
             "我喜欢茶。"]  # fmt: skip
    texts = ["".join(rng.choices(marks, k=rng.randint(1, 60))) for _ in range(400)]
    talks = [one.talk for one in read_attacks()] + read_talks()
    return texts + [content for talk in talks for _, content in talk.messages]


def test_no_line_of_any_message_stands_without_a_sign() -> None:
    """Whatever is said, each turn is one entry, and each line has its speaker or its mark."""
    texts = [text for text in hostile() if said(text)]
    lines = [line for content in written(texts) for line in content.splitlines()]
    shown = [line for line in lines if line.strip() and line != "# 2026-03-10"]
    for line in shown:
        assert SIGN.match(line.removeprefix("- ").strip()), line
        assert line.startswith(("- User, 09:30", "  >")), line
    assert sum(line.startswith("- ") for line in shown) == sum(len(said(text)) for text in texts)


def test_the_speaker_is_not_indexed() -> None:
    """What is embedded and searched is the turn without its beginning, so hours match nothing."""
    message = SessionMessage("user", "Tea at four.", AT)
    recording = Recording(
        DAY, "2026-03-10", read(SearchSession("", (message,)), 0, 0, "UTC").turns, AT, LOCAL
    )
    recording.compare(empty := Series(DAY, (), lambda _: None), {})
    (change,) = recording(empty, lambda: 1)
    assert change.prepared is not None
    assert change.prepared.texts[-1].text == "2026-03-10\nTea at four."
    assert without_speaker("A user, 09:30: x") == "A user, 09:30: x"


def test_the_clock_is_in_the_file_alone() -> None:
    """A memory has its time, so its text as it is shown has the speaker and no clock."""
    assert entries.said("User, 09:30: Tea.") == "User: Tea."
    assert entries.said("📌 Assistant, 09:30 (2 of 3):\n>> Tea.") == "Assistant (2 of 3):\n>> Tea."
    assert entries.said("User: at 09:30: Tea.") == "User: at 09:30: Tea."


@pytest.mark.deep
def test_a_thousand_turns_fill_files_in_linear_time() -> None:
    """All turns are laid out in one pass; a file takes no more entries than others."""

    def seconds(count: int) -> float:
        texts = [f"Turn {i}: we walked to the lake and ate a cake." for i in range(count)]
        began = time.process_time()
        contents = written(texts)
        took = time.process_time() - began
        assert sum(content.count("\n- ") for content in contents) == count
        assert all(len(content) < MOST_CHARACTERS + 400 for content in contents)
        return took

    seconds(10)
    assert seconds(2000) < 8 * seconds(500) + 0.5


def test_any_message_is_read_in_linear_time() -> None:
    """Twice the message takes about twice the time."""
    for part in PARTS:
        began = time.process_time()
        said(without_invisible(part * MAX_READ)[:MAX_READ])
        assert time.process_time() - began < 3
