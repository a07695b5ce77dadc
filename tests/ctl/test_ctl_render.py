"""The renderers of vikingctl: tables, trees and formulas."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len
from rich.console import Console, RenderableType

from vikingd.ctl import render, trace_tree
from vikingd.ctl.memory_commands import memories_table
from vikingd.pb.contexts_pb2 import Context
from vikingd.pb.memories_pb2 import Memory
from vikingd.pb.retrieval_pb2 import FindResponse, FindTrace, ScoreParts

TOP = "viking://resources"
LONG_URI = "viking://resources/fastapi/en/docs/advanced/response-change-status-code.md"


def shown(renderable: RenderableType, width: int) -> list[str]:
    """Return the lines that a terminal of this width shows."""
    console = Console(
        file=StringIO(), width=width, force_terminal=True, no_color=True, color_system=None
    )
    console.print(renderable, crop=False)
    assert isinstance(console.file, StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert max(cell_len(line) for line in lines if "://" not in line) <= width
    return lines


def parts(**changed: float) -> dict[str, float]:
    """Return the parts of a score of 0.411, in protobuf's JSON form."""
    return {
        "dense": 0.38,
        "lexical": 0.48,
        "denseWeight": 0.5,
        "nodeScore": 0.43,
        "smoothed": 0.43,
        "parent": 0.33,
        "parentWeight": 0.19,
        "final": 0.411,
    } | changed


@pytest.fixture
def answer() -> FindResponse:
    """Return a reply with every bucket and a trace."""
    return ParseDict(
        {
            "memories": [
                {
                    "uri": "viking://user/memories/喝茶.md",
                    "contextType": 1,
                    "isLeaf": True,
                    "abstract": "下午三点以后不喝浓茶。" * 20,
                    "score": 0.411,
                    "parts": parts(),
                }
            ],
            "resources": [
                {
                    "uri": LONG_URI,
                    "contextType": 2,
                    "isLeaf": True,
                    "level": 2,
                    "score": 0.52,
                    "parts": parts(),
                    "passages": [
                        {"section": "Response [bold]", "text": "set\n\x1b[31m it"},
                    ],
                }
            ],
            "skills": [
                {
                    "uri": "viking://agent/skills/x",
                    "contextType": 3,
                    "score": 0.411,
                    "abstract": "a directory",
                    "parts": parts(),
                }
            ],
            "total": 3,
            "revision": 12,
            "timings": [
                {"stage": "embed", "duration": "0.002s"},
                {"stage": "score", "duration": "0.0005s"},
            ],
            "degraded": [{"reason": 1, "detail": "the embedder is down: no route"}],
            "trace": {
                "method": 2,
                "scopeFiles": 1000,
                "icc": 0.1,
                "gate": 0.6,
                "otherScriptCap": 0.412,
                "filesPerDirectory": 30.0,
                "opened": 5,
                "rounds": 2,
                "stopReason": "STOP_REASON_OUT_OF_REACH",
                "terms": ["status", "code"],
                "queryScript": "latin",
                "means": [{"script": "latin", "vectors": 600, "uri": "viking://"}],
                "directories": [
                    {
                        "uri": "viking://resources/fastapi/en/docs",
                        "parts": parts(),
                        "round": 1,
                        "startPoint": True,
                        "files": 3,
                    },
                    {"uri": "viking://resources/fastapi", "parts": parts()},
                ],
            },
        },
        FindResponse(),
    )


def test_results_stand_by_score_across_the_buckets(answer: FindResponse) -> None:
    """Results of all buckets are one list, best first, with ties by URI."""
    lines = shown(render.find_table(answer), 100)
    assert [line.split()[:3] for line in lines[1:] if line[0] != " "] == [
        ["1", "0.520", "resource"],
        ["2", "0.411", "skill"],
        ["3", "0.411", "memory"],
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_results_fit_the_terminal(answer: FindResponse, width: int) -> None:
    """No line is wider than the terminal, also in Chinese, unless it is a URI, which is whole."""
    lines = shown(render.find_table(answer), width)
    assert any(LONG_URI in line for line in lines)
    assert (LONG_URI in lines) == (width < len(LONG_URI) + 3)
    assert any("下午三点" in line for line in lines)


def test_stored_text_cannot_act_on_the_terminal(answer: FindResponse) -> None:
    """Stored text loses its escape characters, and its markup stays text."""
    text = "\n".join(shown(render.find_table(answer), 120))
    assert "Response [bold]: set [31m it" in text
    assert "\x1b" not in text


def test_what_the_answer_had_to_do_without_is_said(answer: FindResponse) -> None:
    """The footer shows the count, the revision, the time and the degradations of a reply."""
    assert shown(render.find_footer(answer), 80) == [
        "3 results · revision 12 · 2.5 ms",
        "degraded: the embedder is down: no route",
    ]


def test_a_score_is_shown_as_the_formula_that_makes_it() -> None:
    """The formula of a score shows each part with its weight."""
    score = ParseDict(parts(), ScoreParts())
    assert trace_tree.formula(score) == (
        "0.411 = 0.81·smoothed 0.430 + 0.19·parent 0.330; "
        "node 0.430 = 0.50·dense 0.380 + 0.50·lexical 0.480"
    )
    titled = ParseDict(parts(title=0.04, final=0.451), ScoreParts())
    assert trace_tree.formula(titled).startswith(
        "0.451 = 0.81·smoothed 0.430 + 0.19·parent 0.330 + title 0.040; node"
    )
    added = ParseDict(
        parts(feedback=-0.02, cover=0.03, agreement=0.02, reply=0.1, date=0.08), ScoreParts()
    )
    assert (
        " - feedback 0.020 + cover 0.030 + agreement 0.020 + reply 0.100 + date 0.080; "
        in trace_tree.formula(added)
    )


def test_the_trace_is_a_tree_of_all_that_was_done(answer: FindResponse) -> None:
    """The trace tree shows scope, means, gate, directories, results, stop reason and timings."""
    lines = shown(trace_tree.trace_tree(answer, "viking://resources"), 240)
    text = "\n".join(lines)
    for said in (
        "best-first over viking://resources",
        "1,000 files",
        "latin; terms: status code",
        "600 vectors",
        "icc 0.100",
        "gate 0.60",
        "60% of what they may; 30.0 files per directory, so parents for 50% of that",
        "other scripts: capped at 0.412",
        "5 opened in 2 rounds",
        LONG_URI,
        "0.81·smoothed 0.430",
        "stopped: no directory left can hold anything better",
        "embed 2.00 ms · score 0.50 ms",
    ):
        assert said in text
    upper = next(line for line in lines if "viking://resources/fastapi  " in line)
    lower = next(line for line in lines if "en/docs  " in line)
    assert "round 1; start point" in lower
    assert lower.index("en/docs") > upper.index("viking://")


@pytest.mark.parametrize(
    ("changed", "identifiers", "said"),
    [
        ({}, False, "close to the query's (0.380) and it has the query's words (0.480)"),
        ({"lexical": 0.0}, False, "meaning is close to the query's (0.380), which makes 0.430"),
        ({"dense": 0.0}, False, "has the query's words (0.480), which makes 0.430"),
        ({"denseWeight": 1.0}, False, "close to the query's, which alone makes 0.430"),
        ({"denseWeight": 0.0}, False, "has the query's words, which alone makes 0.430"),
        ({"denseWeight": 0.0}, True, "names an identifier, so words alone count"),
        ({"smoothed": 0.5}, False, "its neighbours raise that to 0.500"),
        ({"smoothed": 0.4}, False, "its neighbours lower that to 0.400"),
        ({}, False, "viking://a, counts for 19% with its 0.330: 0.411."),
        ({"parent": 0.43}, False, "which makes 0.430."),
        (
            {"title": 0.04, "final": 0.451},
            False,
            "its 0.330: 0.411, and the words of its title add 0.040: 0.451.",
        ),
        (
            {"title": 0.04, "feedback": -0.02, "cover": 0.03, "final": 0.461},
            False,
            "add 0.040: 0.451, the meaning of the first results takes 0.020, "
            "its share of the query's words adds 0.030: 0.461.",
        ),
        ({"reply": 0.1, "final": 0.511}, False, "of another speaker before it adds 0.100: 0.511."),
        ({"date": 0.08, "final": 0.491}, False, "which the query names, adds 0.080: 0.491."),
    ],
)
def test_the_reason_says_what_the_parts_say(
    changed: dict[str, float], identifiers: bool, said: str
) -> None:
    """The reason for a result names the parts of its score."""
    match = FindResponse().resources.add(uri="viking://a/b")
    ParseDict(parts(**changed), match.parts)
    assert said in trace_tree.reason(match, identifiers=identifiers)


def test_a_tree_hangs_each_context_below_its_directory() -> None:
    """A tree shows each context below its directory, even if another name sorts in between."""
    uris = [
        "viking://resources",
        "viking://resources/a",
        "viking://resources/a b.md",
        "viking://resources/a/x.md",
    ]
    contexts = [Context(uri=uri, is_directory=not uri.endswith(".md")) for uri in uris]
    assert shown(render.ContextTree("viking://resources", contexts), 60) == [
        "viking://resources/",
        "├── a/",
        "│   └── x.md",
        "└── a b.md",
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("seconds", [-62_135_596_800, 253_402_300_799])
def test_the_first_and_the_last_of_all_times_can_be_shown(
    zone: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time that the local zone cannot show is shown in UTC."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        shown = render.local_time(Timestamp(seconds=seconds))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert shown[:7] in ("0001-01", "9999-12")


def test_a_footer_names_the_questions_of_a_request():
    """Several questions are one line; one question is none."""
    several = FindResponse(total=2, questions=["Who is Ada?", "where is\nthe key?"])
    assert shown(render.find_footer(several), 100)[1:] == [
        "2 questions: Who is Ada? · where is the key?"
    ]
    assert len(shown(render.find_footer(FindResponse(total=2)), 100)) == 1


def test_a_result_names_its_twin():
    """A table has a line with the same page in another language."""
    uris = f"{TOP}/docs/zh/x.md", f"{TOP}/docs/en/x.md"
    reply = FindResponse()
    for uri, twin in (uris, (f"{TOP}/y.md", "")):
        reply.resources.add(uri=uri, is_leaf=True, twin=twin, score=0.5)
    text = "\n".join(shown(render.find_table(reply), 100))
    assert text.count("also: ") == 1
    assert f"also: {uris[1]}" in text


def test_a_trace_of_several_questions_has_a_walk_for_each():
    """Each question stands above its own terms."""
    reply = FindResponse(
        trace=FindTrace(question="Who is Ada?", terms=["ada"]),
        further_traces=[FindTrace(question="where is the key?", terms=["key"])],
    )
    lines = [line.lstrip("│├└─ ") for line in shown(trace_tree.trace_tree(reply), 100)]
    assert lines.index("Who is Ada?") < lines.index("query: ; terms: ada")
    assert lines.index("query: ; terms: ada") < lines.index("where is the key?")
    assert lines.index("where is the key?") < lines.index("query: ; terms: key")


def test_a_memory_before_a_better_one_is_marked_as_newer() -> None:
    """Scores that do not fall are explained, and others have no mark."""
    told = [("Takes tea.", 0.9, 3), ("Takes milk.", 0.95, 2), ("Takes sugar.", 0.5, 9)]
    memories = [
        Memory(uri=f"{TOP}/m.md", content=content, score=score, time=Timestamp(seconds=day * 86400))
        for content, score, day in told
    ]
    text = "\n".join(shown(memories_table(memories, ranked=True), 80))
    assert text.count("newer than the next") == 1
    assert text.index("Takes tea.") < text.index("newer than the next") < text.index("Takes milk.")
    assert "newer" not in "\n".join(shown(memories_table(memories), 80))
