"""Routes: the files that the words of a query name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingd.memory.known_file_routes import DEFAULT_ROUTES, Route, Routes, candidates
from vikingd.memory.memory_types import MemoryScope

relaxed = settings(deadline=None, print_blob=True)

FILE = ("viking://user/memories/a.md",)
DEFAULTS = Routes(DEFAULT_ROUTES)
TRIGGERS = [(route.name, trigger) for route in DEFAULT_ROUTES for trigger in route.triggers]
ENGLISH = [trigger for _, trigger in TRIGGERS if trigger.isascii()]
CHINESE = [trigger for _, trigger in TRIGGERS if not trigger.isascii()]
# These letters have other forms under NFKC or in another case, but none is CJK.
LETTERS = "azAZ09_éßŠжЯλΣﬁＡſ"


def named(query: str, routes: Routes = DEFAULTS) -> str:
    """Return the name of the row that a query matches, or "" without one."""
    found = routes.match(query)
    return found[0].name if found else ""


@pytest.mark.parametrize(
    ("query", "name", "trigger"),
    [
        ("What are my preferences?", "preferences", "preferences"),
        ("我的偏好是什么", "preferences", "偏好"),
        ("Which instruction applies here", "instructions", "instruction"),
        ("编码规则有哪些", "instructions", "规则"),
        ("編碼規則有哪些", "instructions", "規則"),
        ("按指令来", "instructions", "指令"),
        ("open tasks", "tasks", "tasks"),
        ("还有什么任务", "tasks", "任务"),
        ("還有什麼任務", "tasks", "任務"),
        ("who are the people involved", "entities", "people"),
        ("相关人物", "entities", "人物"),
        ("哪些實體", "entities", "實體"),
        ("the decision on storage", "decisions", "decision"),
        ("为什么做这个决策", "decisions", "决策"),
        ("為什麼做這個決策", "decisions", "決策"),
        ("a pattern for retries", "patterns", "pattern"),
        ("重试模式", "patterns", "模式"),
    ],
)
def test_a_query_that_names_a_known_file_is_routed(query: str, name: str, trigger: str) -> None:
    """A query matches the row of its trigger, in both languages."""
    found = DEFAULTS.match(query)
    assert found is not None
    assert (found[0].name, found[1]) == (name, trigger)


@pytest.mark.parametrize("query", ["", " ", "how do I deploy the daemon", "怎么部署", "persons"])
def test_other_queries_match_nothing(query: str) -> None:
    """A query without a trigger matches no row."""
    assert DEFAULTS.match(query) is None


@pytest.mark.parametrize(
    "query",
    [
        "multitasking",
        "ruler",
        "rules_engine",
        "patterned",
        "taskforce",
        "task_id",
        "task2",
        "3tasks",
    ],
)
def test_a_part_of_an_english_word_does_not_match(query: str) -> None:
    """An English trigger does not match next to a letter, a digit or an underscore."""
    assert DEFAULTS.match(query) is None


@relaxed
@given(
    st.sampled_from(ENGLISH),
    st.text(LETTERS, max_size=5),
    st.text(LETTERS, max_size=5),
    st.sampled_from(["", "see ", "我的"]),
)
def test_an_english_trigger_between_letters_never_matches(
    trigger: str, before: str, after: str, start: str
) -> None:
    """An English trigger matches if and only if no letter is next to it."""
    routes = Routes([Route("a", (trigger,), FILE)])
    query = f"{start}{before}{trigger}{after}。"
    assert (routes.match(query) is not None) == (not before and not after)


@relaxed
@given(st.sampled_from(CHINESE), st.text(max_size=5), st.text("azAZ09_中カ한", max_size=5))
def test_a_chinese_trigger_matches_anywhere(trigger: str, before: str, after: str) -> None:
    """A Chinese trigger matches between any characters, because no space divides Chinese words."""
    routes = Routes([Route("a", (trigger,), FILE)])
    assert routes.match(f"{before}{trigger}{after}") is not None


@pytest.mark.parametrize(
    "query",
    [
        "我的task列表",
        "列出tasks",
        "々task〇",
        "タスクtaskする",
        "할일task목록",
        "task's",
        "task’s",
        "(task)",
        "task-list",
        "“task”",
        "a/task/b",
        "task",
    ],
)
def test_a_word_ends_at_cjk_characters_and_punctuation(query: str) -> None:
    """CJK characters and punctuation end an English word, as spaces do."""
    assert named(query) == "tasks"


@pytest.mark.parametrize("query", ["TASK", "Task", "ｔａｓｋ", "ＴＡＳＫＳ", "taſk"])
def test_case_and_compatible_forms_do_not_count(query: str) -> None:
    """A query is compared after NFKC and case folding."""
    assert named(query) == "tasks"
    assert named("\u2f08物") == "entities"  # the radical 人


def test_a_trigger_is_folded_as_queries_are_and_told_as_it_is_written() -> None:
    """A trigger matches in capitals, wide letters and with any white space."""
    routes = Routes([Route("a", ("ＴＯ  Do", "Straße"), FILE)])
    for query in ("my to do list", "TO\n\u3000DO"):
        assert routes.match(query) == (Route("a", ("ＴＯ  Do", "Straße"), FILE), "ＴＯ  Do")
    assert routes.match("STRASSE")
    assert routes.match("todo") is None


def test_a_trigger_is_no_pattern() -> None:
    """Punctuation in a trigger matches itself and needs no word boundary."""
    routes = Routes([Route("a", ("c++", "a.b"), FILE)])
    assert routes.match("c++11")
    assert routes.match("a.b")
    assert routes.match("ccc axb") is None


def test_the_first_row_of_the_table_wins() -> None:
    """The first row wins over the first word, the longest word and overlapping words."""
    assert named("people and tasks") == "tasks"
    assert named("模式和偏好") == "preferences"
    rows = [Route("a", ("务规则",), FILE), Route("b", ("任务", "任务规则"), FILE)]
    assert named("任务规则", Routes(rows)) == "a"
    assert named("任务规则", Routes(rows[::-1])) == "b"
    rows = [Route("a", ("任务",), FILE), Route("b", ("任务规则",), FILE)]
    assert named("任务规则", Routes(rows)) == "a"
    assert named("任务规则", Routes(rows[::-1])) == "b"
    rows = [Route("a", ("to do list",), FILE), Route("b", ("to do", "list"), FILE)]
    assert named("to do list", Routes(rows)) == "a"
    assert named("to do list", Routes(rows[::-1])) == "b"


def test_an_empty_table_matches_nothing() -> None:
    """A table without rows matches no query."""
    assert Routes([]).match("task") is None
    assert Routes([]).match("") is None


USER = "viking://user/memories"
AGENT = "viking://agent/memories"
LAMP = "viking://projects/lamp/memories"


@pytest.mark.parametrize(
    ("name", "of_user", "of_project"),
    [
        ("preferences", [f"{USER}/preferences.md"], []),
        ("instructions", [f"{USER}/instructions.md"], []),
        ("entities", [f"{USER}/entities.md"], []),
        ("tasks", [], [f"{LAMP}/TASKS.md"]),
        (
            "decisions",
            [f"{AGENT}/decisions.md"],
            [f"{LAMP}/agent/decisions.md", f"{LAMP}/decisions.md"],
        ),
        (
            "patterns",
            [f"{AGENT}/patterns.md"],
            [f"{LAMP}/agent/patterns.md", f"{LAMP}/patterns.md"],
        ),
    ],
)
def test_the_files_of_a_row_are_those_of_the_scope(
    name: str, of_user: list[str], of_project: list[str]
) -> None:
    """A row gives the global files in the global scope, and before them those of the project."""
    (route,) = (route for route in DEFAULT_ROUTES if route.name == name)
    assert candidates(route, MemoryScope()) == of_user
    assert candidates(route, MemoryScope(False, "lamp")) == of_project
    assert candidates(route, MemoryScope(True, "lamp")) == of_project + of_user
    assert candidates(route, MemoryScope(False)) == []


def test_the_name_of_a_project_stands_as_it_is() -> None:
    """Braces in the name of a project are not replaced again."""
    route = Route("a", ("a",), ("viking://projects/{project}/memories/a.md",))
    assert candidates(route, MemoryScope(False, "{0}{project}")) == [
        "viking://projects/{0}{project}/memories/a.md"
    ]


GOOD = Route("good", ("good",), FILE)


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (Route("", ("a",), FILE), r"route 2 \(''\): a name has"),
        (Route("Tasks", ("a",), FILE), r"route 2 \('Tasks'\): a name has"),
        (Route("1st", ("a",), FILE), "a name has"),
        (Route("tâche", ("a",), FILE), "a name has"),
        (Route("a\n", ("a",), FILE), "a name has"),
        (Route("good", ("a",), FILE), r"route 2 \('good'\): another row has the same name"),
        (Route("a", (), FILE), r"route 2 \('a'\): has no trigger"),
        (Route("a", ("a", "\u3000 "), FILE), "has a blank trigger"),
        (Route("a", ("a", "ＧＯＯＤ"), FILE), "the row 'good' has the trigger 'ＧＯＯＤ' too"),
        (Route("a", ("a",), ()), "has no file"),
        (Route("a", ("a",), ("notes.md",)), "file 'notes.md' must begin with viking://"),
        (Route("a", ("a",), ("viking://user/memories//a.md",)), "the segment ''"),
        (Route("a", ("a",), ("viking://user/memories/a/",)), "ends with a slash"),
        (Route("a", ("a",), ("viking://user/memories",)), "is not below the memories"),
        (Route("a", ("a",), ("viking://projects/{project}/memories",)), "is not below the"),
        (Route("a", ("a",), ("viking://projects/{project}/a.md",)), "is not below the memories"),
        (Route("a", ("a",), (*FILE, "viking://resources/a.md")), "is not below the memories"),
        (Route("a", ("a",), ("viking://user/memories/{name}.md",)), "has braces other than"),
        (Route("a", ("a",), ("viking://user/memories/a}.md",)), "has braces other than"),
    ],
)
def test_a_row_that_is_wrong_is_refused(route: Route, message: str) -> None:
    """The error of a wrong row has its number, its name and its fault."""
    with pytest.raises(ValueError, match=message) as error:
        Routes([GOOD, route])
    assert str(error.value).startswith(f"route 2 ({route.name!r}): ")


def test_a_row_may_say_a_trigger_twice() -> None:
    """Two triggers of a row that fold to the same text are one, in the first spelling."""
    routes = Routes([Route("a-1_b", ("Task", "task"), FILE)])
    assert routes.match("task") == (Route("a-1_b", ("Task", "task"), FILE), "Task")


@pytest.mark.parametrize(
    "query",
    [
        "preferences",
        "What are my preferences?",
        "list the open tasks, please",
        "show me all the rules",
        "tasks and decisions",
        "我的偏好是什么？",
        "列出所有任务",
        "还有哪些任务",
        "有什么规则吗",
    ],
)
def test_a_query_may_ask_for_a_file_as_a_whole(query: str) -> None:
    """A query that names a file and says nothing else asks for it as a whole."""
    assert DEFAULTS.match(query)
    assert DEFAULTS.asks_for_file(query)


@pytest.mark.parametrize(
    "query",
    [
        "What are her preferences for tea?",
        "a rule for names",
        "the people from the choir",
        "task 7",
        "喝茶的偏好",
        "周杰负责哪些任务",
        "命名规则是什么",
    ],
)
def test_a_query_with_a_subject_does_not_ask_for_a_file(query: str) -> None:
    """A query that says more than the name of a file asks for something in particular."""
    assert DEFAULTS.match(query)
    assert not DEFAULTS.asks_for_file(query)


@pytest.mark.deep_after(5)
@pytest.mark.parametrize(
    "hostile", ["a", "_", " ", "task_", "1", "\ufdfa", "e\u0301\u0316", "\u0301\u0316", "\ud800"]
)
def test_a_hostile_query_is_answered(hostile: str) -> None:
    """200,000 hostile characters are read in linear time."""
    query = f"{'é' + hostile * (200_000 // len(hostile))} 任务"
    assert named(query) == "tasks"
    assert not DEFAULTS.asks_for_file(query)
