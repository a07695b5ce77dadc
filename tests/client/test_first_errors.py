"""The first wrong calls of a new user: each error says what to type."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import vikingd
from tests.daemons import serving
from vikingd.client import (
    AsyncClient,
    Client,
    ClientError,
    ContextType,
    Document,
    Draft,
    Unauthenticated,
    Unreachable,
    daemon_starts,
    find_request,
)

TEA = Document("viking://resources/notes/tea.md", "Oolong: 90 degrees.", vector=[1.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def ours() -> Iterator[Any]:
    """Yield a client of a daemon with one document, untyped: the calls here are wrong."""
    with serving("--provider", "none") as address, Client(address) as client:
        client.put(TEA)
        yield client


def text_of(call: Callable[[], object]) -> str:
    """Return the text of the error of a call."""
    with pytest.raises((TypeError, ValueError, ClientError)) as caught:
        call()
    return str(caught.value)


WRONG: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "a list of texts": (lambda c: c.put(["text"]), "contexts[0] is a str ('text')", "add("),
    "a text": (lambda c: c.put("text"), "contexts is a str", 'Document("viking://'),
    "the fields of a document": (
        lambda c: c.put(TEA.uri, content="x"),
        "put() has no argument 'content'",
        'put(Document("viking://',
    ),
    "a URI and a text": (lambda c: c.put(TEA.uri, "x"), "2 are given", 'put(Document("viking://'),
    "a text by another word": (
        lambda c: c.put_many(text="x"),
        "put_many() has no argument 'text'",
        'put_many([Document("viking://',
    ),
    "the content of a text": (lambda c: c.add(content="x", at="a"), "'content'", "mean 'text'"),
    "a number as document": (lambda c: c.put([3]), "contexts[0] is an int (3)", "Document("),
    "no iterable": (lambda c: c.put(3), "contexts is an int (3)", "Document("),
    "a dict without a URI": (lambda c: c.put([{"content": "x"}]), "without 'uri'", "Document("),
    "a dict with another word": (
        lambda c: c.put([{"uri": TEA.uri, "text": "x"}]),
        "contexts[0]: Document() has no argument 'text'",
        "'content'",
    ),
    "put_many of one": (lambda c: c.put_many(TEA), "documents is one Document", "put_many(["),
    "put_many of a text": (lambda c: c.put_many("x"), "documents is a str", "Document("),
    "put_many of texts": (lambda c: c.put_many(["x"]), "documents[0] is a str", "add("),
    "a strange progress": (lambda c: c.put_many([], progress="yes"), "progress is a str", "True"),
    "a type that does not exist": (
        lambda c: c.find("x", context_types=["foo"]),
        "context_types is 'foo'",
        "'memory', 'resource' or 'skill'",
    ),
    "a number as type": (lambda c: c.find("x", context_types=[9]), "is 9", "'resource'"),
    "no type": (lambda c: c.find("x", context_types=[2.5]), "is a float (2.5)", "'resource'"),
    "a mode that does not exist": (lambda c: c.find("x", mode="slow"), "mode is 'slow'", "'quick'"),
    "a number as query": (lambda c: c.find(3), "query is an int (3)", 'query="how'),
    "no query": (lambda c: c.find(None), "query is None", 'query="how'),
    "a query in bytes": (lambda c: c.find(b"x"), "query is a bytes", "a str"),
    "a URI without its scheme": (
        lambda c: c.put([Document("tea.md", "x")]),
        "'tea.md'",
        "viking://",
    ),
    "a relative path": (lambda c: c.get("notes/tea.md"), "'notes/tea.md'", "viking://resources/"),
    "a directory as file": (
        lambda c: c.add("x", at="viking://resources/notes"),
        "is a directory",
        "viking://resources/notes/tea.md",
    ),
    "a file with a slash": (
        lambda c: c.put([Document("viking://resources/notes/", "x")]),
        "a directory, and content belongs to a file",
        'at="viking://resources/notes/"',
    ),
    "no place": (lambda c: c.add("x"), "add()", "'at'"),
    "a place outside the roots": (
        lambda c: c.add("x", at="viking://notes/x.md"),
        "must lie below",
        "viking://resources",
    ),
    "a short vector": (lambda c: c.find("x", vector=[1.0, 2.0]), "vector: has 2", "3"),
    "a vector with NaN": (lambda c: c.find("x", vector=[1, 2, math.nan]), "vector", "finite"),
    "a vector of words": (lambda c: c.find("x", vector=["a"]), "vector is a list", "[0.1, 0.2]"),
    "a text as vector": (lambda c: c.find("x", vector="abc"), "vector is a str", "[0.1, 0.2]"),
    "metadata with an object": (
        lambda c: c.put([Document(TEA.uri, "x", metadata={"a": [object()]})]),
        "metadata.a[0] is an object",
        "numbers",
    ),
    "metadata with a set": (
        lambda c: c.update(TEA.uri, metadata={"a": {1}}),
        "metadata.a is a set",
        "a list",
    ),
    "metadata with a time": (
        lambda c: c.add("x", at=TEA.uri, metadata={"a": datetime(2026, 5, 1)}),
        "metadata.a is a datetime",
        "'2026-05-01T00:00:00'",
    ),
    "metadata with a number as key": (
        lambda c: c.put([Document(TEA.uri, "x", metadata={1: "x"})]),
        "has the key an int (1)",
        "a str",
    ),
    "metadata that is a list": (
        lambda _: Document(TEA.uri, "x", metadata=["x"]),
        "metadata is a list",
        '{"year": 2024}',
    ),
    "a filter that is a text": (lambda c: c.find("x", where="a"), "where is a str", '{"year"'),
    "a limit that is a text": (lambda c: c.find("x", limit="10"), "limit is a str", "limit=10"),
    "a limit that is a bool": (lambda c: c.find("x", limit=True), "limit is a bool", "limit=10"),
    "a limit below zero": (lambda c: c.find("x", limit=-1), "limit is -1", "limit=10"),
    "a score that is too high": (
        lambda c: c.find("x", score_threshold=2),
        "score_threshold: is 2",
        "[0, 1]",
    ),
    "a float as time": (lambda _: Document(TEA.uri, time=1.5), "time is a float", "datetime.now()"),
    "a text that is no time": (lambda _: Document(TEA.uri, time="soon"), "'soon'", "2026-05-01T"),
    "a wrong time of a memory": (
        lambda c: c.remember("x", "preferences", time="soon"),
        "time is 'soon'",
        "datetime.now()",
    ),
    "a document with another word": (
        lambda _: Document(TEA.uri, page_content="x"),
        "Document() has no argument 'page_content'",
        "'content'",
    ),
    "a document without a URI": (lambda _: Document(None), "uri is None", '"viking://resources/'),
    "a memory without a type": (lambda c: c.remember("x"), "memory_type", "preferences"),
    "an update of nothing": (lambda c: c.update(TEA.uri), "no field", "title="),
    "an id that is a text": (lambda c: c.forget("17"), "ids is a str ('17')", "17"),
    "a memory that is a text": (lambda c: c.memories().delete("x"), "memory is a str", "17"),
    "an empty edit": (lambda c: c.memories().edit(1, " "), "text is empty", "delete(1)"),
    "too many arguments": (lambda c: c.find("x", "viking://resources"), "at most 1", "target_uri"),
    "k": (lambda c: c.find("x", k=3), "find() has no argument 'k'", "'limit'"),
    "n_results": (lambda c: c.find("x", n_results=3), "'n_results'", "did you mean 'limit'"),
    "top_n": (lambda c: c.retrieve("x", top_n=3), "'top_n'", "did you mean 'limit'"),
    "query_text": (lambda c: c.find(query_text="x"), "'query_text'", "did you mean 'query'"),
    "query_embeddings": (lambda c: c.find(query_embeddings=[1.0]), "'query_emb", "'vector'"),
    "where_document": (lambda c: c.find("x", where_document={}), "'where_document'", "grep()"),
    "filter": (lambda c: c.find("x", filter={}), "'filter'", "did you mean 'where'"),
    "namespace": (lambda c: c.find("x", namespace="a"), "'namespace'", "did you mean 'target_uri'"),
    "collection": (lambda c: c.search("x", collection="a"), "'collection'", "'target_uri'"),
    "user_id": (lambda c: c.find("x", user_id="ana"), "'user_id'", "viking://users/ana/memories"),
    "a slip": (lambda c: c.find("x", targt_uri=""), "'targt_uri'", "did you mean 'target_uri'"),
    "a word of nobody": (lambda c: c.get(TEA.uri, foo=1), "'foo'", "uri, min_revision"),
    "a request with k": (lambda _: find_request("x", k=3), "find() has no", "'limit'"),
    "no such directory": (lambda c: c.list("viking://resources/none"), "does not exist", "none"),
    "a URL as address": (lambda _: Client("http://127.0.0.1:7716"), "http://", '"127.0.0.1:7716"'),
    "a secure URL as address": (lambda _: Client("https://a:1/"), "https://", '"vikings://a:1"'),
    "a path as address": (lambda _: Client("./data"), "a path", "vikingd.open('./data')"),
    "no port": (lambda _: Client("localhost"), "without a port", '"127.0.0.1:7716"'),
    "another URL": (lambda _: Client("ftp://a:1"), "ftp:// is not known", '"127.0.0.1:7716"'),
    "a path behind a port": (lambda _: Client("a:7716/x"), "port is no number", "127.0.0.1:7716"),
    "a space in an address": (lambda _: Client("a b:7716"), "with a space", '"127.0.0.1:7716"'),
    "no host": (lambda _: Client(":7716"), "without a host", '"127.0.0.1:7716"'),
    "a high port": (lambda _: Client("a:99999"), "'a:99999'", "from 1 to 65535"),
    "port 0": (lambda _: Client("a:0"), "'a:0'", "from 1 to 65535"),
    "wide digits": (lambda _: Client("a:７７１６"), "port is no number", "127.0.0.1:7716"),
    "IPv6 without a port": (lambda _: Client("::1"), "without a port", '"[::1]:7716"'),
    "a negative timeout": (lambda c: c.with_timeout(-1), "timeout is -1", "timeout=5.0"),
    "NaN as timeout": (lambda c: c.with_timeout(math.nan), "timeout is nan", "timeout=5.0"),
    "a text as timeout": (lambda c: c.with_timeout("5"), "timeout is a str", "timeout=5.0"),
    "a number as key": (lambda c: c.with_key(5), "key is of type int", "a str"),
    "a space behind a port": (lambda _: Client("a:7716 "), "with a space", '"127.0.0.1:7716"'),
    "an empty path": (
        lambda c: c.import_path("", "viking://resources/x"),
        "path: is empty",
        ". is",
    ),
    "texts as requests": (lambda c: c.batch_find(["a"]), "requests[0] is a str", "find_request("),
    "a text as requests": (lambda c: c.batch_find("a"), "requests[0] is a str", "find_request("),
    "a number as address": (lambda _: Client(7716), "address is an int", '"127.0.0.1:7716"'),
    "api_key": (lambda _: Client(api_key="x"), "Client() has no argument 'api_key'", "'key'"),
    "a URI as directory": (
        lambda _: vikingd.open("http://127.0.0.1:7716"),
        "takes a directory",
        'Client("127.0.0.1:7716")',
    ),
}


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1:1", "a-b.example:65535", "[::1]:7716", "127.0.0.1:1,127.0.0.2:2"),
        *("dns:///a.example:7716", "ipv4:127.0.0.1:7716", "unix:/tmp/a b", "vikings://a:7716"),
        *("unix:relative", "user"),
    ],
)
def test_a_right_address_is_taken(address: str) -> None:
    """Each form of an address makes a client."""
    Client(address).close()


@pytest.mark.parametrize("call", WRONG)
def test_the_error_says_what_to_type(ours: Any, call: str) -> None:
    """The error of a wrong call names the fault and the right value, and nothing is changed."""
    wrong, fault, right = WRONG[call]
    before = ours.stats().revision
    text = text_of(lambda: wrong(ours))
    assert fault in text
    assert right in text
    assert ours.stats().revision == before


def test_the_words_of_other_libraries_lead_to_our_methods(ours: Any) -> None:
    """A method of another library is named by ours; a private name is a plain AttributeError."""
    for theirs, right in {
        "query": "find",
        "upsert": "put",
        "add_documents": "put_many",
        "similarity_search": "find",
        "get_all": "memories",
        "remembr": "remember",
    }.items():
        with pytest.raises(
            AttributeError, match=f"Client has no '{theirs}'; did you mean '{right}'"
        ):
            getattr(ours, theirs)
    assert not hasattr(ours, "__array__")


def test_both_clients_name_wrong_arguments_at_the_call(ours: Any) -> None:
    """AsyncClient refuses wrong arguments too; listings do it before the first item."""

    async def ask() -> None:
        async with AsyncClient(ours.address) as other:
            loose: Any = other
            with pytest.raises(TypeError, match="did you mean 'limit'"):
                await loose.find("x", k=3)
            with pytest.raises(TypeError, match="uri is an int"):
                loose.list(3)
            with pytest.raises(TypeError, match="contexts is a str"):
                await loose.put("text")
            with pytest.raises(TypeError, match="documents is a str"):
                await loose.put_many("text")
            with pytest.raises(AttributeError, match="AsyncClient has no 'query'"):
                _ = loose.query
        with pytest.raises(ValueError, match="the client is closed; make a new one"):
            await other.stats()

    asyncio.run(ask())


def test_a_call_of_a_closed_client_says_so(ours: Any) -> None:
    """Calls, listings and streams of a closed client say that it is closed."""
    closed = Client(ours.address)
    closed.close()
    for call in (closed.stats, closed.list, lambda: closed.grep("x"), closed.backup):
        with pytest.raises(ValueError, match="the client is closed; make a new one"):
            call()


def test_without_a_daemon_the_error_says_how_to_start_one() -> None:
    """The error of an address without a daemon names the ways to have one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with Client(f"127.0.0.1:{free.getsockname()[1]}", retries=False) as client:
            with pytest.raises(Unreachable) as caught:
                client.find("x")
            for part in (
                client.address,
                "refused",
                "vikingd serve",
                "vikingd.open(",
                "VIKINGD_ADD",
            ):
                assert part in str(caught.value)


def test_a_missing_key_is_named_with_the_ways_to_give_it() -> None:
    """Without a key, the error names the argument and the variable."""
    with serving("--provider", "none") as address, Client(address) as client:
        client.create_key(operator=True)
        with pytest.raises(Unauthenticated, match=r'Client\(key="vk_\.\.\."\) or VIKINGD_KEY'):
            client.stats()


def test_a_missing_extra_is_named_with_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the packages of the daemon, open() names the extra and leaves no directory."""
    monkeypatch.setattr(daemon_starts, "_SERVER_MODULES", ("vikingd_is_not_there",))
    with pytest.raises(ClientError, match=r"pip install '\.\[server\]' in "):
        vikingd.open(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_right_calls_are_not_refused(ours: Any) -> None:
    """None stands for the default of a named argument, and Draft is Document."""
    assert ours.find("oolong", target_uri=None, levels=None, limit=None)[0].uri == TEA.uri
    assert ours.find("oolong", context_types=["resource"])[0].context_type is ContextType.RESOURCE
    assert Draft is Document
