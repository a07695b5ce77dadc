"""Changes of what is known: one present answer, and its history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.memory.extract_helpers import PREFERENCES, PROFILE, ROOT, session, texts
from tests.memory.remember_helpers import series_of
from tests.nodes.reader_helpers import serving
from vikingd.client import Client, Draft, RecallPath, RecallResult, RememberOutcome, SalienceParts
from vikingd.domain.contexts import Entry
from vikingd.ingest.passages import split
from vikingd.memory.contradicted_memories import Changing, NoPlace, note_of
from vikingd.memory.entries import check_text, clean
from vikingd.memory.memory_types import MemoryFile, Remembered, StoredEntry, is_earlier
from vikingd.memory.relations import relation_of

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)
DAY = f"{ROOT}/journal/2026-03-10.md"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield a client of a daemon with the default embedder."""
    with (
        serving(tmp_path_factory.mktemp("store"), "--provider", "e5") as daemon,
        Client(daemon.address) as client,
    ):
        yield client


@pytest.fixture
def client(started: Client) -> Client:
    """Return the client of an empty daemon."""
    for context in list(started.list()):
        started.delete(context.uri)
    return started


def say(client: Client, *messages: str, at: datetime = NOW) -> list[tuple[str, str, str]]:
    """Extract from messages of the user that were said at a time."""
    return texts(client.extract(session(*messages), time=at))


def entries(client: Client, uri: str = PROFILE) -> list[tuple[int, str, str]]:
    """Return id, last heading and text of the entries of a file."""
    context = client.get(uri)
    return [
        (p.memory.id, p.section.split(" > ")[-1], context.content[p.start : p.end])
        for p in context.passages
        if p.memory
    ]


def asked(client: Client, query: str, at: datetime = NOW) -> RecallResult:
    """Return the answer of the hybrid path."""
    return client.recall(query, without=SEARCH, profile="salience", no_touch=True, now=at)


def _salience(parts: SalienceParts | None) -> float:
    assert parts is not None
    return (
        0.5 * parts.semantic + 0.2 * parts.reinforcement + 0.2 * parts.recency + 0.1 * parts.access
    )


@pytest.mark.parametrize(
    ("before", "after", "old", "new", "query"),
    [
        (
            "I live in Paris.",
            "I moved to Lyon.",
            "The user lives in Paris.",
            "The user lives in Lyon.",
            "where does the user live?",
        ),
        ("我住在巴黎。", "我搬到了里昂。", "用户住在巴黎。", "用户住在里昂。", "用户住在哪里？"),
    ],
)
def test_one_present_answer_and_its_history(
    client: Client, before: str, after: str, old: str, new: str, query: str
) -> None:
    """The newer home replaces the older one, which moves with its state; Recall ranks it below."""
    early = NOW - timedelta(days=9)
    assert say(client, before, at=early) == [("PROFILE", "ADDED", old)]
    (((first, _, _)),) = entries(client)
    client.reinforce(first, by=5)
    state = client.get(PROFILE).passages[0].memory
    result = client.extract(session(after), time=NOW)
    assert texts(result) == [("PROFILE", "REPLACED", new)]
    assert result.memories[0].met == old
    (second, above, present), (moved, below, past) = entries(client)
    assert (above, present, below, past) == ("Profile", new, "Earlier", old)
    assert moved == first != second == result.memories[0].id
    assert client.get(PROFILE).passages[1].memory == state
    found = asked(client, query)
    by_text = {memory.content: memory for memory in found.results}
    assert list(by_text).index(new) < list(by_text).index(old)
    assert by_text[new].score == pytest.approx(_salience(by_text[new].parts))
    assert by_text[old].score == pytest.approx(_salience(by_text[old].parts) / 2)
    assert "1 replaced memories, below the heading Earlier, count half" in found.reason
    timeline = client.recall("what happened today?", now=NOW)
    assert timeline.path is RecallPath.TIMELINE
    assert all(text in timeline.results[0].content for text in (old, new))
    assert client.verify().ok


HOMES = ["I live in Paris.", "I moved to Lyon.", "I moved to Rome.", "I moved back to Paris."]


def change_home(client: Client, i: int) -> None:
    """Say one of the homes, each an hour after the one before it."""
    ((_, outcome, _),) = say(client, HOMES[i], at=NOW + timedelta(hours=i))
    assert outcome == ("REPLACED" if i else "ADDED")


def check_homes(client: Client) -> None:
    """Check the entries after all changes."""
    found = entries(client)
    assert [(section, text) for _, section, text in found] == [
        ("Profile", "The user lives in Paris."),
        ("Earlier", "The user lives in Paris."),
        ("Earlier", "The user lives in Lyon."),
        ("Earlier", "The user lives in Rome."),
    ]
    ids = [one for one, _, _ in found]
    assert ids[1:] == sorted(ids[1:])
    assert ids[0] > ids[-1]
    assert say(client, "I live in Paris.") == [
        ("PROFILE", "REINFORCED", "The user lives in Paris.")
    ]
    assert entries(client) == found
    assert client.get(PROFILE).passages[0].memory.reinforcement == 1  # type: ignore[union-attr]
    journal = client.get(DAY).content
    assert journal.count("(Before: ") == 3
    assert client.verify().ok


def test_three_changes_and_back_again(client: Client) -> None:
    """Each change moves the answer before it; going back adds a new entry."""
    for i in range(len(HOMES)):
        change_home(client, i)
    check_homes(client)


@pytest.mark.deep
def test_three_changes_and_back_again_over_a_restart(tmp_path: Path) -> None:
    """Changes are the same with a restart before each of them."""
    for i in range(len(HOMES)):
        with (
            serving(tmp_path, "--provider", "none") as daemon,
            Client(daemon.address) as client,
        ):
            change_home(client, i)
    with serving(tmp_path, "--provider", "none") as daemon, Client(daemon.address) as client:
        check_homes(client)


def test_an_older_statement_is_history_at_once(client: Client) -> None:
    """A conversation from before the present answer goes below Earlier, and changes no present."""
    say(client, "I moved to Lyon.")
    assert say(client, "I live in Paris.", at=NOW - timedelta(days=99)) == [
        ("PROFILE", "ADDED", "The user lives in Paris.")
    ]
    assert [entry[1:] for entry in entries(client)] == [
        ("Profile", "The user lives in Lyon."),
        ("Earlier", "The user lives in Paris."),
    ]


def test_several_contradicted_entries_all_move(client: Client) -> None:
    """If two present entries contradict the new one, both move below Earlier."""
    for home in ("Paris", "Oslo"):
        client.remember(f"The user lives in {home}.", "profile", time=NOW, exact=True)
    client.remember("The user speaks Thai.", "profile", time=NOW)
    say(client, "I moved to Lyon.")
    assert [entry[1:] for entry in entries(client)] == [
        ("Profile", "The user lives in Lyon."),
        ("Profile", "The user speaks Thai."),
        ("Earlier", "The user lives in Paris."),
        ("Earlier", "The user lives in Oslo."),
    ]
    assert client.verify().ok


def test_what_is_said_again_stays_and_the_contradiction_moves(client: Client) -> None:
    """Of two present homes the one that is said again stays with its id; the other one moves."""
    for home in ("Oslo", "Paris"):
        client.remember(f"The user lives in {home}.", "profile", time=NOW, exact=True)
    (oslo, *_), (paris, *_) = entries(client)
    assert say(client, "I live in Paris.") == [("PROFILE", "REPLACED", "The user lives in Paris.")]
    assert entries(client) == [
        (paris, "Profile", "The user lives in Paris."),
        (oslo, "Earlier", "The user lives in Oslo."),
    ]
    assert say(client, "I live in Paris.", at=NOW - timedelta(days=9))[0][1] == "REINFORCED"
    assert client.verify().ok


@pytest.mark.parametrize(
    ("first", "then", "texts_now"),
    [
        (
            "I prefer oolong to coffee.",
            "I prefer coffee over oolong.",
            ["The user prefers coffee over oolong.", "The user prefers oolong to coffee."],
        ),
        ("I like cilantro.", "I hate cilantro.", ["The user hates cilantro."]),
        ("I always eat meat.", "I never eat meat.", ["The user never eats meat."]),
        ("My favourite colour is red.", "My favourite colour is blue.", []),
        ("我喜欢香菜。", "我不喜欢香菜了。", ["用户不喜欢香菜。", "用户喜欢香菜。"]),
    ],
)
def test_preferences_turn(client: Client, first: str, then: str, texts_now: list[str]) -> None:
    """A turned preference replaces the older one."""
    say(client, first)
    ((_, outcome, _),) = say(client, then)
    assert outcome == "REPLACED"
    found = [text for _, _, text in entries(client, PREFERENCES)]
    assert len(found) == 2
    assert found[: len(texts_now)] == texts_now


def test_another_like_replaces_nothing(client: Client) -> None:
    """Two likes, two pairs of a comparison, and equal relations of others stand side by side."""
    say(client, "I like tea.", "I like coffee.", "I prefer tabs over spaces.")
    outcomes = say(client, "I prefer tea over milk.", "I hate salt.", "I like tea.")
    assert [outcome for _, outcome, _ in outcomes] == ["ADDED", "ADDED", "REINFORCED"]
    assert "Earlier" not in client.get(PREFERENCES).content


def test_what_a_person_wrote_stays_as_it_is(client: Client) -> None:
    """Only the contradicted list item moves; prose, code and headings of the file stay."""
    written = (
        "---\nname: me\n---\n# About me\n\nA *long* story.\n\n* Lives in Paris.\n* Speaks Thai.\n\n"
        "## Code\n\n```\nI live in Oslo.\n```\n"
    )
    client.put([Draft(PROFILE, content=written)])
    ((_, outcome, _),) = say(client, "I moved to Lyon.", at=datetime.now(UTC))
    assert outcome == "REPLACED"
    content = client.get(PROFILE).content
    expected = written.replace("* Lives in Paris.", "* The user lives in Lyon.")
    assert content == f"{expected}\n## Earlier\n\n- Lives in Paris.\n"
    assert client.verify().ok


def test_prose_without_a_place_of_its_own_is_kept(client: Client) -> None:
    """A statement within a paragraph of a person is not touched."""
    written = "# Me\n\nI live in Paris. I have lived there since 1990.\n"
    client.put([Draft(PROFILE, content=written)])
    ((_, outcome, _),) = say(client, "I moved to Lyon.", at=datetime.now(UTC))
    assert outcome == "ADDED"
    assert client.get(PROFILE).content.startswith(written.strip())


def test_a_file_with_an_open_code_block_takes_no_memory(client: Client) -> None:
    """With an embedder too, the memory is refused alone."""
    client.put([Draft(PROFILE, content="# Me\n\nText.\n\n```\ncode\n")])
    result = client.extract(session("I live in Paris. I love tea."), time=NOW)
    assert [one.kind.name for one in result] == ["PREFERENCES"]
    assert "has no place: a code block" in result.refused[0].reason


def test_remember_does_not_reinforce_what_was_replaced(client: Client) -> None:
    """Remember compares with present entries only."""
    say(client, "I live in Paris.")
    say(client, "I moved to Lyon.")
    done = client.remember("The user lives in Paris.", "profile", time=NOW)
    assert done.outcome is RememberOutcome.ADDED
    again = client.remember("The user lives in Paris.", "profile", time=NOW)
    assert (again.outcome, again.id) == (RememberOutcome.REINFORCED, done.id)


def test_concurrent_changes_leave_one_answer(client: Client) -> None:
    """Changes at the same time are decided one after the other."""
    cities = ["Paris", "Lyon", "Rome", "Oslo", "Bern", "Wien", "Riga", "Kiel"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda city: say(client, f"I live in {city}."), cities))
    found = [(section, text) for _, section, text in entries(client)]
    assert [section for section, _ in found] == ["Profile"] + ["Earlier"] * 7
    assert sorted(text for _, text in found) == sorted(f"The user lives in {c}." for c in cities)
    assert client.verify().ok


def test_a_file_that_changed_since_the_comparison_is_compared_again() -> None:
    """If the equal wording is gone when the call is decided, the text is added."""
    entry = StoredEntry(PROFILE, Entry(1), 1, "Profile", 13, 37, "The user lives in Paris.")
    file = MemoryFile(
        PROFILE, "", "", "# Profile\n\n- The user lives in Paris.\n", "", {}, 0, (entry,)
    )
    made = Changing(PROFILE, "Profile", "The user lives in Paris.", "", 1, 1)
    there, gone = series_of(file), series_of(None, PROFILE)
    made.prepare(there, {})
    (reinforced,) = made(there, count(2).__next__)
    assert reinforced.counters[0].reinforcement == 1
    (added,) = made(gone, count(2).__next__)
    assert added.prepared is not None


@pytest.mark.parametrize("word", ["far ", "远"])
def test_a_long_change_is_cut_in_the_journal(word: str) -> None:
    """The note on a change has both wordings, and fits into an entry."""
    now, before = f"N{word * 300}", f"B{word * 300}"
    note = note_of(now, before)
    assert check_text(note) == note
    assert note.startswith(now[:100])
    assert f"(Before: {before[:100]}" in note
    assert note_of("a.", "b.") == "a. (Before: b.)"


LINES = [
    "- The user lives in Paris.", "* Lives in Oslo.", "1. I live in Rome.", "   continued",
    "  - nested item", "- The user speaks Thai.", "Plain text of a person.", "", "", "## Part",
    "# Title", "```", "- [ ] a task", "> a quotation", "<!-- a comment -->", "\t- tabbed",
    "- 用户住在北京。", "- The user lives in Paris.", "## Earlier", "---", "- **Lives in Kiel**",
]  # fmt: skip


@pytest.mark.parametrize(
    ("eol", "files"),
    [
        ("\n", 100),
        pytest.param("\n", 4000, marks=pytest.mark.deep),
        pytest.param("\r\n", 4000, marks=pytest.mark.deep),
    ],
)
def test_random_files_keep_all_else(eol: str, files: int) -> None:
    """In any Markdown a change moves the contradicted entries alone, and all others keep theirs."""
    rng, moved = random.Random(3), 0
    for _ in range(files):
        content = eol.join(rng.choices(LINES, k=rng.randrange(1, 14))) + rng.choice(["", eol])
        stored = [
            StoredEntry(PROFILE, Entry(i, time=1), i, p.section, p.start, p.end,
                        content[p.start : p.end])
            for i, p in enumerate(split(content, "x.md", entries=True), start=1)
        ]  # fmt: skip
        file = MemoryFile(PROFILE, "", "", content, "", {}, 0, tuple(stored))
        made = Changing(PROFILE, "Profile", "The user lives in Lyon.", "", 2, 2)
        try:
            (done,) = made(series_of(file), count(1000).__next__)
        except NoPlace:  # an open code block or comment
            continue
        assert made.outcome is not None
        assert done.prepared is not None
        now = {
            state.id: (text.section, done.prepared.draft.content[text.start : text.end])
            for ordinal, state in done.prepared.entries.items()
            for text in done.prepared.texts
            if text.ordinal == ordinal
        }
        if made.outcome.did is not Remembered.REPLACED:
            continue
        moved += 1
        assert clean(now[made.outcome.entry.id][1]) == "The user lives in Lyon."
        for one in stored:
            relation = relation_of(clean(one.passage))
            section, text = now[one.entry.id]
            assert clean(text) == clean(one.passage)
            if relation and relation.key == "home" and not is_earlier(one.section):
                assert is_earlier(section)
            else:
                assert text == one.passage
    assert moved > files / 5


def test_an_end_moves_the_entry_with_its_reason(client: Client) -> None:
    """The entry keeps its id and counters; the journal has the same; said again, it is new."""
    say(client, "I work at Acme. I live in Oslo.", at=NOW - timedelta(days=9))
    (job, *_), _ = entries(client)
    client.reinforce(job, by=5)
    state = next(p.memory for p in client.get(PROFILE).passages if p.memory and p.memory.id == job)
    result = client.extract(session("I quit my job at Acme."), time=NOW)
    ended = 'The user works at Acme. (Ended: "I quit my job at Acme.")'
    assert texts(result) == [("PROFILE", "ENDED", ended)]
    (memory,) = result
    assert (memory.id, memory.met, memory.section) == (job, "The user works at Acme.", "Earlier")
    assert [(section, text) for _, section, text in entries(client)] == [
        ("Profile", "The user lives in Oslo."),
        ("Earlier", ended),
    ]
    assert client.get(PROFILE).passages[-1].memory == state
    assert ended in client.get(DAY).content
    assert relation_of(ended) is None
    later = NOW + timedelta(days=9)
    assert say(client, "I work at Acme.", at=later)[0][1] == "ADDED"
    assert client.verify().ok


@pytest.mark.parametrize(
    "said",
    ["I quit my job at Globex.", "I no longer live in Rome.", "My name is not Bob.", "我不姓王。"],
)
def test_what_ends_nothing_is_not_taken(client: Client, said: str) -> None:
    """The end of another value changes no file and is told with its reason."""
    say(client, "I work at Acme. I live in Oslo. My name is Ana. 我姓汪。")
    before = client.get(PROFILE).content
    result = client.extract(session(said), time=NOW)
    assert texts(result) == []
    assert [(one.text, one.message, one.reason) for one in result.not_taken] == [
        (said, 0, "nothing known ends with it")
    ]
    assert client.get(PROFILE).content == before


def test_an_end_without_a_value_ends_any(client: Client) -> None:
    """The words "I quit my job" end each present job, but none that was said later."""
    say(client, "I work at Acme.", at=NOW)
    assert say(client, "I quit my job.", at=NOW - timedelta(days=1)) == []
    assert [outcome for _, outcome, _ in say(client, "I quit my job.")] == ["ENDED"]


def test_an_end_keeps_the_pin_and_what_a_person_wrote(client: Client) -> None:
    """A pinned entry stays pinned; prose is not touched."""
    client.put([Draft(PROFILE, content="# Me\n\n- 📌 Lives in Oslo.\n")])
    now = datetime.now(UTC)
    assert say(client, "I no longer live in Oslo.", at=now)[0][1] == "ENDED"
    assert client.get(PROFILE).content == (
        '# Me\n\n## Earlier\n\n- 📌 Lives in Oslo. (Ended: "I no longer live in Oslo.")\n'
    )
    written = "# Me\n\nI live in Oslo.\n\nI love it.\n"
    client.put([Draft(PROFILE, content=written)])
    say(client, "I no longer live in Oslo.", at=now)
    assert "I love it." in client.get(PROFILE).content


def test_ends_and_facts_count_in_the_order_in_which_they_were_said(client: Client) -> None:
    """An end before a fact of the same conversation leaves the fact, and the reverse ends it."""
    say(client, "I no longer live in Oslo.", "I live in Oslo.")
    assert [section for _, section, _ in entries(client)] == ["Profile"]
    say(client, "I live in Rome.", "I no longer live in Rome.")
    assert {section for _, section, _ in entries(client)} == {"Earlier"}


def test_a_dry_run_ends_nothing(client: Client) -> None:
    """It tells what would end."""
    say(client, "I live in Oslo.")
    result = client.extract(session("I no longer live in Oslo."), time=NOW, dry_run=True)
    assert [one.outcome.name for one in result] == ["ENDED"]
    assert [section for _, section, _ in entries(client)] == ["Profile"]
