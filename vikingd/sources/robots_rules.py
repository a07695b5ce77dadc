"""The rules of robots.txt: which pages of a host may be fetched, and how fast."""

from __future__ import annotations

from collections.abc import Sequence

from protego import Protego

AGENT = "vikingd"
"""The name that robots.txt knows vikingd by."""

MAX_BYTES = 500 << 10
"""The most bytes of a robots.txt that are read, as RFC 9309 asks for."""

MAX_DELAY = 60.0
"""The longest Crawl-delay that a fetch waits, in seconds."""


class Robots:
    """The rules of one host.

    Args:
        text: the content of robots.txt; "" allows all.
    """

    def __init__(self, text: str) -> None:
        self._rules = Protego.parse(text)

    def allow(self, address: str) -> bool:
        """Return True if a page may be fetched."""
        return bool(self._rules.can_fetch(address, AGENT))

    @property
    def delay(self) -> float:
        """The seconds between two requests that the host asks for; 0 for none."""
        return float(self._rules.crawl_delay(AGENT) or 0)

    @property
    def sitemaps(self) -> Sequence[str]:
        """The addresses of sitemaps that it names."""
        return list(self._rules.sitemaps)
