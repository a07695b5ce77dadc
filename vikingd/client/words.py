"""The words of other libraries for arguments and methods, and the errors that name ours."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_COUNT = ("limit", "top_k")
_PLACE = ("target_uri", "uri", "at", "uris")
_TEXT = ("content", "text", "query")
_FILTER = ("where",)
_QUESTION = ("query", "text", "pattern")
_NAME = ("uri", "uris", "at", "ids", "target_uri")

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("k", "n", "n_results", "top_n", "topk", "count", "size", "num_results", "max_results"),
        _COUNT,
    ),
    **dict.fromkeys(
        ("collection", "collection_name", "namespace", "index", "scope", "folder", "directory"),
        _PLACE,
    ),
    **dict.fromkeys(("path", "prefix", "root", "target", "source_uri"), _PLACE),
    **dict.fromkeys(("query_text", "query_texts", "question", "q", "input", "prompt"), _QUESTION),
    **dict.fromkeys(
        ("query_embedding", "query_embeddings", "query_vector", "embedding", "embeddings"),
        ("vector",),
    ),
    **dict.fromkeys(("vectors",), ("vector",)),
    **dict.fromkeys(("filter", "filters", "query_filter", "metadata_filter"), _FILTER),
    **dict.fromkeys(("text", "document", "page_content", "body", "data", "memory"), _TEXT),
    **dict.fromkeys(("documents", "texts", "points", "docs", "items"), ("contexts", "documents")),
    **dict.fromkeys(("id", "ids", "doc_id", "memory_id", "name", "file"), _NAME),
    **dict.fromkeys(("payload", "metadatas", "meta", "properties"), ("metadata",)),
    **dict.fromkeys(
        ("threshold", "min_score", "similarity_threshold", "score", "distance"),
        ("score_threshold",),
    ),
    **dict.fromkeys(("type", "types", "kind", "category"), ("context_types", "memory_type")),
    **dict.fromkeys(("timestamp", "date", "when", "created_at", "datetime"), ("time",)),
    **dict.fromkeys(("url", "host", "endpoint", "uri", "server"), ("address",)),
    **dict.fromkeys(("api_key", "token", "password"), ("key",)),
    **dict.fromkeys(("messages", "history", "conversation"), ("session",)),
}
"""Words of Chroma, Qdrant, mem0 and LangChain, and our words for the same, best first."""

_HINTS = {
    "user_id": 'a user is part of the URI, such as "viking://users/ana/memories"',
    "agent_id": 'an agent is part of the URI, such as "viking://agent/memories"',
    "run_id": 'a run is part of the URI, such as "viking://projects/NAME/memories"',
    "app_id": 'an application is part of the URI, such as "viking://projects/NAME/memories"',
    "where_document": "grep() searches in the texts",
    "infer": "remember() writes the text as it is",
    "port": 'the port is part of the address, such as "127.0.0.1:7716"',
}

_METHODS = {
    **dict.fromkeys(
        ("query", "similarity_search", "query_points", "search_memories", "ask"),
        "find",
    ),
    **dict.fromkeys(("upsert", "upload", "add_points", "insert", "write"), "put"),
    **dict.fromkeys(("add_texts", "add_text", "add_document", "store"), "add"),
    **dict.fromkeys(("add_documents", "upload_points", "put_all"), "put_many"),
    **dict.fromkeys(("remove", "delete_all", "delete_collection"), "delete"),
    **dict.fromkeys(("get_all", "all_memories", "list_memories"), "memories"),
    **dict.fromkeys(("read", "fetch", "retrieve_points"), "get"),
    **dict.fromkeys(("ls", "list_collections", "scroll", "children"), "list"),
    **dict.fromkeys(("count", "info", "heartbeat", "health"), "stats"),
    **dict.fromkeys(("rename", "mv"), "move"),
    **dict.fromkeys(("ingest", "load", "import_directory", "import_files"), "import_path"),
}


def unknown_argument(call: str, given: str, known: Collection[str]) -> TypeError:
    """Return the error for an argument that a function does not have.

    Args:
        call: the name of the function.
        given: the name of the argument.
        known: the names of the function's arguments.
    """
    fault = f"{call}() has no argument {given!r}"
    ours = [name for name in _ARGUMENTS.get(given, ()) if name in known]
    if given in _HINTS:
        place = next((name for name in _PLACE if name in known), "")
        return TypeError(f"{fault}: {_HINTS[given]}" + (f"; did you mean {place!r}?" * bool(place)))
    if ours or (ours := get_close_matches(given, known, 1)):
        return TypeError(f"{fault}; did you mean {ours[0]!r}?")
    return TypeError(f"{fault}; its arguments are {', '.join(known) or 'none'}")


def unknown_method(kind: str, given: str, known: Collection[str]) -> AttributeError:
    """Return the error for a method that a client does not have."""
    fault = f"{kind} has no {given!r}"
    ours = _METHODS.get(given) or next(iter(get_close_matches(given, known, 1)), "")
    return AttributeError(f"{fault}; did you mean {ours!r}?" if ours else fault)
