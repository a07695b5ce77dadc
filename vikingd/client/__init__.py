"""The Python client, synchronous and asynchronous.

    from vikingd.client import Client, Draft

    with Client() as client:
        client.put([Draft("viking://resources/notes/tea.md", content="Oolong: 90 degrees.")])
        for match in client.find("how hot for oolong?").resources:
            print(match.score, match.uri)

Replies are the protobuf messages of vikingd.pb, documented in proto/viking/retrieval/v1.
"""

from vikingd.client.aio import AsyncClient
from vikingd.client.channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT
from vikingd.client.errors import ClientError, FieldViolation
from vikingd.client.requests import context_input, vector_bytes
from vikingd.client.requests import find as find_request
from vikingd.client.requests import retrieve as retrieve_request
from vikingd.client.sync import Client
from vikingd.model import ContextType, Draft, Levels, Method, Passage
from vikingd.query import (
    Boost,
    CitationStyle,
    ContextOrder,
    Include,
    Mode,
    RecallPath,
    Rrf,
    WeightedSum,
)

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_TIMEOUT",
    "AsyncClient",
    "Boost",
    "CitationStyle",
    "Client",
    "ClientError",
    "ContextOrder",
    "ContextType",
    "Draft",
    "FieldViolation",
    "Include",
    "Levels",
    "Method",
    "Mode",
    "Passage",
    "RecallPath",
    "Rrf",
    "WeightedSum",
    "context_input",
    "find_request",
    "retrieve_request",
    "vector_bytes",
]
