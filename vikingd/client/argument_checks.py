"""Checks of a call's arguments, whose errors say what to type instead.

Names of arguments and methods from Chroma, Qdrant, mem0 and LangChain are recognized.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from operator import index
from typing import Any, ParamSpec, SupportsFloat, SupportsIndex, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_PLACE = ("target_uri", "uri", "at", "uris")

# The names of our arguments, best first, by a name for it in another library: n_results is limit.
_ARGUMENTS = {
    theirs: ours
    for ours, words in (
        (("limit", "top_k"), "k n n_results top_n top_k max_results"),
        (_PLACE, "collection collection_name namespace index path prefix"),
        (("query", "text", "pattern"), "query_text query_texts question input prompt"),
        (("vector",), "query_embedding query_embeddings query_vector embedding embeddings vectors"),
        (("where",), "filter filters query_filter"),
        (("content", "text", "query"), "content text document page_content data memory"),
        (("contexts", "documents"), "documents texts points docs items"),
        (("uri", "uris", "at", "ids", "target_uri"), "id ids memory_id"),
        (("metadata",), "payload metadatas"),
        (("score_threshold",), "threshold min_score"),
        (("context_types", "memory_type", "types"), "type types kind context_types"),
        (("time",), "timestamp date created_at"),
        (("address",), "url host"),
        (("key",), "api_key token"),
        (("session", "messages"), "messages history session"),
    )
    for theirs in words.split()
}

_DOCUMENTS = ("contexts", "documents")
_OF_A_DOCUMENT = {"uri", "content", "title", "abstract", "overview", "metadata", "time", "vector"}

_HINTS = {
    "user_id": 'a user is part of the URI, such as "viking://users/ana/memories"',
    "agent_id": 'an agent is part of the URI, such as "viking://agent/memories"',
    "run_id": 'a run is part of the URI, such as "viking://projects/NAME/memories"',
    "where_document": "grep() searches in the texts",
    "infer": "remember() writes the text as it is",
    "port": 'the port is part of the address, such as "127.0.0.1:7716"',
}

_METHODS = {
    theirs: ours
    for ours, words in (
        ("find", "query similarity_search query_points"),
        ("put", "upsert insert"),
        ("add", "add_texts"),
        ("put_many", "add_documents upload_points"),
        ("delete", "remove delete_all delete_collection"),
        ("memories", "get_all"),
        ("list", "ls list_collections scroll"),
        ("stats", "count info heartbeat"),
        ("import_path", "ingest load"),
    )
    for theirs in words.split()
}

_EXAMPLES = {
    "query": '"how hot for oolong?"',
    "text": '"Drinks oolong."',
    "content": '"Oolong: 90 degrees."',
    "at": '"viking://resources/notes/"',
    "uri": '"viking://resources/notes/tea.md"',
    "uris": '"viking://resources/notes/tea.md"',
    "source": '"viking://resources/notes"',
    "destination": '"viking://resources/old"',
    "target_uri": '"viking://resources"',
    "where": '{"year": {"$gte": 2024}}',
    "metadata": '{"year": 2024}',
    "memory_type": '"preferences"',
    "project": '"moon"',
    "user": '"ana"',
    "pattern": '"**/*.md"',
    "limit": "10",
    "top_k": "10",
    "ids": "17",
    "max_tokens": "2000",
    "score_threshold": "0.3",
    "title": '"Tea"',
    "address": '"127.0.0.1:7716"',
    "key": '"vk_..."',
}
_SECRET = ("key", "the key")  # arguments whose values no error shows
_BY_KIND = {"str": '"..."', "int": "1", "float": "0.5", "bool": "True"}


def described(value: object) -> str:
    """Return the type of a value and its text, cut if long, such as "an int (3)".

    None is "None".
    """
    if value is None:
        return "None"
    name = type(value).__name__
    text = repr(value)
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name} ({shown})"


def seconds(timeout: float | None) -> float | None:
    """Return a timeout in seconds, or None for none.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative or NaN.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise wrong_type("timeout", timeout, "a number of seconds or None", "5.0")
    if not timeout >= 0:
        raise ValueError(f"timeout is {timeout}; give a number of seconds, such as timeout=5.0")
    return timeout


def wrong_type(name: str, value: object, wanted: str, example: str = "") -> TypeError:
    """Return the error for an argument of a wrong type.

    Args:
        name: the argument.
        value: the value of the argument.
        wanted: the types that it may have, such as "a str".
        example: a right value, for the error; "": an example for the argument's name.
    """
    shown = example or _EXAMPLES.get(name, "")
    such = f", such as {name}={shown}" if shown else ""
    shown = f"of type {type(value).__name__}" if name in _SECRET else described(value)
    return TypeError(f"{name} is {shown}; give {wanted}{such}")


def checked(
    function: Callable[P, T], name: str = "", most: Mapping[str, int] | None = None
) -> Callable[P, T]:
    """Return a function that first checks the names and the simple types of its arguments.

    Arguments that are annotated as str, int, float or bool are checked. None for an argument that
    is given by its name means its default, unless its annotation allows None.

    Args:
        function: the function; its annotations are strings.
        name: the name of the function in errors; "": its own.
        most: the largest values of arguments that are whole numbers from 0 on.
    """
    call = name or function.__name__
    parameters = dict(inspect.signature(function).parameters)
    first = 1 if parameters.pop("self", None) else 0
    positional = [k for k, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    rest = next((k for k, one in parameters.items() if one.kind is one.VAR_POSITIONAL), "")
    named = [key for key in parameters if key != rest]
    known = frozenset(named)
    kinds = {key: one.annotation.removesuffix(" | None") for key, one in parameters.items()}
    takes_none = {key for key, one in parameters.items() if one.annotation.endswith("| None")}
    defaults = {
        key
        for key, one in parameters.items()
        if key not in takes_none and one.default is not one.empty and one.default is not None
    }

    def check(key: str, value: Any) -> None:
        kind = kinds[key]
        if kind in _BY_KIND and not ((value is None and key in takes_none) or _fits(kind, value)):
            wanted = f"an {kind}" if kind == "int" else f"a {kind}"
            fault = wrong_type(key, value, wanted, _EXAMPLES.get(key) or _BY_KIND[kind])
            raise TypeError(f"{call}(): {fault}")
        largest = most[key] if most and kind == "int" and key in most else None
        if largest is not None and value is not None and not 0 <= index(value) <= largest:
            example = f"{key}={_EXAMPLES.get(key, '1')}"
            given = f"a number from 0 to {largest:,}, such as {example}"
            raise ValueError(f"{call}(): {key} is {value}; give {given}")

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        given = args[first:]
        if not kwargs.keys() <= known:
            raise _unknown_argument(call, next(k for k in kwargs if k not in known), named)
        if len(given) > len(positional) and not rest:
            by_name = ", ".join(k for k in named if k not in positional)
            advice = f"give the others by name: {by_name or 'there are none'}"
            if isinstance(given[0], str) and positional[:1] and positional[0] in _DOCUMENTS:
                advice = _documents(call)
            raise TypeError(
                f"{call}() takes at most {len(positional)} argument{'s' * (len(positional) != 1)} "
                f"without a name, and {len(given)} are given; {advice}"
            )
        for i, value in enumerate(given):
            check(positional[i] if i < len(positional) else rest, value)
        for key, value in list(kwargs.items()):
            if value is None and key in defaults:
                del kwargs[key]
            else:
                check(key, value)
        return function(*args, **kwargs)

    return run


def _fits(kind: str, value: Any) -> bool:
    """Return True if a value has the simple type `kind`; numbers of numpy count as int or float."""
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool) or type(value).__name__ == "bool_"
    return not isinstance(value, bool) and isinstance(
        value, SupportsIndex if kind == "int" else SupportsFloat
    )


def nearest(given: str, known: Collection[str]) -> str:
    """Return the known argument that an unknown name most likely means; "" if there is none."""
    ours = [name for name in _ARGUMENTS.get(given, ()) if name in known]
    return next(iter(ours or get_close_matches(given, known, 1)), "")


def _unknown_argument(call: str, given: str, known: Collection[str]) -> TypeError:
    """Return the error for an argument that a function does not have."""
    fault = f"{call}() has no argument {given!r}"
    if given in _HINTS:
        place = next((name for name in _PLACE if name in known), "")
        return TypeError(f"{fault}: {_HINTS[given]}" + (f"; did you mean {place!r}?" * bool(place)))
    if {given, *_ARGUMENTS.get(given, ())} & _OF_A_DOCUMENT and set(_DOCUMENTS) & set(known):
        return TypeError(f"{fault}; {_documents(call)}")
    if near := nearest(given, known):
        return TypeError(f"{fault}; did you mean {near!r}?")
    return TypeError(f"{fault}; its arguments are {', '.join(known) or 'none'}")


def _documents(call: str) -> str:
    """Return the advice for a call that takes documents, and was given the fields of one."""
    document = f"Document({_EXAMPLES['uri']}, {_EXAMPLES['content']})"
    shown = f"[{document}]" if call == "put_many" else document
    return f"give Documents, such as {call}({shown})"


def unknown_method(kind: str, given: str, known: Collection[str]) -> AttributeError:
    """Return the error for a method that a class of clients does not have."""
    fault = f"{kind} has no {given!r}"
    ours = _METHODS.get(given) or next(iter(get_close_matches(given, known, 1)), "")
    return AttributeError(f"{fault}; did you mean {ours!r}?" if ours else fault)
