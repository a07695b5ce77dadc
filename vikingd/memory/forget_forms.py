"""A request to forget as a language reads it, and the patterns of its words."""

from __future__ import annotations

import re
from typing import NamedTuple

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.memory.clause_forms import language


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


class Patterns:
    """The named patterns of a file of forms, each an attribute; they ignore case."""

    def __init__(self, name: str) -> None:
        self._named = language(name).named

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a list."""
        return frozenset(self._named[name].split())

    def __getattr__(self, name: str) -> re.Pattern[str]:
        pattern = lazy(self._named[name], re.IGNORECASE | re.DOTALL)
        setattr(self, name, pattern)
        return pattern
