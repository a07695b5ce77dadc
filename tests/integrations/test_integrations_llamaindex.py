"""The adapters of LlamaIndex: retriever, reader and memory block."""

from __future__ import annotations

import asyncio
import re

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import Memory
from llama_index.core.schema import MetadataMode, QueryBundle

from vikingd.client import Client, ClientError, Draft, NotFound, Passage, vector_bytes
from vikingd.integrations.llamaindex import (
    VikingdMemoryBlock,
    VikingdReader,
    VikingdRetriever,
)

NOTES = "viking://resources/notes"


def test_nodes_of_a_find(typed: Client) -> None:
    """A node has the matching passages, its score, and its URI for the model."""
    typed.put(
        [
            Draft(
                f"{NOTES}/tea.md",
                content="Steep it hot. Never milk.",
                passages=[Passage("Oolong", 0, 13), Passage("Milk", 14, 25)],
            ),
            Draft("viking://resources/other.md", content="Steep."),
        ]
    )
    retriever = VikingdRetriever(typed, uri=NOTES)
    [found] = retriever.retrieve("steep")
    assert found.score == found.node.metadata["score"]
    assert found.node.node_id == f"{NOTES}/tea.md"
    assert found.node.get_content() == "Steep it hot."
    assert found.node.get_content(MetadataMode.LLM) == f"uri: {NOTES}/tea.md\n\nSteep it hot."
    assert found.node.get_content(MetadataMode.EMBED) == "Steep it hot."
    assert len(asyncio.run(VikingdRetriever(typed, k=2).aretrieve("steep"))) == 2
    assert len(VikingdRetriever(typed, k=1).retrieve("steep")) == 1
    assert len(VikingdRetriever(typed, "search", NOTES).retrieve("steep")) == 1
    assert VikingdRetriever(typed, uri=NOTES, where={"year": 2024}).retrieve("steep") == []


def test_a_query_with_an_embedding_sends_it(typed: Client) -> None:
    """The daemon, which has no embedder, finds by the given vector."""
    vectors = {"tea": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "milk": [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]}
    typed.put(
        [
            Draft(f"{NOTES}/{name}.md", content=name, vector=vector_bytes(vector))
            for name, vector in vectors.items()
        ]
    )
    asked = QueryBundle("unknown", embedding=vectors["milk"])
    [found] = VikingdRetriever(typed, uri=NOTES).retrieve(asked)
    assert found.node.node_id == f"{NOTES}/milk.md"


def test_nodes_of_a_recall(typed: Client) -> None:
    """Memories are nodes with ids of their own."""
    made = typed.remember("Ana drinks oolong.", "preferences")
    found = VikingdRetriever(typed, "recall").retrieve("oolong")
    assert "Ana drinks oolong." in found[0].node.get_content()
    assert found[0].node.node_id.startswith(f"{made.uri}#")
    with pytest.raises(ValueError, match="uri is not for the mode 'recall'"):
        VikingdRetriever(typed, "recall", NOTES)
    with pytest.raises(ValueError, match="k is 0"):
        VikingdRetriever(typed, k=0)


def test_the_reader_reads_whole_files(typed: Client) -> None:
    """Each file below a URI is a Document with its metadata; directories are none."""
    typed.put(
        [
            Draft(f"{NOTES}/a.md", content="A" * 9000, title="First", metadata={"year": 2024}),
            Draft(f"{NOTES}/deep/b.md", content="B"),
            Draft("viking://resources/other.md", content="C"),
        ]
    )
    reader = VikingdReader(typed)
    first, second = reader.load_data(NOTES)
    assert (first.doc_id, first.text) == (f"{NOTES}/a.md", "A" * 9000)
    assert first.metadata == {
        "year": 2024,
        "uri": f"{NOTES}/a.md",
        "title": "First",
        "type": "resource",
    }
    assert second.text == "B"
    assert [document.text for document in reader.load_data(f"{NOTES}/deep/b.md")] == ["B"]
    assert len(asyncio.run(reader.aload_data())) == 3
    with pytest.raises(NotFound):
        reader.load_data(f"{NOTES}/missing")


def user(text: str) -> ChatMessage:
    """Return a message of a user."""
    return ChatMessage(role=MessageRole.USER, content=text)


def test_the_block_remembers_and_recalls(typed: Client) -> None:
    """Messages of users are remembered; the newest question recalls them."""
    block = VikingdMemoryBlock(client=typed, memory_type="facts", project="tea")
    answer = ChatMessage(role=MessageRole.ASSISTANT, content="Ana likes milk.")

    async def test() -> None:
        await block.aput([user("Ana drinks oolong."), answer, user("..."), user("")])
        assert await block.aget() == ""
        assert await block.aget([answer]) == ""
        assert await block.aget([user("oolong, who?"), answer]) == "- Ana drinks oolong."
        assert await block.aget([user("oolong " * 10_000)]) == "- Ana drinks oolong."
        assert await block.aget([user("milk?"), user("oolong?")]) == "- Ana drinks oolong."
        assert await block.aget([user("oolong?"), user("milk?")]) == ""
        used = typed.recall("oolong", project="tea", no_touch=True).results[0].access_count
        assert used == 3
        other = VikingdMemoryBlock(client=typed, project="other")
        assert await other.aget([user("oolong")]) == ""

    asyncio.run(test())
    content = typed.get("viking://projects/tea/memories/facts.md").content
    assert "oolong" in content
    assert "milk" not in content


def test_a_long_message_is_one_memory_of_several_passages(typed: Client) -> None:
    """All sentences of a message that is longer than a passage are kept, in order."""
    block = VikingdMemoryBlock(client=typed, memory_type="facts")
    numbers = [f"The jar number {n} has oolong of the year {1900 + n}." for n in range(90)]
    digits = "".join(map(str, range(3000)))
    asyncio.run(block.aput([user(" ".join(numbers)), user(digits)]))
    [uri] = [context.uri for context in typed.tree() if context.uri.endswith("facts.md")]
    content = typed.get(uri).content
    assert [number for number in numbers if number in content] == numbers
    assert digits in re.sub(r"\n+- ", "", content)
    assert [p.memory is None for p in typed.get(uri).passages].count(False) == 2
    assert len(typed.get(uri).passages) > 4


def test_memory_ejects_into_the_block(typed: Client) -> None:
    """Messages that do not fit into LlamaIndex's memory come back by recall."""
    memory = Memory.from_defaults(
        token_limit=40,
        chat_history_token_ratio=0.5,
        token_flush_size=10,
        tokenizer_fn=str.split,
        memory_blocks=[VikingdMemoryBlock(client=typed, memory_type="facts")],
    )
    memory.put(user("Ana drinks oolong from Alishan."))
    for n in range(8):
        memory.put(user(f"Something else of day {n}."))
    memory.put(user("oolong?"))
    system, *rest = memory.get()
    assert system.role == MessageRole.SYSTEM
    assert "Ana drinks oolong from Alishan." in (system.content or "")
    assert "Ana" not in "".join(message.content or "" for message in rest)


def test_an_error_of_the_daemon_reaches_the_caller(typed: Client) -> None:
    """A refused write is no silence."""
    block = VikingdMemoryBlock(client=typed, memory_type="Not a name!")
    with pytest.raises(ClientError, match="memory_type"):
        asyncio.run(block.aput([user("Ana drinks oolong.")]))
