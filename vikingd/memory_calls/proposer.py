"""Proposals for the memories of a conversation, made by a model or by rules, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from viking_kernels.arrays import F32

from vikingd.answer.query_planning import embed_in_share, embedder_failed
from vikingd.domain.answers import Degradation
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
from vikingd.domain.text import text_to_index
from vikingd.domain.vector_products import product
from vikingd.engine import Engine
from vikingd.lanes.call_pools import Threads
from vikingd.lanes.queues import Deadline
from vikingd.memory import entries
from vikingd.memory.memory_file_series import Key, Known
from vikingd.memory.memory_types import StoredEntry, is_earlier
from vikingd.memory_calls import evidence
from vikingd.memory_calls.extract_calls import ExtractFiles, ExtractQuery
from vikingd.models.extract.extractor import Extractor
from vikingd.models.extract.memory_proposals import Known as Shown

_MODEL_SHARE = 0.7  # of the time left, for the model
_MOST_KNOWN = 60  # older memories that the model is shown
_COMPARED = 4  # messages of a memory whose meaning is compared
_ASKED_CHARS = 2_000  # of a text that is embedded


class Proposer:
    """Proposes the memories of conversations."""

    def __init__(self, engine: Engine, threads: Threads, extractor: Extractor) -> None:
        self._engine = engine
        self._extractor = extractor
        self._threads = threads

    async def propose(
        self,
        query: ExtractQuery,
        by_rules: Sequence[Proposal],
        files: ExtractFiles,
        notes: dict[Degradation, None],
        deadline: Deadline,
    ) -> Extracted:
        """Return the proposals of the model that the messages support, or those of the rules.

        Failures of the embedder are added to `notes`.
        """
        left = deadline.left()
        has_model = self._extractor.has_model
        known = await self._known(query, files, notes, deadline) if has_model else ()
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
            if not why and not await self._means(one, messages, vectors, notes, deadline):
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
        self,
        query: ExtractQuery,
        files: ExtractFiles,
        notes: dict[Degradation, None],
        deadline: Deadline,
    ) -> tuple[Shown, ...]:
        """Return the known memories to show to the model: the nearest to the messages by vector."""
        found: list[tuple[str, StoredEntry, MemoryKind]] = []
        for kind in MemoryKind:
            uri = files.of(kind, query.time)
            if kind is MemoryKind.EVENTS or not query.scope.caller.may(Right.READ, uri):
                continue
            # Read anew: vectors come after their texts, without a change of the file.
            series = await self._threads.read(deadline, self._engine.store.memory_series, uri)
            there = [series.read(at) for at, _ in series.files]
            found += [
                (file.uri, one, kind)
                for file in there
                if file is not None and query.scope.caller.may(Right.READ, file.uri)
                for one in file.entries
                if one.ordinal and not is_earlier(one.section)
            ]
        if len(found) > _MOST_KNOWN:
            said = "\n".join(message.content for message in query.session.messages[query.first :])[
                -_ASKED_CHARS:
            ]
            vector = await self._vector(said, notes, deadline)
            found.sort(key=lambda one: _cosine(vector, one[1].vector), reverse=True)
        return tuple(
            Shown(one.entry.id, kind, uri, entries.said(one.passage))
            for uri, one, kind in found[:_MOST_KNOWN]
        )

    async def replaced(
        self,
        proposal: Proposal,
        title: str,
        known: Mapping[Key, Known],
        notes: dict[Degradation, None],
        deadline: Deadline,
    ) -> str:
        """Return the text of the older memory that a proposal may replace; "" if there is none.

        A proposal may replace the memory that it names, if both are similar in words or meaning.

        Args:
            proposal: the proposal.
            title: the title of the proposal's file.
            known: the entries of each file of the series.
            notes: failures of the embedder are added to it.
            deadline: the deadline of the call.
        """
        named = (one.find(proposal.replaces) for one in known.values())
        old = next((one for one in named if one is not None), None)
        if old is None:
            return ""
        said = entries.said(old.passage)
        if evidence.shares_words(proposal.text, said):
            return said
        new = await self._vector(text_to_index(title, "", proposal.text), notes, deadline)
        before = await self._vector(text_to_index(title, "", said), notes, deadline)
        if new is None or before is None:
            return ""
        least = evidence.CONTRADICTS[self._engine.embedding.model]
        return said if product(new, before) >= least else ""

    async def _vector(
        self, text: str, notes: dict[Degradation, None], deadline: Deadline
    ) -> F32 | None:
        """Return the vector of a text; None if there is none. A failure is added to `notes`."""
        embedding = self._engine.embedding
        if embedding.query_embedder is None or embedding.model not in evidence.MEANS:
            return None
        try:
            return await embed_in_share(
                self._threads, deadline, embedding.embed_document, text[:_ASKED_CHARS]
            )
        except EmbedderFailed as error:
            notes[embedder_failed(error, "words alone were compared")] = None
            return None

    async def _means(
        self,
        proposal: Proposal,
        messages: Sequence[SessionMessage],
        vectors: dict[int, F32 | None],
        notes: dict[Degradation, None],
        deadline: Deadline,
    ) -> bool:
        """Return False if a proposal's vector is far from the vectors of all its evidence.

        Only the first `_COMPARED` messages of the evidence are compared. `vectors` caches the
        vectors of messages by index.
        """
        vector = await self._vector(proposal.text, notes, deadline)
        if vector is None:
            return True
        least = evidence.MEANS[self._engine.embedding.model]
        for i in proposal.evidence[:_COMPARED]:
            if i not in vectors:
                vectors[i] = await self._vector(messages[i].content, notes, deadline)
            other = vectors[i]
            if other is None or product(vector, other) >= least:
                return True
        return False


def _cosine(vector: F32 | None, other: bytes) -> float:
    if vector is None or len(other) != vector.nbytes:
        return -1.0
    return product(vector, np.frombuffer(other, "<f4"))
