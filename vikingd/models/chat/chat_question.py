"""A question to a chat model: a constant prompt, and data as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

PROMPT = "prompt_v1.md"
"""The file of a prompt; a new wording gets a new file."""
MAX_SUMMARY_CHARS = 30_000
MAX_MESSAGE_CHARS = 8_000

STRING = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a chat model.

    Attributes:
        system: the constant prompt.
        text: the data, sent as the user's message.
        response_format: the JSON schema of the answer.
        max_tokens: the most tokens of the answer.
    """

    system: str
    text: str
    response_format: Mapping[str, Any]
    max_tokens: int


def prompt_of(package: str) -> str:
    """Return the text of the prompt file in a package."""
    return files(package).joinpath(PROMPT).read_bytes().decode()


def schema(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response format for an answer that is an object with these properties.

    It sets no lengths, since many servers ignore those in strict schemas; too long values are
    dropped after the answer.
    """
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": record(properties)},
    }


def record(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
