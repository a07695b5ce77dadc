"""The fit of memories to what a user wants forgotten."""

from __future__ import annotations

import pytest

from vikingd.domain.search_query import SessionMessage
from vikingd.memory import forget_requests
from vikingd.memory_calls.forget_words import Fit, Text, Topic, groups, says

NONE, WEAK, MORE, WHOLE = Fit.NONE, Fit.WEAK, Fit.MORE, Fit.WHOLE


def topic(said: str) -> Topic:
    """Return the topic of a request."""
    [request] = forget_requests.read([SessionMessage("user", said)], 0)
    return Topic(request)


FITS = [
    ("Forget that I live in Porto.", "The user lives in Porto.", WHOLE),
    ("Forget that I live in Porto.", "The user has been living in Porto for two years.", WHOLE),
    ("Forget that I live in Porto.", "The user lives in Porto, close to the river.", MORE),
    ("Forget that I live in Porto.", "The user's studio is in Porto.", NONE),
    ("Forget that I live in Porto.", "The user's aunt Eva lives in Porto.", NONE),
    ("Forget that I moved to Porto.", "The user lives in Porto.", WHOLE),
    ("Forget that I smoke.", "The user does not smoke.", NONE),
    ("Forget that I prefer window seats.", "The user prefers aisle seats.", NONE),
    ("Forget that Ola is pregnant.", "The user's friend Ola is pregnant.", WHOLE),
    ("Forget that Ola is pregnant.", "The user is pregnant.", NONE),
    ("Forget that I owe Bob 20 euros.", "Bob owes the user a beer.", NONE),
    ("Forget my favourite colour.", "The user's favorite color is teal.", WHOLE),
    ("Forget my favorite color.", "The user's favourite colour is teal.", WHOLE),
    ("Forget my favourite theatre.", "The user's favorite theater is the Globe.", WHOLE),
    ("Forget my favourite colour.", "The user's favorite author is Ann.", NONE),
    ("Forget my favourite colour.", "The user's car has the color teal.", NONE),
    ("Forget my grey coat.", "The user has a green coat.", NONE),
    ("Forget my birthday.", "The user's birthday is October 30.", WHOLE),
    ("Forget my birthday.", "The user's mother has her birthday on May 3.", WEAK),
    ("Forget my birthday.", "Ada's birthday is May 3.", WEAK),
    ("Forget my sister's birthday.", "The user's sister Ada's birthday is May 3.", WHOLE),
    ("Forget my sister's birthday.", "The user's sister is Ada.", NONE),
    ("Forget how old I am.", "The user is 34 years old.", WHOLE),
    ("Forget my age.", "The user is 34 years old.", WHOLE),
    ("Forget my weight.", "The user weighs 92 kg.", WHOLE),
    ("Forget my weight.", "The user's dog Sam weighs 30 kg.", WEAK),
    ("Forget my phone number.", "The user's phone is broken.", NONE),
    ("Forget my email.", "The user's email provider is small.", WHOLE),
    ("Forget my old address.", "The user's address is 1 A St.", WEAK),
    ("Forget my address.", "The user lives in Porto.", WEAK),
    ("Forget my ex.", "The user's ex lives in Bern.", WHOLE),
    ("Forget the name of my dentist.", "The user's dentist is called Ada Moss.", WHOLE),
    ("Forget my appointment on June 4.", "The user has a dentist appointment on June 4.", WHOLE),
    ("忘了我住在杭州这件事", "用户住在杭州。", WHOLE),
    ("忘了我住在杭州这件事", "用户住在杭州西湖区。", MORE),
    ("忘了我住在杭州这件事", "用户的妹妹住在杭州。", NONE),
    ("忘掉我吃素这件事", "用户吃素三年了。", WHOLE),
    ("忘掉我吃素这件事", "用户不吃素。", NONE),
    ("别再记着我的生日了", "用户的生日是9月14日。", WHOLE),
    ("别再记着我的生日了", "用户妈妈的生日是腊月初八。", WEAK),
    ("把我的手机号从记忆里删了", "用户房东的手机号是13900007714。", WEAK),
    ("忘掉我的年龄吧", "用户今年三十五岁。", WHOLE),
    ("請忘記我住在高雄這件事", "用戶住在高雄。", WHOLE),
]


@pytest.mark.parametrize(("said", "memory", "fit"), FITS)
def test_a_memory_fits(said: str, memory: str, fit: Fit) -> None:
    """Words decide, and whose fact it is: one of another person fits weakly at most."""
    assert topic(said).fit(Text(memory)) is fit


def test_an_earlier_memory_is_the_old_one() -> None:
    """An old address is one below Earlier."""
    assert topic("Forget my old address.").fit(Text("The user's address is 1 A St."), earlier=True)


@pytest.mark.parametrize(
    ("said", "section", "memory_type", "is_named"),
    [
        ("Forget everything under Travel.", "Travel", "profile", True),
        ("Forget everything under Travel.", "Notes > Travel", "profile", True),
        ("Forget everything under Travel.", "Travel costs", "profile", False),
        ("Forget everything in your preferences.", "", "preferences", True),
        ("把「健身」那一栏全删了吧", "健身", "profile", True),
        ("把「健身」那一栏全删了吧", "健身房", "profile", False),
    ],
)
def test_a_heading_is_named_wholly(
    said: str, section: str, memory_type: str, *, is_named: bool
) -> None:
    """A heading counts as a whole, and so does the name of a file."""
    assert topic(said).names(Text("x", section, memory_type)) is is_named


@pytest.mark.parametrize(
    ("sentence", "memory", "of_agent", "expected"),
    [
        ("I take sertraline, is that bad?", "The user takes sertraline.", False, True),
        (
            "My locker code at the pool is 7093.",
            "The user's locker code at the pool is 7093.",
            False,
            True,
        ),
        ("I live in Leeds and work as a nurse.", "The user works as a nurse.", False, True),
        ("My sister lives in Leeds.", "The user lives in Leeds.", False, False),
        ("She lives in Leeds.", "The user lives in Leeds.", False, False),
        ("I'd like coffee rather than tea.", "The user likes tea.", False, False),
        ("You live in Leeds, so the shop is near.", "The user lives in Leeds.", True, True),
        ("I live in Leeds.", "The user lives in Leeds.", True, False),
        ("写个留言，我家门锁密码是8826，谢谢", "用户家的门锁密码是8826。", False, True),
        ("他住在苏州。", "用户住在苏州。", False, False),
    ],
)
def test_a_sentence_says_a_memory(
    sentence: str, memory: str, *, of_agent: bool, expected: bool
) -> None:
    """A clause of the user about itself says it; one about others does not."""
    assert says(sentence, Text(memory), of_agent=of_agent) is expected


def test_the_same_statement_is_one() -> None:
    """Memories of one relation and value are one statement, and others are several."""
    same = [Text("The user lives in Rome."), Text("I moved to Rome.")]
    assert groups(same) == 1
    assert groups([*same, Text("The user works in Rome.")]) == 2
