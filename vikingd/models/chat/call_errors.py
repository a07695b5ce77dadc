"""The errors of a call to a chat model."""

from __future__ import annotations

# No message of these errors quotes the model or its endpoint.


class Garbage(Exception):
    """A reply of the model that cannot be used, such as text that is not JSON."""


class NoCompletion(Garbage):
    """A reply that is no chat completion, such as an HTML page of a proxy."""


class Refused(Exception):
    """A refusal to answer, by the model or by a content filter in front of it."""


class CallFailed(Exception):
    """A call that got no answer.

    Attributes:
        wait: seconds before a retry; None: a retry would not help.
        pause: seconds that the endpoint asked to wait; None: it did not ask.
    """

    def __init__(self, message: str, wait: float | None = None, pause: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        self.pause = pause
