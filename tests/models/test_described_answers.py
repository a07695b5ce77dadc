"""The check of descriptions: judged answers, and facts that are written in another way."""

from __future__ import annotations

import pytest

from tests.models.describe_helpers import MATERIALS, TRUE, Judged, judged
from vikingd.models.chat.chat_question import prompt_of
from vikingd.models.describe.answer_check import Answer, Source, read_answer, refusal
from vikingd.models.describe.describer import source_of
from vikingd.models.describe.stated_facts import Facts, invented_fact
from vikingd.models.describe.stated_names import Names, invented_name

ANSWERS = [*judged(0), *judged(1)]


@pytest.mark.parametrize("one", ANSWERS, ids=lambda one: f"{one.material}-{one.verdict}")
def test_a_judged_answer_gets_its_verdict(one: Judged) -> None:
    """Each answer passes if its verdict is ok, and is refused otherwise."""
    answer = Answer(one.abstract.strip(), one.overview.strip())
    reason = refusal(answer, source_of(MATERIALS[one.material]))
    assert (reason == "") == (one.verdict == "ok"), reason


SAME = [
    ("It costs 1,250 EUR.", "1250 EUR"),
    ("It costs 1250 EUR.", "1,250 EUR"),
    ("It costs 1 250 EUR.", "€1.250"),
    ("After 3 days.", "after three days"),
    ("After three days.", "after 3 days"),
    ("三个步骤，二十三天。", "3 个步骤，23 天"),
    ("共 3 个步骤。", "三个步骤"),
    ("错误率超过百分之五。", "错误率 5%"),
    ("On 2023-05-08T13:56:00Z.", "on 8 May 2023 at 1:56 pm"),
    ("On May 8th, 2023.", "2023年5月8日"),
    ("On 8/5/2023.", "on 5 August 2023"),
    ("In 2023. It was on 8 May.", "on May 8, 2023"),
    ("Version 2.3.1 is out.", "version 2.3"),
    ("See <https://acme.example/a/b>.", "https://acme.example/a"),
    ("每周日休息。", "星期天休息"),
    ("The 1st of the month.", "first"),
]
OTHER = [
    ("It costs 1,250 EUR.", "1,350 EUR"),
    ("It costs 1,250 EUR.", "250 EUR"),
    ("It costs 12 EUR.", "$12"),
    ("12 seats.", "12% of seats"),
    ("By 30 June 2025.", "thirty days"),
    ("At 14:30.", "at 15:30"),
    ("At 2:30 pm.", "at 2:30 am"),
    ("On May 8, 2023, and June 9.", "on May 9, 2023"),
    ("Version 2.3.", "version 2.4"),
    ("See https://acme.example/a.", "https://acme.example/ab"),
    ("See https://acme.example/abc.", "https://acme.example/ab"),
    ("See https://acme.example/a.", "https://acme.example.evil.example/a"),
    ("See https://acme.example/a.", "https://acme.example.com"),
    ("Port 8080 of 10.0.3.7.", "within three days"),
    ("二十七天。", "七天"),
    ("每周三上线。", "每周五上线"),
    ("Write to ann@acme.example.", "dan@acme.example"),
]


@pytest.mark.parametrize(("text", "said"), SAME)
def test_a_fact_may_be_written_in_another_way(text: str, said: str) -> None:
    """A number, a date or an address in another form is no invention."""
    assert invented_fact(said, Facts(text)) == ""


@pytest.mark.parametrize(("text", "said"), OTHER)
def test_another_fact_is_invented(text: str, said: str) -> None:
    """A number, a date or an address that only resembles one of the text is refused."""
    assert invented_fact(said, Facts(text))


KNOWN = [
    ("The invoices of Python's users.", "Python invoices"),
    ("Relay serves webhooks.", "Explains webhooks. Describes Relay."),
    ("the sync engine", "# Frequently Asked Questions about Sync"),
    ("GitHub hosts it.", "Hosted on Github"),
    ("call `load_all(path)` first", "`load_all()`"),
    ("it is called “soft lock”", 'the "Soft Lock"'),
    ("migrations: steps", "`migrations/`"),
    ("Обсидиан хранит заметки в папке.", "Хранение заметок в папке Обсидиана"),
    (
        "Der Server speichert die Notizen und das Protokoll.",
        "Erklärt, wie der Server die Notiz speichert",
    ),
    ("デスクトップとモバイル", "デスクトップモバイルの説明"),
    ("马上部署网关。", "部署网关的方法，说明如何马上部署"),
]
UNKNOWN = [
    ("Relay serves webhooks.", "Jessica explains webhooks."),
    ("Relay serves webhooks.", "Emily explains webhooks."),
    ("Relay serves webhooks.", "Tim explains webhooks."),
    ("Relay serves webhooks.", "Serves webhooks with Kafka."),
    ("Relay serves webhooks.", "# Webhooks By Marta Lindqvist"),
    ("call `load_all(path)` first", "`load_none()`"),
    ("call `reload_all()` first", "`load_all()`"),
    ("Relay serves webhooks.", "Serves webhooks of Page"),
    ("the file a/b.py", "the file a/c.py"),
    ("the option --dry-run", "the option --force"),
    ("it is called “soft lock”", "“hard lock”"),
    ("Relay serves webhooks.", "Relay serves webhooks of 王芳"),
    ("Relay serves webhooks.", "Relay is kept by @jessica"),
    ("网关部署。", "网关由张伟负责部署。"),
    ("网关部署。", "王芳说明网关部署。"),
    ("网关部署。", "网关部署在上海。"),
    ("网关部署。", "用 kubernetes 部署网关。"),
    ("デスクトップ", "デスクトップとサーバーの説明"),
]


@pytest.mark.parametrize(("text", "said"), KNOWN)
def test_a_name_may_stand_in_another_form(text: str, said: str) -> None:
    """Plurals, cases, and ordinary words that begin sentences are no inventions."""
    assert invented_name(said, Names(text)) == ""


@pytest.mark.parametrize(("text", "said"), UNKNOWN)
def test_another_name_is_invented(text: str, said: str) -> None:
    """A name, a quotation or an identifier that the text does not have is refused."""
    assert invented_name(said, Names(text))


def test_each_sentence_of_the_prompt_is_refused() -> None:
    """An overview that repeats the prompt in part is refused."""
    abstract, overview = TRUE["billing"]
    source = source_of(MATERIALS["billing"])
    for line in prompt_of("vikingd.models.describe").splitlines():
        if len(line.split()) >= 12:
            assert refusal(Answer(abstract, f"{overview}\n\n{line}"), source), line


HUGE = ["a." * 8000, "1," * 8000, "一" * 8000, "a/" * 8000, "'" * 16000, "[(" * 8000, "you " * 4000]
HUGE += ["5 aprıl", "Auguſt 5, 2024"]  # letters that are equal to others without case


@pytest.mark.parametrize("text", HUGE, ids=lambda text: text[:2])
def test_odd_texts_are_checked(text: str) -> None:
    """Neither an odd text nor an odd answer raises an error."""
    refusal(Answer(text[:400], text[:2000]), Source(text))
    invented_fact(text[:2000], Facts(text))
    invented_name(text[:2000], Names(text))


@pytest.mark.parametrize("text", ["", "[]", '"a"', '{"abstract": "a"}', '{"abstract": 1}', "a {"])
def test_an_answer_without_the_two_texts_has_a_reason(text: str) -> None:
    """What is no object of two texts is no answer."""
    assert isinstance(read_answer(text), str)
