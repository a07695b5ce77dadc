"""vikingctl search on a real daemon, and its output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.conftest import Ctl
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl.trace_tree import search_tree
from vikingd.pb import retrieval_pb2


@pytest.fixture
def session(client: MessageClient, tmp_path: Path) -> str:
    """Write contexts about tea, and return a session file."""
    client.put(
        [
            Draft("viking://user/memories/tea.md", content="My tea is green tea."),
            Draft("viking://agent/skills/brew/SKILL.md", content="Brew green tea."),
            Draft("viking://resources/tea.md", content="Green tea, a guide."),
        ]
    )
    file = tmp_path / "session.json"
    messages = [{"role": "user", "content": "Tea again."}]
    file.write_text(json.dumps({"summary": "Tea was spoken of.", "messages": messages}))
    return str(file)


def test_json_is_protobufs(ctl: Ctl, session: str) -> None:
    """The JSON of a search has the plan, the results of each query and the merged results."""
    code, out, _ = ctl("search", "please brew my green tea", "--session", session, "--json")
    reply = json.loads(out)
    plan = reply["queryPlan"]
    assert code == 0
    assert plan["source"] == "PLAN_SOURCE_RULES"
    assert "no model is configured" in plan["reason"]
    kinds = {query["contextType"].removeprefix("CONTEXT_TYPE_") for query in plan["queries"]}
    assert kinds == {"SKILL", "MEMORY", "RESOURCE"}
    assert len(reply["queryResults"]) == 3
    assert reply["total"] == len(reply["memories"] + reply["resources"] + reply["skills"]) == 3
    assert reply["rerank"]["status"] == "RERANK_STATUS_OFF"


def test_a_trace_is_one_tree(ctl: Ctl, session: str) -> None:
    """A full trace has plan, walks, rerank and merge, a short one has plan and finds."""
    code, out, _ = ctl("search", "please brew my green tea", "--session", session, "--trace=full")
    assert code == 0
    for part in (
        "plan: rules",
        "skill: brew my green tea",
        "icc",
        "rerank: off",
        "found: 1",
        "merge: 3 of",
        "intent",
    ):
        assert part in out
    _, out, _ = ctl("search", "please brew my green tea", "--session", session, "--trace")
    assert "skill: brew my green tea  found 1" in out
    assert "icc" not in out
    _, out, err = ctl("search", "please brew my green tea", "--session", session)
    assert ("plan: rules" in out, "plan: rules" in err) == (False, True)


def test_without_a_session_the_query_stands(ctl: Ctl, session: str) -> None:
    """A search without a session uses the plain query, and its plan states the reason."""
    assert session
    _, out, err = ctl("search", "green tea", "--quick", "--type", "memory")
    assert "no session" in err
    assert "viking://user/memories/tea.md" in out
    assert "viking://resources/tea.md" not in out


@pytest.mark.parametrize(
    ("text", "what"), [("{", "JSON"), ('{"messages": [{"role": "robot"}]}', "messages[0]")]
)
def test_a_malformed_session_is_a_usage_error(
    ctl: Ctl, tmp_path: Path, text: str, what: str
) -> None:
    """A malformed session file is a usage error that names the file and the fault."""
    file = tmp_path / "s.json"
    file.write_text(text)
    code, _, err = ctl("search", "tea", "--session", str(file), "--json")
    assert code == 2
    assert "s.json" in err
    assert what in err
    assert ctl("search", "tea", "--session", str(tmp_path / "none.json"))[0] == 2


def test_rounds_of_the_reranker_are_drawn() -> None:
    """Each round shows opened, read, known and omitted items, and the reason of a failure."""
    rerank = retrieval_pb2.Rerank(
        status="RERANK_STATUS_FAILED", reason="http/m was slow", model="m"
    )
    rerank.rounds.add(documents=3, without_abstract=1)
    rerank.rounds.add(round=1, opened=2, documents=5, cached=4, left_out=6)
    reply = retrieval_pb2.SearchResponse(
        query_plan={"source": "PLAN_SOURCE_MODEL", "model": "gpt", "reason": "because"}
    )
    reply.query_results.add(query={"query": "tea"}, rerank=rerank)
    console = Console(width=200)
    with console.capture() as captured:
        console.print(search_tree("tea?", reply))
    shown = captured.get()
    assert "plan by gpt; because" in shown
    assert "rerank: failed; m; http/m was slow" in shown
    assert "start points; 3 abstracts read, 1 without an abstract" in shown
    assert "round 1: 2 opened; 5 abstracts read, 4 known from before, 6 left out" in shown


@pytest.mark.usefixtures("session")
def test_a_context_into_which_nothing_fits_is_told(ctl: Ctl) -> None:
    """A line on stderr and the JSON name the tokens that are needed."""
    words = "nothing fits into 2 tokens: 3 pieces left out, the first needs "
    code, out, err = ctl("context", "green tea", "--max-tokens", "2")
    assert (code, out, words in err) == (0, "", True)
    (note,) = json.loads(ctl("context", "green tea", "--max-tokens", "2", "--json")[1])["degraded"]
    assert note["reason"] == "DEGRADATION_REASON_BUDGET"
    assert note["detail"].startswith(words)
