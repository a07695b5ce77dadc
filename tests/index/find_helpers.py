"""Finds and retrievals without a daemon, with their results as messages."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from viking_kernels.arrays import F32

from vikingd.answer.find_answer import find as find_hits
from vikingd.answer.find_hits import FindHits
from vikingd.answer.retrieve_answer import retrieve
from vikingd.domain.answers import UNBOUNDED, ReplyBudget, Stage
from vikingd.domain.find_query import FindQuery, FindTrace
from vikingd.domain.retrieve_query import RetrieveQuery
from vikingd.domain.rights import LOCAL, Caller
from vikingd.engine import Engine
from vikingd.index.snapshot import Snapshot
from vikingd.pb.retrieval_pb2 import MatchedContext, RetrievedItem, RetrieveResponse
from vikingd.plan.find_plan import compile_find
from vikingd.plan.retrieve_plan import compile_retrieve
from vikingd.wire.messages.encoded_results import EncodedResults
from vikingd.wire.messages.retrieve_reply import retrieve_reply

EMBED = Stage("embed", 0.0, 0.0)


class Answer(NamedTuple):
    """The hits of a find, and their messages as far as they fit; directories above roots, too."""

    hits: FindHits
    matches: list[MatchedContext]
    left_out: int
    shortened: int

    @property
    def revision(self) -> int:
        """The revision that was searched."""
        return self.hits.snapshot.revision

    @property
    def trace(self) -> FindTrace | None:
        """The trace of the find."""
        return self.hits.trace


def find(
    engine: Engine,
    query: FindQuery,
    vector: F32 | None,
    snapshot: Snapshot | None = None,
    most_bytes: int = UNBOUNDED,
    caller: Caller = LOCAL,
) -> Answer:
    """Answer a query with a vector [dim], for a caller."""
    plan = compile_find(engine, replace(query, vector=vector), caller, (), snapshot)
    hits, budget = find_hits(plan), ReplyBudget(most_bytes)
    contexts = EncodedResults().contexts(hits, budget)
    matches = [MatchedContext.FromString(data) for _, _, data in contexts]
    return Answer(hits, matches, budget.left_out, budget.shortened)


def retrieved(engine: Engine, query: RetrieveQuery, vector: F32 | None) -> list[RetrievedItem]:
    """Return the items of a retrieval."""
    hits = retrieve(compile_retrieve(engine, query, LOCAL), vector)
    reply = retrieve_reply(hits, EMBED, EncodedResults(), UNBOUNDED)
    return list(RetrieveResponse.FromString(reply.data).items)
