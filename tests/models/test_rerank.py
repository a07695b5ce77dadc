"""Rerankers: the choice of a backend, its requests, their time limits and the cache of scores."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.scripted import Reply, Request, ScriptedServer
from vikingd.models.http import circuit_breaker as breaker
from vikingd.models.rerank import rerankers
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Reranked, Rerankers

SCORES = {"a": 0.9, "b": 0.5, "c": 0.1}


def answer(request: Request) -> Reply:
    """Return the scores of SCORES in TEI's form."""
    return Reply(
        [
            {"index": i, "score": SCORES.get(text, 0.0)}
            for i, text in enumerate(request.json["texts"])
        ]
    )


def tei(url: str, **other: Any) -> BackendSettings:
    """Return the settings of a backend in TEI's form."""
    return BackendSettings("http", url=url, form="tei", **other)


def play(
    script: Callable[[Request], Reply],
    scene: Callable[[Rerankers, ScriptedServer], Awaitable[None]],
    record_call: Callable[[str, str, float], None] = lambda *_: None,
    **other: Any,
) -> ScriptedServer:
    """Run a scene with one backend, whose server follows the script."""

    async def run(server: ScriptedServer) -> None:
        made = Rerankers([tei(server.url, **other)], record_call)
        try:
            await scene(made, server)
        finally:
            await made.close()

    with ScriptedServer(script) as server:
        asyncio.run(run(server))
    return server


async def reason(
    made: Rerankers, documents: Sequence[str] = ("a",), seconds: float | None = None
) -> str:
    """Return the reason why a call fails."""
    with pytest.raises(RerankFailed) as caught:
        await made.rerank("query", documents, seconds)
    return str(caught.value)


def test_known_scores_are_not_asked_for_again() -> None:
    """Only documents without a known score are sent; without any, no request is made."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        assert await made.rerank("query", ["a", "b"], None) == Reranked((0.9, 0.5), 2, 0)
        assert await made.rerank("query", ["b", "c", "a"], None) == Reranked((0.5, 0.1, 0.9), 1, 2)
        assert await made.rerank("query", ["a", "c"], 0.0) == Reranked((0.9, 0.1), 0, 2)
        assert await made.rerank("other", ["a"], None) == Reranked((0.9,), 1, 0)

    server = play(answer, scene)
    assert [request.json["texts"] for request in server.requests] == [["a", "b"], ["c"], ["a"]]


def test_equal_documents_are_sent_once() -> None:
    """Documents that are equal after the cut are sent once."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        reranked = await made.rerank("query", ["a1", "b", "a2", "b"], None)
        assert reranked == Reranked((0.9, 0.5, 0.9, 0.5), 2, 0)
        assert await made.rerank("query", ["a3", "a4"], None) == Reranked((0.9, 0.9), 0, 1)

    server = play(answer, scene, max_chars=1)
    assert [request.json["texts"] for request in server.requests] == [["a", "b"]]


def test_no_documents_are_no_call() -> None:
    """Without documents the backend is not called."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        assert await made.rerank("query", [], None) == Reranked((), 0, 0)

    assert not play(answer, scene).requests


def test_cache_forgets_what_was_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache removes the score that was not used for the longest time."""
    monkeypatch.setattr(rerankers, "CACHE_SIZE", 2)

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        await made.rerank("query", ["a", "b"], None)
        await made.rerank("query", ["a"], None)
        await made.rerank("query", ["c"], None)
        assert (await made.rerank("query", ["a"], None)).cached == 1
        assert (await made.rerank("query", ["b"], None)).cached == 0

    play(answer, scene)


def test_failed_calls_leave_nothing_in_the_cache() -> None:
    """A refused reply leaves no scores in the cache."""
    replies = iter([Reply([{"index": 0, "score": 0.9}, {"index": 1, "score": 7}])])

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        await reason(made, ["a", "b"])
        assert (await made.rerank("query", ["a", "b"], None)).asked == 2

    play(lambda request: next(replies, None) or answer(request), scene)


def test_long_queries_are_cut() -> None:
    """A query is cut to 2,000 characters before it is sent."""

    async def scene(made: Rerankers, server: ScriptedServer) -> None:
        await made.rerank("q" * 5000, ["a"], None)
        assert server.requests[0].json["query"] == "q" * 2000

    play(answer, scene)


def test_script_of_the_query_chooses_the_backend() -> None:
    """The first backend for the script is asked, or else the first for all scripts."""
    long = "hello" * 400  # as long as a sent query; the other query continues in Chinese
    with ScriptedServer(answer) as latin, ScriptedServer(answer) as others:

        async def ask() -> None:
            made = Rerankers(
                [
                    tei(others.url, model="others"),
                    tei(latin.url, model="latin", scripts=("latin", "cyrillic")),
                    tei(latin.url, model="same", scripts=("han",)),
                ]
            )
            assert made.named("hello") == "http/latin"
            assert made.named("привет") == "http/latin"
            assert made.named("部署") == "http/same"
            assert made.named("안녕") == "http/others"
            assert made.named("123") == "http/others"
            await made.rerank("hello", ["a"], None)
            await made.rerank("안녕", ["a"], None)
            assert (await made.rerank("部署", ["a"], None)).cached == 0
            await made.rerank(long, ["a"], None)
            assert (await made.rerank(long + "部署" * 900, ["a"], None)).cached == 0
            await made.close()
            only = Rerankers([tei(latin.url, scripts=("han",))])
            assert only.named("hello") == ""
            with pytest.raises(RerankFailed, match="no reranker for a query in latin"):
                await only.rerank("hello", ["a"], None)
            await only.close()

        asyncio.run(ask())
        asked = [request.json["query"] for request in latin.requests]
        assert asked == ["hello", "部署", long, long]
        assert [request.json["query"] for request in others.requests] == ["안녕"]


def test_no_backends_are_no_reranker() -> None:
    """Without settings no backend is named."""
    assert Rerankers([]).named("hello") == ""


@pytest.mark.parametrize(("seconds", "timeout"), [(0.2, 30.0), (None, 0.2), (9.0, 0.2)])
def test_time_is_kept_when_the_server_is_slow(seconds: float | None, timeout: float) -> None:
    """The smaller of the caller's seconds and the backend's time-out ends a call."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        told = await reason(made, seconds=seconds)
        assert told == "http/tei did not answer within 0.2 s"

    play(lambda _: Reply(after=60), scene, timeout=timeout)


@pytest.mark.parametrize("where", ["head", "body"])
def test_time_is_kept_when_the_server_drips(where: str) -> None:
    """Single bytes, which reset the time-outs of many clients, do not prolong a call."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if where == "body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        try:
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            return

    async def ask() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        made = Rerankers([tei(f"http://127.0.0.1:{port}")])
        assert "within 0.2 s" in await reason(made, seconds=0.2)
        await made.close()
        server.close()

    asyncio.run(ask())


def test_waiting_for_a_place_counts() -> None:
    """The time in the queue counts for a call, and the number of concurrent requests is limited."""
    lock, full, release = threading.Lock(), threading.Event(), threading.Event()
    running, most = 0, 0

    def hold(request: Request) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                full.set()
        release.wait(10)
        with lock:
            running -= 1
        return answer(request)

    async def scene(made: Rerankers, server: ScriptedServer) -> None:
        first = asyncio.create_task(made.rerank("query", ["a", "b", "c", "d", "e"], None))
        await asyncio.to_thread(full.wait, 10)
        assert "within 0.2 s" in await reason(made, ["f"], 0.2)
        assert len(server.requests) == 2
        release.set()
        assert (await first).asked == 5

    play(hold, scene, concurrency=2, batch=1, timeout=10.0)
    assert most == 2


def test_parts_of_a_failed_call_are_not_waited_for() -> None:
    """A call fails as soon as one part fails, and the other parts release their places."""
    came, lost, both = threading.Event(), threading.Event(), threading.Barrier(2)

    def script(request: Request) -> Reply:
        if lost.is_set():
            both.wait(1)  # both come only if no place is taken
            return answer(request)
        if request.json["texts"] == ["a"]:
            came.set()
            return Reply(after=30)
        came.wait(10)
        lost.set()
        return Reply(b"", 500)

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        assert await reason(made, ["a", "b"]) == "http/tei answered 500"
        assert (await made.rerank("query", ["a", "b"], None)).scores == (0.9, 0.5)

    play(script, scene, concurrency=2, batch=1)


def test_a_call_that_took_too_long_gives_its_place_back() -> None:
    """A call that timed out does not keep others waiting."""
    replies = iter([Reply(after=5)])

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        await reason(made, seconds=0.1)
        assert (await made.rerank("query", ["a"], None)).scores == (0.9,)

    play(lambda request: next(replies, None) or answer(request), scene, concurrency=1)


def test_no_time_left_is_no_call() -> None:
    """A call without time left sends no request."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        for seconds in (0.0, -1.0):
            assert await reason(made, seconds=seconds) == (
                "http/tei was not asked: no time is left"
            )

    assert not play(answer, scene).requests


def test_cancellation_passes_through() -> None:
    """A cancelled call raises CancelledError."""
    came, hold = threading.Event(), threading.Event()

    def wait(_: Request) -> Reply:
        came.set()
        hold.wait(10)
        return Reply()

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        task = asyncio.create_task(made.rerank("query", ["a"], None))
        await asyncio.to_thread(came.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.set()

    play(wait, scene, timeout=30.0)


def test_each_call_is_told_with_its_time() -> None:
    """Each request is reported with name, outcome and seconds; a cached score is not reported."""
    told: list[tuple[str, str, float]] = []
    replies = iter([Reply(b"", 500)])

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        await reason(made)
        await made.rerank("query", ["a"], None)
        await made.rerank("query", ["a"], None)

    play(
        lambda request: next(replies, None) or answer(request),
        scene,
        record_call=lambda *call: told.append(call),
        model="m",
    )
    assert [(name, how) for name, how, _ in told] == [("http/m", "FAILED"), ("http/m", "DONE")]
    assert all(0 < seconds < 2 for *_, seconds in told)


def test_breaker_opens_tries_with_one_call_and_closes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After three failures calls fail at once, until one trial succeeds."""
    caplog.set_level(logging.INFO)
    now = 0.0
    monkeypatch.setattr(rerankers, "Breaker", lambda: breaker.Breaker(lambda: now))
    works, came, hold = threading.Event(), threading.Event(), threading.Event()

    def script(request: Request) -> Reply:
        if not works.is_set():
            return Reply(b"broken", 500)
        came.set()
        hold.wait(10)
        return answer(request)

    async def scene(made: Rerankers, server: ScriptedServer) -> None:
        nonlocal now
        for _ in range(3):
            assert await reason(made) == "http/tei answered 500: broken"
        told = await reason(made)
        assert told == ("http/tei failed 3 times in a row (answered 500); asked again in 5 s")
        assert len(server.requests) == 3
        works.set()
        now += breaker.MIN_PAUSE
        trial = asyncio.create_task(made.rerank("query", ["a"], None))
        await asyncio.to_thread(came.wait, 10)
        for _ in range(5):
            assert "being asked again now" in await reason(made)
        assert len(server.requests) == 4
        hold.set()
        assert (await trial).scores == (0.9,)
        assert (await made.rerank("query", ["b"], None)).scores == (0.5,)

    play(script, scene, timeout=10.0)
    messages = [r.message for r in caplog.records if r.name.startswith("vikingd.models.rerank")]
    assert messages == [
        "the reranker http/tei fails: it answered 500: broken",
        "the reranker http/tei works again",
    ]


def test_known_scores_are_given_while_the_breaker_is_open() -> None:
    """Known scores are returned while the breaker is open."""

    async def scene(made: Rerankers, server: ScriptedServer) -> None:
        await made.rerank("query", ["a"], None)
        server.answer = lambda _: Reply(b"", 500)
        for _ in range(4):
            await reason(made, ["b"])
        assert (await made.rerank("query", ["a"], None)).cached == 1
        assert len(server.requests) == 4

    play(answer, scene)


def test_a_callers_small_time_is_no_failure_of_the_backend() -> None:
    """A time-out of the caller does not open the breaker, and a time-out of the backend does."""

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        for _ in range(4):
            assert "did not answer" in await reason(made, seconds=0.02)
        for _ in range(3):
            assert "did not answer" in await reason(made)
        told = await reason(made)
        assert "failed 3 times in a row (did not answer within 0.1 s)" in told

    play(lambda _: Reply(after=5), scene, timeout=0.1)


def test_a_cancelled_trial_lets_the_next_call_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled trial lets the next call be the trial."""
    monkeypatch.setattr(breaker, "MIN_PAUSE", 0.0)
    came, fails, hold = threading.Event(), threading.Event(), threading.Event()
    fails.set()

    def script(request: Request) -> Reply:
        if fails.is_set():
            return Reply(b"", 500)
        came.set()
        hold.wait(10)
        return answer(request)

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        for _ in range(3):
            await reason(made)
        fails.clear()
        trial = asyncio.create_task(made.rerank("query", ["a"], None))
        await asyncio.to_thread(came.wait, 10)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        hold.set()
        assert (await made.rerank("query", ["a"], None)).asked == 1

    play(script, scene, timeout=10.0)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_opens_the_breaker(status: int) -> None:
    """One reply with Retry-After opens the breaker for that time."""

    async def scene(made: Rerankers, server: ScriptedServer) -> None:
        assert await reason(made) == f"http/tei answered {status}"
        assert f"failed once (answered {status}); asked again in 30 s" in await reason(made)
        assert len(server.requests) == 1

    play(lambda _: Reply(b"", status, {"Retry-After": "30"}), scene)


def test_429_without_retry_after_is_one_failure() -> None:
    """A single 429 does not open the breaker."""
    replies = iter([Reply(b"", 429)])

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        assert await reason(made) == "http/tei answered 429"
        assert (await made.rerank("query", ["a"], None)).asked == 1

    play(lambda request: next(replies, None) or answer(request), scene)


def test_close_ends_what_still_runs() -> None:
    """A running call fails when the rerankers are closed, and none is left running."""
    came, hold = threading.Event(), threading.Event()

    def wait(_: Request) -> Reply:
        came.set()
        hold.wait(10)
        return Reply()

    async def scene(made: Rerankers, _: ScriptedServer) -> None:
        call = asyncio.create_task(reason(made))
        await asyncio.to_thread(came.wait, 10)
        await made.close()
        assert await call == "http/tei was closed"
        assert not made._calls.running
        hold.set()

    play(wait, scene, timeout=30.0)


def test_a_backend_that_cant_work_is_told_when_it_is_opened(tmp_path: Path) -> None:
    """The error of a missing model directory names the backend before any call."""
    with pytest.raises(RerankFailed, match=r"reranker onnx/bge: the directory .*does not exist"):
        Rerankers([BackendSettings("onnx", path=str(tmp_path / "bge"))])
