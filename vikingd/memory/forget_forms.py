"""A request to forget as a language reads it, see forget_requests."""

from __future__ import annotations

from typing import NamedTuple

from vikingd.domain.extract import Meant


class Asked(NamedTuple):
    """A request in a sentence.

    Attributes:
        topic: the statement or the name; "" for the statement before and for everything.
        is_sure: False for words that may be no request.
        front: the words of the sentence in front of "forget that".
    """

    topic: str
    meant: Meant
    is_sure: bool
    front: str = ""
