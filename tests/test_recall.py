"""Recall over the wire: fast path, timeline, search by salience, the budget, what is refused."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from vikingd.client import ClientError, Draft, Passage, RecallPath, Rrf, WeightedSum
from vikingd.client.messages import MessageClient
from vikingd.context.tokenizers import open_tokenizer
from vikingd.ctl.demo import serving
from vikingd.domain.model import Entry
from vikingd.pb.memories_pb2 import (
    RECALL_PATH_FAST,
    RECALL_PATH_HYBRID,
    RECALL_PATH_TIMELINE,
    RECALL_PATH_UNSPECIFIED,
    RecallResponse,
)

USER = "viking://user/memories"
LAMP = "viking://projects/lamp/memories"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)


def contents(reply: RecallResponse) -> list[str]:
    """What was recalled, in order, within its budget."""
    assert reply.total_tokens == sum(one.token_count for one in reply.results)
    count = open_tokenizer("o200k_base").count
    for one in reply.results:
        assert one.token_count == count(one.content)
    return [one.content for one in reply.results]


def micros(moment: datetime) -> int:
    """As in the domain."""
    return round(moment.timestamp() * 1_000_000)


def vector(*numbers: float) -> bytes:
    """As on the wire."""
    return array("f", numbers).tobytes()


# The fast path

FAST = [
    ("我的偏好是什么", f"{USER}/preferences.md", ""),
    ("any PREFERENCE for seats?", f"{USER}/preferences.md", ""),
    ("看一下指令", f"{USER}/instructions.md", ""),
    ("which instruction applies?", f"{USER}/instructions.md", ""),
    ("有什么规则", f"{USER}/instructions.md", ""),
    ("is there a rule for names?", f"{USER}/instructions.md", ""),
    ("还有哪些任务", f"{LAMP}/TASKS.md", "lamp"),
    ("next task, please", f"{LAMP}/TASKS.md", "lamp"),
    ("列出实体", f"{USER}/entities.md", ""),
    ("which entity is that?", f"{USER}/entities.md", ""),
    ("相关人物", f"{USER}/entities.md", ""),
    ("who are the people?", f"{USER}/entities.md", ""),
    ("之前的决策", f"{LAMP}/agent/decisions.md", "lamp"),
    ("what was the decision?", f"{LAMP}/agent/decisions.md", "lamp"),
    ("what was the decision?", f"{LAMP}/decisions.md", "lamp"),
    ("用什么模式", f"{LAMP}/agent/patterns.md", "lamp"),
    ("a pattern for retries", f"{LAMP}/agent/patterns.md", "lamp"),
]


@pytest.mark.parametrize(("query", "uri", "project"), FAST)
def test_a_query_that_names_a_known_file_gets_it_whole(
    client: MessageClient, query: str, uri: str, project: str
) -> None:
    """Without a search, as one result with its tokens."""
    body = "# Known\n\n- one thing\n- 另一件事\n"
    client.put([Draft(uri, content=body)])
    reply = client.recall(query, project=project, with_global=bool(project))
    assert reply.path == RECALL_PATH_FAST
    assert contents(reply) == [body]
    (memory,) = reply.results
    assert (memory.uri, memory.id, memory.truncated) == (uri, 0, False)
    assert uri in reply.reason


@pytest.mark.parametrize(
    "query", ["multitasking tips", "the ruler of the land", "patterned cloth", "task_id of it"]
)
def test_a_word_that_only_contains_a_trigger_names_nothing(
    client: MessageClient, query: str
) -> None:
    """English words match whole."""
    for name in ("TASKS", "agent/patterns"):
        client.put([Draft(f"{LAMP}/{name}.md", content="- never shown\n")])
    client.put([Draft(f"{USER}/instructions.md", content="- never shown\n")])
    reply = client.recall(query, project="lamp", with_global=True)
    assert reply.path == RECALL_PATH_HYBRID


@pytest.mark.parametrize("query", ["我的偏好", "what is my preference?"])
def test_without_the_file_the_next_path_is_taken(client: MessageClient, query: str) -> None:
    """And the reply says so."""
    client.put([Draft(f"{USER}/notes.md", content="- A preference for windows seats. 偏好靠窗\n")])
    reply = client.recall(query)
    assert reply.path == RECALL_PATH_HYBRID
    assert "no such file" in reply.reason
    assert contents(reply)


def test_a_projects_file_is_not_read_for_another_scope(client: MessageClient) -> None:
    """Nor a global one for a project alone."""
    client.put([Draft(f"{LAMP}/TASKS.md", content="- a task of lamp\n")])
    client.put([Draft(f"{USER}/preferences.md", content="- a preference\n")])
    assert client.recall("task").path == RECALL_PATH_HYBRID
    assert client.recall("task", project="other").path == RECALL_PATH_HYBRID
    assert client.recall("preference", project="lamp").path == RECALL_PATH_HYBRID
    assert client.recall("task", project="lamp").path == RECALL_PATH_FAST


def test_a_known_file_beyond_the_budget_is_cut_where_a_sentence_or_section_ends(
    client: MessageClient,
) -> None:
    """In both languages, and marked; no heading is left hanging at the end."""
    sections = "".join(f"## Part {i}\n\nOne sentence here. 这是另一句话。\n\n" for i in range(40))
    client.put([Draft(f"{USER}/preferences.md", content=f"# All\n\n{sections}")])
    for budget in range(20, 200, 7):
        reply = client.recall("preference", max_tokens=budget)
        (content,) = contents(reply)
        assert reply.results[0].truncated
        assert reply.total_tokens <= budget
        assert content.endswith((".", "。"))
        assert reply.budget_remaining == budget - reply.total_tokens
        assert "cut" in reply.reason


def test_a_budget_that_holds_nothing_of_a_known_file_is_explained(client: MessageClient) -> None:
    """The file is there: no other path is taken for it."""
    client.put([Draft(f"{USER}/preferences.md", content="𓀀𓀁𓀂𓀃𓀄𓀅𓀆𓀇𓀈𓀉")])
    reply = client.recall("preference", max_tokens=1)
    assert (reply.path, list(reply.results)) == (RECALL_PATH_FAST, [])
    assert "nothing fits" in reply.reason


@pytest.mark.parametrize("first", [" ", "\n", "# All\n"])
def test_a_known_file_that_says_nothing_for_a_mebibyte_is_cut_like_any(
    client: MessageClient, first: str
) -> None:
    """White space, or headings with nothing below them, before its first sentence."""
    nothing = first * ((1 << 20) // len(first))
    content = nothing + "\nLikes tea. " * 3000
    client.put([Draft(f"{USER}/preferences.md", content=content)])
    used = open_tokenizer("o200k_base").count(nothing)
    (memory,) = client.recall("preference", max_tokens=used + 3000).results
    assert memory.truncated
    assert content.startswith(memory.content)
    assert memory.content.endswith("Likes tea.")
    assert len(memory.content) > len(nothing) + 5000
    assert not client.recall("preference", max_tokens=used - 50).results


def test_of_a_known_file_that_begins_with_a_heading_no_mere_mark_is_recalled(
    client: MessageClient,
) -> None:
    """Where no more than the heading fits, nothing does, at every budget."""
    client.put([Draft(f"{USER}/preferences.md", content="# All\n\n" + "One word. " * 200)])
    told = [client.recall("preference", max_tokens=budget) for budget in range(1, 24)]
    assert not told[0].results
    assert len(told[-1].results) == 1
    for content in (content for reply in told for content in contents(reply)):
        assert "word" in content


@pytest.mark.parametrize("times", [1, 200])
def test_each_tokenizer_counts_what_another_has_counted_before(
    client: MessageClient, times: int
) -> None:
    """Of a short memory, whose count is remembered, and of a long one."""
    content = f"- {'Windmills, unbelievably. ' * times}\n"
    passage = Passage("", 2, len(content))
    client.put([Draft(f"{USER}/notes.md", content=content, passages=[passage])])
    names = ("o200k_base", "approx", "llama3", "o200k_base")
    told = []
    for name in names:
        (memory,) = client.recall("windmills", tokenizer=name, max_tokens=4000).results
        assert len(memory.content) >= 20 * times
        assert memory.token_count == open_tokenizer(name).count(memory.content)
        told.append(memory.token_count)
    assert len(set(told)) > 1


# The timeline

DAYS = [
    ("今天做了什么", [10]),
    ("what happened today?", [10]),
    ("昨天呢", [9]),
    ("what about yesterday?", [9]),
    ("past 3 days", [10, 9, 8]),
    ("过去三天", [10, 9, 8]),
    ("最近有什么", [10, 9, 8, 6, 4]),
    ("anything recent?", [10, 9, 8, 6, 4]),
    ("这几天", [10, 9, 8, 6, 4]),
    ("last week", [10, 9, 8, 6, 4]),
    ("上周", [10, 9, 8, 6, 4]),
    ("past 10 days", [10, 9, 8, 6, 4, 3, 1]),
]


@pytest.fixture
def journal(client: MessageClient) -> MessageClient:
    """Some days of March have a journal; beside it lie files that are none."""
    days = (1, 3, 4, 6, 8, 9, 10, 11)
    client.put(
        [Draft(f"{USER}/journal/2026-03-{d:02}.md", content=f"- note of day {d}\n") for d in days]
        + [Draft(f"{USER}/journal/2026-03-10-extra.md", content="no day")]
        + [Draft(f"{USER}/journal/2026-03-09.txt", content="no Markdown")]
    )
    return client


@pytest.mark.parametrize(("query", "days"), DAYS)
def test_words_for_days_read_the_journal_newest_first(
    journal: MessageClient, query: str, days: list[int]
) -> None:
    """Days without a file are passed over; what lies in the future is not read."""
    reply = journal.recall(query, now=NOW)
    assert reply.path == RECALL_PATH_TIMELINE
    assert contents(reply) == [f"- note of day {d}\n" for d in days]
    assert reply.results[0].memory_type == "journal"


def test_the_day_is_that_of_the_callers_time_zone(journal: MessageClient) -> None:
    """At noon UTC it is the next day in Kiritimati and the day before nowhere."""
    for zone, day in (("", 10), ("Pacific/Kiritimati", 11), ("Europe/Berlin", 10)):
        assert contents(journal.recall("today", now=NOW, time_zone=zone)) == [
            f"- note of day {day}\n"
        ]
    night = NOW.replace(hour=3)
    assert contents(journal.recall("today", now=night, time_zone="America/Los_Angeles")) == [
        "- note of day 9\n"
    ]


def test_the_timeline_of_both_scopes_is_one(journal: MessageClient) -> None:
    """Newest first, of one day the global one first."""
    journal.put([Draft(f"{LAMP}/journal/2026-03-{d:02}.md", content=f"lamp {d}") for d in (7, 9)])
    assert contents(journal.recall("past 4 days", now=NOW, project="lamp")) == ["lamp 9", "lamp 7"]
    both = journal.recall("past 4 days", now=NOW, project="lamp", with_global=True)
    assert contents(both) == [
        "- note of day 10\n",
        "- note of day 9\n",
        "lamp 9",
        "- note of day 8\n",
        "lamp 7",
    ]


def test_the_timeline_keeps_to_the_budget(journal: MessageClient) -> None:
    """What does not fit is cut at a sentence, or passed over where that is wanted."""
    long = "It rained. " * 200
    journal.put([Draft(f"{USER}/journal/2026-03-09.md", content=long)])
    cut = journal.recall("past 3 days", now=NOW, max_tokens=50)
    first, second = contents(cut)
    assert (first, second[:10]) == ("- note of day 10\n", "It rained.")
    assert second.endswith("rained.")
    assert (cut.results[1].truncated, cut.total_tokens <= 50) == (True, True)
    assert "left out" in cut.reason
    skipped = journal.recall("past 3 days", now=NOW, max_tokens=50, skip_oversize=True)
    assert contents(skipped) == ["- note of day 10\n", "- note of day 8\n"]


def test_an_empty_journal_leads_to_the_next_path(client: MessageClient) -> None:
    """With the days in the reason."""
    client.put([Draft(f"{USER}/notes.md", content="- seen yesterday\n")])
    reply = client.recall("yesterday", now=NOW)
    assert reply.path == RECALL_PATH_HYBRID
    assert "2026-03-09" in reply.reason
    assert contents(reply) == ["seen yesterday"]


def test_a_journals_blank_file_is_a_day_without_a_word(client: MessageClient) -> None:
    """It is there, and says nothing."""
    client.put([Draft(f"{USER}/journal/2026-03-09.md", content="")])
    reply = client.recall("yesterday", now=NOW)
    assert reply.path == RECALL_PATH_TIMELINE
    assert not reply.results


# Paths


def test_each_path_can_be_switched_off(journal: MessageClient) -> None:
    """The fast path goes first, then the timeline, then the search; not all three are off."""
    journal.put([Draft(f"{USER}/preferences.md", content="- recent preference\n")])

    def path(*without: RecallPath) -> int:
        return journal.recall("recent preference", now=NOW, without=without).path

    assert path() == RECALL_PATH_FAST
    assert path(RecallPath.HYBRID) == RECALL_PATH_FAST
    assert path(RecallPath.FAST) == RECALL_PATH_TIMELINE
    assert path(*SEARCH) == RECALL_PATH_HYBRID
    nothing = journal.recall("a word", without=[RecallPath.HYBRID])
    assert (nothing.path, list(nothing.results)) == (RECALL_PATH_UNSPECIFIED, [])
    assert nothing.reason == "hybrid: switched off"


# The search


def entries(*texts: str, of: Callable[[int], Entry | None] = lambda _: None, **fields) -> Draft:
    """A memory file with one entry a line."""
    content, passages = "", []
    for i, text in enumerate(texts):
        start = len(content) + 2
        content += f"- {text}\n"
        passages.append(Passage("", start, start + len(text), entry=of(i)))
    return Draft(f"{USER}/notes.md", content=content, passages=passages, **fields)


def test_a_search_finds_entries_within_the_scope(client: MessageClient) -> None:
    """Entries, not files; abstracts, resources and other projects are none of them."""
    client.put(
        [
            entries("Harbour tea at noon.", "Mountain coffee.", abstract="harbour harbour"),
            Draft(f"{LAMP}/notes.md", content="- The harbour lamp.\n"),
            Draft("viking://projects/other/memories/notes.md", content="- harbour of others\n"),
            Draft("viking://resources/harbour.md", content="- harbour\n"),
            Draft("viking://agent/memories/cases.md", content="- Agent at the harbour.\n"),
        ]
    )

    def found(**scope) -> set[str]:
        return set(contents(client.recall("harbour", **scope)))

    assert found() == {"Harbour tea at noon.", "Agent at the harbour."}
    assert found(project="lamp") == {"The harbour lamp."}
    assert found(project="lamp", with_global=True) == found() | found(project="lamp")
    empty = client.recall("harbour", project="nowhere")
    assert "viking://projects/nowhere/memories" in empty.reason
    assert not empty.results


def test_salience_orders_what_fits_alike(client: MessageClient) -> None:
    """Reinforced, accessed and new memories first; each part is told."""
    known = [
        Entry(0, 0, 0, micros(NOW - timedelta(days=60))),
        Entry(0, 5, 0, micros(NOW - timedelta(days=60))),
        Entry(0, 0, 0, micros(NOW)),
        Entry(0, 0, 9, micros(NOW - timedelta(days=60))),
    ]
    texts = ("harbour one", "harbour two", "harbour three", "harbour four")
    client.put([entries(*texts, of=lambda i: known[i])])
    reply = client.recall("harbour", now=NOW, no_touch=True)
    assert contents(reply) == ["harbour two", "harbour three", "harbour four", "harbour one"]
    for one in reply.results:
        p = one.parts
        assert one.score == pytest.approx(
            0.5 * p.semantic + 0.2 * p.reinforcement + 0.2 * p.recency + 0.1 * p.access
        )
    assert reply.results[1].parts.recency == 1
    assert reply.results[3].parts.recency == pytest.approx(0.25)
    assert [one.reinforcement for one in reply.results] == [5, 0, 0, 0]
    fast_fading = client.recall("harbour", now=NOW, no_touch=True, half_life_days=1)
    assert fast_fading.results[3].parts.recency == pytest.approx(2**-60)


def test_weights_are_by_profile_or_by_request(client: MessageClient) -> None:
    """Relevance lets what the search says decide, where salience prefers what is strong."""
    strong = Entry(0, 50, 50, micros(NOW))
    weak = Entry(0, 0, 0, micros(NOW - timedelta(days=900)))
    client.put(
        [entries("harbour and much else beside it", "harbour", of=lambda i: (strong, weak)[i])]
    )

    def first(**weights) -> str:
        return contents(client.recall("harbour", now=NOW, no_touch=True, **weights))[0]

    assert first() == first(profile="salience") == "harbour and much else beside it"
    assert first(profile="relevance") == "harbour"
    assert first(weights=(1, 0, 0, 0)) == "harbour"
    assert first(weights=(0, 0, 1, 0)) == "harbour and much else beside it"


@pytest.mark.parametrize("fusion", [None, Rrf(), Rrf(60, 2.0, 1.0), WeightedSum(0.2, 0.8)])
def test_the_best_semantic_score_is_1(
    client: MessageClient, fusion: Rrf | WeightedSum | None
) -> None:
    """By score that of the best candidate, by rank that of one which is first on both sides."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- harbour\n", vector=vector(1, 0, 0)),
            Draft(f"{USER}/b.md", content="- mountain\n", vector=vector(0, 1, 0)),
            Draft(f"{USER}/c.md", content="- valley\n", vector=vector(0, 0, 1)),
        ]
    )
    reply = client.recall("harbour", vector=vector(1, 0, 0), fusion=fusion, no_touch=True)
    semantic = [one.parts.semantic for one in reply.results]
    assert contents(reply)[0] == "harbour"
    assert semantic[0] == pytest.approx(1)
    assert all(0 <= s < 1 for s in semantic[1:])


def test_by_rank_who_is_first_on_one_side_only_has_half(client: MessageClient) -> None:
    """The best possible fused score is 1: first by meaning and first by words."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- harbour\n", vector=vector(-1, 0.5, 0)),
            Draft(f"{USER}/b.md", content="- mountain\n", vector=vector(1, 0, 0)),
        ]
    )
    reply = client.recall("harbour", vector=vector(1, 0, 0), fusion=Rrf(), no_touch=True)
    assert [one.parts.semantic for one in reply.results] == pytest.approx([0.5, 0.5])


def test_the_search_keeps_to_the_budget(client: MessageClient) -> None:
    """It ends at the first that does not fit, unless it is to skip that; top_k bounds it too."""
    texts = ["harbour " + "and more words " * n for n in (0, 30, 1)]
    client.put([entries(*(text.strip() for text in texts))])
    short, long, middle = (text.strip() for text in texts)

    def found(**how) -> list[str]:
        return contents(client.recall("harbour", no_touch=True, **how))

    assert found() == [short, middle, long]
    assert found(max_tokens=1) == []
    ended = client.recall("harbour", max_tokens=60, no_touch=True, weights=(0, 0, 1, 0))
    assert contents(ended) == [short]
    assert "did not fit" in ended.reason
    assert found(max_tokens=60, weights=(0, 0, 1, 0), skip_oversize=True) == [short, middle]
    assert found(top_k=1) == [short]
    tight = client.recall("harbour", max_tokens=1, no_touch=True)
    assert "did not fit, 1 are left" in tight.reason
    assert tight.budget_remaining == 1


def test_equal_texts_are_recalled_once(client: MessageClient) -> None:
    """The same said in two files takes the budget once."""
    client.put([Draft(f"{USER}/{n}.md", content="- The harbour opens at six.\n") for n in "ab"])
    reply = client.recall("harbour", no_touch=True)
    assert contents(reply) == ["The harbour opens at six."]
    assert reply.results[0].uri == f"{USER}/a.md"


def test_an_identifier_is_found_by_words_alone(client: MessageClient) -> None:
    """Behaviour 28."""
    client.put(
        [
            Draft(f"{USER}/a.md", content="- error E4711 means empty\n", vector=vector(0, 1, 0)),
            Draft(f"{USER}/b.md", content="- near in meaning\n", vector=vector(1, 0, 0)),
        ]
    )
    reply = client.recall("E4711", vector=vector(1, 0, 0), no_touch=True)
    assert contents(reply) == ["error E4711 means empty"]


# Accesses


def test_what_a_search_returns_counts_as_accessed_within_a_second(client: MessageClient) -> None:
    """Once for each answer, exactly, from many callers; not with no_touch, nor what did not fit."""
    client.put([entries("harbour one", "harbour two " + "and more " * 50)])
    client.recall("harbour", no_touch=True)
    for _ in range(20):
        assert len(client.recall("harbour", max_tokens=20).results) == 1
    deadline = time.monotonic() + 5
    while client.get(f"{USER}/notes.md").context.access_count < 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.7)
    counts = [p.memory.access_count for p in client.get(f"{USER}/notes.md").context.passages]
    assert counts == [20, 0]
    assert client.recall("harbour", no_touch=True).results[0].parts.access > 0


def test_what_is_read_without_a_search_is_not_counted(journal: MessageClient) -> None:
    """Neither by the fast path nor by the timeline."""
    journal.put([Draft(f"{USER}/preferences.md", content="- tea\n")])
    assert contents(journal.recall("preference"))
    assert contents(journal.recall("today", now=NOW))
    time.sleep(0.7)
    assert [c.access_count for c in journal.tree(USER)] == [0] * 13


# Refusals

WRONG = [
    ({"query": " "}, "query"),
    ({"max_tokens": 10**7}, "max_tokens"),
    ({"top_k": 501}, "top_k"),
    ({"tokenizer": "nobody"}, "tokenizer"),
    ({"tokenizer": "hf:/dev/zero"}, "tokenizer"),
    ({"tokenizer": "tiktoken:gpt2"}, "tokenizer"),
    ({"weights": (0.5, 0.2, 0.2, 0.2)}, "weights"),
    ({"weights": (1.5, -0.5, 0.0, 0.0)}, "weights.semantic"),
    ({"weights": (1.0, 0.0, 0.0, 0.0), "profile": "relevance"}, "weights"),
    ({"profile": "nice"}, "profile"),
    ({"half_life_days": 0.0}, "half_life_days"),
    ({"half_life_days": float("nan")}, "half_life_days"),
    ({"time_zone": "Mars/Olympus"}, "time_zone"),
    ({"time_zone": "../../etc/passwd"}, "time_zone"),
    ({"project": "a/b"}, "scope.project"),
    ({"project": ".."}, "scope.project"),
    ({"without": tuple(RecallPath)}, "without"),
    ({"fusion": WeightedSum(0.0, 0.0)}, "weighted"),
    ({"fusion": Rrf(60, -1.0, 1.0)}, "rrf.vector_weight"),
    ({"vector": b"\0\0\0\0"}, "vector"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
def test_a_bad_request_is_refused_by_its_field(
    client: MessageClient, fields: dict, field: str
) -> None:
    """With INVALID_ARGUMENT, whatever path it would have taken."""
    with pytest.raises(ClientError) as refused:
        client.recall(**{"query": "preference", **fields})
    assert [v.field for v in refused.value.field_violations] == [field]


def test_a_daemon_without_its_embedder_answers_by_words(client: MessageClient) -> None:
    """One that is configured to have none says nothing of it."""
    client.put([entries("harbour one")])
    reply = client.recall("harbour", no_touch=True)
    assert contents(reply) == ["harbour one"]
    assert not reply.degraded


def test_the_table_of_the_fast_path_is_configuration(tmp_path) -> None:
    """Checked at start, where the row and its fault are named."""
    config = tmp_path / "config.toml"
    config.write_text(
        '[[recall.routes]]\nname = "recipes"\ntriggers = ["菜谱", "recipe"]\n'
        'files = ["viking://user/memories/cook.md"]\n'
    )
    with (
        serving("--provider", "none", "--config", str(config), quiet=True) as where,
        MessageClient(where) as client,
    ):
        client.put([Draft(f"{USER}/cook.md", content="- soup\n")])
        client.put([Draft(f"{USER}/preferences.md", content="- tea\n")])
        for query in ("a recipe", "看菜谱"):
            assert contents(client.recall(query)) == ["- soup\n"]
        assert client.recall("preference").path == RECALL_PATH_HYBRID
