"""Statements that another sentence, a title, a speaker or a time takes back or limits.

Each kind has messages that must store none of their facts, and near ones that must keep them.
"""

from __future__ import annotations

import pytest

from vikingd.domain.search_query import SessionMessage
from vikingd.memory.said_dates import SaidAt
from vikingd.memory.statements import read

NOON = SaidAt(1_795_780_800_000_000)  # Friday, 2026-11-27, noon in UTC

REFUSED = {
    "speaker": [
        "Me: I'm vegan\nHer: since when?\nWhat do I say next?",
        "Customer: I live in Dublin. I'm allergic to nuts.\nHow do I answer?",
        "Interviewer: where do you live?\nI live in Cork.",
        "客户：我住在杭州，我对花粉过敏。\n客服该怎么回",
        "老婆：我喜欢红色。\n那买红的吗",
        "患者：您好。我有糖尿病。",
        "Wife: when are you home?\nI work as a nurse.",
        "Boss: Maria\nMe: I live in Oslo.",
        "Dad: Tom\nMum: I'm a nurse.",
        "Customer: Maria\nI live in Oslo.",
        "老婆：好的\n我是护士。",
        "妈妈：小美\n我：我是护士。",
    ],
    "title": [
        "My New Year's resolutions: I go to the gym. I don't smoke.",
        "LinkedIn headline: I help teams. I work at Cisco.",
        "for my dating app: I love hiking. I have a dog.",
        "In this film a guy goes: I'm a doctor. I live in Ohio.",
        "新年计划：我每天跑步。我不喝酒。",
        "相亲资料：我今年三十岁。我是医生。",
        "Character age: I'm 34. I live in Oslo.",
        "A poem for you: I live in Oslo. I am vegan.",
        "Claude: I am vegan.\nI live in Oslo.",
        "What my sister told you: I'm vegan. I live in Oslo.",
        "Dear Sir: I live in Oslo. I am vegan.",
        "Stage name: I'm Ana. I live in Oslo.",
        "角色姓名：我叫周舟。我住在杭州。",
    ],
    "reported": [
        "she was like I'm a vegan and I live in Rome",
        "my dad keeps going I'm a lawyer, I'm a lawyer",
        "my cousin texted I'm a nurse, I live in Hull",
        "我妈老念叨我住在农村，我有高血压",
        "他到处吹嘘我是医生，我住在上海",
    ],
    "puzzle": [
        "I have three dogs. I sell one. How many dogs do I have?",
        "I have 5 brothers and each has a sister. How many siblings are we?",
        "My mother is 40. I am 10. In how many years is she twice my age?",
        "我有两个哥哥，大哥十二岁。我几岁？",
        "我有三只猫，两只狗，一共几只？",
        "I have 9 eggs and I eat 4. How many are left in the box, Tom?",
        "I have 9 eggs. My hen lays 4. How many are there in total now?",
        "I have 12 pens. How many pens do I have if I sell five?",
        "I'm 8. Ana is 10. How old is she\nif I'm 20?",
        "我有九个苹果，吃了四个，还剩几个？",
        "我爸爸的年龄是我的三倍。我十岁。我爸爸几岁？",
    ],
    "example": ["比如我是程序员，我住在上海，房租多少合适", "就当我是医生，我住在北京"],
    "limits": [
        "I don't drink, tonight.",
        "I'm vegan this month.",
        "I'm temporarily living in Rome.",
        "我不喝酒了，今天",
        "我暂时住在成都",
        "我戒酒了，过年除外",
    ],
    "for a day": [
        "I'm the driver tonight.",
        "I'm a babysitter tonight.",
        "I'm a teacher for a day.",
        "我今晚是司机",
        "今天我是司机",
    ],
    "fragment": [
        "I'm a pilot. Said no one ever.",
        "I'm vegan. Not.",
        "I live in Paris. I wish.",
        "I work at NASA. In my head anyway.",
        "I live in Rome. Or did until last week.",
        "I'm vegan. Mostly.",
        "I don't drink. Except on weekends.",
        "I love coffee. Just not in the morning.",
        "我是医生。才怪。",
        "我住在北京。我倒是想。",
        "我对花生过敏。除了熟的。",
    ],
    "gone": [
        "I have a cat, he died last week.",
        "I have a cat. He died last week.",
        "I own a bakery, it closed last year.",
        "I have a dog. It's my neighbour's actually.",
        "我养了一只猫，后来死了",
        "我开了一家店，去年倒闭了",
    ],
    "no statement": [
        "Remember that song from Titanic",
        "remember that time I lived in Rome",
        "Remember my words.",
        "Remember my birthday is in two weeks.",
        "记住我的话",
        "记住一句话：活着就好",
    ],
    "proverb": [
        "Never meet your heroes.",
        "Always keep your receipts.",
        "Always love your neighbour.",
        "以后要早睡",
        "以后把钱存起来",
        "以后请大家多多关照",
    ],
    "list": [
        "I've lived in Rome, Paris and Leeds.",
        "I visit Rome, Oslo or Hull.",
    ],
    "past state": ["我去年在北京上班", "我去年住在北京", "我去年是老师"],
    "no place": ["我搬到南京的计划取消了", "我搬到杭州的想法没了"],
    "no habit": ["我只看过一遍", "我只喝过一次酒", "我开了个会", "我想换个话题"],
    "no object": ["我喜欢的女生喜欢周杰伦", "我讨厌的人来了"],
    "cannot go": ["我周五去不了成都了", "我下周二回不了家"],
    "together": ["We always fight.", "We often miss the bus.", "我们总是错开", "我们俩经常吵架"],
    "play": [
        "You be the judge. I'm a pilot.",
        "你当面试官。我叫周舟。",
        "你是考官。我住在苏州。",
        "You'll be my interviewer. I'm a pilot.",
        "Would you be the interviewer? I'm a nurse.",
        "Ok, you play a dragon, I'm a nurse.",
        "You will be the customer, ok? I'm a nurse.",
        "Can you play the landlord? I live in Oslo.",
        "What if you be my patient? I live in Oslo.",
    ],
    "changed": [
        "I've been vegan for 12 years, started eating fish in May.",
        "I'm vegan. I started eating fish again.",
        "我吃素十二年，今年九月开始吃鱼了",
        "我不喝酒。最近又喝上了。",
    ],
    "idiom": ["I hate my life.", "I'm 12 again.", "我对老板过敏", "我对数字过敏"],
}
"""Messages of which nothing is stored, by kind."""

KEPT = {
    "speaker": [
        ("I live in Hull. Him: nobody.", "lives in Hull"),
        ("My friend Tom lives in Hull.", "lives in Hull"),
        ("He comes at 10:30. I live in Hull.", "lives in Hull"),
        ("我住在杭州。时间：十点", "住在杭州"),
        ("补充：我住在杭州。我对花生过敏。", "花生"),
        ("I have two dogs.\nHow do I train them?", "two dogs"),
        ("Boss: Maria\nI live in Oslo.", "lives in Oslo"),
        ("Wife: Anna, a nurse\nBoss: Maria\nI live in Oslo.", "lives in Oslo"),
        ("My brother: lives in Rome\nI work as a nurse.", "nurse"),
        ("Husband: Émile Noir (chef)\nI'm vegan.", "vegan"),
        ("我住在杭州。\n老婆：小美\n我是护士。", "护士"),
        ("我妈妈：王小美，医生\n我住在杭州。", "住在杭州"),
    ],
    "title": [
        ("One thing you should know: I'm vegan. I live in Rome.", "lives in Rome"),
        ("A bit about me: I live in Rome. I have two dogs.", "two dogs"),
        ("My situation: I live in Rome. I'm a nurse.", "nurse"),
        ("Fun fact: I speak Finnish.", "Finnish"),
        ("补充一下：我住在杭州。我对花生过敏。", "花生"),
        ("我的情况：我是护士。我住在杭州。", "住在杭州"),
        ("Location: I live in Oslo.", "lives in Oslo"),
        ("Good morning: I am vegan.\nI live in Oslo.", "lives in Oslo"),
        ("Hey Claude: I'm a nurse in Leeds.", "nurse"),
        ("Note to self: I'm a nurse.", "nurse"),
        ("Quick context for you: I'm vegan. I live in Oslo.", "vegan"),
        ("Personal: I'm vegan. My son Tom is 5.", "Tom"),
        ("你好：我是护士。\n我住在杭州。", "住在杭州"),
    ],
    "reported": [
        ("I like going out and I live in Rome.", "lives in Rome"),
        ("My brother got a job. I'm a nurse.", "nurse"),
        ("My mum went to Hull. I live in Rome.", "lives in Rome"),
        ("我妈喜欢唱歌，我住在农村", "住在农村"),
        ("我住在上海，抱怨的人真多", "住在上海"),
    ],
    "puzzle": [
        ("I have three kids. How many bedrooms do I need?", "three kids"),
        ("I'm 42. How old do I have to be to retire?", "42"),
        ("I have two dogs. How much food do they eat?", "two dogs"),
        ("我有两个孩子。要买几张票？", "两个孩子"),
        ("我住在杭州。高铁要多少钱？", "住在杭州"),
        ("I'm vegan. How many calories are there in an egg?", "vegan"),
        ("I'm 34. How old am I allowed to be for an apprenticeship?", "34"),
        ("I'm a nurse. How much paid leave are there in Germany?", "nurse"),
        ("I have a dog. How old is he in human years?", "a dog"),
        ("我吃素。豆腐一共有多少种做法？", "吃素"),
        ("我是护士。国庆加班是三倍工资吗？", "护士"),
    ],
    "example": [("我住在上海，房租多少合适", "住在上海"), ("我是程序员。", "程序员")],
    "limits": [
        ("I don't drink.", "doesn't drink"),
        ("I'm vegan.", "vegan"),
        ("I live in Rome.", "lives in Rome"),
        ("我不喝酒了", "不喝酒"),
        ("我住在成都", "住在成都"),
        ("我不抽烟，你呢", "不抽烟"),
    ],
    "for a day": [
        ("I'm a driver.", "driver"),
        ("I'm a babysitter and I live in Hull.", "babysitter"),
        ("I've been a teacher for a year.", "teacher"),
        ("我是司机", "司机"),
        ("我现在是司机", "司机"),
    ],
    "fragment": [
        ("I'm vegan. Not sure what to cook.", "vegan"),
        ("I'm a nurse. Just moved in. Any tips?", "nurse"),
        ("I live in Rome. Well, thanks!", "lives in Rome"),
        ("I live in Rome. Until then, what can I do?", "lives in Rome"),
        ("I'm a nurse. Night shifts.", "nurse"),
        ("I'm vegan. Only problem is cheese.", "vegan"),
        ("I live in Hull. I wish you a nice day.", "lives in Hull"),
        ("I love coffee. Not a fan of mornings.", "loves coffee"),
        ("我住在杭州。偶尔想吃辣怎么办？", "住在杭州"),
        ("我是医生。有什么建议？", "医生"),
        ("我对花生过敏。能吃什么？", "花生"),
    ],
    "gone": [
        ("I have two dogs. They love to run.", "two dogs"),
        ("I have a cat. She is grey.", "cat"),
        ("I own a bakery. We open at six.", "owns a bakery"),
        ("I have a dog. It's a husky.", "dog"),
        ("我养了一只猫，很胖", "猫"),
        ("我开了一家店，去年开的", "店"),
    ],
    "no statement": [
        ("Remember that dinner is at 7.", "Dinner is at 7"),
        ("Remember that Tom from work is allergic to nuts.", "Tom from work"),
        ("Remember my sister smokes.", "smokes"),
        ("Remember that the exam is tomorrow.", "2026-11-28"),
        ("Don't forget that my name is Ana.", "Ana"),
        ("请记住我对虾过敏", "对虾过敏"),
    ],
    "proverb": [
        ("Always show me the sources.", "sources"),
        ("Never give me long answers.", "long answers"),
        ("From now on, answer in English.", "English"),
        ("以后用英文回答", "英文"),
        ("以后回答都先给结论", "结论"),
        ("以后不用给我解释", "解释"),
    ],
    "list": [("I speak French and German.", "French and German"), ("I live in Rome.", "Rome")],
    "past state": [
        ("我从去年起住在北京", "住在北京"),
        ("我去年搬到北京", "住在北京"),
        ("我去年开始学钢琴", "学钢琴"),
    ],
    "no place": [("我住在海边的小村子", "小村子"), ("我搬到南京了", "住在南京")],
    "no habit": [
        ("我只看英文书", "英文书"),
        ("我只喝美式", "美式"),
        ("我开了一家店", "店"),
        ("我想换工作", "换工作"),
    ],
    "no object": [("我喜欢周杰伦的歌", "周杰伦"), ("我讨厌下雨天", "下雨天")],
    "cannot go": [("我周五去成都", "去成都"), ("我下周二回家", "回家")],
    "together": [
        ("We always eat at seven.", "always eats at seven"),
        ("I often miss home. I live in Hull.", "lives in Hull"),
        ("我总是先写测试", "先写测试"),
        ("我们住在杭州", "住在杭州"),
    ],
    "play": [
        ("Be careful, I'm a pilot.", "pilot"),
        ("你当然可以叫我，我叫周舟。", "周舟"),
        ("你是对的。我住在苏州。", "苏州"),
        ("I'm vegan. Will you be my coach?", "vegan"),
        ("I'm vegan. Would you be the best choice?", "vegan"),
        ("You'll be the judge of that. I'm a nurse.", "nurse"),
        ("Do you play the piano? I live in Oslo.", "Oslo"),
        ("I'm vegan. You'll be the first to know.", "vegan"),
        ("I live in Oslo. Should you be an expert, tell me.", "Oslo"),
    ],
    "changed": [
        ("I'm vegan, started in May.", "vegan"),
        ("I'm vegan. I started learning to cook.", "vegan"),
        ("我吃素，今年很瘦", "吃素"),
        ("我不喝酒。最近很忙。", "不喝酒"),
    ],
    "idiom": [
        ("I hate my job.", "hates their job"),
        ("I'm 12.", "12"),
        ("我对花粉过敏", "花粉"),
        ("我对芒果过敏", "芒果"),
    ],
}
"""Near messages, with words of a note that they give, by kind."""


def notes(content: str) -> list[str]:
    """Return the notes that the messages in `content` give; messages are separated by "||"."""
    messages = [SessionMessage("user", one) for one in content.split(" || ")]
    return [one.text for one in read(messages, 0, NOON).proposals]


@pytest.mark.parametrize(
    "content",
    [pytest.param(one, id=f"{kind}-{one[:30]}") for kind in REFUSED for one in REFUSED[kind]],
)
def test_what_is_taken_back_or_limited_is_not_stored(content: str) -> None:
    """A statement that the message limits, takes back or reports gives no note."""
    assert notes(content) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [pytest.param(*one, id=f"{kind}-{one[0][:30]}") for kind in KEPT for one in KEPT[kind]],
)
def test_near_statements_are_stored(content: str, words: str) -> None:
    """A near message that limits nothing gives its note."""
    assert any(words in note for note in notes(content))


def test_there_are_as_many_near_messages_as_refused_ones() -> None:
    """Each kind has at least as many counter-examples as examples."""
    assert {kind: len(texts) for kind, texts in REFUSED.items()} == {
        kind: len(texts) for kind, texts in KEPT.items()
    }


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("I live in Bath.", "Not anymore though."),
        ("I'm vegan.", "lol no I'm not"),
        ("I have two cats.", "had, sorry. they died"),
        ("I'm a nurse.", "That's what my bio says anyway."),
        ("I work at Nike.", "was fired yesterday"),
        ("我喜欢吃辣", "以前"),
        ("我是护士", "才怪"),
    ],
)
def test_a_short_message_takes_back_the_one_before(said: str, then: str) -> None:
    """A message that only limits the one before leaves none of its facts."""
    assert notes(f"{said} || {then}") == []


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("I live in Bath.", "Not sure what to pack."),
        ("I'm vegan.", "lol nice"),
        ("I have two cats.", "They sold well in my shop."),
        ("I'm a nurse.", "For 20 years now."),
        ("I work at Nike.", "Was it cold yesterday?"),
        ("我喜欢吃辣", "以前的菜单呢"),
        ("我是护士", "你呢"),
    ],
)
def test_other_short_messages_take_nothing_back(said: str, then: str) -> None:
    """A message that goes on or asks leaves the facts of the one before."""
    assert notes(said)
    assert set(notes(said)) <= set(notes(f"{said} || {then}"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("我老婆叫小芳，女儿叫小圆", ["用户老婆叫小芳。", "用户女儿叫小圆。"]),
        ("我妈妈是老师，爸爸是医生", ["用户妈妈是老师。", "用户爸爸是医生。"]),
        ("我女儿5岁，儿子3岁", ["用户女儿5岁。", "用户儿子3岁。"]),
        ("我儿子30岁，老婆是护士", ["用户儿子30岁。"]),
        ("我老婆是护士，喜欢跑步", ["用户老婆是护士。", "用户老婆喜欢跑步。"]),
    ],
)
def test_a_relative_in_the_next_clause_is_the_users(content: str, expected: list[str]) -> None:
    """A person that begins a clause is no relative of the person before."""
    assert notes(content) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("My wife's allergic to nuts.", "The user's wife is allergic to nuts."),
        ("My brother's a nurse.", "The user's brother is a nurse."),
        ("My wife's name is Ana.", "The user's wife's name is Ana."),
        ("My husband's Danish and I'm a nurse.", "The user's husband is Danish."),
        ("My sister's vegan.", "The user's sister is vegan."),
        ("My sister's dog is called Rex.", ""),
        ("My wife's Italian restaurant is shut. I live in Hull.", "The user lives in Hull."),
        ("I hike and fish.", "The user fishes."),
        ("I eat vegetables but fish sometimes.", "The user eats vegetables."),
    ],
)
def test_the_text_of_a_note_is_whole(content: str, expected: str) -> None:
    """Contractions are written out, and each verb of a note has its person."""
    found = notes(content)
    assert expected in found or not expected
    assert not any(" is dog" in one or " is Italian" in one for one in found)
    assert not any("fishes sometimes" in one or "hikes and fish" in one for one in found)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("Ana and I broke up.", "girlfriend is called"),
        ("I broke up with Ana.", "wife is called"),
        ("I sold my Fiat Punto and bought a Skoda.", "do driv fiat punto"),
    ],
)
def test_an_end_names_the_relation_that_ends(said: str, key: str) -> None:
    """What a sentence adds behind "and" is no part of what ended."""
    found = read([SessionMessage("user", said)], 0, NOON)
    assert key in [one.key for one in found.endings]


@pytest.mark.parametrize(
    "said",
    [
        "I no longer live in Rome. It was sold.",
        "I'm no longer vegan. I started eating meat again.",
        "我不再吃素了，去年又开始吃肉了",
        "我不住在北京了。后来搬了",
    ],
)
def test_a_change_leaves_the_end_before_it(said: str) -> None:
    """What ended stays ended if the next sentence tells of what came after."""
    found = read([SessionMessage("user", said)], 0, NOON)
    assert found.endings or found.proposals


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I teach in Tulsa and my kids (students lol) are loud.", ["The user teaches in Tulsa."]),
        ("I collect stamps and my coins (old ones) are gold.", ["The user collects stamps."]),
        ("I live in Hull (the city).", ["The user lives in Hull."]),
        (
            "I collect stamps (old ones) and I live in Hull.",
            ["The user collects stamps.", "The user lives in Hull."],
        ),
    ],
)
def test_a_clause_that_goes_on_behind_brackets_is_not_cut(said: str, expected: list[str]) -> None:
    """The words before brackets belong to the clause that goes on behind them."""
    assert notes(said) == expected
