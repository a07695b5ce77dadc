"""The limit of requests in flight, which follows the replies of the endpoint."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from tests.models.embed_helpers import DIMENSION, Endpoint, until
from vikingd.models.embed import limiter
from vikingd.models.embed.limiter import LONGEST, Limiter
from vikingd.models.embed.openai_embedder import OpenAIEndpoint
from vikingd.models.embed.provider import EmbedderRefused
from vikingd.models.embed.provider_choice import open_provider

TEXTS = [f"text {i}" for i in range(12)]


class _Clock:
    """A clock that advances only in sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        monkeypatch.setattr(limiter.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(limiter.asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "99999"}, LONGEST),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_pauses_all(
    monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], seconds: float
) -> None:
    """A refusal pauses all requests for the time in its headers, in every form of the header."""
    clock = _Clock(monkeypatch)

    async def main() -> None:
        limit = Limiter(4)
        limit.adapt(status, headers)
        async with limit, limit:
            pass

    asyncio.run(main())
    assert sum(clock.slept) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [("1s", 1), ("6m0s", LONGEST), ("1m30s", 90), ("20ms", 0.02), ("", 0), ("later", 0)],
)
def test_nothing_is_sent_while_no_request_is_left(
    monkeypatch: pytest.MonkeyPatch, reset: str, seconds: float
) -> None:
    """No request is sent before the reset time if no requests or tokens remain."""
    for what in ("requests", "tokens"):
        clock = _Clock(monkeypatch)

        async def main(what: str = what) -> None:
            limit = Limiter(4)
            limit.adapt(200, {f"x-ratelimit-remaining-{what}": "1"})
            limit.adapt(
                200,
                {f"x-ratelimit-remaining-{what}": "0", f"x-ratelimit-reset-{what}": reset},
            )
            async with limit:
                pass

        asyncio.run(main())
        assert sum(clock.slept) == pytest.approx(seconds)


def test_refusals_halve_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals at one time halve the limit once; successes raise it up to the setting."""
    clock = _Clock(monkeypatch)
    limit = Limiter(8)
    for _ in range(3):
        limit.adapt(429, {"retry-after": "5"})
    assert limit.limit == 4
    for _ in range(5):
        clock.now += 10
        limit.adapt(429, {"retry-after": "5"})
    assert limit.limit == 1
    for _ in range(3):
        limit.adapt(200, {})
    assert 2 <= limit.limit < 4
    for _ in range(100):
        limit.adapt(200, {})
    assert limit.limit == 8


def test_documents_go_in_several_requests_at_a_time(endpoint: Endpoint) -> None:
    """`openai_requests` bounds concurrent requests, and vectors keep the order of their texts."""
    answer, lock = threading.Event(), threading.Lock()
    in_flight, most = 0, 0

    def wait(_request: dict[str, Any], _data: list[Any]) -> None:
        nonlocal in_flight, most
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        answer.wait(60)
        with lock:
            in_flight -= 1

    endpoint.misbehave = wait
    settings = endpoint.settings(batch_size=2, openai_requests=3, timeout=60.0)
    provider = open_provider(settings)
    rows: list[Any] = []
    asking = threading.Thread(target=lambda: rows.append(provider.embed_documents(TEXTS)))
    asking.start()
    until(lambda: in_flight == 3)
    answer.set()
    asking.join()
    assert most == 3
    expected = np.array([endpoint.vector(text) for text in TEXTS])
    np.testing.assert_allclose(
        rows[0], expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-6
    )
    provider.close()


def test_a_refused_request_comes_again_beside_fewer(endpoint: Endpoint) -> None:
    """A refused request is retried, and the limit of concurrent requests is lowered."""
    refused = threading.Event()

    def refuse(request: dict[str, Any], _data: list[Any]) -> tuple[int, bytes] | None:
        if "text 5" in request["input"] and not refused.is_set():
            refused.set()
            return 429, b"{}"
        return None

    endpoint.misbehave = refuse
    provider = OpenAIEndpoint(endpoint.settings(batch_size=1, retries=1, openai_requests=64))
    assert provider.embed_documents(TEXTS).shape == (12, DIMENSION)
    assert len(endpoint.requests) == 13
    assert 32 <= provider._limiter.limit < 64
    provider.close()


def test_the_first_of_several_failures_is_told(endpoint: Endpoint) -> None:
    """The failure of one request is raised after all requests have ended."""
    endpoint.misbehave = lambda request, _: (
        (400, b"indigestible") if request["input"] == ["text 3"] else None
    )
    provider = open_provider(endpoint.settings(batch_size=1))
    with pytest.raises(EmbedderRefused, match="indigestible"):
        provider.embed_documents(TEXTS)
    assert len(endpoint.requests) == 12
    assert provider.embed_documents([]).shape == (0, DIMENSION)
    provider.close()
