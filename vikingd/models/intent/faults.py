"""How a model fails to plan; the messages have no word of what it or its endpoint said."""

from __future__ import annotations


class Garbage(Exception):
    """What came is not a plan."""


class Refused(Exception):
    """The model, or a filter before it, does not want to answer."""


class CallFailed(Exception):
    """There is no answer.

    Attributes:
        wait: seconds after which another call may do better; None: it would not.
        pause: seconds for which the endpoint asked to be left alone; None: it did not.
    """

    def __init__(self, message: str, wait: float | None = None, pause: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        self.pause = pause
