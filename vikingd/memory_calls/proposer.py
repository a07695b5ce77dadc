"""The memories that a conversation says, proposed by a model or by rules, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from viking_kernels.arrays import F32

from vikingd.answer.deadline import Deadline, Threads
from vikingd.answer.query_vector import embed_in_share
from vikingd.domain.errors import EmbedderFailed
from vikingd.domain.extract import (
    MAX_MEMORIES,
    Extracted,
    ExtractSource,
    MemoryKind,
    Proposal,
    Refusal,
)
from vikingd.domain.rights import Right
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.vector_products import product
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.model import StoredEntry, is_earlier
from vikingd.memory_calls import evidence
from vikingd.memory_calls.extract_calls import ExtractFiles, ExtractQuery
from vikingd.memory_calls.rememberer import Rememberer
from vikingd.models.extract.extractor import Extractor
from vikingd.models.extract.memory_proposals import Known

_MODEL_SHARE = 0.7  # of the time left, for the model
_MOST_KNOWN = 60  # older memories that the model is shown
_COMPARED = 4  # messages of a memory whose meaning is compared
_ASKED_CHARS = 2_000  # of a text that is embedded


class Proposer:
    """Proposes the memories of conversations."""

    def __init__(
        self, engine: Engine, threads: Threads, rememberer: Rememberer, extractor: Extractor
    ) -> None:
        self._engine = engine
        self._extractor = extractor
        self._threads = threads
        self._rememberer = rememberer

    async def propose(
        self,
        query: ExtractQuery,
        by_rules: Sequence[Proposal],
        files: ExtractFiles,
        deadline: Deadline,
    ) -> Extracted:
        """Return the proposals of the model whose evidence says them, or those of the rules."""
        left = deadline.left()
        known = await self._known(query, files, deadline) if self._extractor.has_model else ()
        found = await self._extractor.propose(
            query.session,
            query.first,
            known,
            None if left is None else left * _MODEL_SHARE,
            by_rules,
        )
        if found.source is not ExtractSource.MODEL:
            return found
        proposals, refused = [], []
        messages = query.session.messages
        check = evidence.Evidence(messages, query.first)
        vectors: dict[int, F32 | None] = {}
        for one in found.proposals:
            why = await self._threads.prepare(deadline, check.refusal, one)
            if not why and not await self._means(one, messages, vectors, deadline):
                why = "its evidence means something else"
            if why:
                refused.append(Refusal(one.kind, one.text, one.evidence, why))
            else:
                proposals.append(one)
        there = [
            replace(one, evidence=tuple(i for i in one.evidence if i < len(messages)))
            for one in (*refused, *found.refused)[:MAX_MEMORIES]
        ]
        return replace(found, proposals=tuple(proposals), refused=tuple(there))

    async def _known(
        self, query: ExtractQuery, files: ExtractFiles, deadline: Deadline
    ) -> tuple[Known, ...]:
        """Return the present memories that the model is shown: those nearest to the messages."""
        found: list[tuple[str, StoredEntry, MemoryKind]] = []
        for kind in MemoryKind:
            uri = files.of(kind, query.time)
            if kind is MemoryKind.EVENTS or not query.scope.caller.may(Right.READ, uri):
                continue
            series, known = await self._rememberer.series(uri, deadline)
            found += [
                (at, one, kind)
                for at, key in series.files
                if query.scope.caller.may(Right.READ, at)
                for one in (known[key].entries if key in known else ())
                if one.ordinal and not is_earlier(one.section)
            ]
        if len(found) > _MOST_KNOWN:
            said = "\n".join(message.content for message in query.session.messages[query.first :])[
                -_ASKED_CHARS:
            ]
            vector = await self._vector(said, deadline)
            found.sort(key=lambda one: _cosine(vector, one[1].vector), reverse=True)
        return tuple(
            Known(one.entry.id, kind, uri, entries.said(one.passage))
            for uri, one, kind in found[:_MOST_KNOWN]
        )

    async def _vector(self, text: str, deadline: Deadline) -> F32 | None:
        """Return the vector of a text; None if there is none."""
        embedding = self._engine.embedding
        if embedding.query_embedder is None or embedding.model not in evidence.MEANS:
            return None
        try:
            return await embed_in_share(
                self._threads, deadline, embedding.embed_document, text[:_ASKED_CHARS]
            )
        except EmbedderFailed:
            return None  # the words were compared, and the comparison with the file tells of it

    async def _means(
        self,
        proposal: Proposal,
        messages: Sequence[SessionMessage],
        vectors: dict[int, F32 | None],
        deadline: Deadline,
    ) -> bool:
        """Return False if the meaning of a memory is far from that of its first few messages.

        `vectors` keeps the vectors of the messages.
        """
        vector = await self._vector(proposal.text, deadline)
        if vector is None:
            return True
        least = evidence.MEANS[self._engine.embedding.model]
        for i in proposal.evidence[:_COMPARED]:
            if i not in vectors:
                vectors[i] = await self._vector(messages[i].content, deadline)
            other = vectors[i]
            if other is None or product(vector, other) >= least:
                return True
        return False


def _cosine(vector: F32 | None, other: bytes) -> float:
    if vector is None or len(other) != vector.nbytes:
        return -1.0
    return product(vector, np.frombuffer(other, "<f4"))
