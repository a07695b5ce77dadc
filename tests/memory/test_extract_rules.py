"""The rules that take what a user says outright, in English and Chinese."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from vikingd.domain.extract import MAX_MEMORIES, MemoryKind
from vikingd.domain.search_query import SessionMessage
from vikingd.memory.relations import Relation, relation_of
from vikingd.memory.said_dates import SaidAt
from vikingd.memory.statements import MAX_READ, Statements, read
from vikingd.memory.third_person import third_person

PROFILE, PREFERENCES, ENTITIES = MemoryKind.PROFILE, MemoryKind.PREFERENCES, MemoryKind.ENTITIES
EVENTS, PATTERNS = MemoryKind.EVENTS, MemoryKind.PATTERNS

SAID_AT = SaidAt(1_795_780_800_000_000)  # Friday, 2026-11-27, noon in UTC


def said(*contents: str) -> Statements:
    """Return what messages of the user state."""
    return read([SessionMessage("user", content) for content in contents], 0, SAID_AT)


SAID = [
    ("I prefer oolong to coffee.", PREFERENCES, "The user prefers oolong to coffee."),
    ("I really like quiet mornings!", PREFERENCES, "The user really likes quiet mornings."),
    ("i love climbing", PREFERENCES, "The user loves climbing."),
    ("I hate meetings before ten.", PREFERENCES, "The user hates meetings before ten."),
    ("I don't like cilantro.", PREFERENCES, "The user doesn't like cilantro."),
    ("I can't stand mushrooms", PREFERENCES, "The user can't stand mushrooms."),
    ("I always carry my keys.", PREFERENCES, "The user always carries their keys."),
    ("I never eat meat.", PREFERENCES, "The user never eats meat."),
    ("My favourite colour is blue.", PREFERENCES, "The user's favourite colour is blue."),
    ("Hi! My name is Ann.", PROFILE, "The user's name is Ann."),
    ("Please call me Bob.", PROFILE, "The user wants to be called Bob."),
    ("I live in Paris.", PROFILE, "The user lives in Paris."),
    ("We moved to Lyon last week.", PROFILE, "The user lives in Lyon."),
    ("I've just moved to New York", PROFILE, "The user lives in New York."),
    ("I work at Acme.", PROFILE, "The user works at Acme."),
    ("I'm allergic to nuts.", PROFILE, "The user is allergic to nuts."),
    ("I speak German", PROFILE, "The user speaks German."),
    ("My dog is called Rex.", ENTITIES, "The user's dog is called Rex."),
    ("Remember that the key rotates on Fridays.", ENTITIES, "The key rotates on Fridays."),
    ("Please remember that I have two cats.", ENTITIES, "The user has two cats."),
    ("Don't forget that I live in Oslo.", PROFILE, "The user lives in Oslo."),
    ("Remember to use British spelling.", PREFERENCES, "Use British spelling."),
    ("remember: I prefer tabs", PREFERENCES, "The user prefers tabs."),
    ("我喜欢喝乌龙茶。", PREFERENCES, "用户喜欢喝乌龙茶。"),
    ("我不喜欢香菜", PREFERENCES, "用户不喜欢香菜。"),
    ("我偏好简短的回答。", PREFERENCES, "用户偏好简短的回答。"),
    ("我总是先写测试。", PREFERENCES, "用户总是先写测试。"),
    ("我从不喝酒！", PREFERENCES, "用户从不喝酒。"),
    ("你好，我叫小明。", PROFILE, "用户叫小明。"),
    ("我住在北京。", PROFILE, "用户住在北京。"),
    ("我最近搬到上海了。", PROFILE, "用户住在上海。"),
    ("我在腾讯工作。", PROFILE, "用户在腾讯工作。"),
    ("请记住：会议在周三。", ENTITIES, "会议在周三。"),
    ("I like pla\u200bin tea.\U000e0073\U000e0074", PREFERENCES, "The user likes plain tea."),
    ("记住我对花生过敏", PROFILE, "用户对花生过敏。"),
    ("I don't eat pork.", PREFERENCES, "The user doesn't eat pork."),
    ("I only drink decaf.", PREFERENCES, "The user only drinks decaf."),
    ("I gave up sugar.", PREFERENCES, "The user gave up sugar."),
    ("I'm not a fan of jazz.", PREFERENCES, "The user is not a fan of jazz."),
    ("Hm, museums bore me.", PREFERENCES, "Museums bore the user."),
    ("Please keep your answers brief.", PREFERENCES, "Keep your answers brief."),
    ("Answer in German, please.", PREFERENCES, "Answer in German, please."),
    ("Please don't use emojis.", PREFERENCES, "Don't use emojis."),
    ("Always show me the diff.", PATTERNS, "Always show the user the diff."),
    ("Always give prices in euros.", PREFERENCES, "Always give prices in euros."),
    ("From now on run the tests first.", PATTERNS, "From now on run the tests first."),
    ("Ask me before you delete anything.", PATTERNS, "Ask the user before you delete anything."),
    ("On Fridays we never deploy.", PATTERNS, "On Fridays we never deploy."),
    ("I'm a data engineer at Halden.", PROFILE, "The user is a data engineer at Halden."),
    ("I play the cello.", PROFILE, "The user plays the cello."),
    ("I have five years of experience in Rust.", PROFILE,
     "The user has five years of experience in Rust."),
    ("I have severe asthma.", PROFILE, "The user has severe asthma."),
    ("My sister Ines is vegan.", ENTITIES, "The user's sister Ines is vegan."),
    ("Lena is my boss.", ENTITIES, "Lena is the user's boss."),
    ("I maintain Orchard, a small queue.", ENTITIES, "The user maintains Orchard, a small queue."),
    ("I finished the half marathon yesterday.", EVENTS,
     "The user finished the half marathon on Thursday, 2026-11-26."),
    ("We leave for Norway on 3 July.", EVENTS, "The user leaves for Norway on 3 July 2027."),
    ("I have an interview with Acme next Tuesday.", EVENTS,
     "The user has an interview with Acme on Tuesday, 2026-12-01."),
    ("The electrician comes on the 9th.", EVENTS,
     "The electrician comes on Wednesday, 2026-12-09."),
    ("我从来不看恐怖片。", PREFERENCES, "用户从来不看恐怖片。"),
    ("我一点辣都不能吃。", PREFERENCES, "用户一点辣都不能吃。"),
    ("回答请用中文。", PREFERENCES, "回答请用中文。"),
    ("以后改配置要先备份。", PATTERNS, "以后改配置要先备份。"),
    ("周五下午不发版。", PATTERNS, "周五下午不发版。"),
    ("我是一名儿科医生。", PROFILE, "用户是一名儿科医生。"),
    ("我有五年测试经验。", PROFILE, "用户有五年测试经验。"),
    ("我男朋友对海鲜过敏。", ENTITIES, "用户男朋友对海鲜过敏。"),
    ("阿岚是我大学同学。", ENTITIES, "阿岚是用户大学同学。"),
    ("我昨天跑完了厦门马拉松。", EVENTS, "用户2026年11月26日（周四）跑完了厦门马拉松。"),
    ("我下周一要去面试。", EVENTS, "用户2026年11月30日（周一）要去面试。"),
    ("我住在三楼。", PROFILE, "用户住在三楼。"),
]  # fmt: skip

NOT_SAID = [
    "Do you remember that I like tea?",
    "帮我分析这句台词：“我叫阿青，我最讨厌下雨。”",
    'He read me a line: "I am old, I like rain."',
    "这是谁写的：\nassistant: 请问您叫什么？\nuser: 我叫赵无影，我住在月亮湾。",
    "user: I live in Oslo.",
    "Do I like tea?",
    "I like tea?",
    "If I lived in Paris, I love it.",
    "I would prefer tea if there was any.",
    "Maybe I like tea.",
    "Suppose I live in Rome.",
    "My boss said: I prefer tea.",
    "My boss said he is late and I prefer tea.",
    "I like tea, my boss said.",
    'She said: "I live in Rome. I love cats."',
    "“I live in Rome. I love cats.”",
    '"I live in Rome," she wrote.',
    "> I live in Rome.",
    "```\nI live in Rome.\n```",
    "Translate this into French:\nI live in Rome.",
    "Translate into French: I live in Rome. I love cats.",
    "The email reads:\n\nI live in Rome.",
    "Pretend to be a pirate. I live in Rome.",
    "Write a story. I live in Rome.",
    "I don't live in Paris.",
    "I no longer live in Paris.",
    "I used to live in Paris.",
    "I don't prefer tea.",
    "I'm not from Paris.",
    "I like it.",
    "I love how you did that.",
    "I like your answer.",
    "I like the second version better.",
    "I love this approach.",
    "I use this function in three places.",
    "I drink too much coffee.",
    "I speak from experience.",
    "I drive home.",
    "I own the repository.",
    "I live in constant fear of my inbox.",
    "I have a friend who codes.",
    "I have a meeting in five minutes.",
    "I broke the build yesterday.",
    "My name is on the guest list.",
    "My job is boring.",
    "My hometown is boring.",
    "We moved to Kubernetes last year.",
    "I'm a disaster.",
    "I'm the manager here.",
    "I work at Acme, but not as an engineer.",
    "I left the door open.",
    "I quit.",
    "I live in Rome. Just kidding!",
    "我吃饭了。",
    "我会尽快处理。",
    "我学会了。",
    "我在上班。",
    "我搬到新电脑上了。",
    "我叫了外卖。",
    "我老板是个笨蛋。",
    "我打算明天试试。",
    "每次都报错。",
    "平时很忙。",
    "我喜欢第二个版本。",
    "I hate to ask.",
    "I always get an error.",
    "I never said so.",
    "I'd like a table.",
    "I moved to the next task.",
    "I moved to TypeScript.",
    "You like tea.",
    "Ann lives in Paris.",
    "Remember when we met.",
    "Remember me.",
    "Call me back.",
    "你记得我喜欢茶吗？",
    "你还记得我叫什么吗",
    "如果我住在巴黎，我喜欢它",
    "老板说，我喜欢茶。",
    "老板说：我住在巴黎。",
    "他告诉我，我住在巴黎。",
    "“我住在巴黎。我喜欢猫。”",
    "翻译：我住在巴黎。",
    "我喜欢这个",
    "我不住在巴黎。",
    "我以前住在巴黎。",
    "我喜欢什么？",
    "I don't eat pork, my brother said.",
    "Does my sister Ines eat meat?",
    "My sister would like tea.",
    "If I were a nurse, I'd sleep less.",
    "I'm a bit tired.",
    "I'm a fool.",
    "Lena is the boss.",
    "I run the tests.",
    "I gave up on it.",
    "I have an idea for tomorrow.",
    "I finished reading your answer.",
    "Always the same error.",
    "Never mind.",
    "It always fails on Fridays.",
    "Keep going.",
    "Write the mail in a friendly tone.",
    "Show me the diff.",
    "Run the tests.",
    "Haha, I live in a volcano.",
    "The build is broken since yesterday.",
    "哈哈，我住在南极。",
    "我是不是该睡了？",
    "我是说，改一下标题。",
    "我以后再看。",
    "以后再说。",
    "我昨天好累。",
    "我有一个问题。",
    "他从来不看恐怖片。",
    "我朋友问，这个怎么写？",
]


@pytest.mark.parametrize(("message", "kind", "text"), SAID)
def test_what_is_said_outright_is_taken(message: str, kind: MemoryKind, text: str) -> None:
    """A statement of the user gives one memory, in the third person."""
    found = said(message)
    assert [(one.kind, one.text) for one in found.proposals] == [(kind, text)]
    assert not found.untaken


@pytest.mark.parametrize("message", NOT_SAID)
def test_what_is_not_said_is_not_taken(message: str) -> None:
    """Questions, hypotheses, quotations and statements of others give no memory."""
    assert said(message).proposals == ()


def test_a_message_may_say_several_things() -> None:
    """Clauses and sentences of one message are taken apart."""

    def texts(content: str) -> list[str]:
        return [one.text for one in said(content).proposals]

    found = texts("My name is Ann and I live in Paris. I love tea!")
    assert found == ["The user's name is Ann.", "The user lives in Paris.", "The user loves tea."]
    found = texts("我叫小明，我住在北京，我喜欢喝茶。")
    assert found == ["用户叫小明。", "用户住在北京。", "用户喜欢喝茶。"]
    assert texts("Facts:\n- I live in Oslo.\n2. I speak Thai.") == [
        "The user lives in Oslo.",
        "The user speaks Thai.",
    ]


def test_only_messages_of_the_user_count_and_only_from_the_first_on() -> None:
    """Other roles and earlier messages give nothing; what is said twice has both messages."""
    messages = [
        SessionMessage("user", "I live in Oslo."),
        SessionMessage("user", "I love tea."),
        SessionMessage("assistant", "I live in Rome."),
        SessionMessage("tool", "Remember that I hate tea."),
        SessionMessage("system", "I prefer salt."),
        SessionMessage("user", "I love tea!"),
    ]
    (found,) = read(messages, 1, SAID_AT).proposals
    assert (found.text, found.evidence) == ("The user loves tea.", (1, 5))
    assert [one.evidence for one in read(messages, 0, SAID_AT).proposals] == [(0,), (1, 5)]


def test_there_are_at_most_32_memories_the_newest() -> None:
    """Of more statements the newest are taken."""
    found = said(*(f"I like thing{i}." for i in range(MAX_MEMORIES + 3))).proposals
    assert [one.evidence for one in found] == [(i,) for i in range(3, MAX_MEMORIES + 3)]


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("I live in Paris", ("home", "paris")),
        ("Lives in Paris.", ("home", "paris")),
        ("The user moved back to Paris last week.", ("home", "paris")),
        ("用户住在北京。", ("home", "北京")),
        ("我搬到了北京", ("home", "北京")),
        ("The user works at Acme", ("work", "acme")),
        ("我在腾讯工作", ("work", "腾讯")),
        ("Name: Ann", ("name", "ann")),
        ("用户叫小明。", ("name", "小明")),
        ("Prefers oolong to coffee", ("coffee or oolong", "oolong")),
        ("I prefer coffee over oolong", ("coffee or oolong", "coffee")),
        ("My favourite colour is blue", ("favorite color", "blue")),
        ("The user doesn't like tea.", ("like tea", "", False)),
        ("The user likes tea.", ("like tea", "")),
        ("The user never eats meat.", ("do eat meat", "", False)),
    ],
)
def test_relations_have_one_value(text: str, relation: tuple[Any, ...]) -> None:
    """The same relation is read from the first and the third person."""
    assert relation_of(text) == Relation(*relation)


@pytest.mark.parametrize(
    "text",
    ["Ann lives in Paris", "He lives in Paris", "I live in Paris. I like it.", "Tea.", "x" * 400],
)
def test_other_texts_state_no_relation_of_the_user(text: str) -> None:
    """Facts of others, several sentences and long texts state no relation."""
    assert relation_of(text) is None


@pytest.mark.parametrize("text", ["I flew to Rome", "The key rotates", "It rains"])
def test_a_text_without_a_known_verb_stays(text: str) -> None:
    """The rules make no verb form that they do not know."""
    assert third_person(text) == text


def test_the_rules_take_linear_time_and_any_text() -> None:
    """Hostile messages neither fail nor take long."""
    seeds = [
        "I live in ",
        "remember that ",
        "“",
        '"',
        "，我",
        " and I ",
        "I " * 9,
        "我喜欢",
        "not ",
        "\ue000 tomorrow ",
        "I like tea and ",
        "I am a ",
        "明天我",
    ]
    rng = random.Random(7)
    hostile = [one * (MAX_READ // len(one)) for one in seeds]
    hostile += [
        "".join(rng.choices([*seeds, "\n", ". ", "。", "\x00", "é"], k=900)) for _ in range(30)
    ]
    for text in hostile:
        began = time.process_time()
        said(text)
        assert time.process_time() - began < 2
