"""The errors of a call to a chat model."""

from __future__ import annotations

# No message of these errors quotes the model or its endpoint.


class Garbage(Exception):
    """A reply that cannot be used."""


class NoCompletion(Garbage):
    """A reply that is no chat completion, such as the page of a gateway."""


class Refused(Exception):
    """A refusal by the model, or by a filter before it."""


class CallFailed(Exception):
    """A call without an answer.

    Attributes:
        wait: seconds before a retry; None: a retry would not help.
        pause: seconds that the endpoint asked to wait; None: it asked for none.
    """

    def __init__(self, message: str, wait: float | None = None, pause: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        self.pause = pause
