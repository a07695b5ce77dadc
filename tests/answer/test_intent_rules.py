"""The rules that plan a query by its form, and queries that only resemble others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.domain.contexts import ContextType
from vikingd.models.intent import plan_rules as rules

MEMORY, RESOURCE, SKILL = ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL


def kinds(query: str) -> list[tuple[ContextType, str, int]]:
    """Return the planned queries as (type, text, priority)."""
    return [(q.context_type, q.query, q.priority) for q in rules.plan(query)[0]]


@pytest.mark.parametrize(
    "query",
    [
        "hi there!",
        "Hello",
        "hey team, thanks so much for your help!",
        "good morning 😊",
        "thanks a lot",
        "Thank you very much!!",
        "no problem",
        "OK, got it. Thanks!",
        "goodbye",
        "how are you today?",
        "What’s up?",
        "good luck",
        "you're welcome",
        "👍",
        "???",
        "你好",
        "你好！",
        "您好，最近怎么样？",
        "谢谢",
        "谢谢你的帮助！",
        "非常感谢",
        "好的，知道了",
        "哈哈哈",
        "辛苦了",
        "再见",
        "不用谢",
        "hi，你好",
        "謝謝",
    ],
)
def test_chit_chat_needs_nothing(query: str) -> None:
    """Greetings and thanks give a plan without queries."""
    assert rules.plan(query) == ((), "chit-chat: nothing to look up")


@pytest.mark.parametrize(
    "query",
    [
        "hi-res image settings",
        "hello world example in rust",
        "hello world",
        "你好在日语里怎么说",
        "thanks to Rust's borrow checker",
        "no module named numpy",
        "good morning in French",
        "谢谢用法语怎么写",
        "okay-ish latency",
        "ok http client timeouts",
        "->",
        "how do I return a custom status code?",
        "where do I find the logs",
        "好的代码是什么样的",
        "请求超时怎么办",
        "请假流程",
        "请问怎么退款",
        "how to do I/O in Go",
        "remember me checkbox",
        "coal mine safety",
        "my.cnf",
        "MySQL tuning",
        "我的世界服务器",
        "自我的认知",
        "creation dates",
        "writer's block",
        "write-ahead logging",
        "review a-records",
        "test results",
        "design patterns in Java",
        "install guide",
        "deploy pipeline",
        "创建时间字段",
        "安装指南",
        "配置文件说明",
        "生成器和迭代器的区别",
        "please explain the API",
        "can you tell me about OAuth",
        "help me with the docs",
        "帮我查一下 API 文档",
        "what is a monad?",
        "API 使用指南",
    ],
)
def test_false_friends_are_topics(query: str) -> None:
    """A topic that looks like chit-chat, work or a memory is searched as it is."""
    assert kinds(query) == [(RESOURCE, query, 1)]


@pytest.mark.parametrize(
    ("query", "action"),
    [
        ("create an RFC document", "create an RFC document"),
        ("Create RFC document", "Create RFC document"),
        ("Please create an RFC document.", "create an RFC document"),
        ("Could you please extract tables from this PDF?", "extract tables from this PDF"),
        ("Hi there, can you help me write a cover letter, please?", "write a cover letter"),
        ("I want you to translate this into German", "translate this into German"),
        ("I'd like to review PR 12", "review PR 12"),
        ("ok now summarize the thread", "summarize the thread"),
        ("please transmogrify the invoices", "transmogrify the invoices"),
        ("design a schema for orders", "design a schema for orders"),
        ("提取这个 PDF 的表格", "提取这个 PDF 的表格"),
        ("提取 PDF 表格", "提取 PDF 表格"),
        ("请提取这个 PDF 的表格。", "提取这个 PDF 的表格"),
        ("请帮我写一份周报，谢谢！", "写一份周报"),
        ("你好，请帮我创建一个 RFC 文档", "创建一个 RFC 文档"),
        ("你能帮我把这个文件转换成 Word 吗？", "把这个文件转换成 Word"),
        ("请问能帮我翻译这段话吗？", "翻译这段话"),
        ("我想让你翻译这段话", "翻译这段话"),
        ("麻烦你帮忙检查这份合同", "检查这份合同"),
    ],
)
def test_work_needs_a_skill_without_the_polite_parts(query: str, action: str) -> None:
    """A request that begins with a verb is searched among skills without its polite words."""
    assert kinds(query) == [(SKILL, action, 1), (RESOURCE, query, 3)]


@pytest.mark.parametrize(
    "query",
    [
        "my favourite editor",
        "a friend of mine from Oslo",
        "what do I prefer",
        "Do I like tea?",
        "which editor do I use?",
        "I like short answers",
        "I really prefer tabs",
        "do you remember the name of the café",
        "what did I order last time I was here",
        "我的代码规范",
        "我喜欢喝什么茶",
        "我上次去哪里了",
        "用户的偏好",
        "你还记得那家店吗",
        "我不太喜欢咖啡",
    ],
)
def test_what_is_the_users_own_is_remembered(query: str) -> None:
    """A question about the user is searched in memories first."""
    assert kinds(query) == [(MEMORY, query, 1), (RESOURCE, query, 3)]


def test_work_of_the_users_own_needs_skill_and_memory() -> None:
    """A task about the user's own things is searched among skills and memories."""
    query = "Please create my weekly report"
    assert kinds(query) == [
        (SKILL, "create my weekly report", 1),
        (MEMORY, query, 1),
        (RESOURCE, query, 3),
    ]


@examples(200)
@given(st.text(max_size=80), st.sampled_from(["", "please ", "hi, ", "请", "我的", "create a "]))
def test_the_query_is_always_among_them_as_it_is(text: str, before: str) -> None:
    """The last query of a plan is the whole query, unless the plan is empty."""
    query = before + text
    plan = kinds(query)
    assert plan == kinds(query)
    assert plan == [] or (RESOURCE, query, 3 if len(plan) > 1 else 1) == plan[-1]
    assert [priority for _, _, priority in plan] == sorted(priority for _, _, priority in plan)
    assert all(text.strip() for _, text, _ in plan[:-1])


@pytest.mark.deep_after(4)
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "hi ",
        "hi",
        "ha",
        "please ",
        " ",
        "我很",
        "i really ",
        "do i ",
        "?",
        "谢谢",
        "请",
        "create ",
        "thanks a lot ",
        "ok ",
        "please create",
        "吗",
        " thanks",
        "\t\n",
    ],
)
def test_long_queries_take_linear_time(piece: str) -> None:
    """A query of 100,000 characters ends before the time-out; quadratic time would not."""
    query = (piece * 100_000)[:100_000]
    for text in (query + "x", "create a " + query):
        queries, kind = rules.plan(text)
        assert all(one.query.strip() for one in queries)
        assert kind
