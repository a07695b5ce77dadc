"""The openai provider and the query cache, at an endpoint on loopback that can misbehave."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.models.embed_helpers import DIMENSION, POISON, Endpoint, until
from vikingd.domain.errors import EmbedderFailed, EmbedderRefused
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider import PROBE, EmbedderBroke, EmbedderDenied, EmbedderUnreachable
from vikingd.models.embed.provider_choice import open_provider
from vikingd.models.embed.query_embedder import QueryEmbedder

# The openai provider


def test_openai_sends_key_and_texts_and_normalises(endpoint: Endpoint) -> None:
    """The provider sends model, texts and key, and returns unit rows in the order of the texts."""
    provider = open_provider(endpoint.settings(batch_size=2))
    rows = provider.embed_documents(["one", "two", "three"])
    expected = np.array([endpoint.vector(text) for text in ("one", "two", "three")])
    np.testing.assert_allclose(
        rows, expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-6
    )
    assert sorted(r["input"] for r in endpoint.requests) == [["one", "two"], ["three"]]
    assert endpoint.requests[0]["model"] == "test"
    assert endpoint.requests[0]["encoding_format"] == "float"
    assert endpoint.authorization == "Bearer secret"
    assert provider.model == "openai/test"


def test_openai_learns_its_dimension_with_one_call(endpoint: Endpoint) -> None:
    """An unset dimension is learned with one call that sends no `dimensions`."""
    provider = open_provider(endpoint.settings())
    assert not endpoint.requests
    assert provider.dimension == provider.dimension == DIMENSION
    assert len(endpoint.requests) == 1
    assert "dimensions" not in endpoint.requests[0]


def test_openai_asks_for_the_configured_dimension(endpoint: Endpoint) -> None:
    """A configured dimension is known without a call and sent as `dimensions`."""
    provider = open_provider(endpoint.settings(dimension=5))
    assert provider.dimension == 5
    assert not endpoint.requests
    assert provider.embed_query("x").shape == (5,)
    assert endpoint.requests[0]["dimensions"] == 5


def test_openai_orders_by_index(endpoint: Endpoint) -> None:
    """Embeddings in another order are assigned to their texts by index."""
    provider = open_provider(endpoint.settings())
    straight = provider.embed_documents(["a", "b", "c"])
    endpoint.misbehave = lambda _request, data: data.reverse()
    np.testing.assert_array_equal(provider.embed_documents(["a", "b", "c"]), straight)


def _nan(_: dict[str, Any], data: list[Any]) -> None:
    data[0]["embedding"][0] = float("nan")


def _zero(_: dict[str, Any], data: list[Any]) -> None:
    data[0]["embedding"] = [0.0] * DIMENSION


def _fewer(_: dict[str, Any], data: list[Any]) -> None:
    del data[-1]


def _more(_: dict[str, Any], data: list[Any]) -> None:
    data.append({**data[0], "index": len(data)})


def _shorter(_: dict[str, Any], data: list[Any]) -> None:
    for item in data:
        del item["embedding"][-1]


def _ragged(_: dict[str, Any], data: list[Any]) -> None:
    del data[0]["embedding"][-1]


def _twice_the_same(_: dict[str, Any], data: list[Any]) -> None:
    data[1]["index"] = 0


def _words(_: dict[str, Any], data: list[Any]) -> None:
    data[0]["embedding"] = "AAAA"


def _nothing(_: dict[str, Any], data: list[Any]) -> None:
    data[0] = None


def _listed_index(_: dict[str, Any], data: list[Any]) -> None:
    data[0]["index"] = [0]


def _huge(_: dict[str, Any], data: list[Any]) -> None:
    data[0]["embedding"][0] = 10**400


def _nested(_: dict[str, Any], data: list[Any]) -> None:
    for _ in range(100):
        data[0]["embedding"] = [data[0]["embedding"]]


@pytest.mark.deep_after(6)
@pytest.mark.parametrize(
    "fault",
    [
        *(_nan, _zero, _fewer, _more, _shorter, _ragged, _twice_the_same, _words, _nothing),
        *(_listed_index, _huge, _nested),
    ],
)
def test_openai_checks_the_answer(endpoint: Endpoint, fault: Callable[..., None]) -> None:
    """A reply with a wrong count, length, index or number raises EmbedderFailed."""
    provider = open_provider(endpoint.settings())
    provider.embed_query("learns the dimension")
    endpoint.misbehave = fault
    with pytest.raises(EmbedderFailed):
        provider.embed_documents(["a", "b"])


@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>hello</html>", b"[]", b'{"data": {}}', b"null", b'"x"'),
        *(b"[" * 100_000, b'{"data": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", b"9" * 5000),
    ],
    ids=lambda body: body[:12].decode(),
)
def test_openai_survives_another_protocol(endpoint: Endpoint, body: bytes) -> None:
    """An answer that is not the protocol's JSON raises EmbedderBroke."""
    endpoint.misbehave = lambda _request, _data: (200, body)
    with pytest.raises(EmbedderBroke):
        open_provider(endpoint.settings()).embed_query("x")


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (EmbedderRefused, (400, 413, 422)),
        (EmbedderDenied, (401, 403, 404)),
        (EmbedderUnreachable, (408, 429)),
        (EmbedderBroke, (500, 502, 503, 504, 0)),
    ],
)
def test_openai_tells_refusals_apart(
    endpoint: Endpoint, kind: type[EmbedderFailed], statuses: tuple[int, ...]
) -> None:
    """Each status of the endpoint raises the error class of its kind."""
    for status in statuses:
        endpoint.misbehave = lambda _request, _data, status=status: (status, b"because")  # type: ignore[misc]
        with pytest.raises(EmbedderFailed, match="because" if status else "reached") as caught:
            open_provider(endpoint.settings()).embed_query("x")
        assert type(caught.value) is kind


@pytest.mark.parametrize("status", [301, 307, 308])
def test_openai_follows_no_redirect(endpoint: Endpoint, status: int) -> None:
    """A redirect is not followed, and the error names the status."""
    other = Endpoint()
    endpoint.misbehave = lambda _request, _data: (status, f"{other.url}/embeddings".encode())
    with pytest.raises(EmbedderUnreachable, match=f"answered {status}"):
        open_provider(endpoint.settings()).embed_query("x")
    other.close()
    assert not other.requests


@pytest.mark.deep_after(4)
@pytest.mark.parametrize("secret", ["dXNlcjpwYS9zcw==", "pa/ss", "pa%2Fss", "secret"])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_openai_tells_no_secret(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, secret: str, status: int
) -> None:
    """No error and no log has the key, the password or its Basic form, whole or cut."""
    caplog.set_level(logging.INFO)
    url = endpoint.url.replace("//", "//user:pa%2Fss@")
    provider = open_provider(endpoint.settings(openai_base_url=url))
    for body in (f"wrong: {secret}", json.dumps(secret), "x" * 497 + secret):
        endpoint.misbehave = lambda _request, _data, body=body: (status, body.encode())  # type: ignore[misc]
        with pytest.raises(EmbedderFailed, match="embeddings endpoint") as caught:
            provider.embed_query("x")
        assert endpoint.authorization == "Basic dXNlcjpwYS9zcw=="
        told = str(caught.value) + caplog.text
        assert not any(part in told for part in (secret, "x" + secret[:3], "user:"))


def test_openai_tells_nothing_of_a_url_that_is_none() -> None:
    """A base URL without a valid port is refused, and the error has no part of it."""
    url = "http://user:pa/ss@host"
    with pytest.raises(EmbedderFailed, match="is no URL") as refused:
        open_provider(EmbedSettings(provider="openai", openai_model="m", openai_base_url=url))
    assert not any(part in str(refused.value) for part in ("user", "pa/", "ss@", "host"))


def test_openai_retries(endpoint: Endpoint) -> None:
    """Two retries hide two failures of the endpoint."""
    answers = [(500, b"{}"), (503, b"{}"), None]
    endpoint.misbehave = lambda _request, _data: answers.pop(0)
    assert open_provider(endpoint.settings(retries=2)).embed_query("x").shape == (DIMENSION,)
    assert len(endpoint.requests) == 3


def test_openai_times_out(endpoint: Endpoint) -> None:
    """A call to a slow endpoint fails after the timeout."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    with pytest.raises(EmbedderFailed, match=r"within 0\.2 s"):
        open_provider(endpoint.settings(timeout=0.2)).embed_query("x")
    answer.set()


@pytest.mark.deep
@pytest.mark.parametrize("part", ["X-Padding: ", "Content-Length: 999\r\n\r\n"])
def test_openai_times_out_while_bytes_come(endpoint: Endpoint, part: str) -> None:
    """The timeout covers the head and the body of a reply, and each attempt has its own timeout."""
    endpoint.drips = f"HTTP/1.1 200 OK\r\n{part}".encode()
    with pytest.raises(EmbedderFailed, match=r"within 0\.3 s"):
        open_provider(endpoint.settings(timeout=0.3, retries=1)).embed_query("x")
    assert len(endpoint.requests) == 2


def test_openai_names_an_endpoint_that_is_not_there(endpoint: Endpoint) -> None:
    """An unreachable endpoint raises EmbedderBroke with the URL."""
    settings = endpoint.settings()
    endpoint.close()
    with pytest.raises(EmbedderBroke, match=r"127\.0\.0\.1"):
        open_provider(settings).embed_query("x")


def test_openai_needs_a_model_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The openai provider fails at once without a model or a key, and names the setting."""
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(EmbedderFailed, match="set openai_model"):
        open_provider(EmbedSettings(provider="openai"))
    keyless = EmbedSettings(provider="openai", openai_model="m", openai_key_env="MY_KEY")
    with pytest.raises(EmbedderFailed, match="MY_KEY"):
        open_provider(keyless)


# Queries


def test_a_query_is_embedded_once(endpoint: Endpoint) -> None:
    """A repeated query comes from the cache as a read-only vector and counts as a hit."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    assert embedder.cached("q") is None
    first = embedder.embed("q")
    assert embedder.embed("q") is first
    assert embedder.cached("q") is first
    assert (embedder.hits, embedder.misses, len(endpoint.requests)) == (2, 1, 1)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_the_least_recently_used_query_is_forgotten(endpoint: Endpoint) -> None:
    """A full cache drops the least recently used query."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()), size=2)
    for text in ("a", "b", "a", "c"):
        embedder.embed(text)
    assert [embedder.cached(text) is not None for text in "abc"] == [True, False, True]


def test_equal_queries_in_flight_share_one_call(endpoint: Endpoint) -> None:
    """Eight threads with equal queries make one request and share its vector."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    embedder = QueryEmbedder(open_provider(endpoint.settings(timeout=30.0)))
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(embedder.embed, "same") for _ in range(8)]
        until(lambda: embedder.hits == 7)
        answer.set()
        vectors = [future.result() for future in waiting]
    assert len(endpoint.requests) == 1
    assert all(vector is vectors[0] for vector in vectors)
    assert (embedder.hits, embedder.misses) == (7, 1)


def test_a_failure_is_not_cached_but_answers_for_a_while(endpoint: Endpoint) -> None:
    """After a failure, uncached queries fail without a call until a later retry succeeds."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    embedder.embed("known")
    endpoint.misbehave = lambda _request, _data: (503, b'{"error": {"message": "down"}}')
    _fails_for_all(embedder, "down")
    assert len(endpoint.requests) == 2
    assert embedder.embed("known") is not None
    endpoint.misbehave = lambda _request, _data: None
    until(lambda: _works(embedder, "q"))
    assert embedder.last_error == ""
    assert len(endpoint.requests) == 3


def test_one_query_tries_after_the_back_off(endpoint: Endpoint) -> None:
    """After the back-off, one query tries the endpoint while all others fail at once."""
    answer = threading.Event()
    embedder = QueryEmbedder(open_provider(endpoint.settings(timeout=30.0)))
    endpoint.misbehave = lambda _request, _data: (503, b'{"error": {"message": "down"}}')
    with pytest.raises(EmbedderFailed):
        embedder.embed("q")
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    until(lambda: time.monotonic() >= embedder._retry_at)
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(embedder.embed, "probe")
        until(lambda: len(endpoint.requests) == 2)
        with pytest.raises(EmbedderFailed, match="down"):
            embedder.embed("other")
        assert len(endpoint.requests) == 2
        answer.set()
        probe.result()
    embedder.embed("other")


def test_a_refused_query_fails_alone(endpoint: Endpoint) -> None:
    """A refused query does not make other queries fail."""
    refusal = 400, b"indigestible"
    endpoint.misbehave = lambda request, _data: refusal if POISON in request["input"] else None
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    with pytest.raises(EmbedderFailed, match="indigestible"):
        embedder.embed(POISON)
    assert embedder.last_error == ""
    embedder.embed("other")
    refusal = 503, b"down"
    with pytest.raises(EmbedderFailed, match="down"):
        embedder.embed(POISON)
    with pytest.raises(EmbedderFailed, match="down"):
        embedder.embed("another")
    refusal = 400, b"indigestible"
    until(lambda: not _works(embedder, POISON) and embedder.last_error == "")
    embedder.embed("another")


def test_an_endpoint_that_refuses_all_texts_is_down(endpoint: Endpoint) -> None:
    """An endpoint that refuses the probe text too counts as down for all texts."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    embedder.embed("known")
    endpoint.misbehave = lambda _request, _data: (400, b"in arrears")
    _fails_for_all(embedder, "in arrears")
    assert [request["input"] for request in endpoint.requests] == [["known"], ["q"], [PROBE]]
    endpoint.misbehave = lambda _request, _data: None
    until(lambda: _works(embedder, "q"))
    assert embedder.last_error == ""


def _fails_for_all(embedder: QueryEmbedder, reason: str) -> None:
    """Check that every call fails for this reason, and that the last error has the reason."""
    for text in ("q", "q", "other"):
        with pytest.raises(EmbedderFailed, match=reason):
            embedder.embed(text)
    assert reason in embedder.last_error


def _works(embedder: QueryEmbedder, text: str) -> bool:
    try:
        embedder.embed(text)
    except EmbedderFailed:
        return False
    return True
