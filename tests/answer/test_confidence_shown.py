"""The words for weak answers: vikingctl, MCP, REST and the adapters."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client as McpClient

from tests.answer.test_confidence import ABOUT, NEVER_SAID, NONSENSE, TREE
from tests.conftest import Ctl, ctl_runner
from tests.daemons import serving
from tests.gateway.gateway_helpers import gateway_of
from tests.mcp.mcp_helpers import run, text_of
from vikingd.client import Client, Draft
from vikingd.integrations.langchain import VikingdRetriever
from vikingd.integrations.retriever_queries import answers


@pytest.fixture(scope="module")
def house() -> Iterator[Client]:
    """Yield a client of a daemon with an embedder and a small tree."""
    with serving("--provider", "e5") as where, Client(where, timeout=60) as client:
        drafts = [Draft(uri, content=content) for uri, content in TREE.items()]
        client.put(drafts, wait_for_vectors=True)
        yield client


@pytest.fixture
def ctl(house: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl on the house."""
    monkeypatch.setenv("VIKINGCTL_ADDRESS", house.address)
    return ctl_runner(monkeypatch, capsys)


@pytest.mark.parametrize("command", ["find", "search", "retrieve"])
def test_vikingctl_says_in_words_that_nothing_is_about_it(ctl: Ctl, command: str) -> None:
    """The results of nonsense stay, with a line that tells what they are worth."""
    code, out, err = ctl(command, NONSENSE)
    assert code == 0
    assert "viking://" in out
    assert "nothing here is about this (confidence 0.0" in err
    assert "nothing here" not in ctl(command, ABOUT)[2]
    code, out, _ = ctl(command, NONSENSE, "--json")
    confidence = json.loads(out)["confidence"]
    assert confidence["strength"] == "STRENGTH_NOTHING"
    assert 0 < confidence["inScope"] < 0.1


def test_vikingctl_leaves_out_what_is_not_known(ctl: Ctl) -> None:
    """Recall and context say how many they left out, and how to see them."""
    code, out, err = ctl("recall", NEVER_SAID, "--no-touch")
    assert (code, out) == (0, "")
    assert "nothing is known about that" in err
    assert "--floor 0" in err
    _, out, _ = ctl("recall", NEVER_SAID, "--no-touch", "--floor", "0")
    assert "viking://" in out
    code, out, err = ctl("context", NONSENSE)
    assert (code, out) == (0, "")
    assert "pieces are left out; --floor 0 shows them" in err
    assert ctl("context", NONSENSE, "--floor", "0")[1]


def test_a_model_is_told_to_say_that_it_does_not_know(house: Client) -> None:
    """The texts of the MCP tools have words for it, and the fields the strength."""

    async def test(client: McpClient) -> None:
        for tool, nothing in (
            ("find", "Nothing here is about this: say that you do not know."),
            ("search", "Nothing here is about this: say that you do not know."),
            ("build_context", "Nothing here is about this: say that you do not know."),
            ("recall", "Nothing is known about that: say that you do not know."),
        ):
            query = NEVER_SAID if tool == "recall" else NONSENSE
            reply = await client.call_tool(tool, {"query": query})
            assert nothing in text_of(reply), tool
            assert (reply.structured_content or {})["confidence"] == "nothing", tool
        reply = await client.call_tool("find", {"query": ABOUT})
        assert "do not know" not in text_of(reply)
        assert (reply.structured_content or {}).get("confidence", "strong") == "strong"

    run(test, house.address)


def test_rest_has_the_fields(house: Client, tmp_path: Path) -> None:
    """The JSON of a find has the confidence in the form of protobuf."""
    with gateway_of(house.address, tmp_path) as gateway:
        reply = gateway.http.post("/v1/find", json={"query": ABOUT}).json()
        assert reply["confidence"]["strength"] == "STRENGTH_STRONG"
        assert 0.3 < reply["confidence"]["inScope"] <= 1
        reply = gateway.http.post("/v1/recall", json={"query": NEVER_SAID, "floor": 0}).json()
        assert reply["results"]
        assert reply["confidence"]["strength"] == "STRENGTH_NOTHING"


@pytest.mark.parametrize("mode", ["find", "search", "recall"])
def test_a_retriever_gives_nothing_that_has_nothing_to_do_with_it(
    house: Client, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says how many documents are left out; a floor of 0 keeps them."""
    query = NEVER_SAID if mode == "recall" else NONSENSE
    retriever = VikingdRetriever(client=house, mode=mode)  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO, "vikingd.integrations"):
        assert retriever.invoke(query) == []
    assert "results are left out: nothing there is about the question" in caplog.text
    assert retriever.invoke(query, floor=0)


def test_a_document_has_its_confidence(house: Client) -> None:
    """The metadata of what was found say how sure it is."""
    [first, *_] = answers(house, "find", "", ABOUT)
    assert first.metadata["confidence"] > 0.3
    assert answers(house, "find", "", ABOUT, floor=1) == []
