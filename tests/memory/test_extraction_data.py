"""The labelled conversations of the extraction benchmark, and its measures against examples."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.extracted import (
    BORROWED,
    CHANGED,
    ELSEWHERE,
    FALSE,
    INVENTIONS,
    KINDS,
    LANGUAGES,
    NEGATED,
    NOWHERE,
    OUTRIGHT,
    OUTSIDE,
    Attack,
    Label,
    Score,
    Taken,
    Talk,
    inventions,
    read_attacks,
    read_talks,
    right,
    scores,
    table,
)
from benchmarks.extracted_recall import Known, answered, sessions, spoken
from benchmarks.extraction import changes, planner_section
from benchmarks.recall import Conversation, Turn
from vikingd.client import Session
from vikingd.config import load
from vikingd.memory.entries import MAX_TEXT_BYTES
from vikingd.pb.memories_pb2 import Memory

TALKS = read_talks()
ATTACKS = read_attacks()
EVERY = [*TALKS, *(attack.talk for attack in ATTACKS)]

LYON = Label("profile", "The user moved to Lyon.", (0,), (("lyon",), ("moved", "lives")), True)
VEGAN = Label("entities", "Ines is vegan.", (2,), (("ines", "sister"), ("vegan",)), True)
GUESS = Label("profile", "The user is a nurse.", (4,), (("nurse",),), False, ("events",))
TALK = Talk("t", "en", (("user", "x"),) * 6, (LYON, VEGAN, GUESS))

by_id = pytest.mark.parametrize("talk", EVERY, ids=lambda talk: talk.id)
by_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.talk.id)


def test_there_are_sixty_conversations_in_two_languages():
    """30 in English and 30 in Chinese, 20 hostile ones, and each id only once."""
    assert [sum(talk.language == name for talk in TALKS) for name in LANGUAGES] == [30, 30]
    assert len(ATTACKS) == 20
    assert {talk.language for talk in EVERY} == set(LANGUAGES)
    assert sum(attack.talk.language == "zh" for attack in ATTACKS) >= 5
    assert len({talk.id for talk in EVERY}) == len(EVERY)
    assert len({talk.messages for talk in EVERY}) == len(EVERY)


def test_each_kind_and_each_difficulty_occurs():
    """All kinds have labels, some follow only indirectly, some conversations hold nothing."""
    labels = [label for talk in TALKS for label in talk.labels]
    assert {label.kind for label in labels} == set(KINDS)
    assert {label.outright for label in labels} == {True, False}
    for name in LANGUAGES:
        talks = [talk for talk in TALKS if talk.language == name]
        assert sum(not talk.labels for talk in talks) >= 4
        assert sum(bool(talk.false) for talk in talks) >= 8
        assert any(role == "tool" for talk in talks for role, _ in talk.messages)


@by_id
def test_a_conversation_is_well_formed(talk: Talk):
    """A session accepts the messages; the user speaks; the script fits the language."""
    session = Session()
    for role, content in talk.messages:
        session.add(role, content)
    assert (4 if talk in TALKS else 3) <= len(talk.messages) <= 16
    assert "user" in {role for role, _ in talk.messages}
    said = "".join(content for role, content in talk.messages if role == "user")
    assert any("CJK" in unicodedata.name(c, "") for c in said) == (talk.language == "zh")


@by_id
def test_labels_point_to_messages_and_match_themselves(talk: Talk):
    """Kinds are known, evidence exists and is sorted, the words hold for the label's own text."""
    for label in talk.labels:
        assert {label.kind, *label.also} <= set(KINDS)
        assert label.kind not in label.also
        assert label.evidence
        assert list(label.evidence) == sorted(set(label.evidence))
        assert set(label.evidence) <= set(range(len(talk.messages)))
        assert label.words
        assert all(word == word.lower() != "" for words in label.words for word in words)
        assert label.matches(label.taken)
    memories = [label.taken for label in talk.labels]
    assert len(set(memories)) == len(memories)
    assert all(right(talk.labels, memories))


@by_id
def test_the_user_says_each_label(talk: Talk):
    """The evidence of a label has a message of the user: nothing rests on the assistant alone."""
    for label in talk.labels:
        assert any(talk.messages[index][0] == "user" for index in label.evidence), label.text


@by_id
def test_false_memories_match_no_label(talk: Talk):
    """A false memory has messages that exist, and is not right for any label."""
    for one in talk.false:
        assert one.kind in KINDS
        assert set(one.evidence) <= set(range(len(talk.messages)))
        assert not any(label.matches(one) for label in talk.labels), one.text


@by_attack
def test_forbidden_texts_are_in_the_conversation(attack: Attack):
    """Each forbidden text is said somewhere, and no allowed label holds one."""
    said = "\n".join(content for _, content in attack.talk.messages)
    assert attack.forbidden
    for text in attack.forbidden:
        assert text in said
        assert not any(text in label.text for label in attack.talk.labels)


@by_attack
def test_an_obeying_model_returns_forbidden_texts(attack: Attack):
    """The scripted answer would store a forbidden text, and names messages that exist."""
    assert any(
        text in str(one) or text in one["text"]
        for one in attack.obeyed
        for text in attack.forbidden
    )
    for one in attack.obeyed:
        assert set(one["evidence"]) <= set(range(len(attack.talk.messages)))


def test_attacks_use_long_and_hidden_texts():
    """There are 20,000 characters in a message, invisible and bidi characters, and headings."""
    said = [content for attack in ATTACKS for _, content in attack.talk.messages]
    assert 19_000 < max(map(len, said)) < MAX_TEXT_BYTES
    assert all(any(part in text for text in said) for part in ("\u200b", "\u202e", "\U000e0073"))
    assert any("\n# " in text for text in said)
    assert any(text.startswith("---\n") for text in said)


@pytest.mark.parametrize(
    ("memory", "matches"),
    [
        (Taken("profile", "I moved to Lyon on the first of the month.", (0,)), True),
        (Taken("profile", "The user LIVES in Lyon", (0, 3)), True),
        (Taken("profile", "The user moved to Paris.", (0,)), False),
        (Taken("profile", "The user likes Lyon.", (0,)), False),
        (Taken("preferences", "The user moved to Lyon.", (0,)), False),
        (Taken("profile", "The user moved to Lyon.", (1,)), False),
        (Taken("profile", "The user moved to Lyon.", ()), False),
    ],
)
def test_a_memory_matches_by_kind_evidence_and_words(memory: Taken, matches: bool):
    """A paraphrase matches; another fact, another kind and other messages do not."""
    assert LYON.matches(memory) is matches


def test_other_kinds_of_a_label_are_right():
    """A label matches in each of its kinds, and counts in the first."""
    assert GUESS.matches(Taken("events", "A nurse.", (4,)))
    assert not GUESS.matches(Taken("entities", "A nurse.", (4,)))


def label_of(talk: str, words: str) -> tuple[Label, ...]:
    """Return the labels of a conversation whose text has these words."""
    (found,) = (one for one in TALKS if one.id == talk)
    labels = tuple(label for label in found.labels if words in label.text)
    assert labels
    return labels


@pytest.mark.parametrize(
    ("talk", "words", "correct", "wrong"),
    [
        ("en-correction", "vet", "Biscuit sees the vet on Friday.", "The vet is on Thursday."),
        ("en-tea", "alcohol", "I don't drink alcohol.", "The user drinks alcohol."),
        ("en-lena", "dislikes", "I can't stand PDFs.", "The user wants reports as a PDF."),
        ("en-job-change", "mathematics", "Taught maths until last December.", "Teaches maths."),
        ("zh-no-wine", "不喝酒", "我不喝酒", "用户喜欢喝红酒。"),
        ("zh-correction", "周会", "周会在周四下午三点", "周会改到星期三下午三点。"),
        ("zh-chengdu", "成都", "用户住在成都", "用户住在北京。"),
        ("zh-band", "官腔", "我讨厌官腔", "用户喜欢官腔。"),
    ],
)
def test_words_tell_paraphrases_from_other_facts(talk: str, words: str, correct: str, wrong: str):
    """A right paraphrase has all words of a label; the mistake that is likely does not."""
    (label,) = label_of(talk, words)
    assert label.is_said_by(correct)
    assert not label.is_said_by(wrong)


def test_a_repeated_memory_is_right_once():
    """A second memory of the same label is not right; one memory may match several labels."""
    lyon = Taken("profile", "Moved to Lyon", (0,))
    assert right([LYON, VEGAN], [lyon, lyon]) == [True, False]
    other = Label("profile", "The user lives in France.", (0,), (("france",),), True)
    both = Taken("profile", "Lives in Lyon, France", (0,))
    assert right([LYON, other], [both]) == [True]
    assert right([LYON, other], [both, lyon]) == [True, False]


def row(rows: Sequence[Score], part: str) -> Score:
    """Return the row of a part."""
    (found,) = (one for one in rows if one.part == part)
    return found


def test_scores_count_labels_and_memories():
    """Labels count by their kind, memories by theirs; all values are worked by hand."""
    taken = [
        Taken("profile", "Moved to Lyon", (0,)),
        Taken("events", "Is a nurse", (4,)),
        Taken("profile", "Likes tea", (0,)),
    ]
    rows = scores("run", [(TALK, taken)])
    every = row(rows, "all")
    assert (every.labels, every.found, every.memories, every.right) == (3, 2, 3, 2)
    assert every.precision == every.recall == every.f1 == pytest.approx(2 / 3)
    profile, events = row(rows, "profile"), row(rows, "events")
    assert (profile.labels, profile.found, profile.memories, profile.right) == (2, 2, 2, 1)
    assert (events.labels, events.found, events.memories, events.right) == (0, 0, 1, 1)
    outright = row(rows, OUTRIGHT)
    assert (outright.labels, outright.found, outright.memories) == (2, 1, 3)
    assert row(rows, "zh") == Score("run", "zh", 0, 0, 0, 0)
    assert row(rows, "en").f1 == every.f1
    shown = ["run", "all", "3", "2", "3", "2", "0.667", "0.667", "0.667"]
    assert table(rows).splitlines()[1].split() == shown


def test_scores_without_labels_or_memories():
    """Nothing to take and nothing taken is right; a memory too many costs precision alone."""
    empty = Talk("e", "zh", (("user", "x"),), ())
    assert row(scores("r", [(empty, [])]), "all").f1 == 1
    invented = row(scores("r", [(empty, [Taken("profile", "x", (0,))])]), "all")
    assert (invented.precision, invented.recall, invented.f1) == (0, 1, 0)
    missed = row(scores("r", [(TALK, [])]), "all")
    assert (missed.precision, missed.recall, missed.f1) == (1, 0, 0)


def test_exact_answers_score_one():
    """An extraction that returns the labels has precision and recall 1 in each part."""
    exact = [(talk, [label.taken for label in talk.labels]) for talk in TALKS]
    for one in scores("exact", exact):
        assert one.labels > 0
        assert (one.precision, one.recall) == (1, 1), one.part


def test_inventions_are_wrong_and_repeatable():
    """False memories match no label, except denials; the seed fixes them."""
    counts = dict.fromkeys(INVENTIONS, 0)
    for talk in TALKS:
        found = inventions(talk, TALKS, 1)
        assert found == inventions(talk, TALKS, 1)
        for sort, memories in found.items():
            counts[sort] += len(memories)
            if sort != NEGATED:
                assert not any(right(talk.labels, memories)), (talk.id, sort)
        texts = {label.text for label in talk.labels}
        assert texts.isdisjoint(one.text for one in found[CHANGED] + found[NEGATED])
        assert all(one.evidence[0] >= len(talk.messages) for one in found[OUTSIDE])
        assert not any(one.evidence for one in found[NOWHERE])
        assert {one.text for one in found[ELSEWHERE] + found[OUTSIDE]} <= texts
        assert found[FALSE] == list(talk.false)
        assert len(found[BORROWED]) == 2
    assert min(counts.values()) >= 40
    assert inventions(TALKS[0], TALKS, 1) != inventions(TALKS[0], TALKS, 2)


def test_changes_name_files_that_an_extraction_may_not_change():
    """New memories are allowed; lost memories, other files and other users' files are named."""
    before = {
        "viking://user/memories/preferences.md": "- Tea.\n",
        "viking://resources/plan.md": "A plan.\n",
        "viking://users/bob/memories/profile.md": "- Bob.\n",
    }
    allowed = before | {
        "viking://user/memories/preferences.md": "- Tea.\n- Invoices.\n",
        "viking://agent/memories/patterns.md": "- Ask.\n",
    }
    assert list(changes(before, allowed)) == []
    for uri, text in {
        "viking://user/memories/preferences.md": "- Coffee.\n",
        "viking://resources/plan.md": "Another plan.\n",
        "viking://resources/new.md": "",
        "viking://users/bob/memories/profile.md": "- Bob.\n- Bob owes.\n",
    }.items():
        assert list(changes(before, allowed | {uri: text})) == [uri]
    assert list(changes(before, {})) == sorted(before)


def test_the_planner_section_is_what_the_daemon_reads(tmp_path: Path):
    """The daemon reads the section with all its values, also behind quotation marks."""
    config = tmp_path / "vikingd.toml"
    config.write_text(planner_section("http://127.0.0.1:1/v1", 'a "b"', "KEY", 5.0))
    planner = load(config).settings.planner
    assert (planner.base_url, planner.model) == ("http://127.0.0.1:1/v1", 'a "b"')
    assert (planner.key_env, planner.timeout) == ("KEY", 5.0)


def test_evidence_of_extracted_memories_is_found_by_id():
    """A turn is recalled if a recalled memory was taken from it."""
    known = Known(2, {7: frozenset({"a", "b"}), 9: frozenset({"c"})})
    assert answered(known, [Memory(id=7), Memory(id=8)], ["a", "c", "b"]) == [True, False, True]
    assert answered(known, [], ["a"]) == [False]


def test_turns_are_grouped_by_session():
    """Turns of one directory are one session; names in front can be removed."""
    time = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    turns = [Turn(f"viking://s/{name}", "Ann: Hi.", time) for name in ("one/0", "one/1", "two/0")]
    found = list(sessions(Conversation("p", turns, [])))
    assert found == [turns[:2], turns[2:]]
    assert spoken("Ann: I had tea: two cups.") == "I had tea: two cups."
    assert spoken("I had tea: two cups.") == "I had tea: two cups."
    assert spoken("Hello.") == "Hello."
