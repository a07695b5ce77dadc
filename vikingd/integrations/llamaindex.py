"""LlamaIndex: a retriever, a reader and a memory block."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from vikingd.client import Client, Context, NotFound, ReadOnly
from vikingd.integrations import common
from vikingd.integrations.retriever_queries import Mode, answers, check_mode

with common.extra("llamaindex"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode
    from pydantic import Field

_WORD = re.compile(r"[^\W_]")


class VikingdRetriever(BaseRetriever):
    """A retriever over the tree, or over the memories.

    Each node has the text that matched, and metadata: uri, type and score, and more by mode. The
    language model sees the uri alone. `aretrieve` runs on a thread.

    Args:
        client: the client of the daemon.
        mode: "find" for one query, "search" to plan queries for a task, "recall" for memories.
        uri: search below this directory only; "": the whole tree. Not for "recall".
        k: return at most this many nodes.
        options: further arguments of the method of the client, such as `where`, `session`, or
            `project` of a recall.

    Raises:
        ValueError: `uri` is given for a recall, or `k` is below 1.
    """

    def __init__(
        self, client: Client, mode: Mode = "find", uri: str = "", k: int = 10, **options: Any
    ) -> None:
        check_mode(mode, uri)
        if k < 1:
            raise ValueError(f"k is {k}; give 1 or more")
        super().__init__()
        self.client = client
        self.mode: Mode = mode
        self.uri = uri
        self.k = k
        self.options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        options = {"limit": self.k, **self.options}
        if query_bundle.embedding and self.mode != "search":
            options["vector"] = query_bundle.embedding
        found = answers(self.client, self.mode, self.uri, query_bundle.query_str, **options)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=one.id,
                    text=one.text,
                    metadata=one.metadata,
                    excluded_llm_metadata_keys=[key for key in one.metadata if key != "uri"],
                    excluded_embed_metadata_keys=list(one.metadata),
                ),
                score=one.score,
            )
            for one in found
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class VikingdReader(BaseReader):
    """A reader of whole files.

    Args:
        client: the client of the daemon.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    def lazy_load_data(self, uri: str = "", *_: Any, **__: Any) -> Iterator[Document]:
        """Yield the files below a URI as Documents, by URI; their ids are the URIs.

        The metadata are those of the file, and uri, title and type.

        Args:
            uri: a directory or a file; "": the whole tree.

        Raises:
            NotFound: there is no such directory or file.
        """
        for context in self.client.tree(uri):
            if not context.is_directory:
                yield _document(self.client.get(context.uri))


def _document(context: Context) -> Document:
    return Document(
        id_=context.uri,
        text=context.content,
        metadata={
            **context.metadata,
            "uri": context.uri,
            "title": context.title,
            "type": context.context_type.name.lower(),
        },
    )


class VikingdMemoryBlock(BaseMemoryBlock[str]):
    """A memory block: `get` recalls memories for the newest question, `put` remembers messages.

    Attributes:
        client: the client of the daemon.
        memory_type: the file of the memories: "journal", "preferences", "tasks" or any name.
        project: the project of the memories; "": the memories of no project.
        roles: remember the messages of these roles only.
        max_tokens: the budget of a recall in tokens; 0: the daemon's default.
    """

    name: str = Field(default="vikingd")
    client: Client
    memory_type: str = "journal"
    project: str = ""
    roles: tuple[MessageRole, ...] = (MessageRole.USER,)
    max_tokens: int = Field(default=0, ge=0)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        asked = [m for m in messages or () if m.role == MessageRole.USER and m.content]
        if not asked:
            return ""
        query = asked[-1].content or ""
        found = await asyncio.to_thread(
            self.client.recall, query, project=self.project, max_tokens=self.max_tokens
        )
        if used := [memory.id for memory in found if memory.id]:
            with suppress(ReadOnly, NotFound):  # a reader counts nothing
                await asyncio.to_thread(self.client.reinforce, used=used)
        return "\n".join(f"- {memory.content}" for memory in found)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            if message.role in self.roles and _WORD.search(message.content or ""):
                await asyncio.to_thread(self._remember, message.content or "")

    def _remember(self, text: str) -> None:
        self.client.remember(text, self.memory_type, project=self.project)
