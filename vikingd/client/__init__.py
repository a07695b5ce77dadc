"""The Python client, synchronous and asynchronous.

    from vikingd.client import Client, Draft, Session

    session = Session()
    with Client() as client:
        client.put([Draft("viking://resources/notes/tea.md", content="Oolong: 90 degrees.")])
        for match in client.find("how hot for oolong?", target_uri="viking://resources/"):
            print(f"{match.score:.3f}", match.uri)
        session.add("user", "My tea was bitter again.")
        for match in client.search("Help me with the next pot", session=session):
            print(f"{match.score:.3f}", match.uri)

Replies are dataclasses with the names of proto/viking/retrieval/v1; errors are ClientErrors, one
class for each reason (`except NotFound`). Who wants protobuf messages takes the clients of
vikingd.client.messages, which have the same methods.
"""

from vikingd.client.aio import AsyncClient
from vikingd.client.channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT
from vikingd.client.contexts import (
    Context,
    ContextPassage,
    DeleteResult,
    LinkResult,
    MemoryState,
    MoveResult,
    PutResult,
)
from vikingd.client.errors import (
    AlreadyExists,
    ClientError,
    Corrupt,
    DeadlinePassed,
    EmbedderFailed,
    EmbedderTimedOut,
    FieldViolation,
    Internal,
    InvalidField,
    NotFound,
    ReadOnly,
    RevisionNotReached,
    Stopping,
    StoreFailed,
    StoreInUse,
    StoreMismatch,
    TimedOut,
    Unreachable,
    Unsendable,
)
from vikingd.client.importing import Failure, ImportSummary
from vikingd.client.requests import context_input
from vikingd.client.requests import find as find_request
from vikingd.client.requests import retrieve as retrieve_request
from vikingd.client.results import (
    BuiltContext,
    Citation,
    DroppedPiece,
    FindResult,
    ForgetResult,
    MatchedContext,
    MatchedPassage,
    Memory,
    QueryHit,
    QueryResult,
    RecallResult,
    ReinforceResult,
    RememberResult,
    Rerank,
    RerankRound,
    RetrievedItem,
    RetrieveResult,
    SearchResult,
)
from vikingd.client.session import Session
from vikingd.client.status import (
    AnswerStats,
    CallStats,
    Distribution,
    EmbedderStats,
    IndexStats,
    ModelStats,
    OptimizeResult,
    ReembedResult,
    StageStats,
    Stats,
    VerifyReport,
)
from vikingd.client.sync import Client
from vikingd.client.values import vector_bytes
from vikingd.ingest.files import Unreadable
from vikingd.memory.model import Remembered as RememberOutcome
from vikingd.memory.model import SalienceParts
from vikingd.model import (
    ContextType,
    Draft,
    Entry,
    FindTrace,
    Levels,
    Method,
    Passage,
    PutOutcome,
    Relation,
    RerankStatus,
    ScoreParts,
    TracedDirectory,
    TracedMean,
)
from vikingd.query import (
    Boost,
    CitationStyle,
    ContextOrder,
    Include,
    ItemDebug,
    Mode,
    Outcome,
    PlanSource,
    QueryPlan,
    RecallPath,
    Rrf,
    SearchMode,
    SearchSession,
    SessionMessage,
    TypedQuery,
    WeightedSum,
)

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_TIMEOUT",
    "AlreadyExists",
    "AnswerStats",
    "AsyncClient",
    "Boost",
    "BuiltContext",
    "CallStats",
    "Citation",
    "CitationStyle",
    "Client",
    "ClientError",
    "Context",
    "ContextOrder",
    "ContextPassage",
    "ContextType",
    "Corrupt",
    "DeadlinePassed",
    "DeleteResult",
    "Distribution",
    "Draft",
    "DroppedPiece",
    "EmbedderFailed",
    "EmbedderStats",
    "EmbedderTimedOut",
    "Entry",
    "Failure",
    "FieldViolation",
    "FindResult",
    "FindTrace",
    "ForgetResult",
    "ImportSummary",
    "Include",
    "IndexStats",
    "Internal",
    "InvalidField",
    "ItemDebug",
    "Levels",
    "LinkResult",
    "MatchedContext",
    "MatchedPassage",
    "Memory",
    "MemoryState",
    "Method",
    "Mode",
    "ModelStats",
    "MoveResult",
    "NotFound",
    "OptimizeResult",
    "Outcome",
    "Passage",
    "PlanSource",
    "PutOutcome",
    "PutResult",
    "QueryHit",
    "QueryPlan",
    "QueryResult",
    "ReadOnly",
    "RecallPath",
    "RecallResult",
    "ReembedResult",
    "ReinforceResult",
    "Relation",
    "RememberOutcome",
    "RememberResult",
    "Rerank",
    "RerankRound",
    "RerankStatus",
    "RetrieveResult",
    "RetrievedItem",
    "RevisionNotReached",
    "Rrf",
    "SalienceParts",
    "ScoreParts",
    "SearchMode",
    "SearchResult",
    "SearchSession",
    "Session",
    "SessionMessage",
    "StageStats",
    "Stats",
    "Stopping",
    "StoreFailed",
    "StoreInUse",
    "StoreMismatch",
    "TimedOut",
    "TracedDirectory",
    "TracedMean",
    "TypedQuery",
    "Unreachable",
    "Unreadable",
    "Unsendable",
    "VerifyReport",
    "WeightedSum",
    "context_input",
    "find_request",
    "retrieve_request",
    "vector_bytes",
]
