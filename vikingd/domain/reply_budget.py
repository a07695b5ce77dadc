"""The bytes that a reply may have, counted while it is built."""

from __future__ import annotations

from vikingd.domain.degradation import Degradation, DegradationReason, Degraded

UNBOUNDED = 1 << 62

MESSAGE = 64
"""Bytes of a message's numbers and tags, about."""


class Room:
    """What is left of a reply's bytes.

    Attributes:
        most: bytes that there were.
        left: bytes; never below 0.
        left_out: results for which there was no room.
        shortened: texts for which there was not enough.
    """

    __slots__ = ("left", "left_out", "most", "shortened")

    def __init__(self, most: int) -> None:
        self.most = self.left = most
        self.left_out = 0
        self.shortened = 0

    def take(self, size: int) -> bool:
        """Takes so many bytes, or none where there are not so many."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def text(self, text: str) -> str:
        """As much of a text from its beginning as there is room for."""
        size = size_of(text)
        if self.take(size):
            return text
        self.shortened += 1
        kept = text[: self.left].encode()[: self.left].decode(errors="ignore")
        self.left = 0  # nothing that comes later is shown where this could not be
        return kept

    @property
    def is_cut(self) -> bool:
        """Whether something is missing."""
        return bool(self.left_out or self.shortened)

    def notes(self) -> Degraded:
        """What is missing, for the reply."""
        return cut_notes(self.left_out, self.shortened)


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def cut_notes(left_out: int, shortened: int) -> Degraded:
    """What to say of a reply that had no room for so many results and texts."""
    if not left_out and not shortened:
        return ()
    return (
        too_large(
            f"the reply has no room for more: {left_out:,} results are left out, {shortened:,} "
            "texts shortened; ask for less, or let the operator raise limits.max_reply_bytes"
        ),
    )


def too_large(detail: str) -> Degradation:
    """Return what to say of a reply that was cut."""
    return Degradation(DegradationReason.REPLY_TOO_LARGE, detail)
