"""The state of a fetch of a site, by which the next fetch reads only changed pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vikingd.sources.page_files import Page

MAX_WAITING = 10_000
"""The most addresses that are kept for the next fetch."""

_VERSION = 1


@dataclass(slots=True)
class SiteState:
    """The state of a fetch.

    Attributes:
        pages: the pages with a file, by canonical address.
        waiting: the known pages that were not fetched, each with its number of links from the
            first page.
        is_public: True if the host was public.
    """

    pages: dict[str, Page] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    is_public: bool = False

    @classmethod
    def of(cls, value: dict[str, Any] | None) -> SiteState:
        """Return a state from JSON; an empty state for None and for another version's JSON."""
        if not value or value.get("version") != _VERSION:
            return cls()
        pages = {address: Page.of(one) for address, one in value["pages"].items()}
        return cls(
            {address: page for address, page in pages.items() if page},
            dict(value["waiting"]),
            bool(value["is_public"]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state as a value of JSON."""
        return {
            "version": _VERSION,
            "pages": {address: page.as_json() for address, page in sorted(self.pages.items())},
            "waiting": dict(list(self.waiting.items())[:MAX_WAITING]),
            "is_public": self.is_public,
        }
