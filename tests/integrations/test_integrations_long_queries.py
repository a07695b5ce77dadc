"""Queries of any length: each adapter and each method of the client answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vikingd.client import Client, Session
from vikingd.domain.long_queries import LAST_PART, MAX_QUERY_BYTES, WORDS, fitted
from vikingd.integrations.langchain import VikingdRetriever, VikingdVectorStore
from vikingd.integrations.langgraph import VikingdStore
from vikingd.integrations.llamaindex import VikingdMemoryBlock
from vikingd.integrations.llamaindex import VikingdRetriever as LlamaRetriever

LINE = "ERROR db-{n} 2026-11-28T03:12:{n:02} connection to 10.0.0.{n} refused, retry in 5 s\n"
LOG = "".join(LINE.format(n=n % 60) for n in range(400))
QUESTION = "Which tea does Ana drink?"

ASKED: dict[str, Callable[[Client, str], Any]] = {
    "find": lambda client, text: client.find(text),
    "search": lambda client, text: client.search(text),
    "search after": lambda client, text: client.search(
        "tea", session=[{"role": "user", "content": text}]
    ),
    "retrieve": lambda client, text: client.retrieve(text),
    "recall": lambda client, text: client.recall(text),
    "build_context": lambda client, text: client.build_context(text),
    "langchain": lambda client, text: VikingdRetriever(client=client).invoke(text),
    "langchain recall": lambda client, text: VikingdRetriever(client=client, mode="recall").invoke(
        text
    ),
    "langchain store": lambda client, text: VikingdVectorStore(
        client, "viking://resources/notes"
    ).similarity_search(text),
    "langchain diverse": lambda client, text: VikingdVectorStore(
        client, "viking://resources/notes"
    ).max_marginal_relevance_search(text),
    "langgraph": lambda client, text: VikingdStore(client, "viking://resources/notes").search(
        ("a",), query=text
    ),
    "llamaindex": lambda client, text: LlamaRetriever(client).retrieve(text),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_long_query_is_answered(typed: Client, name: str) -> None:
    """A query of 30 KB, or of 300 KB in three-byte characters, raises nothing."""
    assert len(LOG) > MAX_QUERY_BYTES
    typed.add("Ana drinks oolong tea.", at="viking://resources/notes/")
    for text in (LOG, f"{LOG}\n{QUESTION}", "今天喝什么茶？" * 15_000):
        ASKED[name](typed, text)


@pytest.mark.parametrize(
    "text", [f"{LOG}\n{QUESTION}", f"{QUESTION}\n\n{LOG}"], ids=["after", "before"]
)
def test_the_question_beside_a_long_text_is_found(typed: Client, text: str) -> None:
    """A question before or after a pasted log finds its memory first."""
    typed.remember("Ana drinks oolong tea.", "preferences")
    for subject in ("bicycle", "violin", "garden"):
        typed.remember(f"Ana has a {subject}.", "entities")
    assert typed.recall(text, no_touch=True).results[0].content == "Ana drinks oolong tea."


def test_what_is_kept_of_a_long_query() -> None:
    """The first short paragraph, telling words of the rest and the last paragraph are kept."""
    named = LOG[:12_000] + "\ncannot reach Mnemosyne\n" + LOG[12_000:]
    kept = fitted(f"Why?\n\n{named}\n\n{QUESTION}")
    assert kept.startswith("Why?\n")
    assert kept.endswith(f"\n{QUESTION}")
    words = kept.splitlines()[1]
    assert {"Mnemosyne", "connection", "ERROR", "refused"} <= set(words.split())
    assert len(words) <= WORDS
    assert "2026" not in words
    assert len(fitted(LOG)) <= LAST_PART + WORDS + 1


@pytest.mark.parametrize(
    "text",
    ["", "tea", "x" * MAX_QUERY_BYTES, "茶" * (MAX_QUERY_BYTES // 3), "\ud800"],
)
def test_a_query_within_the_limit_is_sent_as_it_is(text: str) -> None:
    """Nothing is left out of a query that the daemon takes."""
    assert fitted(text) == text


@pytest.mark.parametrize(
    "text", ["x" * 3_000_000, "a b\n" * 10_000, " " * 20_000, "\ud800" * 20_000, "。" * 9000]
)
def test_odd_texts_fit(text: str) -> None:
    """Texts without words or spaces become short ones, too."""
    assert len(fitted(text).encode(errors="replace")) <= MAX_QUERY_BYTES


def test_a_long_conversation_is_answered(typed: Client) -> None:
    """A session with long messages goes with a search, and with a commit."""
    session = Session()
    session.add("user", LOG)
    typed.search("tea", session=session)
    assert typed.commit(session).result().episode is not None


def test_the_block_of_llamaindex_takes_a_long_message(typed: Client) -> None:
    """The memory block recalls for a long newest message."""
    import asyncio

    from llama_index.core.base.llms.types import ChatMessage

    typed.remember("Ana drinks oolong tea.", "preferences")
    block = VikingdMemoryBlock(client=typed)
    messages = [ChatMessage(f"{LOG}\n{QUESTION}")]
    assert "Ana drinks oolong tea." in asyncio.run(block._aget(messages))
