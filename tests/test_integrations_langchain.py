"""The adapters of LangChain: its standard tests, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

from vikingd.client import Client, Draft
from vikingd.integrations.langchain import VikingdRetriever, VikingdVectorStore

NOTES = "viking://resources/notes"


class TestStandardVectorStore(VectorStoreIntegrationTests):
    """LangChain's tests of vector stores, with vectors of an Embeddings object."""

    @pytest.fixture
    def vectorstore(self, typed: Client) -> Iterator[VectorStore]:
        """Yield an empty store."""
        return VikingdVectorStore(typed, NOTES, self.get_embeddings())


class TestStandardVectorStoreByWords(VectorStoreIntegrationTests):
    """LangChain's tests of vector stores, with a daemon that finds by words."""

    @pytest.fixture
    def vectorstore(self, typed: Client) -> Iterator[VectorStore]:
        """Yield an empty store."""
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
