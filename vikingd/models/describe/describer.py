"""The describer of contexts: a model writes their abstracts and overviews, and they are checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from vikingd.domain.text import approximate_tokens
from vikingd.models.chat.chat_model import ChatModel, NotAnswered
from vikingd.models.chat.chat_question import STRING, Question, prompt_of, schema
from vikingd.models.describe.answer_check import Answer, Source, read_answer, refusal
from vikingd.models.describe.shortened_text import MAX_MATERIAL, shortened

__all__ = [
    "MAX_MATERIAL",
    "Described",
    "Describer",
    "Material",
    "NotAnswered",
    "Unusable",
    "material_tokens",
    "shortened",
]

SYSTEM = prompt_of("vikingd.models.describe")
RESPONSE_FORMAT = schema("description", {"abstract": STRING, "overview": STRING})
MAX_TOKENS = 2048
"""Tokens of an answer, at most: 2,400 Chinese characters are fewer."""

PATIENCE = 6.0
"""Times the timeout of a plan: an overview is a longer answer, and nobody waits for it."""

_ANSWER_TOKENS = 600
"""Tokens of a usual answer."""


@dataclass(frozen=True, slots=True)
class Material:
    """The material of a description.

    Attributes:
        uri: the URI of the context.
        is_directory: True for a directory.
        title: its title, or "".
        text: of a file its text; of a directory a line "name: abstract" for each child.
        extract: the abstract that stands there now, or "".
    """

    uri: str
    is_directory: bool
    title: str
    text: str
    extract: str


class Described(NamedTuple):
    """A description that passed the check.

    Attributes:
        tokens: of all questions and answers, as the endpoint counts them, else approximately.
    """

    abstract: str
    overview: str
    tokens: int


class Unusable(Exception):
    """Two answers that cannot be used; the message says why.

    Attributes:
        tokens: of all questions and answers.
    """

    def __init__(self, message: str, tokens: int) -> None:
        super().__init__(message)
        self.tokens = tokens


class Describer:
    """Describes contexts, concurrently on one event loop.

    Attributes:
        name: the name of the model; "": none is configured.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    async def describe(self, material: Material) -> Described:
        """Return abstract and overview of a context.

        An answer that fails the check is asked for once more, with the reason.

        Raises:
            NotAnswered: the model did not answer; a later try may help.
            Unusable: no answer passed the check; another try would not help.
        """
        tokens, reason = 0, ""
        source = Source(_parts(material))
        for _ in range(2):
            asked = question(material, reason)
            text = await self._model.ask(asked, str, None, PATIENCE * self._model.timeout)
            tokens += approximate_tokens(asked.system) + approximate_tokens(asked.text)
            tokens += approximate_tokens(text)
            answer = read_answer(text)
            reason = refusal(answer, source) if isinstance(answer, Answer) else answer
            if isinstance(answer, Answer) and not reason:
                return Described(answer.abstract, answer.overview, tokens)
        raise Unusable(reason, tokens)


def question(material: Material, refused: str = "") -> Question:
    """Return the question for a description; `refused` is the reason against the first answer."""
    data = {
        "kind": "directory" if material.is_directory else "file",
        "uri": material.uri,
        "title": material.title,
        "text": shortened(material.text),
        "extract": material.extract,
    }
    if refused:
        data["refused"] = refused
    text = json.dumps(data, ensure_ascii=False)
    return Question(SYSTEM, text, RESPONSE_FORMAT, MAX_TOKENS)


def material_tokens(material: Material) -> int:
    """Return the approximate tokens of one question with its answer."""
    asked = question(material)
    return approximate_tokens(asked.system) + approximate_tokens(asked.text) + _ANSWER_TOKENS


def _parts(material: Material) -> tuple[str, ...]:
    return material.uri, material.title, material.text, material.extract
