"""The model of acknowledged writes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from vikingd.client import Client, Draft, NotFound

ROOT = "viking://"


@dataclass
class Record:
    """A file with its writes, which are numbered; each fifth one is a deletion.

    Attributes:
        acknowledged: the number of the last acknowledged write; 0 without one.
        unknown: the number of a write without a known outcome, the last one; 0 without one.
    """

    uri: str
    word: str
    number: int = 0
    acknowledged: int = 0
    unknown: int = 0

    def deletes(self, number: int) -> bool:
        """Return whether a write is a deletion."""
        return number % 5 == 0

    def text(self, number: int) -> str:
        """Return the content of a write."""
        return f"{self.word} has number {number} of the harbour"

    def write(self, client: Client) -> int:
        """Make the next write; return its revision."""
        self.number += 1
        if self.deletes(self.number):
            return client.delete(self.uri).revision
        return client.put([Draft(self.uri, content=self.text(self.number))]).revision

    def fault(self, content: str | None, least: int) -> str:
        """Return why a content, None for a missing file, is wrong; "" if it may be.

        Args:
            least: the number of the write that was acknowledged before the read.
        """
        if content is None:
            possible = range(least, self.number + 1)
            is_right = any(self.deletes(number) for number in possible)
            return "" if is_right else f"{self.uri} is missing, {self.state()}"
        number = int(content.split()[3])
        if content != self.text(number):
            return f"{self.uri} has {content!r}"
        if number < least:
            return f"{self.uri} has number {number} after {least} was acknowledged, {self.state()}"
        return ""

    def state(self) -> str:
        """Return the numbers, for a message."""
        return f"acknowledged {self.acknowledged}, unknown {self.unknown}, last {self.number}"


def content(client: Client, record: Record, min_revision: int = 0) -> str | None:
    """Return the content of a record's file; None if it is missing."""
    try:
        return client.get(record.uri, min_revision=min_revision).content
    except NotFound:
        return None


@dataclass
class Model:
    """All records, and what went wrong."""

    records: list[Record] = field(default_factory=list)
    revision: int = 1  # the newest one that was acknowledged
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def new(self, writer: int) -> Record:
        """Return a new record of a writer."""
        with self.lock:
            number = len(self.records)
            record = Record(f"{ROOT}resources/w{writer}/{number}.md", f"word{number}")
            self.records.append(record)
            return record

    def acknowledge(self, record: Record, revision: int) -> None:
        """Take an acknowledgement."""
        with self.lock:
            record.acknowledged = record.number
            self.revision = max(self.revision, revision)

    def tell(self, fault: str) -> None:
        """Take a fault; "" is none."""
        if fault:
            with self.lock:
                self.faults.append(fault)
