"""The adapters of LangChain: its standard tests, and what they do not say."""

from __future__ import annotations

import asyncio
import warnings
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

from tests.daemons import serving
from vikingd.client import Client, Draft, InvalidField, Passage, RecallPath, Session
from vikingd.integrations.langchain import VikingdRetriever, VikingdVectorStore

NOTES = "viking://resources/notes"


class TestStandardVectorStore(VectorStoreIntegrationTests):
    """LangChain's tests of vector stores, with vectors of an Embeddings object."""

    @pytest.fixture
    def vectorstore(self, typed: Client) -> VectorStore:
        """Return an empty store."""
        return VikingdVectorStore(typed, NOTES, self.get_embeddings())


class TestStandardVectorStoreByWords(VectorStoreIntegrationTests):
    """LangChain's tests of vector stores, with a daemon that finds by words."""

    @pytest.fixture
    def vectorstore(self, typed: Client) -> VectorStore:
        """Return an empty store."""
        return VikingdVectorStore(typed, NOTES)


class TestStandardRetriever(RetrieversIntegrationTests):
    """LangChain's tests of retrievers."""

    made: dict[str, Any]

    @pytest.fixture(autouse=True)
    def _tree(self, typed: Client) -> None:
        typed.put([Draft(f"{NOTES}/{n}.md", content=f"Oolong {n}.") for n in range(5)])
        type(self).made = {"client": typed, "uri": NOTES}

    @property
    def retriever_constructor(self) -> type[VikingdRetriever]:
        """The class."""
        return VikingdRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """The arguments."""
        return self.made

    @property
    def retriever_query_example(self) -> str:
        """A query with five results."""
        return "oolong"


def test_documents_of_a_find_have_what_matched(typed: Client) -> None:
    """The text is that of the matching passages; the metadata say where it is from."""
    typed.put(
        [
            Draft(
                f"{NOTES}/tea.md",
                content="Steep it hot. Never milk. Steep again.",
                passages=[
                    Passage("Oolong", 0, 13),
                    Passage("Milk", 14, 25),
                    Passage("Oolong > More", 26, 38),
                ],
            ),
            Draft("viking://agent/skills/brew/SKILL.md", content="Brew oolong."),
        ]
    )
    retriever = VikingdRetriever(client=typed, uri=NOTES)
    [document] = retriever.invoke("steep")
    assert document.page_content == "Steep it hot.\n\nSteep again."
    assert document.metadata["uri"] == f"{NOTES}/tea.md"
    assert document.metadata["type"] == "resource"
    assert document.metadata["sections"] == ["Oolong", "Oolong > More"]
    assert 0 < document.metadata["score"] <= 1
    assert retriever.invoke("steep", where={"year": 2024}) == []
    everywhere = VikingdRetriever(client=typed, k=1)
    assert len(everywhere.invoke("oolong")) == 1
    assert {d.metadata["type"] for d in everywhere.invoke("oolong", k=5)} == {"resource", "skill"}


def test_a_search_plans_for_a_session(typed: Client) -> None:
    """The mode "search" takes the session from the options or the call."""
    typed.put([Draft(f"{NOTES}/tea.md", content="Oolong is steeped hot.")])
    session = Session()
    session.add("user", "My oolong was bitter.")
    retriever = VikingdRetriever(client=typed, mode="search", uri=NOTES)
    for given in (retriever.invoke("oolong"), retriever.invoke("oolong", session=session)):
        assert [document.metadata["uri"] for document in given] == [f"{NOTES}/tea.md"]


def test_a_recall_finds_memories(typed: Client) -> None:
    """The mode "recall" has memories with their ids; `project` chooses others."""
    made = typed.remember("Ana drinks oolong.", "preferences")
    typed.remember("The project drinks oolong.", "preferences", project="tea")
    retriever = VikingdRetriever(client=typed, mode="recall")
    [document] = retriever.invoke("oolong", without=[RecallPath.FAST])
    assert document.page_content == "Ana drinks oolong."
    assert document.metadata["memory_id"] == made.id
    assert document.metadata["memory_type"] == "preferences"
    other = VikingdRetriever(client=typed, mode="recall", options={"project": "tea"})
    assert "The project" in other.invoke("oolong")[0].page_content
    assert "The project" in asyncio.run(other.ainvoke("oolong"))[0].page_content
    with pytest.raises(ValueError, match="uri is not for the mode 'recall'"):
        VikingdRetriever(client=typed, mode="recall", uri=NOTES)
    with pytest.raises(ValueError, match="k\n"):
        VikingdRetriever(client=typed, k=0)


class Backwards(DeterministicFakeEmbedding):
    """Vectors of texts; a query is read backwards, so that its words match nothing."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text that is spelled backwards."""
        return super().embed_query(text[::-1])


def test_vectors_of_an_embeddings_object_are_sent(typed: Client) -> None:
    """The daemon, which has no embedder, finds by the given vectors."""
    embedding = Backwards(size=6)
    texts = ["oolong", "green tea", "water"]
    store = VikingdVectorStore.from_texts(texts, embedding, client=typed, uri=NOTES)
    assert typed.stats().vectors == len(texts)
    for text in texts:
        query = text[::-1]
        (best, score), *_ = store.similarity_search_with_relevance_scores(query, k=3)
        assert (best.page_content, round(score, 3)) == (text, 1.0)
        again = store.similarity_search_by_vector(embedding.embed_query(query), k=1)
        assert [document.page_content for document in again] == [text]
        assert store.max_marginal_relevance_search(query, k=2)[0].page_content == text
    retriever = store.as_retriever(search_kwargs={"k": 1})
    assert [document.page_content for document in retriever.invoke("retaw")] == ["water"]
    assert store.embeddings is embedding


@pytest.mark.deep
def test_without_embeddings_the_daemon_embeds() -> None:
    """The daemon's own embedder finds by meaning, once the store has waited for it."""
    with serving() as address, Client(address) as client:
        store = VikingdVectorStore(client, NOTES, wait_for_vectors=True)
        store.add_texts(["The kettle boils water.", "A cat sleeps on the sofa."])
        assert client.stats().vectors > 0
        found = store.similarity_search_with_score("an animal is having a nap", k=2)
        assert found[0][0].page_content.startswith("A cat")
        assert found[0][1] > found[1][1]
        assert store.max_marginal_relevance_search("a nap", k=2)


def test_filters_and_rest(typed: Client) -> None:
    """A filter is the daemon's; documents without a match come last with score 0."""
    store = VikingdVectorStore(typed, NOTES)
    assert store.max_marginal_relevance_search("tea") == []
    store.add_texts(
        ["hot tea", "cold tea", "milk", "juice"],
        [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}],
        ids=["a", "b", "c", "d"],
    )
    found = store.similarity_search_with_score("tea", k=4, filter={"n": {"$gte": 2}})
    assert [document.id for document, _ in found] == ["b", "c", "d"]
    assert [score > 0 for _, score in found] == [True, False, False]
    found = store.similarity_search_with_score("tea", k=3)
    assert {document.id for document, _ in found[:2]} == {"a", "b"}
    assert [score for _, score in found[2:]] == [0]
    none = store.similarity_search("tea", k=4, score_threshold=0.0, filter={"n": 3})
    assert none == []
    assert {d.id for d in store.max_marginal_relevance_search("tea", k=2)} == {"a", "b"}


def test_ids_and_metadata_come_back_as_they_were(typed: Client) -> None:
    """Any id is a file; deletion of all leaves nothing."""
    store = VikingdVectorStore(typed, NOTES)
    ids = ["a/b", "..", "50%", "%2F", "茶.md", " ", "\n", "~"]
    metadata = {"n": 1, "x": 0.5, "tags": ["a", None, True], "deep": {"y": {}}}
    made = store.add_documents([Document(f"Text of {i}.", metadata=metadata, id=i) for i in ids])
    assert made == ids
    found = store.get_by_ids([*ids, "missing", "a/b"])
    assert [document.id for document in found] == ids
    assert found[0] == Document("Text of a/b.", metadata=metadata, id="a/b")
    assert store.delete(["a/b", "missing"])
    assert [document.id for document in store.get_by_ids(ids)] == ids[1:]
    assert store.delete()
    assert store.get_by_ids(ids) == store.similarity_search("text") == []
    assert asyncio.run(store.aadd_texts(["x"], ids=["y"])) == ["y"]
    assert [document.id for document in asyncio.run(store.asimilarity_search("x"))] == ["y"]


@pytest.mark.deep
def test_many_documents_are_written_in_parts(typed: Client) -> None:
    """More documents than one call takes."""
    store = VikingdVectorStore(typed, NOTES)
    ids = store.add_texts([f"number {n} " + "long " * 10_000 for n in range(120)])
    ids += store.add_texts([f"number {n}" for n in range(120, 1_050)])
    assert len(store.get_by_ids([ids[0], ids[119], ids[1_049]])) == 3
    assert len(list(typed.list(NOTES))) == 1_050
    store.delete()
    assert list(typed.list(NOTES)) == []


def test_wrong_arguments_are_refused(typed: Client) -> None:
    """The message names the argument; nothing is written."""
    store = VikingdVectorStore(typed, NOTES)
    for call, words in (
        (lambda: store.add_texts(["a", "b"], ids=["1"]), "ids has 1 items for 2 texts"),
        (lambda: store.add_texts(["a"], [{}, {}]), "metadatas has 2 items for 1 texts"),
        (lambda: store.add_texts(["a"], [{"n": float("nan")}]), "metadatas[0]['n'] is nan"),
        (lambda: store.add_texts(["a"], [{"n": {1, 2}}]), "metadatas[0]['n'] is of type set"),
        (lambda: store.add_texts(["a"], [{"n": object()}]), "metadatas[0]['n'] is of type object"),
        (lambda: store.similarity_search("a", k=0), "k is 0; give 1 or more"),
        (lambda: store.delete([""]), "an id is empty"),
        (lambda: VikingdVectorStore.from_texts(["a"]), "client and uri are required"),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        assert words in str(raised.value)
    with pytest.raises(InvalidField, match="vector"):
        VikingdVectorStore(typed, NOTES, DeterministicFakeEmbedding(size=20_000)).add_texts(["a"])
    assert list(typed.list()) == []


def test_metadata_of_the_usual_types_are_kept_as_text(typed: Client) -> None:
    """Times, UUIDs, paths and large numbers come back as text, and a filter finds them."""
    store = VikingdVectorStore(typed, NOTES)
    name = UUID("0190c2f4-7c3a-7d2e-9f10-3b5a6c7d8e9f")
    metadata = {
        "time": datetime(2024, 1, 5, 10, 30, tzinfo=UTC),
        "day": date(2024, 1, 5),
        "id": name,
        "path": Path("/a/b.md"),
        "large": 2**60,
        "inner": [{"least": -(2**53), "days": (date(2024, 1, 6),)}],
        "exact": 2**53 - 1,
    }
    with pytest.warns(UserWarning, match="is kept as text") as told:
        store.add_texts(["tea", "more tea"], [metadata, {"large": 2**61}], ids=["a", "b"])
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told already
        store.add_texts(["tea again"], [{"large": 2**62}])
    assert store.get_by_ids(["a"])[0].metadata == {
        "time": "2024-01-05T10:30:00+00:00",
        "day": "2024-01-05",
        "id": str(name),
        "path": "/a/b.md",
        "large": str(2**60),
        "inner": [{"least": str(-(2**53)), "days": ["2024-01-06"]}],
        "exact": 2**53 - 1,
    }
    for key in ("time", "day", "id", "path", "large"):
        [found] = store.similarity_search("tea", filter={key: metadata[key]})
        assert found.id == "a"
