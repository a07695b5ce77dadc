"""The events of all coding agents in one form, and the interface of the module for one agent.

Every module of this package is loaded while a person waits. So it imports only the standard
library, and of that only modules which each process has loaded anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol


class EventKind(Enum):
    """The kind of an event of an agent."""

    START = "start"  # a session begins, goes on, or goes on with an emptied context
    PROMPT = "prompt"  # the user sent a prompt; the model has not seen it yet
    RESPONSE = "response"  # the assistant said something, and its turn may continue
    STOP = "stop"  # the assistant's turn has ended
    COMPACT = "compact"  # the agent is about to shorten its context
    END = "end"  # the session has ended
    OTHER = "other"  # all other events: the answer is empty


class AgentEvent(NamedTuple):
    """An event of an agent; a field is "" if the agent does not give it."""

    agent: str
    kind: EventKind
    session: str
    directory: str
    prompt: str = ""  # of a PROMPT
    response: str = ""  # of a RESPONSE or STOP: the words of the assistant, without its thinking
    transcript: str = ""  # the path of a transcript of JSON lines that `message` understands
    source: str = ""  # of a START: startup, resume, clear, compact
    name: str = ""  # the agent's own name of the event, if the answer repeats it


class Message(NamedTuple):
    """A message of the user or of the assistant in a conversation."""

    role: str  # "user" or "assistant"
    text: str
    time: float = 0.0  # in seconds since 1970; 0: unknown


class AgentProtocol(Protocol):
    """A module that reads the events of one agent and writes the answers in its form.

    None of the functions reads a file or the clock, and none changes anything.
    """

    NAME: str
    """The name of the agent on the command line."""

    ADDS_AT: frozenset[EventKind]
    """The events at which the agent takes a text for the model's context."""

    @staticmethod
    def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
        """Return the event that an agent wrote.

        Args:
            given: the JSON object that the agent wrote.
            name: the argument EVENT, for agents whose JSON does not name the event; else "".

        Raises:
            ValueError: a field has another form than the agent documents.
        """

    @staticmethod
    def render(event: AgentEvent, text: str) -> str:
        """Return the answer to an event that adds a text to the model's context.

        With the text "" it is the valid answer that does nothing.
        """

    @staticmethod
    def message(record: Mapping[str, Any]) -> Message | None:
        """Return the message in a line of the transcript; None for all other lines.

        An agent whose events have no `transcript` returns None. Its prompts and responses are kept
        in a file of this package until they are committed.
        """
