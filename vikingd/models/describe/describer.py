"""The describer: it lets a model write abstracts and overviews of contexts, and checks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from vikingd.domain.text import approximate_tokens
from vikingd.models.chat.chat_model import ChatModel, NotAnswered, NoUsableAnswer
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
"""The most tokens of an answer, which are enough for 2,400 Chinese characters."""

_ANSWER_TOKENS = 600
"""The tokens of a usual answer."""


@dataclass(frozen=True, slots=True)
class Material:
    """The material of a description.

    Attributes:
        uri: the URI of the context.
        is_directory: True for a directory.
        title: its title, or "".
        text: the text of a file; for a directory a line "name: abstract" for each child.
        extract: the present abstract, or "".
    """

    uri: str
    is_directory: bool
    title: str
    text: str
    extract: str


class Described(NamedTuple):
    """A description that passed the check.

    Attributes:
        abstract: one or two sentences.
        overview: Markdown.
        tokens: the tokens of all questions and answers, by the endpoint's count or estimated.
    """

    abstract: str
    overview: str
    tokens: int


class Unusable(Exception):
    """The model cannot describe a context; the message says why its last answer was refused.

    Attributes:
        tokens: the tokens of all questions and answers.
    """

    def __init__(self, message: str, tokens: int) -> None:
        super().__init__(message)
        self.tokens = tokens


class Describer:
    """Describes contexts by a model, concurrently on one event loop.

    Attributes:
        name: the name of the model; "" if none is configured.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    async def describe(self, material: Material) -> Described:
        """Return an abstract and an overview for a context.

        If an answer fails the check, the model is asked once more and told the reason.

        Raises:
            NotAnswered: the model did not answer; a later try may help.
            Unusable: no answer passed the check, or the model refused; another try would not help.
        """
        source = source_of(material)
        tokens, reason = 0, ""
        for _ in range(2):
            asked = question(material, reason)
            price = question_tokens(asked)

            def spent(counted: int, price: int = price) -> None:
                nonlocal tokens
                tokens += counted or price

            try:
                reason, answer = await self._model.ask(
                    asked, reader(source), None, self._model.timeout, spent
                )
            except NoUsableAnswer as failure:
                raise Unusable(str(failure), tokens) from None
            except NotAnswered as failure:
                failure.tokens = tokens
                raise
            if not reason:
                return Described(answer.abstract, answer.overview, tokens)
        raise Unusable(reason, tokens)


def source_of(material: Material) -> Source:
    """Return the source against which a description of this material is checked."""
    return Source(shortened(material.text), (material.title, material.extract), material.uri)


def reader(source: Source) -> Callable[[str], tuple[str, Answer]]:
    """Return a function that parses and checks the text of an answer.

    The function returns (the reason why the answer is refused, or "", its abstract and overview).
    """

    def read(text: str) -> tuple[str, Answer]:
        answer = read_answer(text)
        if isinstance(answer, str):
            return answer, Answer("", "")
        return refusal(answer, source), answer

    return read


def question(material: Material, refused: str = "") -> Question:
    """Return the question for a description; `refused` says why the first answer was refused."""
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
    """Return an estimate of the tokens of one question for a description, with its answer."""
    return question_tokens(question(material))


def question_tokens(asked: Question) -> int:
    """Return an estimate of the tokens of a question, with its answer."""
    return approximate_tokens(asked.system) + approximate_tokens(asked.text) + _ANSWER_TOKENS
