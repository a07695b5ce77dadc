"""vikingctl evaluate on a real daemon."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Ctl
from tests.patience import eventually
from tests.vikingctl import on_a_terminal
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl.evaluation import FIND, FIND_STRONG, FIND_WEAK, Outcome, results_of_find
from vikingd.ctl.question_file import Places, Question, read_questions

TOP = "viking://resources/drinks"
OOLONG, GREEN, COFFEE = f"{TOP}/tea/oolong.md", f"{TOP}/tea/green.md", f"{TOP}/coffee.md"
QUESTIONS = (
    {"question": "grind coffee", "answers": ["coffee.md"]},
    {"question": "green leaves", "answers": ["drinks/tea/"]},
    {"question": "oolong tea", "answers": [GREEN], "target": TOP},
    {"question": "zebra", "answers": "none"},
    {"question": "oolong", "answers": ["tea/gone.md"]},
)


@pytest.fixture
def questions(client: MessageClient, tmp_path: Path) -> str:
    """Write a small tree, and return a file of questions about it."""
    client.put(
        [
            Draft(OOLONG, content="Oolong tea: brew at 90 degrees."),
            Draft(GREEN, content="Green tea leaves: 70 degrees."),
            Draft(COFFEE, content="Grind coffee finely."),
        ]
    )
    return _file(tmp_path, QUESTIONS)


def _file(tmp_path: Path, lines: object) -> str:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))  # type: ignore[attr-defined]
    return str(path)


def test_the_measures_are_those_of_the_ranking(ctl: Ctl, questions: str) -> None:
    """Two of four answers come first, one second, one is not there; nothing answers the fifth."""
    code, out, err = ctl("evaluate", questions, "--json")
    found = json.loads(out)
    searches = {one["search"]: one for one in found["searches"]}
    find = searches["find"]
    assert (code, err) == (0, "")
    assert [found[name] for name in ("questions", "answerable", "unanswerable")] == [5, 4, 1]
    assert [find[name]["value"] for name in ("first", "amongThree", "amongTen", "noneTold")] == [
        *(0.5, 0.75, 0.75, 1.0)
    ]
    assert find["first"]["low"] == pytest.approx(0.150, abs=1e-3)  # Wilson, 2 of 4
    assert find["ndcg"]["value"] == pytest.approx((1 + 1 + 0.6309298) / 4)
    assert find["ndcg"]["low"] <= find["ndcg"]["value"] <= find["ndcg"]["high"]
    assert searches["vector"] == {"search": "vector", "absent": "the daemon has no embedder"}
    assert searches["keyword"]["firstToFind"]["value"] == 0.0
    assert [(one["line"], one["places"]["find"]) for one in found["failures"]] == [(5, 0), (3, 2)]
    assert [one["first"] for one in found["failures"]] == [OOLONG, OOLONG]
    assert found["missingAnswers"] == [{"line": 5, "answer": "tea/gone.md"}]
    assert "no embedder" in found["degraded"][0]["detail"]


@pytest.mark.parametrize(
    ("strength", "kept"), [("strong", [1, 1, 1]), ("weak", [1, 1, 0]), ("nothing", [1, 0, 0])]
)
def test_a_find_is_left_out_below_its_strength(strength: str, kept: list[int]) -> None:
    """A weak find counts for all but the strong ones, and one of nothing for find alone."""
    found = results_of_find([[OOLONG]], strength)
    assert [len(found[way]) for way in (FIND, FIND_WEAK, FIND_STRONG)] == kept


def test_an_answer_counts_once_and_any_copy_gives_it() -> None:
    """Two files of one directory are one answer; a copy of a file counts as the file."""
    question = Question(1, "tea", ("tea", "coffee.md"), "")
    answers = [frozenset({f"{TOP}/tea"}), frozenset({COFFEE})]
    results = [[f"{TOP}/x.md"], [GREEN], [OOLONG], [f"{TOP}/copy.md", COFFEE]]
    outcome = Outcome(question, answers, {FIND: results}, "strong")
    assert outcome.place(FIND) == 2
    assert outcome.ndcg(FIND) == pytest.approx((0.6309298 + 0.4306766) / 1.6309298)


def test_a_pipe_has_one_record_a_line(ctl: Ctl, questions: str) -> None:
    """Without a terminal, measures and failures are lines of tab-separated values."""
    code, out, err = ctl("evaluate", questions, "--failures", "1")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[1] for row in rows] == [
        *("find", "find weak", "find strong", "hybrid", "vector", "keyword", "5")
    ]
    assert rows[0] == [*("search", "find", "50 (15-85)", "75 (30-95)", "75 (30-95)"), *rows[0][5:]]
    assert rows[-1] == ["failed", "5", "-", "oolong", OOLONG]
    assert "line 5: answers: tea/gone.md is not in the store" in err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"question": "a"', "line 2: is not JSON"),
        ('["a"]', "line 2: must be an object"),
        ('{"question": " ", "answers": []}', "line 2: question: must be"),
        ('{"question": "a"}', "line 2: answers: is missing"),
        ('{"question": "a", "answers": "b.md"}', "line 2: answers: must be a list"),
        ('{"question": "a", "answers": ["/"]}', "line 2: answers: '/' is no path"),
        ('{"question": "a", "answers": ["viking://~/a.md"]}', "write viking://users/NAME"),
        ('{"question": "a", "answer": "b"}', "line 2: answer: there is no such field"),
        ('{"question": "a", "answers": ["viking://a//b"]}', "line 2: answers: has the segment"),
        ('{"question": "a", "answers": [], "target": "docs"}', "line 2: target: must begin with"),
    ],
)
def test_a_wrong_line_is_named_with_its_field(line: str, told: str) -> None:
    """The error has the number of the line and the field."""
    with pytest.raises(ValueError, match=re.escape(told)):
        read_questions(f'{{"question": "a", "answers": "none"}}\n{line}\n')


def test_a_wrong_file_asks_nothing(ctl: Ctl, tmp_path: Path, questions: str) -> None:
    """A wrong line or a target that does not exist is an error; nothing is measured."""
    assert questions
    code, out, err = ctl("evaluate", _file(tmp_path, [{"question": "a"}]))
    assert (code, out) == (2, "")
    assert "line 1: answers: is missing" in " ".join(err.split())
    code, out, err = ctl("evaluate", _file(tmp_path, [{**QUESTIONS[0], "target": f"{TOP}/x"}]))
    assert (code, out) == (4, "")
    assert "line 1: target: " in err


def test_a_path_names_whole_segments() -> None:
    """The end of a URI is one of whole names; a URI is itself alone."""
    places = Places([OOLONG, GREEN, f"{TOP}/tea", "viking://resources/tea", "viking://tea"])
    assert places.of("tea/green.md") == {GREEN}
    assert places.of("a/green.md") == places.of("reen.md") == frozenset()
    assert places.of("tea") == {f"{TOP}/tea", "viking://resources/tea", "viking://tea"}
    assert places.of("viking://tea") == {"viking://tea"}


def test_an_evaluation_counts_no_access(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """Memories that are found, and that recall would rank, keep their counts."""
    file = "viking://user/memories/notes.md"
    client.put([Draft(file, content="- The harbour opens at six.\n")])
    before = client.get(file).context
    assert before.passages[0].HasField("memory")
    asked = _file(tmp_path, [{"question": "when does the harbour open", "answers": ["notes.md"]}])
    assert ctl("evaluate", asked)[0] == 0
    client.build_context("harbour", max_tokens=500)  # this one counts, after those before it
    eventually(lambda: client.get(file).context.passages[0].memory.access_count)
    assert client.get(file).context.passages[0].memory.access_count == 1


@pytest.mark.deep
def test_a_terminal_shows_questions_that_failed(questions: str, daemon: str) -> None:
    """At 80 columns no line of the table wraps, and no URI is broken."""
    shown = on_a_terminal(["evaluate", questions, "--address", daemon], 80, NO_COLOR="1")
    lines = [re.sub("\x1b\\[[^m]*m", "", line).rstrip() for line in shown.splitlines()]
    assert any(line.startswith("find strong  50 (15-85)") for line in lines)
    assert f"  first:  {OOLONG}" in lines
    assert "line 3, found as number 2: oolong tea" in lines


@pytest.mark.deep
def test_ctrl_c_shows_what_is_measured(questions: str, daemon: str, tmp_path: Path) -> None:
    """An interrupted evaluation shows the questions so far, and exits with 130."""
    assert questions
    many = _file(tmp_path, [QUESTIONS[0]] * 60_000)
    command = [sys.executable, "-m", "vikingd.ctl.main", "--address", daemon, "evaluate", many]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("questions: ")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    assert run.returncode == 130
    assert out.startswith("search\tfind\t100 (")
    assert re.search(r"interrupted after [0-9,]+ of 60,000 questions", err)
