"""The crawl of a page or a site."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from vikingd.sources.fetch_result import Fetched, NotTaken, SourceFailed
from vikingd.sources.host_addresses import HostAddresses
from vikingd.sources.host_rules import MAX_REDIRECTS, REDIRECTS, HostRules
from vikingd.sources.page_addresses import Bounds, bounds_below, canonical, checked, origin_of
from vikingd.sources.page_content import PageContent, Unfit
from vikingd.sources.page_files import Page, PageFiles, hash_of
from vikingd.sources.page_reader import PageReader
from vikingd.sources.request_pace import AT_ONCE
from vikingd.sources.robots_rules import Robots
from vikingd.sources.site_options import SiteOptions
from vikingd.sources.site_pages import Remarks, SitePages
from vikingd.sources.site_state import MAX_WAITING, SiteState
from vikingd.sources.sitemaps import MAX_SITEMAPS, read_sitemap
from vikingd.sources.web_requests import Answer, Unanswered, WebRequests

MAX_SITE_BYTES = 1 << 30
"""The most bytes of all answers of a fetch together."""

_GONE = frozenset({404, 410})
_ASKED_FOR_EACH = 4  # addresses for each page that is taken
_LOOK = 0.1  # seconds between two looks at the request to end
_CLOSING = 0.5  # seconds for the close of connections


class _Gone(Exception):
    """A page that no longer exists (404 or 410)."""


def crawl(
    address: str,
    options: SiteOptions,
    folder: Path,
    state: dict[str, Any] | None,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Fetch a page or a site; see `fetch_site`."""
    start = checked(address, "path")
    bounds = bounds_below(start, options.below) if options.below else None
    executor = ThreadPoolExecutor(1)
    try:
        work = _Crawl(start, bounds, options, folder, SiteState.of(state), executor)
        work.advance = advance
        return asyncio.run(work.run(cancelled))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


class _Crawl:
    """One fetch.

    Args:
        start: the canonical address of the first page.
        bounds: the bounds of the site; None: the page alone.
        options: the options.
        folder: the directory of the source.
        former: the state of the former fetch.
        executor: runs the resolutions of names.
    """

    def __init__(
        self,
        start: str,
        bounds: Bounds | None,
        options: SiteOptions,
        folder: Path,
        former: SiteState,
        executor: ThreadPoolExecutor,
    ) -> None:
        self.advance: Callable[[int], None] = lambda _: None
        self._start = start
        self._bounds = bounds
        self._options = options
        self._former = former
        self._hosts = HostAddresses(origin_of(start)[1], former.is_public, executor)
        self._requests = WebRequests(self._hosts, options.seconds, options.max_page_bytes)
        self._rules = HostRules(self._requests, options.interval)
        self._reader = PageReader()
        above = bounds.path if bounds else ""
        self._files = PageFiles(folder, above, is_site=bounds is not None, pages=former.pages)
        self._pages = SitePages(
            start, {a: page for a, page in former.pages.items() if self._belongs(a, page.depth)}
        )
        self._remarks = Remarks()
        self._queue: deque[tuple[str, int]] = deque()
        self._seen: set[str] = set()
        self._under_way: dict[str, int] = {}
        self._unanswered: dict[str, int] = {}
        self._asked = 0
        self._bytes = 0
        self._deeper: set[str] = set()
        self._not_kept = 0

    async def run(self, cancelled: threading.Event) -> Fetched:
        """Fetch all pages, and return the result.

        If `cancelled` is set or the user presses Ctrl-C, return what was fetched until then.
        """
        work = asyncio.create_task(self._work())
        try:
            while not work.done() and not cancelled.is_set():
                await asyncio.wait({work}, timeout=_LOOK)
        except asyncio.CancelledError:  # Ctrl-C
            cancelled.set()
        is_whole = work.done()
        work.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await work
        finally:
            await self._reader.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self._requests.close()
        return self._result(is_whole=is_whole)

    async def _work(self) -> None:
        self._enqueue(self._start, 0)
        try:
            robots = await self._rules.robots(self._start)
        except Unanswered as error:
            raise SourceFailed(f"{self._start} {error}") from None
        if self._bounds:
            for address, page in self._pages.former.items():
                self._enqueue(address, page.depth)
            for address, depth in self._former.waiting.items():
                if self._belongs(address, depth):
                    self._enqueue(address, depth)
            if self._options.depth != 0:
                await self._read_sitemaps(robots)
        pending: set[asyncio.Task[None]] = set()
        try:
            while pending or self._may_begin(0):
                while len(pending) < AT_ONCE and self._may_begin(len(pending)):
                    address, depth = self._queue.popleft()
                    self._under_way[address] = depth
                    self._asked += 1
                    pending.add(asyncio.create_task(self._visit(address, depth)))
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for one in pending:
                one.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def _may_begin(self, running: int) -> bool:
        most = self._options.max_pages
        return (
            bool(self._queue)
            and len(self._pages.taken) + running < most
            and self._asked < _ASKED_FOR_EACH * most + 1
            and self._bytes < MAX_SITE_BYTES
        )

    def _belongs(self, address: str, depth: int) -> bool:
        limit = self._options.depth
        if self._bounds is None:
            return depth == 0
        return self._bounds.holds(address) and (limit is None or depth <= limit)

    def _enqueue(self, address: str, depth: int) -> None:
        if address in self._seen:
            return
        if len(self._queue) >= MAX_WAITING:
            self._not_kept += 1
            return
        self._seen.add(address)
        self._queue.append((address, depth))

    async def _read_sitemaps(self, robots: Robots) -> None:
        """Add the pages of the sitemaps that robots.txt names, or of the usual one."""
        usual = canonical("/sitemap.xml", self._start) or ""
        stated = [place for one in robots.sitemaps if (place := canonical(one, self._start))]
        waiting = deque(stated or [usual])
        seen = set(waiting)
        for _ in range(MAX_SITEMAPS):
            if not waiting:
                return
            at = waiting.popleft()
            if origin_of(at)[1] != origin_of(self._start)[1]:
                self._remarks.add(at, "is a sitemap on another host")
                continue
            try:
                answer = await self._rules.ask(at)
                if answer.status != 200:
                    if stated:
                        self._remarks.add(at, f"is a sitemap and answers {answer.status}")
                    continue
                found = read_sitemap(answer.body, at, self._options.max_page_bytes)
            except (Unanswered, ValueError) as error:
                self._remarks.add(at, str(error))
                continue
            for page in found.pages:
                if self._belongs(page, 1):
                    self._enqueue(page, 1)
            waiting += (one for one in found.sitemaps if one not in seen)
            seen.update(found.sitemaps)
        if waiting:
            self._remarks.add(self._start, f"has more than {MAX_SITEMAPS} sitemaps")

    async def _visit(self, address: str, depth: int) -> None:
        """Fetch a page, or record the reason why it is not fetched."""
        passed = [address]
        try:
            await self._take(passed, depth)
        except _Gone as error:
            self._pages.gone.update(passed)
            self._remarks.add(address, str(error))
        except Unfit as error:
            self._remarks.add(passed[-1], str(error))
        except Unanswered as error:
            self._unanswered[address] = depth
            self._remarks.add(passed[-1], str(error))
        del self._under_way[address]
        self.advance(1)

    async def _take(self, passed: list[str], depth: int) -> None:
        """Fetch the page at an address, and follow redirects to it.

        Args:
            passed: a list with the address; the targets of redirects are appended to it.
            depth: the number of links from the first page to the address.

        Raises:
            _Gone, Unfit, Unanswered: the page is not fetched.
        """
        while True:
            at = passed[-1]
            answer = await self._answer(at)
            if answer.status == 304:
                self._pages.taken[at] = replace(self._pages.former[at], depth=depth)
                break
            if answer.status in REDIRECTS:
                target = canonical(answer.header("location"), at)
            else:
                content = await self._content(at, answer)
                for link in content.links:
                    self._follow(link, depth + 1)
                if content.stated:
                    self._follow(content.stated, depth)
                target = content.shown_instead
                if not target:
                    self._keep(at, content, answer, depth)
                    break
            passed.append(self._checked_target(target, passed))
            if passed[-1] in self._seen:
                break
            self._seen.add(passed[-1])
        for one in passed[:-1]:
            self._pages.others[one] = passed[passed.index(one) + 1]

    async def _answer(self, at: str) -> Answer:
        """Request a page, if its host's robots.txt allows it.

        Returns:
            The answer: a page, a redirect, or that the former page has not changed.
        """
        robots = await self._rules.robots(at)
        if not robots.allow(at):
            raise Unanswered("is not fetched: robots.txt forbids it")
        former = self._pages.former.get(at)
        headers = {}
        if former and (former.etag or former.modified) and self._files.has(former):
            if former.etag:
                headers["If-None-Match"] = former.etag
            if former.modified:
                headers["If-Modified-Since"] = former.modified
        answer = await self._rules.ask(at, headers)
        self._bytes += len(answer.body)
        if answer.status in _GONE:
            raise _Gone(f"answers {answer.status}: it is not there")
        if answer.status not in (200, *REDIRECTS) and not (answer.status == 304 and headers):
            raise Unanswered(f"answers {answer.status}")
        return answer

    async def _content(self, at: str, answer: Answer) -> PageContent:
        type_, robots = answer.header("content-type"), answer.header("x-robots-tag")
        return await self._reader.read(answer.body, type_, at, robots)

    def _checked_target(self, target: str | None, passed: list[str]) -> str:
        """Return the target of a redirect.

        Raises:
            Unanswered: the target is not allowed.
        """
        if not target:
            raise Unanswered("redirects to no page")
        if target in passed:
            raise Unanswered("redirects in a circle")
        if len(passed) > MAX_REDIRECTS:
            raise Unanswered(f"redirects more than {MAX_REDIRECTS} times")
        if self._bounds and not self._bounds.holds(target):
            raise Unanswered(f"redirects to {target}, which is not below {self._bounds}")
        return target

    def _follow(self, address: str, depth: int) -> None:
        if not self._bounds or not self._bounds.holds(address):
            return
        if self._belongs(address, depth):
            self._enqueue(address, depth)
        elif address not in self._seen and len(self._deeper) < MAX_WAITING:
            self._deeper.add(address)

    def _keep(self, at: str, content: PageContent, answer: Answer, depth: int) -> None:
        """Write the file of a page, unless the file has this content already."""
        path = self._files.path_for(at, content.kind)
        digest = hash_of(content.data)
        former = self._pages.former.get(at)
        is_same = former is not None and (former.path, former.hash) == (path, digest)
        modified = answer.modified.isoformat() if answer.modified else ""
        page = Page(
            path,
            digest,
            content.title,
            former.time if former and is_same else modified,
            answer.header("etag"),
            answer.header("last-modified"),
            depth,
            content.stated,
        )
        if not (is_same and self._files.has(page)):
            self._files.write(path, content.data)
        self._pages.taken[at] = page

    def _result(self, *, is_whole: bool) -> Fetched:
        pages = self._pages
        left = dict(self._queue) | self._under_way
        is_full = len(pages.taken) >= self._options.max_pages
        if self._bounds is None and pages.taken:  # a page that has another address now
            for address in pages.former.keys() - pages.taken.keys():
                pages.others.setdefault(address, next(iter(pages.taken)))
        pages.settle(self._files, self._remarks)
        moved = pages.moves()
        taken = dict(sorted(pages.taken.items()))
        self._files.keep_only(page.path for page in taken.values())
        waiting = {a: d for a, d in (left | self._unanswered).items() if a not in taken}
        self._add_left_remarks(len(left), is_whole=is_whole, is_full=is_full)
        before = {page.path: page.hash for page in self._former.pages.values()}
        after = {page.path: page.hash for page in taken.values()}
        return Fetched(
            self._files.root,
            {page.path: page.origin(address) for address, page in taken.items()},
            moved,
            self._remarks.not_taken,
            SiteState(taken, waiting, self._hosts.is_named_public).as_json(),
            self._former.pages != {} and before == after,
        )

    def _add_left_remarks(self, left: int, *, is_whole: bool, is_full: bool) -> None:
        """Add remarks on how many links were not followed, and why."""
        remarks, options = self._remarks, self._options
        count = f"{left + self._not_kept:,} links are left"
        if not is_whole:
            remarks.add(self._start, f"was interrupted: {count} for the next time")
        elif self._bytes >= MAX_SITE_BYTES:
            remarks.add(self._start, f"{count}: at most {MAX_SITE_BYTES:,} bytes are fetched")
        elif left and is_full:
            remarks.add(self._start, f"{count}: max_pages is {options.max_pages:,}")
        elif left or self._not_kept:
            remarks.add(self._start, f"{count}: {self._asked:,} addresses were asked for")
        if deeper := self._deeper - self._seen:
            reason = f"{len(deeper):,} links are left: depth is {options.depth}"
            remarks.add(self._start, reason)
        if remarks.more:
            reason = f"{remarks.more:,} more addresses were not taken"
            remarks.not_taken.append(NotTaken(self._start, reason))
