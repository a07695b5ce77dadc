"""The check of a model's description: its form, and that it says only what the material says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vikingd.domain import hidden
from vikingd.domain.text import script_of
from vikingd.models.chat.call_errors import Garbage
from vikingd.models.chat.json_answer import read_json

MAX_ABSTRACT = 400
MAX_OVERVIEW = 2_000

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_ADDRESS = re.compile(r"\w+://[^\s)>\]}\"'`]+|\S+@\S+\.\w+|www\.\S+")
_FORM = re.compile(r"\]\(|!\[|<[a-zA-Z/!]|<\|")


class Answer(NamedTuple):
    """The two texts of an answer."""

    abstract: str
    overview: str


class Source:
    """The texts that a description may repeat."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.text = "\n".join(texts)
        self.folded = self.text.casefold()
        self.script = script_of(self.text)


def read_answer(text: str) -> Answer | str:
    """Return the two texts of an answer, or the reason why it has none."""
    try:
        answer = read_json(text)
    except Garbage:
        return "the answer is not JSON"
    given = answer if isinstance(answer, dict) else {}
    abstract, overview = given.get("abstract"), given.get("overview")
    if not isinstance(abstract, str) or not isinstance(overview, str):
        return "the answer is no object with the strings abstract and overview"
    return Answer(abstract.strip(), overview.strip())


def refusal(answer: Answer, source: Source) -> str:
    """Return the reason against an answer; "" if it passes."""
    for field, text, limit in (
        ("abstract", answer.abstract, MAX_ABSTRACT),
        ("overview", answer.overview, MAX_OVERVIEW),
    ):
        if not text:
            return f"the {field} is empty"
        if len(text) > limit:
            return f"the {field} has {len(text):,} characters, more than {limit:,}"
        if named := hidden.first(text):
            return f"the {field} has the hidden character {named}"
        if script_of(text) != source.script:
            return f"the {field} is not in the language of the text"
        if _FORM.search(text):
            return f"the {field} has a link, an image or HTML"
        for found in (*_ADDRESS.findall(text), *_NUMBER.findall(text)):
            if found.casefold() not in source.folded:
                return f"the {field} has {found!r}, which the text does not have"
    return ""
