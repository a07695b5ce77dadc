"""A request to forget as one language parses it, and the patterns of a language's words."""

from __future__ import annotations

import re
from typing import NamedTuple

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.memory.clause_patterns import language


class Asked(NamedTuple):
    """A request to forget, as read from a sentence.

    Attributes:
        topic: the statement or the name to forget; "" for the previous statement and for
            everything.
        meant: the kind of thing that the topic means.
        is_sure: False for words that may be no request.
        front: the words of the sentence before "forget that".
    """

    topic: str
    meant: Meant
    is_sure: bool
    front: str = ""


class Patterns:
    """The named patterns of a language's `.forms` file, each as an attribute; they ignore case."""

    def __init__(self, name: str) -> None:
        self._named = language(name).named

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a named list."""
        return frozenset(self._named[name].split())

    def __getattr__(self, name: str) -> re.Pattern[str]:
        pattern = lazy(self._named[name], re.IGNORECASE | re.DOTALL)
        setattr(self, name, pattern)
        return pattern
