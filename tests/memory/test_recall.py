"""Recall over the wire in the strict form: known files, the timeline and the order of the paths."""

from __future__ import annotations

import pytest

from tests.memory.recall_helpers import LAMP, NOW, SEARCH, STRICT, USER, contents
from vikingd.client import ClientError, Draft, Passage, RecallPath
from vikingd.client.messages import MessageClient
from vikingd.context.tokenizers import open_tokenizer
from vikingd.pb.memories_pb2 import (
    RECALL_PATH_FAST,
    RECALL_PATH_HYBRID,
    RECALL_PATH_TIMELINE,
    RECALL_PATH_UNSPECIFIED,
)

# The fast path

pytestmark = pytest.mark.stores

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
    """A query that names a known file gets the whole file as the only result, with its URI."""
    body = "# Known\n\n- one thing\n- 另一件事\n"
    client.put([Draft(uri, content=body)])
    reply = client.recall(query, project=project, with_global=bool(project), paths=STRICT)
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
    """An English trigger matches only a whole word."""
    for name in ("TASKS", "agent/patterns"):
        client.put([Draft(f"{LAMP}/{name}.md", content="- never shown\n")])
    client.put([Draft(f"{USER}/instructions.md", content="- never shown\n")])
    reply = client.recall(query, project="lamp", with_global=True)
    assert reply.path == RECALL_PATH_HYBRID


@pytest.mark.parametrize("query", ["我的偏好", "what is my preference?"])
def test_without_the_file_the_next_path_is_taken(client: MessageClient, query: str) -> None:
    """A recall without the named file searches instead and gives the reason."""
    client.put([Draft(f"{USER}/notes.md", content="- A preference for windows seats. 偏好靠窗\n")])
    reply = client.recall(query)
    assert reply.path == RECALL_PATH_HYBRID
    assert "no such file" in reply.reason
    assert contents(reply)


def test_a_projects_file_is_not_read_for_another_scope(client: MessageClient) -> None:
    """A recall reads only the known files of its own scope."""
    client.put([Draft(f"{LAMP}/TASKS.md", content="- a task of lamp\n")])
    client.put([Draft(f"{USER}/preferences.md", content="- a preference\n")])
    assert client.recall("task").path == RECALL_PATH_HYBRID
    assert client.recall("task", project="other").path == RECALL_PATH_HYBRID
    assert client.recall("preference", project="lamp").path == RECALL_PATH_HYBRID
    assert client.recall("task", project="lamp").path == RECALL_PATH_FAST


def test_a_known_file_beyond_the_budget_is_cut_where_a_sentence_or_section_ends(
    client: MessageClient,
) -> None:
    """A known file beyond the budget is cut after a sentence, and the reason mentions the cut."""
    sections = "".join(f"## Part {i}\n\nOne sentence here. 这是另一句话。\n\n" for i in range(40))
    client.put([Draft(f"{USER}/preferences.md", content=f"# All\n\n{sections}")])
    for budget in range(20, 200, 7):
        reply = client.recall("preference", paths=STRICT, max_tokens=budget)
        (content,) = contents(reply)
        assert reply.results[0].truncated
        assert reply.total_tokens <= budget
        assert content.endswith((".", "。"))
        assert reply.budget_remaining == budget - reply.total_tokens
        assert "cut" in reply.reason


def test_a_budget_that_holds_nothing_of_a_known_file_is_explained(client: MessageClient) -> None:
    """A budget too small for a known file gives no result, and no other path is taken."""
    client.put([Draft(f"{USER}/preferences.md", content="𓀀𓀁𓀂𓀃𓀄𓀅𓀆𓀇𓀈𓀉")])
    reply = client.recall("preference", paths=STRICT, max_tokens=1)
    assert (reply.path, list(reply.results)) == (RECALL_PATH_FAST, [])
    assert "nothing fits" in reply.reason


@pytest.mark.parametrize(
    ("first", "size"),
    [
        ("# All\n", 1 << 15),
        *(pytest.param(one, 1 << 20, marks=pytest.mark.deep) for one in (" ", "\n", "# All\n")),
    ],
)
def test_a_known_file_that_says_nothing_for_long_is_cut_like_any(
    client: MessageClient, first: str, size: int
) -> None:
    """A known file is cut at a sentence, also after a mebibyte of white space or headings."""
    nothing = first * (size // len(first))
    content = nothing + "\nLikes tea. " * 3000
    client.put([Draft(f"{USER}/preferences.md", content=content)])
    used = open_tokenizer("o200k_base").count(nothing)
    (memory,) = client.recall("preference", paths=STRICT, max_tokens=used + 3000).results
    assert memory.truncated
    assert content.startswith(memory.content)
    assert memory.content.endswith("Likes tea.")
    assert len(memory.content) > len(nothing) + 5000
    assert not client.recall("preference", paths=STRICT, max_tokens=used - 50).results


def test_of_a_known_file_that_begins_with_a_heading_no_mere_mark_is_recalled(
    client: MessageClient,
) -> None:
    """A heading alone is not recalled when no text below it fits the budget."""
    client.put([Draft(f"{USER}/preferences.md", content="# All\n\n" + "One word. " * 200)])
    told = [client.recall("preference", paths=STRICT, max_tokens=budget) for budget in range(1, 24)]
    assert not told[0].results
    assert len(told[-1].results) == 1
    for content in (content for reply in told for content in contents(reply)):
        assert "word" in content


@pytest.mark.parametrize("times", [1, 200])
def test_each_tokenizer_counts_what_another_has_counted_before(
    client: MessageClient, times: int
) -> None:
    """Each tokenizer gives its own count for a memory, also after another tokenizer counted it."""
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
    ("past week", [10, 9, 8, 6, 4]),
    ("last week", [8, 6, 4, 3]),
    ("最近一周", [10, 9, 8, 6, 4]),
    ("上周", [8, 6, 4, 3]),
    ("past 10 days", [10, 9, 8, 6, 4, 3, 1]),
]


@pytest.fixture
def journal(client: MessageClient) -> MessageClient:
    """Return a client of a store with journals of some days and two files that are no journals."""
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
    """Words for days read the journals of these days, newest first, without days in the future."""
    reply = journal.recall(query, now=NOW, paths=STRICT)
    assert reply.path == RECALL_PATH_TIMELINE
    assert contents(reply) == [f"- note of day {d}\n" for d in days]
    assert reply.results[0].memory_type == "journal"


def test_the_day_is_that_of_the_callers_time_zone(journal: MessageClient) -> None:
    """A day begins and ends in the caller's time zone."""
    for zone, day in (("", 10), ("Pacific/Kiritimati", 11), ("Europe/Berlin", 10)):
        assert contents(journal.recall("today", now=NOW, time_zone=zone)) == [
            f"- note of day {day}\n"
        ]
    night = NOW.replace(hour=3)
    assert contents(journal.recall("today", now=night, time_zone="America/Los_Angeles")) == [
        "- note of day 9\n"
    ]


def test_the_timeline_of_both_scopes_is_one(journal: MessageClient) -> None:
    """The timeline of two scopes is sorted by day, and the global file comes first within a day."""
    journal.put([Draft(f"{LAMP}/journal/2026-03-{d:02}.md", content=f"lamp {d}") for d in (7, 9)])
    assert contents(journal.recall("past 4 days", now=NOW, paths=STRICT, project="lamp")) == [
        "lamp 9",
        "lamp 7",
    ]
    both = journal.recall("past 4 days", now=NOW, paths=STRICT, project="lamp", with_global=True)
    assert contents(both) == [
        "- note of day 10\n",
        "- note of day 9\n",
        "lamp 9",
        "- note of day 8\n",
        "lamp 7",
    ]


def test_the_timeline_keeps_to_the_budget(journal: MessageClient) -> None:
    """A day that does not fit is cut after a sentence, or skipped on request."""
    long = "It rained. " * 200
    journal.put([Draft(f"{USER}/journal/2026-03-09.md", content=long)])
    few = {"query": "past 3 days", "now": NOW, "paths": STRICT, "max_tokens": 50}
    cut = journal.recall(**few)
    first, second = contents(cut)
    assert (first, second[:10]) == ("- note of day 10\n", "It rained.")
    assert second.endswith("rained.")
    assert (cut.results[1].truncated, cut.total_tokens <= 50) == (True, True)
    assert "left out" in cut.reason
    skipped = journal.recall(
        "past 3 days", now=NOW, paths=STRICT, max_tokens=50, skip_oversize=True
    )
    assert contents(skipped) == ["- note of day 10\n", "- note of day 8\n"]


def test_an_empty_journal_leads_to_the_next_path(client: MessageClient) -> None:
    """A recall for days without a journal searches instead, and the reason names the days."""
    client.put([Draft(f"{USER}/notes.md", content="- seen yesterday\n")])
    reply = client.recall("yesterday", now=NOW)
    assert reply.path == RECALL_PATH_HYBRID
    assert "2026-03-09" in reply.reason
    assert contents(reply) == ["seen yesterday"]


def test_a_journals_blank_file_is_a_day_without_a_word(client: MessageClient) -> None:
    """An empty journal file gives the timeline no result, and no other path is taken."""
    client.put([Draft(f"{USER}/journal/2026-03-09.md", content="")])
    reply = client.recall("yesterday", now=NOW, paths=STRICT)
    assert reply.path == RECALL_PATH_TIMELINE
    assert not reply.results


# Paths


def test_the_strict_form_tries_its_paths_in_their_order(journal: MessageClient) -> None:
    """In the strict form a word decides, and the first path with an answer gives all of it."""
    journal.put([Draft(f"{USER}/preferences.md", content="- recent preference\n")])
    fast, timeline, hybrid = STRICT

    def path(*paths: RecallPath) -> int:
        reply = journal.recall("a recent preference of hers", now=NOW, paths=paths)
        assert len({one.uri for one in reply.results} & {f"{USER}/preferences.md"}) == (
            reply.path != RECALL_PATH_TIMELINE
        )
        return reply.path

    assert path(fast, timeline, hybrid) == RECALL_PATH_FAST
    assert path(fast) == RECALL_PATH_FAST
    assert path(timeline, fast) == RECALL_PATH_TIMELINE
    assert path(hybrid) == RECALL_PATH_HYBRID
    nothing = journal.recall("a word", paths=[fast])
    assert (nothing.path, list(nothing.results)) == (RECALL_PATH_UNSPECIFIED, [])
    assert nothing.reason == "hybrid: switched off"


def test_the_default_form_can_do_without_a_path(journal: MessageClient) -> None:
    """Each path can be switched off in the default form."""
    journal.put([Draft(f"{USER}/preferences.md", content="- likes notes\n")])

    def path(query: str, *without: RecallPath) -> int:
        return journal.recall(query, now=NOW, without=without).path

    assert path("my preferences") == RECALL_PATH_FAST
    assert path("my preferences", RecallPath.FAST) == RECALL_PATH_HYBRID
    assert path("what did I do yesterday?") == RECALL_PATH_TIMELINE
    assert path("what did I do yesterday?", *SEARCH) == RECALL_PATH_HYBRID
    nothing = journal.recall("a word", without=[RecallPath.HYBRID])
    assert (nothing.path, list(nothing.results)) == (RECALL_PATH_UNSPECIFIED, [])
    assert nothing.reason == "hybrid: switched off"


@pytest.mark.parametrize(
    ("paths", "without", "field"),
    [
        ([RecallPath.FAST, RecallPath.FAST], (), "paths[1]"),
        ([RecallPath.HYBRID, RecallPath.FAST], (), "paths[1]"),
        ([RecallPath.FAST], [RecallPath.FAST], "without"),
    ],
)
def test_paths_that_cannot_be_tried_are_refused(
    client: MessageClient, paths: list[RecallPath], without: list[RecallPath], field: str
) -> None:
    """A path twice, a path after the search, and `without` beside paths are refused."""
    with pytest.raises(ClientError) as refused:
        client.recall("a", paths=paths, without=without)
    assert refused.value.reason == "INVALID_FIELD"
    assert field in str(refused.value)
