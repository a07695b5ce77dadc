"""LangChain: a retriever and a vector store."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Self
from urllib.parse import unquote

from vikingd.client import (
    Client,
    Context,
    Draft,
    Include,
    Mode,
    NotFound,
    Passage,
    vector_bytes,
)
from vikingd.client.batches import batches
from vikingd.integrations import common
from vikingd.integrations.kept_metadata import kept
from vikingd.integrations.retriever_queries import Mode as Asked
from vikingd.integrations.retriever_queries import answers, check_mode

with common.extra("langchain"):
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from pydantic import ConfigDict, Field, model_validator


_SUFFIX = ".md"


class VikingdRetriever(BaseRetriever):
    """A retriever over the tree, or over the memories.

    Each Document has the text that matched, and metadata: uri, type and score, and more by mode.
    `ainvoke` runs on a thread.

    Attributes:
        client: the client of the daemon.
        mode: "find" for one query, "search" to plan queries for a task, "recall" for memories.
        uri: search below this directory only; "": the whole tree. Not for "recall".
        k: return at most this many documents.
        options: further arguments of the method of the client, such as `where`, `session`, or
            `project` of a recall. Arguments of `invoke` are added to them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client
    mode: Asked = "find"
    uri: str = ""
    k: int = Field(default=10, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_mode(self.mode, self.uri)
        return self

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        **more: Any,
    ) -> list[Document]:
        del run_manager
        options = {"limit": self.k if k is None else k, **self.options, **more}
        found = answers(self.client, self.mode, self.uri, query, **options)
        return [Document(one.text, metadata=one.metadata) for one in found]


class VikingdVectorStore(VectorStore):
    """A vector store: each document is a file in one directory, named by its id.

    Without `embedding` the daemon embeds texts and queries, and finds by meaning and by words.
    With it, its vectors are sent, and they alone decide; their dimension is that of the store.
    Metadata are those of the files, so `filter` is the daemon's `where`. Nothing else should write
    into the directory. Asynchronous methods run on threads.

    Args:
        client: the client of the daemon.
        uri: the directory, such as viking://resources/notes.
        embedding: makes the vectors; None: the daemon makes them.
        wait_for_vectors: adding waits until the documents are found by meaning, within the
            client's timeout for each batch. False: they are found by their words at once, and by
            meaning some time later.
    """

    def __init__(
        self,
        client: Client,
        uri: str,
        embedding: Embeddings | None = None,
        *,
        wait_for_vectors: bool = False,
    ) -> None:
        self.client = client
        self.uri = common.directory_of(uri)
        self._embedding = embedding
        self._wait = wait_for_vectors
        self._told = False

    @property
    def embeddings(self) -> Embeddings | None:
        """The object that makes the vectors; None: the daemon makes them."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[str]:
        """Add texts, or replace those with the same ids; each batch is written all or nothing.

        Args:
            texts: the texts; an empty one cannot replace another text.
            metadatas: JSON objects, one for each text. Times, dates, UUIDs and paths become text;
                so do whole numbers from 2**53 on, told once by a warning.
            ids: the ids, one for each text; None: a new one.

        Returns:
            The ids, in the order of the texts.

        Raises:
            TypeError, ValueError: the lists differ in length, or metadata are not JSON.
            ClientError: the daemon refuses a document.
        """
        contents = list(texts)
        given = [None] * len(contents) if ids is None else list(ids)
        metadata: Sequence[Mapping[str, Any]] = list(metadatas or [{}] * len(contents))
        for name, values in (("ids", given), ("metadatas", metadata)):
            if len(values) != len(contents):
                raise ValueError(f"{name} has {len(values)} items for {len(contents)} texts")
        metadata = [
            kept(one, f"metadatas[{i}]", self._tell_of_large) for i, one in enumerate(metadata)
        ]
        names = [one or str(uuid.uuid4()) for one in given]
        vectors = self._vectors(contents)
        drafts = {
            self._uri(name): _draft(self._uri(name), content, own, vector)
            for name, content, own, vector in zip(names, contents, metadata, vectors, strict=True)
        }
        for batch in batches(drafts.values()):
            self.client.put(batch, wait_for_vectors=self._wait)
        return names

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Delete documents by their ids; None: all of the directory. Missing ones are no error."""
        every = ids is None
        common.delete(
            self.client,
            common.children(self.client, self.uri) if every else map(self._uri, ids or ()),
        )
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that exist, in the order of their ids."""
        found = (common.existing(self.client, self._uri(one)) for one in dict.fromkeys(ids))
        return [self._document(context) for context in found if context is not None]

    def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        """Return the best documents for a query, best first; see similarity_search_with_score."""
        return [found for found, _ in self.similarity_search_with_score(query, k, **options)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the `k` best documents for a query with their scores in [0, 1], best first.

        Documents that have nothing in common with the query come last, with score 0, unless
        `score_threshold` is given.

        Args:
            query: the question.
            k: return at most this many, up to 1,000.
            filter: a filter over metadata, such as {"year": {"$gte": 2024}}; None: all.
            options: further arguments of Client.find.
        """
        if self._embedding is None:
            return self._found(k, query=query, where=filter, **options)
        return self._found(k, vector=self._embedding.embed_query(query), where=filter, **options)

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        *,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return the best documents for the embedding of a query, best first."""
        return [found for found, _ in self._found(k, vector=embedding, where=filter, **options)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return good documents that differ from each other.

        Args:
            query: the question.
            k: return at most this many.
            fetch_k: not used; the daemon chooses among two to four times `k`.
            lambda_mult: 1: by score alone. 0: by difference alone.
            filter: a filter over metadata; None: all.
            options: further arguments of Client.retrieve.
        """
        del fetch_k
        asked: dict[str, Any] = {"query": query}
        if self._embedding is not None:
            asked = {"vector": self._embedding.embed_query(query), "mode": Mode.VECTOR}
        try:
            items = self.client.retrieve(
                **asked,
                target_uri=self.uri,
                where=None if filter is None else kept(filter, "filter"),
                limit=k,
                diversity=1 - lambda_mult,
                group_by_context=True,
                include=[Include.METADATA],
                **options,
            )
        except NotFound:  # no document was added yet
            return []
        found = (common.existing(self.client, item.uri) for item in items)
        return [self._document(context) for context in found if context is not None]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: score

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        client: Client | None = None,
        uri: str = "",
        **options: Any,
    ) -> Self:
        """Return a store with these texts; `client` and `uri` are required."""
        if client is None or not uri:
            raise ValueError("client and uri are required: the client, and the store's directory")
        store = cls(client, uri, embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _tell_of_large(self, place: str) -> None:
        """Warn, once, that a large whole number became text."""
        if not self._told:
            self._told = True
            warnings.warn(
                f"{place} is kept as text: metadata keep whole numbers below 2**53 exactly; so it "
                "is with others like it",
                stacklevel=2,
            )

    def _uri(self, name: str) -> str:
        if not name:
            raise ValueError("an id is empty; give one character at least")
        return f"{self.uri}/{common.encoded(name)}{_SUFFIX}"

    def _vectors(self, texts: list[str]) -> list[bytes]:
        if self._embedding is None or not texts:
            return [b""] * len(texts)
        return [vector_bytes(vector) for vector in self._embedding.embed_documents(texts)]

    def _found(
        self, k: int, *, where: Mapping[str, Any] | None, **options: Any
    ) -> list[tuple[Document, float]]:
        if k < 1:
            raise ValueError(f"k is {k}; give 1 or more")
        scores: dict[str, float] = {}
        with suppress(NotFound):  # no document was added yet
            where = None if where is None else kept(where, "filter")
            asked = {"target_uri": self.uri, "limit": k, "alpha": 1.0, **options}
            for match in self.client.find(where=where, **asked):
                scores[match.uri] = match.score
            if len(scores) < k and options.get("score_threshold") is None:
                for uri in self._listed(where, k):
                    scores.setdefault(uri, 0.0)
        found = ((common.existing(self.client, uri), score) for uri, score in scores.items())
        return [(self._document(one), score) for one, score in found if one is not None][:k]

    def _listed(self, where: Mapping[str, Any] | None, count: int) -> Iterable[str]:
        """Return the URIs of the first documents that match a filter."""
        if not where:
            files = (one.uri for one in self.client.list(self.uri) if not one.is_directory)
            return islice(files, count)
        found = self.client.retrieve(
            mode=Mode.KEYWORD, where=where, target_uri=self.uri, limit=count
        )
        return [item.uri for item in found]

    def _document(self, context: Context) -> Document:
        name = context.uri[len(self.uri) + 1 :].removesuffix(_SUFFIX)
        return Document(context.content, metadata=context.metadata, id=unquote(name))


def _draft(uri: str, content: str, metadata: Mapping[str, Any], vector: bytes) -> Draft:
    """Return a LangChain document as a vikingd Document.

    With a vector its content is one passage.
    """
    one = [Passage("", 0, len(content), vector)] if vector and content else None
    return Draft(uri, content=content, metadata=metadata, passages=one, vector=vector)
