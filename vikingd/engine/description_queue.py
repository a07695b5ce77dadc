"""The contexts that wait for a description, in the order in which they are described."""

from __future__ import annotations

import heapq
from collections import Counter, deque

from vikingd.domain.uri import ancestors

PAUSE = 60.0
"""The least seconds between an answer about a context and the next question about it."""


class DescriptionQueue:
    """A queue of contexts to describe, and those that are being described. One thread uses it.

    Files come before directories. A directory comes when nothing below it waits or is being
    described, because the model reads the abstracts below it. A postponed context (see `may_ask`)
    blocks no directory. Times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, bool] = {}  # True for a directory; postponed ones, too
        self._working: dict[str, bool] = {}
        self._changed: set[str] = set()  # contexts that changed while they were described
        self._again: set[str] = set()
        self._files: deque[str] = deque()
        self._directories: deque[str] = deque()
        self._below: Counter[str] = Counter()  # the contexts that a directory waits for
        self._answered: dict[str, float] = {}
        self._postponed: dict[str, float] = {}  # the time until which, by URI
        self._due: list[tuple[float, str]] = []  # a heap of the same

    def __len__(self) -> int:
        return len(self._waiting) + len(self._working)

    def add(self, uri: str, is_directory: bool) -> None:
        """Queue a context and the directories above it."""
        self._add(uri, is_directory)
        for directory in ancestors(uri):
            self._add(directory, True)

    def ask_for(self, uri: str, is_directory: bool, *, again: bool) -> None:
        """Queue a context and the directories above it; a postponed context is due at once.

        With `again` it is described even if its description is up to date.
        """
        if again:
            self._again.add(uri)
        self._answered.pop(uri, None)
        if self._postponed.pop(uri, None) is not None:
            self._enter(uri, is_directory)
        self.add(uri, is_directory)

    def take(self, now: float) -> str | None:
        """Remove the next context from the queue and return it; None if none is due.

        The caller describes it, then calls `done` or `put_back`.
        """
        while self._due and self._due[0][0] <= now:
            due, uri = heapq.heappop(self._due)
            if self._postponed.get(uri) == due:
                del self._postponed[uri]
                self._enter(uri, self._waiting[uri])
        for places in (self._files, self._directories):
            while places:
                uri = places.popleft()
                # The entry may be out of date: the context was described or postponed since.
                is_due = uri in self._waiting and uri not in self._postponed
                if is_due and not self._below[uri]:
                    self._working[uri] = self._waiting.pop(uri)
                    return uri
        return None

    def due(self, now: float) -> float | None:
        """Return the seconds until the first postponed context is due; None without one."""
        return max(0.0, self._due[0][0] - now) if self._due else None

    def is_again(self, uri: str) -> bool:
        """Return True if a context is described even if its description is up to date."""
        return uri in self._again

    def may_ask(self, uri: str, now: float) -> bool:
        """Return True if the model has not answered about this context within the last PAUSE.

        Otherwise the context goes back into the queue, postponed until PAUSE has passed.
        """
        due = self._answered[uri] + PAUSE if uri in self._answered else now
        if due <= now:
            return True
        is_directory = self._working.pop(uri)
        self._changed.discard(uri)
        self._leave(uri)
        self._waiting[uri] = is_directory
        self._postponed[uri] = due
        heapq.heappush(self._due, (due, uri))
        return False

    def answered(self, uri: str, now: float) -> None:
        """Record the time of the model's answer about a context, for `may_ask`."""
        if len(self._answered) > 1000 + 2 * len(self):
            self._answered = {one: at for one, at in self._answered.items() if at > now - PAUSE}
        self._answered[uri] = now

    def done(self, uri: str) -> None:
        """Remove a context that `take` returned; if it changed since then, queue it again."""
        is_directory = self._working.pop(uri, None)
        if is_directory is None:
            return
        self._again.discard(uri)
        self._leave(uri)
        if uri in self._changed:
            self._changed.discard(uri)
            self._add(uri, is_directory)

    def put_back(self, uri: str) -> None:
        """Queue a context from `take` again, behind the others."""
        is_directory = self._working.pop(uri)
        self._changed.discard(uri)
        self._leave(uri)
        self._add(uri, is_directory)

    def _add(self, uri: str, is_directory: bool) -> None:
        if uri in self._working:
            self._changed.add(uri)
        elif uri not in self._waiting:
            self._waiting[uri] = is_directory
            self._enter(uri, is_directory)

    def _enter(self, uri: str, is_directory: bool) -> None:
        """Append a context to the queue of its kind, and block the directories above it."""
        for directory in ancestors(uri):
            self._below[directory] += 1
        (self._directories if is_directory else self._files).append(uri)

    def _leave(self, uri: str) -> None:
        """Unblock the directories above a context; queue those that nothing else blocks."""
        for directory in ancestors(uri):
            self._below[directory] -= 1
            if not self._below[directory]:
                del self._below[directory]
                if directory in self._waiting:  # perhaps as a file that had this URI
                    self._directories.append(directory)
