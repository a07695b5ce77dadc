"""Rerank endpoints: the requests and replies of each form, and the reason for each fault."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.scripted import Reply, Request, ScriptedServer
from vikingd.models.rerank.rerank_endpoint import Endpoint
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Reranked, Rerankers

QUERY = "how do I deploy?"
DOCUMENTS = ["Deploy with the script.", "茶", "Coffee"]
SCORES = [0.75, 0.5, 0.25]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", "sk-hunter2\n")  # a pasted key often ends with a line end
    monkeypatch.setenv("RERANK_AK", "AKsecret")
    monkeypatch.setenv("RERANK_SK", "SKsecret")


def settings(form: str, url: str, **other: Any) -> BackendSettings:
    """Return the settings of an endpoint of a form."""
    if form == "volcengine":
        keys = {"access_key_env": "RERANK_AK", "secret_key_env": "RERANK_SK"}
        return BackendSettings("volcengine", url=url, **(keys | other))
    key = {"key_env": "RERANK_KEY"} if form in ("cohere", "jina") else {}
    return BackendSettings("http", url=url, form=form, model="m", **(key | other))


def results(scores: Sequence[Any], **other: Any) -> dict[str, Any]:
    """Return the reply in the common form, the best document first."""
    items = [{"index": i, "relevance_score": score} | other for i, score in enumerate(scores)]
    return {"id": "x", "results": items[::-1], "usage": {"total_tokens": 9}}


def ranks(scores: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the reply in TEI's form."""
    return [{"index": i, "score": score} for i, score in enumerate(scores)][::-1]


def viking(scores: Sequence[Any], ids: bool = True) -> dict[str, Any]:
    """Return the reply in Volcengine's form."""
    items = [{"score": score} | ({"id": i} if ids else {}) for i, score in enumerate(scores)]
    data = items[::-1] if ids else items
    return {"code": "Success", "result": {"data": data, "token_usage": {"total": 3}}}


def rerank(
    backend: BackendSettings, documents: Sequence[str] = DOCUMENTS, seconds: float | None = None
) -> Reranked:
    """Return the result of one call of new rerankers."""

    async def ask() -> Reranked:
        rerankers = Rerankers([backend])
        try:
            return await rerankers.rerank(QUERY, documents, seconds)
        finally:
            await rerankers.close()

    return asyncio.run(ask())


def refused(reply: Reply | Callable[[Request], Reply], form: str = "vllm", **other: Any) -> str:
    """Return the reason why a call with this reply fails."""
    script = reply if callable(reply) else lambda _: reply
    with ScriptedServer(script) as server, pytest.raises(RerankFailed) as caught:
        rerank(settings(form, server.url, **other))
    assert str(caught.value).startswith(("http/m ", "volcengine/doubao-seed-rerank "))
    return str(caught.value)


BODIES = {
    "cohere": {"model": "m", "query": QUERY, "documents": DOCUMENTS, "top_n": 3},
    "jina": {
        "model": "m",
        "query": QUERY,
        "documents": DOCUMENTS,
        "top_n": 3,
        "return_documents": False,
    },
    "tei": {"query": QUERY, "texts": DOCUMENTS, "truncate": True, "raw_scores": False},
    "vllm": {"model": "m", "query": QUERY, "documents": DOCUMENTS, "top_n": 3},
    "xinference": {
        "model": "m",
        "query": QUERY,
        "documents": DOCUMENTS,
        "top_n": 3,
        "return_documents": False,
    },
}
PATHS = {"cohere": "/v2/rerank", "tei": "/rerank"}
REPLIES = {
    "cohere": results(SCORES),
    "jina": results(SCORES, document={"text": "x"}),
    "tei": ranks(SCORES),
    "vllm": results(SCORES, document={"text": "x", "multi_modal": None}),
    "xinference": results(SCORES, document=None),
}


@pytest.mark.parametrize("form", BODIES)
def test_each_form_is_spoken(form: str) -> None:
    """Path, key and body are those of the form, and scores come in the order of the documents."""
    with ScriptedServer(lambda _: Reply(REPLIES[form])) as server:
        assert rerank(settings(form, server.url)) == Reranked(tuple(SCORES), 3, 0)
    (request,) = server.requests
    assert request.path == PATHS.get(form, "/v1/rerank")
    assert request.json == BODIES[form]
    assert request.headers["content-type"] == "application/json"
    key = "Bearer sk-hunter2" if form in ("cohere", "jina") else None
    assert request.headers.get("authorization") == key


@pytest.mark.parametrize("ids", [True, False])
def test_volcengine_is_spoken(ids: bool) -> None:
    """A request to Volcengine is signed, and its scores are matched by id, or else by order."""
    with ScriptedServer(lambda _: Reply(viking(SCORES, ids))) as server:
        assert rerank(settings("volcengine", server.url)).scores == tuple(SCORES)
    (request,) = server.requests
    assert request.path == "/api/vikingdb/rerank"
    body = request.json
    assert body.pop("instruction")
    assert body == {
        "model_name": "doubao-seed-rerank",
        "model_version": "251028",
        "query": [{"text": QUERY}],
        "data": [[{"text": document}] for document in DOCUMENTS],
    }
    authorization = request.headers["authorization"]
    scope = f"AKsecret/{request.headers['x-date'][:8]}/cn-beijing/vikingdb/request"
    assert authorization.startswith(f"HMAC-SHA256 Credential={scope}, SignedHeaders=")
    assert "SKsecret" not in str(request.headers)


@pytest.mark.parametrize(
    ("given", "path"),
    [("/", "/v1/rerank"), ("/models/a/", "/models/a/v1/rerank"), ("/x/v3/rerank", "/x/v3/rerank")],
)
def test_path_is_the_forms_unless_it_is_given_whole(given: str, path: str) -> None:
    """A base URL gets the path of its form; a URL that ends in "rerank" stays as it is."""
    with ScriptedServer(lambda _: Reply(results(SCORES))) as server:
        rerank(settings("vllm", server.url + given))
    assert server.requests[0].path == path


def test_logits_are_mapped_and_tei_is_asked_for_them() -> None:
    """A sigmoid maps logits to scores without overflow, and TEI is asked for raw scores."""
    with ScriptedServer(lambda _: Reply(ranks([0, 800, -800]))) as server:
        reranked = rerank(settings("tei", server.url, scores="logit"))
    assert reranked.scores == (0.5, 1.0, 0.0)
    assert server.requests[0].json["raw_scores"] is True
    with ScriptedServer(lambda _: Reply(results([2.0, -2.0, 1e-3]))) as server:
        reranked = rerank(settings("vllm", server.url, scores="logit"))
    expected = [1 / (1 + math.exp(-x)) for x in (2.0, -2.0, 1e-3)]
    assert reranked.scores == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("form", "most"), [("tei", 32), ("vllm", 100)])
def test_large_rounds_are_split(form: str, most: int) -> None:
    """The limit of a form splits the documents into requests; scores keep their order."""

    def answer(request: Request) -> Reply:
        texts = request.json.get("texts") or request.json["documents"]
        scores = [int(text) / 1000 for text in texts]
        return Reply(ranks(scores) if form == "tei" else results(scores))

    documents = [str(number) for number in range(2 * most + 1)]
    with ScriptedServer(answer) as server:
        reranked = rerank(settings(form, server.url), documents)
        assert len(server.requests) == 3
        assert reranked == Reranked(tuple(int(d) / 1000 for d in documents), len(documents), 0)
        rerank(settings(form, server.url, batch=2 * most + 1), documents)
        assert len(server.requests) == 4


def test_documents_are_cut() -> None:
    """At most max_chars of a document are sent."""
    with ScriptedServer(lambda _: Reply(results([0.5]))) as server:
        rerank(settings("vllm", server.url, max_chars=5), ["123456789"])
    assert server.requests[0].json["documents"] == ["12345"]


@pytest.mark.deep_after(10)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"results": ' + b"1" * 5000 + b"}", "not JSON"),
        (b"", "not JSON"),
        (None, "else than a list"),
        ({"results": None}, "else than a list"),
        ({"data": []}, "else than a list"),
        ({"results": {"index": 0}}, "else than a list"),
        ({"results": [0.1, 0.2, 0.3]}, "else than a list"),
        (results(SCORES)["results"], "else than a list"),
        (results(SCORES[:2]), "2 scores for 3 documents"),
        (results([*SCORES, 0.1]), "4 scores for 3 documents"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, 1)]}, "two scores"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, 3)]}, "no document"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, -1)]}, "no document"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, "2")]}, "no document"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 1, [])]}, "no document"),
        ({"results": [{"index": i, "relevance_score": 0.1} for i in (0, 2, True)]}, "no document"),
        ({"results": [{"relevance_score": 0.1}] * 3}, "no document"),
        ({"results": [{"index": i} for i in range(3)]}, "no number"),
        (results([0.1, 0.2, "0.3"]), "no number"),
        (results([0.1, 0.2, None]), "no number"),
        (results([0.1, 0.2, True]), "no number"),
        (results([0.1, 0.2, math.nan]), "NaN or infinite"),
        (results([0.1, 0.2, -math.inf]), "NaN or infinite"),
        (results([0.1, 0.2, 10**400]), "NaN or infinite"),
        (results([0.1, 0.2, 1.01]), 'set its scores to "logit"'),
        (results([0.1, 0.2, -0.01]), 'set its scores to "logit"'),
    ],
)
def test_what_is_not_the_protocol_is_refused(body: Any, reason: str) -> None:
    """A reply with a wrong, missing, double or extra score fails the whole call."""
    told = refused(Reply(body))
    assert reason.replace("not JSON", "something else than JSON") in told
    assert len(told) < 120


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(reset=True), "could not be asked at http://127.0.0.1:"),
        (Reply(results(SCORES), cut=20), "incomplete message body|without sending complete"),
        (Reply({"error": "no such model"}, 404), 'answered 404: {"error": "no such model"}'),
        (Reply(b"", 500), "answered 500$"),
        (Reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), "answered 302$"),
        (Reply(b"x" * 5000, 500), "answered 500: x{200}$"),
        (Reply(b'{"results": "' + b"x" * (2 << 20)), "more than [0-9,]+ bytes"),
    ],
)
def test_what_fails_on_the_way_is_told(reply: Reply, reason: str) -> None:
    """A reset, cut, refused or too long reply gives a short reason of one line."""
    told = refused(reply)
    assert re.search(reason, told), told
    assert "\n" not in told
    assert len(told) < 300


def test_nobody_listens() -> None:
    """The error of a closed port has its address."""
    with ScriptedServer(lambda _: Reply()) as server:
        url = server.url
    with pytest.raises(RerankFailed, match=f"http/m could not be asked at {url}: "):
        rerank(settings("vllm", url))


def test_volcengines_errors_are_told() -> None:
    """The error has the code and message of a Volcengine reply without a result."""
    said = {"code": "InvalidParameter", "message": "model_name is wrong", "request_id": "1"}
    assert refused(Reply(said), "volcengine").endswith("InvalidParameter: model_name is wrong")
    assert "model_name is wrong" in refused(Reply(said, 400), "volcengine")
    assert "else than a list" in refused(Reply({"code": "Success", "result": {}}), "volcengine")
    odd = {"result": {"data": [{"id": 0, "score": 0.1}, {"score": 0.2}, {"id": 2, "score": 0.3}]}}
    assert "no document" in refused(Reply(odd), "volcengine")


def test_compressed_replies_are_not_unpacked() -> None:
    """Compression is not requested, so that a small reply cannot become a huge one."""
    with ScriptedServer(lambda _: Reply(results(SCORES))) as server:
        rerank(settings("vllm", server.url))
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("form", "keys"), [("jina", ["sk-hunter2"]), ("volcengine", ["AKsecret", "SKsecret"])]
)
def test_secrets_are_never_told(
    form: str, keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Keys that a server repeats appear in no reason and in no log."""
    caplog.set_level(logging.DEBUG)
    said = " ".join(["wrong:", *keys])
    bodies: list[Reply] = [Reply(said.encode(), 401)]
    if form == "volcengine":
        bodies.append(Reply({"code": 1, "message": said}))
    for body in bodies:
        told = refused(body, form)
        assert "wrong: ***" in told
        assert not any(key in told + caplog.text for key in keys)


def test_a_password_in_its_basic_form_is_not_told() -> None:
    """The Basic form of a URL's user and password is masked as the password is."""
    with ScriptedServer(
        lambda _: Reply(b"no: Basic dXNlcjpwYS9zcw== pa%2Fss pa/ss", 401)
    ) as server:
        url = server.url.replace("//", "//user:pa%2Fss@")
        with pytest.raises(RerankFailed, match=r"no: Basic \*\*\* \*\*\* \*\*\*$"):
            rerank(settings("vllm", url))


def test_a_key_that_is_cut_is_not_told() -> None:
    """A key is masked also where the cut of a long reply splits it."""
    for spaces in range(784, 792, 2):
        body = b"wrong:" + b" " * spaces + b"sk-hunter2"
        assert "sk-h" not in refused(Reply(body, 401), "jina")


def test_an_address_that_is_none_is_told_when_it_is_opened() -> None:
    """A URL with forbidden characters is refused when the backend is opened."""
    with pytest.raises(RerankFailed, match="the reranker http/m: its url can't be used"):
        Rerankers([settings("vllm", "http://127.0.0.1:8080/\x00")])


def test_passwords_in_urls_are_used_and_never_told(caplog: pytest.LogCaptureFixture) -> None:
    """The user and password of a URL authenticate, and appear in no reason, log or repr."""
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(lambda _: Reply(results(SCORES))) as server:
        url = server.url.replace("//", "//me:hunter2@")
        assert rerank(settings("vllm", url)).scores == tuple(SCORES)
        assert server.requests[0].headers["authorization"] == "Basic bWU6aHVudGVyMg=="
    with pytest.raises(RerankFailed) as caught:
        rerank(settings("vllm", url))
    assert "hunter2" not in str(caught.value) + caplog.text + repr(settings("vllm", url))


def test_loopback_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loopback address is called without the proxy of the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with ScriptedServer(lambda _: Reply(results(SCORES))) as server:
        assert rerank(settings("vllm", server.url)).scores == tuple(SCORES)


def test_connections_are_kept() -> None:
    """Consecutive calls share a connection, and a closed connection is replaced."""
    peers = []

    class Server(ScriptedServer):
        def _handler(self) -> Any:
            handler: Any = super()._handler()
            setup = handler.setup

            def count(self: Any) -> None:
                peers.append(self.client_address)
                setup(self)

            handler.setup = count
            return handler

    replies = [Reply(results([0.5])), Reply(results([0.5]), headers={"Connection": "close"})]

    async def ask(url: str) -> None:
        rerankers = Rerankers([settings("vllm", url)])
        for number in range(3):
            await rerankers.rerank(QUERY, [str(number)], None)
        await rerankers.close()

    with Server(lambda request: replies[request.json["documents"] == ["1"]]) as server:
        asyncio.run(ask(server.url))
        assert len(server.requests) == 3
    assert len(peers) == 2


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("7", 7, 7), ("0", 0, 0), ("-3", 0, 0), ("soon", None, None), ("inf", None, None)],
)
def test_retry_after_is_read(value: str, least: float | None, most: float | None) -> None:
    """A Retry-After of seconds gives the pause, and any other text gives none."""

    async def ask(url: str) -> None:
        backend = Endpoint(settings("vllm", url))
        try:
            await backend.rerank(QUERY, DOCUMENTS)
        finally:
            await backend.close()

    reply = Reply(b"", 429, {"Retry-After": value})
    with ScriptedServer(lambda _: reply) as server, pytest.raises(RerankFailed) as caught:
        asyncio.run(ask(server.url))
    if least is None or most is None:
        assert caught.value.pause is None
    else:
        assert caught.value.pause is not None
        assert least <= caught.value.pause <= most
