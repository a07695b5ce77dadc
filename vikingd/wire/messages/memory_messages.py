"""The requests and replies of Memories, to and from the domain."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from google.protobuf.message import Message

from vikingd.config_sections import Recall as Defaults
from vikingd.context import tokenizers
from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, Stage
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.prompt_options import RecallPath
from vikingd.domain.retrieve_query import Rrf, WeightedSum
from vikingd.domain.rights import Caller, Right
from vikingd.domain.store_changes import Committed, Once
from vikingd.engine import Engine
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.memory import entries, memory_file_paths
from vikingd.memory.known_file_routes import Routes
from vikingd.memory.memory_file_changes import Outcome, Remembering
from vikingd.memory.memory_types import (
    RELEVANCE,
    WEIGHT_TOLERANCE,
    Memory,
    MemoryScope,
    RecallQuery,
    RecallResult,
    Salience,
    project_root,
)
from vikingd.memory_calls.forget import Chosen, ForgetQuery
from vikingd.pb import memories_pb2
from vikingd.wire.messages import decode
from vikingd.wire.messages.common_messages import add_timings, confidence, timestamp
from vikingd.wire.messages.common_messages import degraded as encode_degraded
from vikingd.wire.messages.retrieve_request import fusion_of

MAX_TOKENS = 1_000_000
MAX_TOP_K = 500
MAX_BY = 1_000_000
MIN_HALF_LIFE, MAX_HALF_LIFE = 0.001, 1e6

_REQUEST_ID = re.compile(r"[ -~]{1,64}")
_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_HALVES = WeightedSum(0.5, 0.5)


def recall_query(
    request: memories_pb2.RecallRequest, dimension: int | None, defaults: Defaults, caller: Caller
) -> tuple[RecallQuery, decode.Vector | None]:
    """Convert a Recall request; return the query, and its vector of unit length or None.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
    """
    text = decode.query_text(request.query)
    if not text:
        raise InvalidField("query", "is empty")
    max_tokens = request.max_tokens or defaults.max_tokens
    if max_tokens > MAX_TOKENS:
        raise InvalidField("max_tokens", f"is {max_tokens}, at most {MAX_TOKENS:,} is allowed")
    decode.check_most(request.top_k, MAX_TOP_K, "top_k")
    query = RecallQuery(
        text=text,
        scope=scope_of(request.scope, caller),
        now=now_of(request),
        time_zone=time_zone(request.time_zone),
        max_tokens=max_tokens,
        tokenizer=tokenizers.known(request.tokenizer),
        top_k=request.top_k or defaults.top_k,
        without=_without(request.without),
        fusion=_fusion(request),
        salience=_salience(request, defaults),
        skip_oversize=request.skip_oversize,
        no_touch=request.no_touch,
        min_revision=request.min_revision,
        used=_once(request.used, "used"),
        paths=_paths(request),
        newest_first=_profile(request, defaults) == "relevance",
        floor=decode.floor(request, defaults.floor),
    )
    vector = decode.unit_vector(request.vector, dimension, "vector") if request.vector else None
    return query, vector


def recall_response(result: RecallResult, stages: Sequence[Stage]) -> memories_pb2.RecallResponse:
    """Convert the result of a Recall to its reply; `stages` are its timed steps."""
    reply = memories_pb2.RecallResponse(
        results=[memory_message(memory) for memory in result.memories],
        total_tokens=result.total_tokens,
        budget_remaining=result.budget - result.total_tokens,
        path=memories_pb2.RecallPath.ValueType(result.path or 0),
        reason=result.reason,
        approximate=result.approximate,
        candidates=result.candidates,
        revision=result.revision,
        degraded=encode_degraded(result.degraded),
        confidence=confidence(result.confidence),
        left_out=result.left_out,
        questions=result.questions,
    )
    add_timings(reply.timings, stages)
    return reply


def remembering(
    request: memories_pb2.RememberRequest, engine: Engine, routes: Routes, caller: Caller
) -> Remembering:
    """Convert a Remember request to the text to remember and its file.

    If the request names a type of memory, the index is read to choose among possible files.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
        PermissionDenied: the caller may not write the file.
    """
    text = entries.check_text(request.text)
    section = entries.check_section(request.section)
    now = time.time_ns() // 1000
    given = decode.given(request, "time", decode.microseconds)
    said = now if given is None else given
    zone = time_zone(request.time_zone)
    if request.uri:
        uri = uris.parse(request.uri)
        if (
            uris.context_type(uri) is not ContextType.MEMORY
            or syntax_of(uri) is not Syntax.MARKDOWN
        ):
            raise InvalidField("uri", "must be a Markdown file (.md) below a root of memories")
    else:
        kind = request.memory_type
        if not _TYPE.fullmatch(kind):
            raise InvalidField("memory_type", f"is {kind!r}, a name like preferences is needed")
        scope = one_scope(request.scope, caller)
        uri = file_of(kind, scope, engine, routes, lambda: memory_file_paths.day_of(said, zone))
    caller.check(Right.WRITE, uri)
    pinned = request.pinned if request.HasField("pinned") else None
    title, exact = memory_file_paths.title_of(uri), request.exact
    return Remembering(uri, title, text, section, said, now, caller, pinned, exact=exact)


def remember_response(outcome: Outcome, revision: int) -> memories_pb2.RememberResponse:
    """Convert the outcome of a Remember, and the revision of its write, to its reply."""
    return memories_pb2.RememberResponse(
        outcome=memories_pb2.RememberOutcome.ValueType(outcome.did),
        id=outcome.entry.id,
        uri=outcome.uri,
        reinforcement=outcome.entry.reinforcement,
        met=outcome.met,
        similarity=float(bool(outcome.met)),
        revision=revision,
        degraded=encode_degraded(outcome.degraded),
    )


def reinforcement(
    request: memories_pb2.ReinforceRequest,
) -> tuple[list[int], int, tuple[int, ...]]:
    """Return (ids of memories to reinforce, amount, ids of memories that were used)."""
    if not request.used:
        decode.check_any(request.ids, "ids")
    if request.by > MAX_BY:
        raise InvalidField("by", f"is {request.by}, at most {MAX_BY:,} is allowed")
    return list(_once(request.ids)), request.by or 1, _once(request.used, "used")


def reinforce_response(done: Committed) -> memories_pb2.ReinforceResponse:
    """Convert the result of a Reinforce to its reply."""
    return memories_pb2.ReinforceResponse(
        revision=done.revision, reinforcements=[entry.reinforcement for entry in done.entries]
    )


def once(
    request: memories_pb2.RememberRequest
    | memories_pb2.ReinforceRequest
    | memories_pb2.ExtractRequest,
    reply: Callable[[Committed], Message | None],
    caller: Caller,
) -> Once | None:
    """Return the identity of a request, by which the store recognizes a repetition.

    A repetition changes nothing and gets the stored reply.

    Args:
        request: the request; without a request id the result is None.
        reply: makes the reply that is stored for repetitions; None if nothing was changed.
        caller: the caller. Callers do not share request ids.
    """
    if not request.request_id:
        return None
    if not _REQUEST_ID.fullmatch(request.request_id):
        raise InvalidField(
            "request_id",
            f"is {request.request_id[:80]!r}; up to 64 printable ASCII characters are allowed",
        )
    fields = request.SerializeToString(deterministic=True)
    digest = hashlib.sha256(request.DESCRIPTOR.full_name.encode() + b"\0" + fields).digest()

    def kept(done: Committed) -> bytes:
        message = reply(done)
        return b"" if message is None else message.SerializeToString()

    return Once(request.request_id, digest, kept, caller.name)


def forget_query(request: memories_pb2.ForgetRequest, caller: Caller) -> ForgetQuery:
    """Return the memories to forget as a query: by ids or by criteria."""
    below = request.below_salience if request.HasField("below_salience") else None
    if below is not None and not 0 < below <= 1:
        raise InvalidField("below_salience", f"is {below}, not in (0, 1]")
    has_criteria = below is not None or request.HasField("older_than")
    if request.ids and has_criteria:
        raise InvalidField("ids", "exclude criteria (older_than, below_salience): give one of both")
    if not request.ids and not has_criteria:
        raise InvalidField("ids", "are needed, or criteria: older_than, below_salience")
    if request.ids and request.HasField("scope"):
        raise InvalidField("scope", "is for criteria; ids say by themselves what is meant")
    return ForgetQuery(
        now_of(request),
        _once(request.ids),
        scope_of(request.scope, caller),
        decode.given(request, "older_than", decode.microseconds),
        below,
    )


def forget_response(choice: Chosen, revision: int, most_bytes: int) -> memories_pb2.ForgetResponse:
    """Convert the result of a Forget to its reply.

    It lists as many memories as fit, the forgotten ones first.
    """
    reply, budget = memories_pb2.ForgetResponse(revision=revision), ReplyBudget(most_bytes)
    for memory in choice.memories:
        cancellation.check()
        message = memory_message(memory)
        if not budget.take(MESSAGE_BYTES + message.ByteSize()):
            reply.left_out = len(choice.memories) - len(reply.forgotten)
            break
        reply.forgotten.append(message)
    for one in choice.spared:
        cancellation.check()
        spared = memories_pb2.SparedMemory(memory=memory_message(one.memory), reason=one.reason)
        if not budget.take(MESSAGE_BYTES + spared.ByteSize()):
            reply.spared_left_out = len(choice.spared) - len(reply.spared)
            break
        reply.spared.append(spared)
    return reply


def salience_of(defaults: Defaults) -> Salience:
    """Return the configured weights of the salience."""
    return Salience(
        defaults.semantic,
        defaults.reinforcement,
        defaults.recency,
        defaults.access,
        defaults.half_life_days,
    )


def scope_of(scope: memories_pb2.MemoryScope, caller: Caller) -> MemoryScope:
    """Return the memories that a call may use; by default those that belong to no project."""
    if "/" in scope.project:
        raise InvalidField("scope.project", f"{scope.project!r} is no name: it has a slash")
    if scope.project:
        uris.parse_new(project_root(scope.project), "scope.project")
    with_global = scope.with_global or not scope.project
    return MemoryScope(with_global, uris.canonical(scope.project), caller)


def one_scope(scope: memories_pb2.MemoryScope, caller: Caller) -> MemoryScope:
    """Return the scope for new memories: global (of no project), or one project.

    Raises:
        InvalidField: the scope of the request has both.
    """
    found = scope_of(scope, caller)
    if found.project and found.with_global:
        raise InvalidField("scope", "must be one: global or a project")
    return found


def now_of(request: memories_pb2.RecallRequest | memories_pb2.ForgetRequest) -> int:
    """Return the `now` of a request in microseconds; by default the time of the clock."""
    micros = decode.given(request, "now", decode.microseconds)
    if micros is None:
        return time.time_ns() // 1000
    if not memory_file_paths.MIN_NOW <= micros < memory_file_paths.MAX_NOW:
        raise InvalidField("now", "must lie in the years 2 to 9998")
    return micros


def time_zone(name: str) -> str:
    """Return the name of an IANA time zone if it is known; "" becomes "UTC"."""
    try:
        return ZoneInfo(name or "UTC").key
    except (KeyError, ValueError, OSError):
        raise InvalidField("time_zone", f"{name!r} is not in the IANA database") from None


def file_of(
    kind: str,
    scope: MemoryScope,
    engine: Engine,
    routes: Routes,
    day: Callable[[], str],
    *,
    of_agent: bool = False,
) -> str:
    """Return the URI of the file for a kind of memories, see `memory_file_paths.file_for`."""
    snapshot = engine.snapshot
    return memory_file_paths.file_for(
        kind,
        scope,
        routes,
        lambda uri: snapshot.find(uri) is not None,
        day,
        of_agent=of_agent,
    )


def memory_message(memory: Memory) -> memories_pb2.Memory:
    """Convert a memory to a message."""
    entry = memory.entry
    message = memories_pb2.Memory(
        id=entry.id,
        uri=memory.uri,
        content=memory.content,
        score=memory.score,
        memory_type=memory.memory_type,
        section=memory.section,
        reinforcement=entry.reinforcement,
        token_count=memory.token_count,
        truncated=memory.truncated,
        pinned=memory.pinned,
        access_count=entry.access_count,
        time=None if entry.time is None else timestamp(entry.time),
    )
    if (parts := memory.parts) is not None:
        message.parts.semantic = parts.semantic
        message.parts.reinforcement = parts.reinforcement
        message.parts.recency = parts.recency
        message.parts.access = parts.access
    return message


def _path(number: int, field: str) -> RecallPath:
    try:
        return RecallPath(number)
    except ValueError:
        raise InvalidField(field, f"{number} is not a path") from None


def _without(paths: Sequence[int]) -> frozenset[RecallPath]:
    chosen = frozenset(_path(path, f"without[{i}]") for i, path in enumerate(paths))
    if len(chosen) == len(RecallPath):
        raise InvalidField("without", "leaves no path")
    return chosen


def _paths(request: memories_pb2.RecallRequest) -> tuple[RecallPath, ...]:
    chosen: list[RecallPath] = []
    for i, number in enumerate(request.paths):
        path = _path(number, f"paths[{i}]")
        if path in chosen:
            raise InvalidField(f"paths[{i}]", f"{path.name} stands there already")
        if RecallPath.HYBRID in chosen:
            raise InvalidField(f"paths[{i}]", "comes after the search, which always answers")
        chosen.append(path)
    if chosen and request.without:
        raise InvalidField("without", "stands beside paths, which name the paths already")
    return tuple(chosen)


def _fusion(request: memories_pb2.RecallRequest) -> Rrf | WeightedSum | None:
    """Return the fusion that a request asks for; None for the scores of a find."""
    if request.WhichOneof("fusion") is not None:
        return fusion_of(request)
    return _HALVES if request.paths else None


def _profile(request: memories_pb2.RecallRequest, defaults: Defaults) -> str:
    """Return the name of the profile of weights; "" if the request has weights of its own."""
    if request.HasField("weights"):
        return ""
    default = "salience" if request.paths else defaults.default_profile
    return request.profile or default


def _salience(request: memories_pb2.RecallRequest, defaults: Defaults) -> Salience:
    salience = salience_of(defaults)
    if request.profile not in ("", "salience", "relevance"):
        raise InvalidField("profile", f"{request.profile!r} is neither salience nor relevance")
    if _profile(request, defaults) == "relevance":
        salience = replace(RELEVANCE, half_life_days=salience.half_life_days)
    if request.HasField("weights"):
        if request.profile:
            raise InvalidField("weights", "stand in place of a profile, and there is one")
        given = {
            name: decode.fraction(getattr(request.weights, name), f"weights.{name}")
            for name in ("semantic", "reinforcement", "recency", "access")
        }
        total = sum(given.values())
        if abs(total - 1) > WEIGHT_TOLERANCE:
            raise InvalidField("weights", f"sum to {total:g}, not to 1")
        salience = replace(salience, **given)
    if request.HasField("half_life_days"):
        days = request.half_life_days
        if not (math.isfinite(days) and MIN_HALF_LIFE <= days <= MAX_HALF_LIFE):
            raise InvalidField("half_life_days", f"is {days}, not in [{MIN_HALF_LIFE}, 1,000,000]")
        salience = replace(salience, half_life_days=days)
    return salience


def _once(ids: Sequence[int], field: str = "ids") -> tuple[int, ...]:
    seen: dict[int, int] = {}
    for i, one in enumerate(ids):
        if not 0 < one < 1 << 63:
            raise InvalidField(f"{field}[{i}]", f"{one} is no id of a memory")
        if seen.setdefault(one, i) != i:
            raise InvalidField(f"{field}[{i}]", f"{one} is {field}[{seen[one]}] already")
    return tuple(ids)
