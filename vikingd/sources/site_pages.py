"""The pages of a site after a fetch: without duplicates, and with the moves since the last one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from vikingd.sources.fetch_result import NotTaken
from vikingd.sources.page_files import Page, PageFiles

_MOST = 1000  # remarks that are listed one by one


@dataclass(slots=True)
class Remarks:
    """The remarks of a fetch, at most a thousand lines."""

    not_taken: list[NotTaken] = field(default_factory=list)
    more: int = 0

    def add(self, address: str, reason: str) -> None:
        """Record that an address was not fetched, and the reason."""
        if len(self.not_taken) < _MOST:
            self.not_taken.append(NotTaken(address, reason))
        else:
            self.more += 1


@dataclass(slots=True)
class SitePages:
    """The pages of a site during a fetch.

    Attributes:
        start: the canonical address of the first page.
        former: the pages of the former fetch that still belong to the site, by address.
        taken: the pages that were fetched now, or have not changed.
        gone: addresses whose host answers that the page no longer exists.
        others: by the address of a page that is a duplicate, the address of the other page.
    """

    start: str
    former: dict[str, Page]
    taken: dict[str, Page] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    others: dict[str, str] = field(default_factory=dict)

    def settle(self, files: PageFiles, remarks: Remarks) -> None:
        """Keep former pages that did not answer, and drop duplicates of pages."""
        for address, page in self.former.items():
            is_settled = address in self.taken or address in self.gone
            is_another = address in self.others and self.original(address) in self.taken
            if not is_settled and not is_another and files.has(page):
                self.taken[address] = page
        self._tell_circles(remarks)
        self._believe_stated(remarks)
        self._drop_copies(remarks)

    def original(self, address: str) -> str:
        """Return the address of the original page of a duplicate; an original has its own address.

        Chains of duplicates are followed; a circle of duplicates gives "".
        """
        passed = set()
        while address in self.others:
            if address in passed:
                return ""
            passed.add(address)
            address = self.others[address]
        return address

    def moves(self) -> list[tuple[str, str]]:
        """Return (old path, new path) of each file whose page has another address now."""
        now = {page.path for page in self.taken.values()}
        new = {a: page for a, page in self.taken.items() if a not in self.former}
        by_hash = {page.hash: a for a, page in sorted(new.items(), reverse=True)}
        moves = []
        for address, page in sorted(self.former.items()):
            if page.path in now:
                continue
            target = self.original(address)
            if target not in new:
                target = by_hash.get(page.hash, "")
            if target in new:
                moves.append((page.path, new.pop(target).path))
        return moves

    def _tell_circles(self, remarks: Remarks) -> None:
        for address in sorted(self.others):
            if not self.original(address):
                remarks.add(address, "redirects in a circle")

    def _believe_stated(self, remarks: Remarks) -> None:
        """Drop each page that states another fetched page's address as its canonical one.

        The address of the first page does not count, because some sites state it in all pages.
        """
        for address, page in list(self.taken.items()):
            stated = self.original(page.stated) if page.stated else address
            if stated in (address, self.start) or stated not in self.taken:
                continue
            if self.taken[stated].stated in ("", stated):
                self._drop(address, stated)
                remarks.add(address, f"states that its address is {stated}")

    def _drop_copies(self, remarks: Remarks) -> None:
        """Drop each page that has the content of another one with a shorter address."""
        same: dict[str, list[str]] = defaultdict(list)
        for address, page in self.taken.items():
            same[page.hash].append(address)
        for addresses in same.values():
            first, *copies = sorted(addresses, key=lambda one: (len(one), one))
            for address in copies:
                self._drop(address, first)
                remarks.add(address, f"has the same content as {first}")

    def _drop(self, address: str, real: str) -> None:
        del self.taken[address]
        self.others[address] = real
