"""The Python client, synchronous and asynchronous.

    from vikingd.client import Client, Document, Session

    session = Session()
    with Client() as client:
        client.put([Document("viking://resources/notes/tea.md", "Oolong: 90 degrees.")])
        for match in client.find("how hot for oolong?", target_uri="viking://resources/"):
            print(f"{match.score:.3f}", match.uri)
        session.add("user", "My tea was bitter again.")
        for match in client.search("Help me with the next pot", session=session):
            print(f"{match.score:.3f}", match.uri)

Replies are dataclasses with the names of proto/viking/retrieval/v1. Errors are ClientErrors, one
class for each reason (`except NotFound`). MessageClient of vikingd.client.messages has the same
methods and returns protobuf messages.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vikingd.client.admin_calls import (
        BackupPiece,
        CreatedKey,
        DeletedTenant,
        DescribeResult,
        DescriberStats,
        EmbedderStats,
        Grant,
        IndexStats,
        Key,
        KeyList,
        Limits,
        OptimizeResult,
        QueueStats,
        ReembedResult,
        RotatedKey,
        Stats,
        Tenant,
        TenantList,
        VerifyReport,
    )
    from vikingd.client.batch_results import Failure
    from vikingd.client.client_errors import (
        AlreadyExists,
        ClientError,
        Corrupt,
        DeadlinePassed,
        DiskFull,
        EmbedderFailed,
        EmbedderRefused,
        EmbedderTimedOut,
        FieldViolation,
        HistoryLost,
        Internal,
        InvalidField,
        NotFetched,
        NotFound,
        Overloaded,
        PermissionDenied,
        QuotaExceeded,
        ReadOnly,
        RevisionDiffers,
        RevisionNotReached,
        Stopping,
        StoreAway,
        StoreDamaged,
        StoreFailed,
        StoreInUse,
        StoreMismatch,
        TimedOut,
        TooLarge,
        Unauthenticated,
        Unreachable,
        Unsendable,
    )
    from vikingd.client.clients import AsyncClient, Client
    from vikingd.client.connection_defaults import DEFAULT_ADDRESS, DEFAULT_TIMEOUT
    from vikingd.client.context_calls import (
        AddResult,
        Context,
        ContextPassage,
        DeleteResult,
        LinkResult,
        MemoryState,
        MoveResult,
        PutResult,
    )
    from vikingd.client.conversation import Session
    from vikingd.client.document_writes import PutSummary
    from vikingd.client.documents import Document, context_input
    from vikingd.client.extract_results import (
        Episode,
        EpisodeTurn,
        ExtractedMemory,
        ExtractResult,
        ForgetProposal,
        RefusedMemory,
        UntakenSentence,
    )
    from vikingd.client.import_summary import ImportSummary
    from vikingd.client.memory_entries import AsyncMemories, Memories, MemoryEntry
    from vikingd.client.memory_results import (
        ForgetResult,
        Memory,
        RecallResult,
        ReinforceResult,
        RememberResult,
        SparedMemory,
    )
    from vikingd.client.outlines import FoundSymbol, SymbolsResult
    from vikingd.client.results import (
        BuiltContext,
        Citation,
        ContextItem,
        DroppedPiece,
        FindResult,
        MatchedContext,
        MatchedPassage,
        QueryHit,
        QueryResult,
        Rerank,
        RerankRound,
        RetrievedItem,
        RetrieveResult,
        SearchResult,
        context_items,
    )
    from vikingd.client.retrieval_calls import find as find_request
    from vikingd.client.retrieval_calls import retrieve as retrieve_request
    from vikingd.client.value_conversion import vector_bytes
    from vikingd.domain.answers import Confidence, Degradation, DegradationReason, Strength
    from vikingd.domain.contexts import ContextType, Entry, Passage, Relation
    from vikingd.domain.extract import ExtractSource, MemoryKind
    from vikingd.domain.find_query import (
        FindTrace,
        Levels,
        Method,
        Preference,
        RerankStatus,
        ScoreParts,
        StopReason,
        TracedDirectory,
        TracedMean,
    )
    from vikingd.domain.pattern_queries import GlobEntry, GrepMatch, NodeKind
    from vikingd.domain.prompt_options import CitationStyle, ContextOrder, DropReason, RecallPath
    from vikingd.domain.retrieve_query import (
        Boost,
        Include,
        ItemTrace,
        Mode,
        Outcome,
        Rrf,
        WeightedSum,
    )
    from vikingd.domain.rights import Right
    from vikingd.domain.search_query import (
        PlanSource,
        QueryPlan,
        SearchMode,
        SearchSession,
        SessionMessage,
        TypedQuery,
    )
    from vikingd.domain.store_changes import PutOutcome, PutRefusal
    from vikingd.ingest.import_remarks import Unreadable
    from vikingd.memory.memory_types import Remembered as RememberOutcome
    from vikingd.memory.memory_types import SalienceParts

    Draft = Document
    """The former name of Document."""

_NAMES = {
    "vikingd.client.admin_calls": (
        "BackupPiece CreatedKey DeletedTenant DescribeResult DescriberStats EmbedderStats "
        "Grant IndexStats Key KeyList Limits OptimizeResult QueueStats ReembedResult "
        "RotatedKey Stats Tenant TenantList VerifyReport"
    ),
    "vikingd.client.batch_results": "Failure",
    "vikingd.client.connection_defaults": "DEFAULT_ADDRESS DEFAULT_TIMEOUT",
    "vikingd.client.client_errors": (
        "AlreadyExists ClientError Corrupt DeadlinePassed DiskFull EmbedderFailed "
        "EmbedderRefused EmbedderTimedOut FieldViolation HistoryLost Internal InvalidField "
        "NotFetched NotFound Overloaded PermissionDenied QuotaExceeded ReadOnly "
        "RevisionDiffers RevisionNotReached Stopping StoreAway StoreDamaged StoreFailed "
        "StoreInUse StoreMismatch TimedOut TooLarge Unauthenticated Unreachable Unsendable"
    ),
    "vikingd.client.clients": "AsyncClient Client",
    "vikingd.client.context_calls": (
        "AddResult Context ContextPassage DeleteResult LinkResult MemoryState MoveResult PutResult"
    ),
    "vikingd.client.conversation": "Session",
    "vikingd.client.document_writes": "PutSummary",
    "vikingd.client.documents": "Document context_input Draft",
    "vikingd.client.extract_results": (
        "Episode EpisodeTurn ExtractedMemory ExtractResult ForgetProposal RefusedMemory "
        "UntakenSentence"
    ),
    "vikingd.client.import_summary": "ImportSummary",
    "vikingd.client.memory_entries": "AsyncMemories Memories MemoryEntry",
    "vikingd.client.memory_results": (
        "ForgetResult Memory RecallResult ReinforceResult RememberResult SparedMemory"
    ),
    "vikingd.client.outlines": "FoundSymbol SymbolsResult",
    "vikingd.client.results": (
        "BuiltContext Citation ContextItem DroppedPiece FindResult MatchedContext "
        "MatchedPassage QueryHit QueryResult Rerank RerankRound RetrievedItem RetrieveResult "
        "SearchResult context_items"
    ),
    "vikingd.client.retrieval_calls": "find_request retrieve_request",
    "vikingd.client.value_conversion": "vector_bytes",
    "vikingd.domain.answers": "Confidence Degradation DegradationReason Strength",
    "vikingd.domain.contexts": "ContextType Entry Passage Relation",
    "vikingd.domain.extract": "ExtractSource MemoryKind",
    "vikingd.domain.find_query": (
        "FindTrace Levels Method Preference RerankStatus ScoreParts StopReason "
        "TracedDirectory TracedMean"
    ),
    "vikingd.domain.pattern_queries": "GlobEntry GrepMatch NodeKind",
    "vikingd.domain.prompt_options": "CitationStyle ContextOrder DropReason RecallPath",
    "vikingd.domain.retrieve_query": "Boost Include ItemTrace Mode Outcome Rrf WeightedSum",
    "vikingd.domain.rights": "Right",
    "vikingd.domain.search_query": (
        "PlanSource QueryPlan SearchMode SearchSession SessionMessage TypedQuery"
    ),
    "vikingd.domain.store_changes": "PutOutcome PutRefusal",
    "vikingd.ingest.import_remarks": "Unreadable",
    "vikingd.memory.memory_types": "RememberOutcome SalienceParts",
}
"""The public names of each module; a module is loaded when one of its names is first used."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_OTHERWISE = {
    "Draft": "Document",
    "RememberOutcome": "Remembered",
    "find_request": "find",
    "retrieve_request": "retrieve",
}
"""The public names that differ from the names in their modules."""

# fmt: off
__all__ = [
    "DEFAULT_ADDRESS", "DEFAULT_TIMEOUT", "AddResult", "AlreadyExists", "AsyncClient",
    "AsyncMemories", "BackupPiece", "Boost", "BuiltContext", "Citation", "CitationStyle", "Client",
    "ClientError", "Confidence", "Context", "ContextItem", "ContextOrder", "ContextPassage",
    "ContextType", "Corrupt", "CreatedKey", "DeadlinePassed", "Degradation", "DegradationReason",
    "DeleteResult", "DeletedTenant", "DescribeResult", "DescriberStats",
    "DiskFull", "Document", "Draft", "DropReason", "DroppedPiece",
    "EmbedderFailed", "EmbedderRefused", "EmbedderStats", "EmbedderTimedOut", "Entry", "Episode",
    "EpisodeTurn",
    "ExtractResult", "ExtractSource", "ExtractedMemory", "Failure", "FieldViolation", "FindResult",
    "FindTrace", "ForgetProposal", "ForgetResult", "FoundSymbol", "GlobEntry", "Grant", "GrepMatch",
    "HistoryLost",
    "ImportSummary", "Include", "IndexStats", "Internal", "InvalidField", "ItemTrace", "Key",
    "KeyList", "Levels", "Limits", "LinkResult", "MatchedContext", "MatchedPassage", "Memories",
    "Memory", "MemoryEntry", "MemoryKind", "MemoryState", "Method", "Mode", "MoveResult",
    "NodeKind", "NotFetched", "NotFound", "OptimizeResult", "Outcome", "Overloaded", "Passage",
    "PermissionDenied", "PlanSource", "Preference", "PutOutcome", "PutRefusal",
    "PutResult", "PutSummary",
    "QueryHit", "QueryPlan", "QueryResult", "QueueStats", "QuotaExceeded", "ReadOnly", "RecallPath",
    "RecallResult", "ReembedResult", "RefusedMemory", "ReinforceResult", "Relation",
    "RememberOutcome", "RememberResult", "Rerank", "RerankRound", "RerankStatus", "RetrieveResult",
    "RetrievedItem", "RevisionDiffers", "RevisionNotReached", "Right", "RotatedKey", "Rrf",
    "SalienceParts", "ScoreParts", "SearchMode", "SearchResult", "SearchSession", "Session",
    "SessionMessage", "SparedMemory", "Stats", "StopReason", "Stopping", "StoreAway",
    "StoreDamaged", "StoreFailed", "StoreInUse", "StoreMismatch", "Strength", "SymbolsResult",
    "Tenant", "TenantList", "TimedOut", "TooLarge", "TracedDirectory", "TracedMean", "TypedQuery",
    "Unauthenticated", "Unreachable", "Unreadable", "Unsendable", "UntakenSentence", "VerifyReport",
    "WeightedSum", "context_input", "context_items", "find_request", "retrieve_request",
    "vector_bytes",
]
# fmt: on


if not TYPE_CHECKING:  # a checker must still see that a name does not exist

    def __getattr__(name: str) -> Any:
        """Load a name, or a module such as `messages`, when it is first used.

        All of them together take .2 s of processor time.
        """
        if name not in _MODULES:
            if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
                return import_module(f"{__name__}.{name}")
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULES[name]), _OTHERWISE.get(name, name))
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
