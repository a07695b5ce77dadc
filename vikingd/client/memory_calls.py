"""The methods of the service Memories.

Each function builds a request. The daemon checks the values.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vikingd.client.argument_checks import wrong_type
from vikingd.client.conversation import Conversation, session_message, session_of
from vikingd.client.extract_results import ExtractResult
from vikingd.client.memory_results import (
    ForgetResult,
    RecallResult,
    ReinforceResult,
    RememberResult,
)
from vikingd.client.method_declarations import RetryCondition, method
from vikingd.client.value_conversion import (
    Many,
    When,
    count_of,
    flat,
    many_of,
    moment,
    set_fusion,
    vector_bytes,
)
from vikingd.domain.long_queries import fitted
from vikingd.domain.prompt_options import RecallPath
from vikingd.domain.retrieve_query import Rrf, WeightedSum
from vikingd.pb import memories_pb2

if TYPE_CHECKING:
    from vikingd.client.value_conversion import Vector

_NAMED = RetryCondition("with a request_id", lambda request: bool(request.request_id))


# A repetition may count accesses twice.
@method(memories_pb2.RecallResponse, RecallResult, retried=True)
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
    without: Many[RecallPath] = (),
    fusion: Rrf | WeightedSum | None = None,
    profile: str = "",
    weights: tuple[float, float, float, float] | None = None,
    half_life_days: float | None = None,
    now: When | None = None,
    time_zone: str = "",
    skip_oversize: bool = False,
    no_touch: bool = False,
    min_revision: int = 0,
    used: Iterable[int] = (),
    paths: Many[RecallPath] = (),
    floor: float | None = None,
) -> memories_pb2.RecallRequest:
    """Recall the memories that matter now, within a budget of tokens.

    Args:
        query: the question.
        vector: the embedding of the query; None: the daemon embeds the query.
        project: the project of the memories; "": the memories of no project.
        with_global: search the memories of no project too, beside the project's.
        max_tokens: the budget in tokens; 0: the daemon's default.
        tokenizer: a bundled tokenizer, or a name in the daemon's configuration; "":
            o200k_base, or approx where quicktok-v1 is not installed.
        top_k: return at most this many memories; None: the daemon's default.
        limit: the same as `top_k`; give one of them.
        without: the paths to skip.
        fusion: the fusion of meaning and words; None: the scores of a find, to which the memories
            before and after a memory and the best one of its file add.
        profile: weights by name, "relevance" or "salience"; "": the daemon's default.
        weights: weights of meaning, reinforcement, recency and access, which sum to 1.
        half_life_days: the days after which recency has halved; None: the daemon's default.
        now: the reference time of ages and of words such as "yesterday"; None: the clock.
        time_zone: the time zone of the caller, such as "Europe/Berlin"; "": UTC.
        skip_oversize: skip a memory that does not fit, and go on to smaller ones.
        no_touch: count no access.
        min_revision: answer from this revision or a later one.
        used: the ids of memories of earlier recalls that were used since; each counts as accessed.
        paths: the strict form: try these paths in this order; the first path with an answer gives
            the whole answer. A word such as "recent" or "task" in the query decides whether a path
            answers. (): the default form, in which a search fills the rest of the budget.
        floor: the least `confidence.in_scope` of an answer from a search, in [0, 1]; 0: any;
            None: the daemon's default, which leaves out what is NOTHING.
    """
    request = memories_pb2.RecallRequest(
        query=fitted(query),
        vector=b"" if vector is None else vector_bytes(vector),
        scope=_scope(project, with_global),
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        top_k=count_of(limit, top_k),
        without=many_of(RecallPath, without, "without"),
        profile=profile,
        half_life_days=half_life_days,
        now=moment(now, "now"),
        time_zone=time_zone,
        skip_oversize=skip_oversize,
        no_touch=no_touch,
        min_revision=min_revision,
        used=_ids((used,), "used"),
        paths=many_of(RecallPath, paths, "paths"),
        floor=floor,
    )
    if weights is not None:
        if isinstance(weights, str) or len(tuple(weights)) != 4:
            raise wrong_type("weights", weights, "four numbers", "(0.6, 0.1, 0.2, 0.1)")
        own = request.weights
        own.semantic, own.reinforcement, own.recency, own.access = weights
    set_fusion(request, fusion)
    return request


# Without a request_id, a repetition would reinforce the memory once more.
@method(memories_pb2.RememberResponse, RememberResult, retried=_NAMED)
def remember(
    text: str,
    memory_type: str = "",
    *,
    section: str = "",
    project: str = "",
    uri: str = "",
    time: When | None = None,
    time_zone: str = "",
    exact: bool = False,
    pinned: bool | None = None,
    request_id: str | None = None,
) -> memories_pb2.RememberRequest:
    """Write one memory, or reinforce it if it was said before.

    Args:
        text: the text to remember; a long one is one memory of several passages.
        memory_type: "preferences", "tasks", "journal", ... or any name; not needed with `uri`.
        section: the heading above the memory; "": no heading.
        project: the project of the memory; "": no project.
        uri: the file, in place of project and type.
        time: the time when it was said; None: now.
        time_zone: the time zone of the caller, for the day of a journal; "": UTC.
        exact: reinforce only a memory with the same text; False: also one that differs only in
            words such as articles.
        pinned: True: `forget` takes the memory by its id alone; False: as any other; None: a known
            memory stays as it is.
        request_id: a name for this call; repetitions with this name count once. None: a new name.
            "": no name.
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
        pinned=pinned,
        request_id=_request_id(request_id),
    )


@method(memories_pb2.ExtractResponse, ExtractResult, retried=_NAMED)
def extract(
    session: Conversation,
    *,
    first: int = 0,
    project: str = "",
    dry_run: bool = False,
    time: When | None = None,
    time_zone: str = "",
    request_id: str | None = None,
) -> memories_pb2.ExtractRequest:
    """Take memories from a conversation and write them, each with the messages that say it.

    Args:
        session: the conversation: a Session, or messages as dicts with role and content.
        first: take memories from messages[first:]; the summary and earlier messages are context.
        project: the project of the memories; "": no project.
        dry_run: write nothing; only return what a real call would write.
        time: the time of the conversation; None: now.
        time_zone: as in `remember`.
        request_id: as in `remember`.
    """
    conversation = session_of(session)
    return memories_pb2.ExtractRequest(
        session=session_message(conversation, conversation.messages),
        first=first,
        scope=_scope(project, with_global=False),
        time=moment(time),
        time_zone=time_zone,
        dry_run=dry_run,
        request_id=_request_id(request_id),
    )


@method(memories_pb2.ReinforceResponse, ReinforceResult, retried=_NAMED)
def reinforce(
    *ids: int | Iterable[int],
    by: int = 1,
    used: Iterable[int] = (),
    request_id: str | None = None,
) -> memories_pb2.ReinforceRequest:
    """Reinforce memories that proved true or useful, by their ids; count those that were used.

    Args:
        ids: the ids of the memories, one by one or as a list. They count as used, too.
        by: the amount that is added to each counter.
        used: the ids of memories that were used for an answer: they count as accessed alone.
        request_id: as in `remember`.
    """
    return memories_pb2.ReinforceRequest(
        ids=_ids(ids), by=by, used=_ids((used,), "used"), request_id=_request_id(request_id)
    )


def _request_id(given: str | None) -> str:
    return str(uuid.uuid4()) if given is None else given


# A repetition would be NOT_FOUND.
@method(memories_pb2.ForgetResponse, ForgetResult, retried=False)
def forget(
    *ids: int | Iterable[int],
    project: str = "",
    with_global: bool = False,
    older_than: When | None = None,
    below_salience: float | None = None,
    dry_run: bool = False,
    now: When | None = None,
) -> memories_pb2.ForgetRequest:
    """Remove memories by their ids, or all memories of a scope that meet every criterion.

    Criteria never remove pinned memories, the profile, instructions and memories about health.

    Args:
        ids: the ids of the memories, one by one or as a list.
        project: the project of the memories; "": the memories of no project.
        with_global: include the memories of no project, beside the project's.
        older_than: criterion: the memory was last said before this time.
        below_salience: criterion: its salience without a query is below this, in (0, 1].
        dry_run: remove nothing; only return the memories that a real call would remove.
        now: the reference time of ages; None: the clock.
    """
    return memories_pb2.ForgetRequest(
        ids=_ids(ids),
        scope=None if ids else _scope(project, with_global),
        older_than=moment(older_than, "older_than"),
        below_salience=below_salience,
        dry_run=dry_run,
        now=moment(now, "now"),
    )


def _scope(project: str, with_global: bool) -> memories_pb2.MemoryScope:
    return memories_pb2.MemoryScope(project=project, with_global=with_global or not project)


def _ids(given: Iterable[int | Iterable[int]], name: str = "ids") -> list[int]:
    found = flat(given, int, name, "ids of memories, such as 17")
    if wrong := [one for one in found if not 0 <= one < 1 << 64]:
        raise ValueError(f"{name} has {wrong[0]}; give ids of memories, such as 17")
    return found
