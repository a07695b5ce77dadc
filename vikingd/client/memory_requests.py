"""The requests of the service Memories: one function for each RPC. The daemon checks the values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from vikingd.client.values import count_of, moment, set_fusion, vector_bytes
from vikingd.domain.prompt import RecallPath
from vikingd.domain.retrieve import Rrf, WeightedSum
from vikingd.pb import memories_pb2

if TYPE_CHECKING:
    from vikingd.client.values import Vector


def recall(
    query: str,
    *,
    vector: Vector | None = None,
    project: str = "",
    with_global: bool = False,
    max_tokens: int = 0,
    tokenizer: str = "",
    top_k: int | None = None,
    limit: int | None = None,
    without: Iterable[RecallPath] = (),
    fusion: Rrf | WeightedSum | None = None,
    profile: str = "",
    weights: tuple[float, float, float, float] | None = None,
    half_life_days: float | None = None,
    now: datetime | None = None,
    time_zone: str = "",
    skip_oversize: bool = False,
    no_touch: bool = False,
    min_revision: int = 0,
) -> memories_pb2.RecallRequest:
    """Recall the memories that matter now, within a budget of tokens.

    Args:
        query: the question.
        vector: its embedding; None lets the daemon embed the query.
        project: the memories of this project; "" is those of no project.
        with_global: beside a project's, those of no project too.
        max_tokens: the budget; 0 leaves it to the daemon's configuration.
        tokenizer: a bundled one or a name of the daemon's configuration; "" is
            o200k_base.
        top_k: return at most this many memories; None leaves it to the daemon's configuration.
        limit: the same as `top_k`; give one of them.
        without: paths not to take.
        fusion: how meaning and words are fused; None is WeightedSum(0.5, 0.5).
        profile: weights by name, "salience" or "relevance"; "" is the daemon's configuration.
        weights: of meaning, reinforcement, recency and access, in place of a profile; sum 1.
        half_life_days: after which recency has halved; None leaves it to the configuration.
        now: the reference time of ages and of words such as "yesterday"; None is the clock.
        time_zone: the caller's, such as "Europe/Berlin"; "" is UTC.
        skip_oversize: go on to smaller memories where one does not fit.
        no_touch: do not count what is returned as accessed.
        min_revision: answer from this revision or a later one.
    """
    request = memories_pb2.RecallRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        scope=_scope(project, with_global),
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        top_k=count_of(limit, top_k),
        without=[memories_pb2.RecallPath.ValueType(path) for path in without],
        profile=profile,
        half_life_days=half_life_days,
        now=moment(now),
        time_zone=time_zone,
        skip_oversize=skip_oversize,
        no_touch=no_touch,
        min_revision=min_revision,
    )
    if weights is not None:
        own = request.weights
        own.semantic, own.reinforcement, own.recency, own.access = weights
    set_fusion(request, fusion)
    return request


def remember(
    text: str,
    memory_type: str = "",
    *,
    section: str = "",
    project: str = "",
    uri: str = "",
    time: datetime | None = None,
    time_zone: str = "",
    exact: bool = False,
    request_id: str | None = None,
) -> memories_pb2.RememberRequest:
    """Writes one memory, or reinforces it where it was said before.

    Args:
        text: what to remember, at most a passage.
        memory_type: "preferences", "tasks", "journal", ... or any name; not needed with `uri`.
        section: the heading below which it stands; "" is none.
        project: whose memory it is; "" is no project's.
        uri: the file, in place of project and type.
        time: when it was said; None is now.
        time_zone: the caller's, which decides the day of a journal; "" is UTC.
        exact: compare wordings only, not their meaning.
        request_id: a name for this call, of which repetitions count once; None makes one, "" is
            none.
    """
    return memories_pb2.RememberRequest(
        text=text,
        memory_type=memory_type,
        section=section,
        scope=_scope(project, with_global=False),
        uri=uri,
        time=moment(time),
        time_zone=time_zone,
        exact=exact,
        request_id=_request_id(request_id),
    )


def reinforce(
    *ids: int, by: int = 1, request_id: str | None = None
) -> memories_pb2.ReinforceRequest:
    """Reinforce memories that proved true or useful, by their ids.

    Args:
        ids: of the memories.
        by: how much.
        request_id: as in `remember`.
    """
    return memories_pb2.ReinforceRequest(ids=ids, by=by, request_id=_request_id(request_id))


def _request_id(given: str | None) -> str:
    return str(uuid.uuid4()) if given is None else given


def forget(
    *ids: int,
    project: str = "",
    with_global: bool = False,
    older_than: datetime | None = None,
    below_salience: float | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
) -> memories_pb2.ForgetRequest:
    """Removes memories: by their ids, or all in a scope to which every criterion applies.

    Args:
        ids: of the memories.
        project: whose memories the criteria look at; "" is those of no project.
        with_global: beside a project's, those of no project too.
        older_than: those last said before.
        below_salience: those that matter less than this without a query, in (0, 1].
        dry_run: only return the memories that would be removed.
        now: the reference time of ages; None is the clock.
    """
    return memories_pb2.ForgetRequest(
        ids=ids,
        scope=None if ids else _scope(project, with_global),
        older_than=moment(older_than),
        below_salience=below_salience,
        dry_run=dry_run,
        now=moment(now),
    )


def _scope(project: str, with_global: bool) -> memories_pb2.MemoryScope:
    return memories_pb2.MemoryScope(project=project, with_global=with_global or not project)
