"""The rules for requests to hosts: the robots.txt of each, and the pace that it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vikingd.sources.page_addresses import canonical, origin_of
from vikingd.sources.request_pace import HostPace
from vikingd.sources.robots_rules import MAX_BYTES, MAX_DELAY, Robots
from vikingd.sources.web_requests import Answer, Unanswered, WebRequests

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""The HTTP statuses of redirects."""

MAX_REDIRECTS = 5
"""The number of redirects in a row that are followed."""

_BUSY = frozenset({429, 503})
_ATTEMPTS = 3
_MAX_WAIT = 60.0  # seconds that a fetch waits because a host asks for it
_WAIT = 2.0  # seconds after the first 429 that names no time, and twice as much after the next one


class HostRules:
    """The hosts that are asked, each with its robots.txt and its pace.

    Args:
        requests: sends the requests.
        interval: seconds between two requests to a host.
    """

    def __init__(self, requests: WebRequests, interval: float) -> None:
        self._requests = requests
        self._interval = interval
        self._paces: dict[tuple[str, int], HostPace] = {}
        self._robots: dict[tuple[str, str, int], asyncio.Task[Robots]] = {}

    async def robots(self, address: str) -> Robots:
        """Return the robots.txt of the host of an address; it is read once.

        Raises:
            Unanswered: it cannot be read, or asks for longer delays than a fetch waits.
        """
        origin = origin_of(address)
        if origin not in self._robots:
            self._robots[origin] = asyncio.create_task(self._read_robots(address))
        return await asyncio.shield(self._robots[origin])

    async def ask(self, address: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Request a page as soon as the pace of its host allows.

        If the host is busy, wait as long as it asks, and repeat the request.

        Raises:
            Unanswered: there is no usable answer, or the host stays busy or asks for a long wait.
        """
        pace = self._pace(address)
        for attempt in range(1, _ATTEMPTS + 1):
            async with pace.turn():
                answer = await self._requests.get(address, headers)
            if answer.status not in _BUSY:
                return answer
            wait = answer.retry_after
            if wait is None and answer.status == 429:
                wait = _WAIT * attempt
            if wait is None:
                break
            if wait > _MAX_WAIT:
                raise Unanswered(f"answers {answer.status} and asks to wait {wait:,.0f} s")
            if attempt < _ATTEMPTS:
                pace.pause(wait)
        raise Unanswered(f"answers {answer.status}")

    def _pace(self, address: str) -> HostPace:
        _, host, port = origin_of(address)
        return self._paces.setdefault((host, port), HostPace(self._interval))

    async def _read_robots(self, address: str) -> Robots:
        scheme, *_ = origin_of(address)
        at = address[: address.index("/", len(scheme) + 3)] + "/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = await self.ask(at)
            except Unanswered as error:
                raise Unanswered(f"is not fetched, since its robots.txt {error}") from None
            target = canonical(answer.header("location"), at)
            if answer.status not in REDIRECTS or not target:
                break
            at = target
        if answer.status >= 500:
            raise Unanswered(f"is not fetched, since its robots.txt answers {answer.status}")
        text = answer.body[:MAX_BYTES].decode("utf-8", "replace") if answer.status == 200 else ""
        robots = Robots(text)
        if robots.delay > MAX_DELAY:
            raise Unanswered(
                f"is not fetched, since its robots.txt asks for {robots.delay:,.0f} s between two "
                f"requests, and at most {MAX_DELAY:.0f} s are waited"
            )
        if robots.delay:
            self._pace(address).slow_down(robots.delay)
        return robots
