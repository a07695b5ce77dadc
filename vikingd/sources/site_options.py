"""The options of a page or a site of the web."""

from __future__ import annotations

from dataclasses import dataclass

from vikingd.domain.errors import InvalidField

MAX_PAGES = 500
"""The number of pages of a site, unless the user gives another one."""


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """The options of a page or a site.

    Attributes:
        below: a prefix, as an address or as a path on the same host; the site below it is fetched.
            "": the page alone.
        depth: the number of links from the first page that are followed; None: any. A page of a
            sitemap counts as linked from the first page.
        max_pages: the number of pages of a site that are taken.
        max_page_bytes: the limit of the content of a page, decompressed.
        seconds: the time for one answer.
        interval: seconds between the beginnings of two requests to a host; robots.txt may ask for
            more.

    Raises InvalidField for an invalid value.
    """

    below: str = ""
    depth: int | None = None
    max_pages: int = MAX_PAGES
    max_page_bytes: int = 10 << 20
    seconds: float = 60.0
    interval: float = 0.1

    def __post_init__(self) -> None:
        for name, value, least in (
            ("depth", self.depth, 0),
            ("max_pages", self.max_pages, 1),
            ("max_page_bytes", self.max_page_bytes, 1),
        ):
            if value is not None and value < least:
                raise InvalidField(name, f"is {value}, at least {least} is needed")
        if self.depth is not None and not self.below:
            raise InvalidField("depth", "needs below, the prefix of a site")
