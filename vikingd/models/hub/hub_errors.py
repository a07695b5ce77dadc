"""The failures of a hub and of its cache."""

from __future__ import annotations


class HubFailed(Exception):
    """A model cannot be downloaded; the message gives the reason and the remedy.

    Attributes:
        reason: UPPER_SNAKE_CASE, stable, for programs.
    """

    reason = "HUB_FAILED"


class HubAway(HubFailed):
    """The hub cannot be reached, or does not answer."""

    reason = "HUB_UNAVAILABLE"


class HubRefused(HubFailed):
    """The hub refuses access."""

    reason = "HUB_REFUSED"


class NotOnHub(HubFailed):
    """The hub has no such repository, revision or file."""

    reason = "NOT_ON_HUB"
