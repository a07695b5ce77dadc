"""A scripted day of a coding agent: 30 sessions in three projects, 400 prompts, two languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.daemons import serving
from tests.hooks.hook_helpers import Machine, Talk, embedded
from vikingd.client import Client
from vikingd.hooks import memory_texts

SESSIONS, PROMPTS = 30, 400


class Fact(NamedTuple):
    """A fact, the one who says it, the question for it, and the word that answers it."""

    role: str
    said: str
    question: str
    answer: str


# ruff: noqa: E501  a fact is a line
FACTS = {
    "harbour": [
        Fact("user", "The staging database listens on port 5544.", "On which port does the staging database listen?", "5544"),
        Fact("user", "Always run the linter with pnpm lint before a commit.", "What do we run before a commit?", "pnpm lint"),
        Fact("assistant", "The flaky checkout test failed because the clock was mocked too late; I moved the mock into beforeEach.", "Why was the checkout test flaky?", "beforeEach"),
        Fact("user", "We decided to store prices as integers in cents, never as floats.", "How do we store prices?", "cents"),
        Fact("user", "购物车的缓存键是 cart:v7，改动时要升级版本号。", "购物车的缓存键是什么？", "cart:v7"),
        Fact("assistant", "The memory leak came from the websocket listeners in OrderFeed; they are removed in useEffect's cleanup now.", "Where did the memory leak come from?", "OrderFeed"),
    ],
    "glacier": [
        Fact("user", "The parser must stay no_std, because the firmware links it.", "Why must the parser be no_std?", "firmware"),
        Fact("user", "Benchmarks run on the machine called borealis only.", "On which machine do benchmarks run?", "borealis"),
        Fact("assistant", "The deadlock was between the arena lock and the flush queue; the flush takes the arena lock first now.", "What caused the deadlock?", "arena"),
        Fact("user", "Releases are tagged from the branch stable/9, not from main.", "From which branch do we tag releases?", "stable/9"),
        Fact("user", "快照文件的魔数是 GLC3，版本号在第五个字节。", "快照文件的魔数是多少？", "GLC3"),
        Fact("assistant", "Compression uses zstd level 11, since level 12 doubled the time for one percent.", "Which zstd level do we use?", "level 11"),
    ],
    "墨水": [
        Fact("user", "部署脚本在 ops/fabu.py，只能在 VPN 里运行。", "部署脚本在哪里？", "ops/fabu.py"),
        Fact("user", "导出 PDF 用 typst，不要用 LaTeX。", "导出 PDF 用什么工具？", "typst"),
        Fact("assistant", "导入失败的原因是 Excel 的日期是浮点数，我在 read_dates 里转换了。", "之前导入失败是什么原因？", "read_dates"),
        Fact("user", "The OCR queue is called inkwell-ocr and has four workers.", "What is the name of the OCR queue?", "inkwell-ocr"),
        Fact("user", "测试数据放在 fixtures/moshui，不能提交真实发票。", "测试数据放在哪里？", "fixtures/moshui"),
        Fact("assistant", "搜索变慢是因为缺少 trigram 索引，迁移 0042 加上了它。", "搜索为什么变慢？", "trigram"),
    ],
}  # fmt: skip
WORDS = {
    "harbour": ("CartDrawer", "PriceTag", "checkout", "OrderFeed", "coupon", "invoice page"),
    "glacier": (
        "the lexer",
        "the arena",
        "the flush queue",
        "the bloom filter",
        "the WAL",
        "the CLI",
    ),
    "墨水": ("发票列表", "导入向导", "OCR 队列", "搜索框", "权限页面", "PDF 导出"),
}
WORK = {
    "harbour": (
        "Rename the props of {} and update its stories.",
        "Add a test for an empty state of {}.",
        "Why does {} render twice?",
    ),
    "glacier": (
        "Split {} into two modules.",
        "Write a property test for {}.",
        "Reduce the allocations in {}.",
    ),
    "墨水": ("给{}加一个单元测试。", "把{}的样式改得紧凑一点。", "{}报错了，帮我看一下日志。"),
}
SHORT = ("yes", "go on", "ok", "继续", "好的", "try again")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Yield a machine with a daemon of its own."""
    with serving() as where:
        yield Machine(tmp_path, where)


class Day:
    """The sessions of a day, and what was wrong with the answers."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.checkouts = {name: machine.checkout(name, f"git@x.org:a/{name}") for name in FACTS}
        self.said: dict[str, list[tuple[int, Fact]]] = {name: [] for name in FACTS}
        self.asked = self.found = self.noise = self.short = self.prompts = 0
        self.missed: list[str] = []

    def check(self, project: str, text: str) -> None:
        """Check that a text is of this project, and within its budget."""
        for other, facts in FACTS.items():
            for fact in facts if other != project else ():
                assert fact.answer not in text, f"{fact.answer} of {other} in {project}: {text}"
        assert memory_texts.tokens(text) <= memory_texts.MAX_TOKENS

    def session(self, number: int, prompts: int) -> None:
        """Run a session: old facts are asked for, new ones are said, and work goes on."""
        project = list(FACTS)[number % 3]
        talk = Talk(self.machine, self.checkouts[project], f"session-{number}")
        given = talk.start()
        self.check(project, given)
        told = len(self.said[project])
        known = list(self.said[project])
        new = FACTS[project][told : told + 1]
        for turn in range(prompts):
            when = f"2026-03-{number + 1:02}T{8 + turn // 50:02}:{turn % 50:02}"
            answer = "Done."
            if turn == 0 and new:
                prompt = new[0].said if new[0].role == "user" else "What was the cause?"
                answer = new[0].said if new[0].role == "assistant" else "Noted."
                self.said[project].append((number, new[0]))
            elif known and turn % 4 == 1:
                _, fact = known.pop(0)
                prompt = fact.question
            elif turn % 4 == 3:
                prompt = SHORT[(number + turn) % len(SHORT)]
            else:
                words, work = WORDS[project], WORK[project]
                prompt = work[turn % len(work)].format(words[(number + turn) % len(words)])
            text = talk.prompt(prompt)
            given += text
            self.prompts += 1
            self.check(project, text)
            asked = next((f for _, f in self.said[project] if f.question == prompt), None)
            if asked is not None:
                self.asked += 1
                self.found += asked.answer in given  # a session is given a memory once
                if asked.answer not in given:
                    self.missed.append(f"{number}: {prompt} {text[-300:]}")
            elif prompt in SHORT:
                self.short += bool(text)
            else:
                self.noise += bool(text)
            talk.say("user", prompt, f"{when}:00Z")
            talk.say("assistant", answer, f"{when}:30Z")
            talk.stop(last_assistant_message=answer)
        talk.stop("SessionEnd", reason="other")
        self.machine.wait()


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_a_day_of_a_coding_agent(machine: Machine) -> None:
    """What was said in an early session is there in later ones, and nothing of another project."""
    day = Day(machine)
    for number in range(SESSIONS):
        day.session(number, PROMPTS // SESSIONS + (number < PROMPTS % SESSIONS))
        with Client(machine.address) as client:
            embedded(client)
    assert day.prompts == PROMPTS
    print(
        f"{day.found} of {day.asked} asked facts; text at {day.noise} prompts of work and at "
        f"{day.short} short ones; {machine.log.count(chr(10))} lines of log"
    )
    talk = Talk(machine, day.checkouts["glacier"], "session-x")
    fact = FACTS["glacier"][1]
    early = Talk(machine, day.checkouts["harbour"], "session-y")
    assert fact.answer in talk.prompt(fact.question)
    assert fact.answer not in early.prompt(fact.question)
    assert day.found / day.asked >= 0.9, day.missed
    assert "Error" not in machine.log
