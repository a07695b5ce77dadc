"""Replies of the daemon as objects of the domain."""

from __future__ import annotations

from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from vikingd.domain.contexts import Context, Entry, Passage, Relation
from vikingd.ingest.limits import as_sent
from vikingd.pb import contexts_pb2


def context_of(message: contexts_pb2.Context) -> Context:
    """Return the context of a reply to Get."""
    return Context(
        message.uri,
        message.is_directory,
        message.abstract,
        message.title,
        as_sent(MessageToDict(message.metadata)),
        micros(message.time),
        micros(message.create_time),
        micros(message.update_time),
        message.reinforcement,
        message.access_count,
        message.content_hash,
        message.revision,
        message.overview,
        message.content,
        tuple(
            Passage(
                p.section,
                p.start,
                p.end,
                entry=entry_of(p.memory) if p.HasField("memory") else None,
            )
            for p in message.passages
        ),
        tuple(Relation(r.uri, r.abstract, r.reason) for r in message.relations),
    )


def entry_of(message: contexts_pb2.MemoryState) -> Entry:
    """Return the state of a memory."""
    return Entry(
        message.id,
        message.reinforcement,
        message.access_count,
        micros(message.time),
        micros(message.create_time),
    )


def micros(time: Timestamp) -> int:
    """Return a time in microseconds since the epoch."""
    return time.seconds * 1_000_000 + time.nanos // 1000
