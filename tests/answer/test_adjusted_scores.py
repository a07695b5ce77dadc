"""Finds whose scores a second stage adjusts: turns, days, thresholds, and where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from viking_kernels.second_stage import BEST

from tests.index.find_helpers import Answer, find
from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.index.lexicon.turns import asks, speaker_of
from vikingd.ingest.draft_preparation import check, prepare
from vikingd.models.embed.embed_settings import EmbedSettings

AT = "viking://user/memories/talk"
LOG = "viking://user/memories/log"
QUESTION = "when did the ferry leave the harbour, on 8 May 2023?"
ADDED = ("feedback", "cover", "agreement", "reply", "date")


def micros(day: str) -> int:
    """Return a time on a day, in microseconds since the epoch."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 10**6


def put(engine: Engine, *drafts: Draft) -> None:
    """Write contexts."""
    engine.writable_store.put([prepare(check(draft)) for draft in drafts]).result()


def logged(name: str, text: str, day: str) -> Draft:
    """Return a file of the log with its day."""
    return Draft(f"{LOG}/{name}", content=text, time=micros(day))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A store of words alone, with a conversation, and a log whose days decide."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    said = [
        "Ann: Did you see the lighthouse keeper at the old harbour?",
        "Bo: Yes, the keeper waved.",
        "Bo: The lighthouse keeper is retired, is he not?",
        "Bo: I think the keeper is.",
    ]
    put(
        engine,
        *(
            Draft(f"{AT}/{i:03}", content=text, time=micros("2024-01-01"))
            for i, text in enumerate(said)
        ),
        *(logged(f"{i:03}", "ferry harbour leave " + "pier " * i, "2023-05-07") for i in range(30)),
        logged("day", "ferry harbour " + "pier " * 31, "2023-05-08T23:59:59"),
    )
    yield engine
    engine.close()


def asked(engine: Engine, text: str, **fields: object) -> Answer:
    """Return the answer to a question, with its trace."""
    return find(engine, FindQuery(text, trace=True, **fields), None)  # type: ignore[arg-type]


def parts_of(answer: Answer) -> dict[str, dict[str, float]]:
    """Return the amounts of the second stage of each result."""
    return {
        match.uri.rpartition("/")[2]: {name: getattr(match.parts, name) for name in ADDED}
        for match in answer.matches
    }


def test_a_turn_gets_a_share_of_the_question_before_it(engine: Engine) -> None:
    """Another speaker's question raises the next turn; the own question does not."""
    answer = asked(engine, "lighthouse keeper at the harbour", target_uri=AT)
    parts = parts_of(answer)
    question = next(m for m in answer.matches if m.uri.endswith("000"))
    assert parts["001"]["reply"] == pytest.approx(0.15 * question.parts.node_score)
    assert parts["002"]["reply"] == parts["003"]["reply"] == 0.0


def test_a_file_of_a_named_day_comes_up_from_below_the_best(engine: Engine) -> None:
    """A day in the question raises its files, also those that are not among the best."""
    without = asked(engine, QUESTION.partition(",")[0], target_uri=LOG, limit=25)
    assert "day" not in parts_of(without)
    assert without.trace.dates == ()
    answer = asked(engine, QUESTION, target_uri=LOG, limit=25)
    assert answer.trace.dates == ("2023-05-08",)
    parts = parts_of(answer)
    assert parts["day"]["date"] == pytest.approx(0.08)
    assert [name for name, one in parts.items() if one["date"]] == ["day"]


def test_a_day_counts_from_now(engine: Engine) -> None:
    """Words such as "yesterday" name the day before the request's time."""
    now = datetime(2023, 5, 9, 8, tzinfo=UTC)
    answer = asked(engine, "ferry at the harbour yesterday", target_uri=LOG, limit=40, now=now)
    assert answer.trace.dates == ("2023-05-08",)
    assert parts_of(answer)["day"]["date"] > 0


def test_a_month_has_all_its_days(engine: Engine) -> None:
    """A month names each of its days, and no other."""
    put(engine, logged("later", "ferry harbour", "2023-06-01"))
    answer = asked(engine, "which ferry left the harbour in May 2023?", target_uri=LOG, limit=40)
    assert answer.trace.dates == ("2023-05-01/2023-05-31",)
    dated = {name: one["date"] > 0 for name, one in parts_of(answer).items()}
    assert not dated.pop("later")
    assert len(dated) == 31
    assert sum(dated.values()) == BEST  # the others of May get no second stage


def test_a_query_of_many_days_keeps_the_first_of_them(engine: Engine) -> None:
    """Of a thousand phrases of time few count, and a whole document names no day."""
    days = [f"{year}年{month}月" for year in range(1950, 2034) for month in range(1, 13)]
    text = "ferry " + " ".join(days)
    dates = asked(engine, text[:4000], target_uri=LOG).trace.dates
    assert len(dates) == 16
    assert dates[0] == "1950-01-01/1950-01-31"
    assert not asked(engine, text, target_uri=LOG).trace.dates


def test_days_follow_writes_compaction_and_a_restart(engine: Engine, tmp_path: Path) -> None:
    """A file has the day of its newest time, in the tail, in the base and after a restart."""
    put(engine, logged("004", "ferry harbour leave " + "pier " * 4, "2023-05-08"))
    expected = {"day", "004"}

    def of_the_day() -> set[str]:
        parts = parts_of(asked(engine, QUESTION, target_uri=LOG, limit=40))
        return {name for name, one in parts.items() if one["date"]}

    assert of_the_day() == expected
    before = [(m.uri, m.score) for m in asked(engine, QUESTION, limit=40).matches]
    engine.optimize()
    assert of_the_day() == expected
    assert [(m.uri, m.score) for m in asked(engine, QUESTION, limit=40).matches] == before
    engine.close()
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    assert of_the_day() == expected
    put(engine, logged("day", "ferry harbour " + "pier " * 31, "2023-06-01"))
    assert of_the_day() == {"004"}
    engine.close()


def test_the_files_behind_the_best_keep_their_order(engine: Engine) -> None:
    """Where the second stage lowers the last of the best, those behind it are no ties."""
    top, long = "viking://resources/ferries", " ".join(f"word{n}" for n in range(70))
    names = [f"{40 - i:03}" for i in range(40)]  # ties would be in the other order
    drafts = []
    for i, name in enumerate(names):
        # The first three are far from the others. Opposite files make the mean of all zero.
        far = np.array([0.8, 0.6 if i < 3 else -0.6, 0.01 * i], np.float32)
        drafts += [
            Draft(f"{top}/{name}", content=f"ferry {long}", vector=far.tobytes()),
            Draft(f"{top}/opposite{i}", content=f"other {long}", vector=(-far).tobytes()),
        ]
    put(engine, *drafts)
    query = FindQuery("ferry lighthouse keeper quay", target_uri=top, limit=100, trace=True)
    answer = find(engine, query, np.array([1, 0, 0], np.float32))
    found = [match.uri.rpartition("/")[2] for match in answer.matches]
    assert answer.matches[BEST - 2].parts.feedback < 0
    assert found[BEST + 1 : 40] == names[BEST + 1 :]  # the first of them ties with the last above


def test_a_file_that_is_first_by_words_and_by_meaning_gets_more(engine: Engine) -> None:
    """The amount falls with both ranks; a file without the words, or of few terms, has none."""
    top, long = "viking://resources/quays", " ".join(f"word{n}" for n in range(40))
    texts = {
        "both": (f"ferry harbour {long}", 0.9),
        "words": (f"ferry {long}", 0.5),
        "meaning": (f"lighthouse {long}", 0.7),
        "short": ("ferry harbour", 0.6),
        "far": (f"ferry {long}", -0.9),
    }
    for name, (text, near) in texts.items():
        at = np.array([near, (1 - near**2) ** 0.5, 0], np.float32)
        put(engine, Draft(f"{top}/{name}", content=text, vector=at.tobytes()))
    query = FindQuery("ferry harbour", target_uri=top, trace=True)
    answer = find(engine, query, np.array([1, 0, 0], np.float32))
    amounts = {name: parts["agreement"] for name, parts in parts_of(answer).items()}
    assert amounts == {
        "both": pytest.approx(0.04 / 2),  # the short one is first by words
        "words": pytest.approx(0.04 / (3 * 4)),
        "meaning": 0,
        "short": 0,
        "far": 0,
    }


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (QUESTION, {"alpha": 1.0}),
        (QUESTION, {"levels": Levels.DIRECTORIES}),
        ("E4102", {}),
    ],
)
def test_some_finds_have_no_second_stage(
    engine: Engine, text: str, fields: dict[str, object]
) -> None:
    """With alpha, for directories and for identifiers, nothing is added."""
    put(engine, Draft("viking://resources/errors.md", content="E4102 means that the pier is full."))
    answer = asked(engine, text, **fields)
    assert answer.matches
    assert not any(any(one.values()) for one in parts_of(answer).values())


def test_the_threshold_selects_by_the_last_scores(engine: Engine) -> None:
    """A file passes a threshold that its score reaches by the second stage alone."""
    for text, name in ((QUESTION, "day"), (QUESTION.partition(",")[0], "000")):
        answer = asked(engine, text, target_uri=LOG, limit=40)
        one = next(m for m in answer.matches if m.uri.endswith(f"/{name}"))
        first = one.score - sum(getattr(one.parts, added) for added in ADDED)
        between = (first + one.score) / 2
        kept = asked(engine, text, target_uri=LOG, limit=40, score_threshold=between)
        assert one.uri in [match.uri for match in kept.matches]
        above = asked(engine, text, target_uri=LOG, limit=40, score_threshold=one.score)
        assert one.uri not in [match.uri for match in above.matches]


@pytest.mark.parametrize("method", [Method.EXACT, Method.EXHAUSTIVE, Method.BEST_FIRST])
def test_all_limits_and_methods_agree(engine: Engine, method: Method) -> None:
    """The first results are the same for every limit and method."""
    every = [(m.uri, m.score) for m in asked(engine, QUESTION, limit=100).matches]
    for limit in (1, 5, 10, 20, 40):
        found = asked(engine, QUESTION, limit=limit, method=method)
        assert [(m.uri, m.score) for m in found.matches] == every[:limit]


@pytest.mark.parametrize(
    ("passage", "speaker"),
    [
        ("Caroline: Hey Mel!", "caroline"),
        ("**User**: hello", "user"),
        ("Dr. Mary-Ann O'Neil: yes", "dr. mary-ann o'neil"),
        ("小明：在吗？", "小明"),
        ("  assistant : sure", "assistant"),
        ("https://example.org", ""),
        ("The list of all that we need is this: tea", ""),
        ("12:30 at the pier", ""),
        ("no colon here", ""),
    ],
)
def test_a_speaker_is_the_name_before_a_colon(passage: str, speaker: str) -> None:
    """A speaker is at most four words before a colon, folded; a link or a sentence is none."""
    assert speaker_of(passage) == speaker


def test_a_question_mark_asks() -> None:
    """Both question marks ask."""
    assert asks("Why? I see.")
    assert asks("为什么？")
    assert not asks("Why not.")
