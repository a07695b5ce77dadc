"""The audit: one line in the log for each write, each denial and each act of an operator."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import structlog

from vikingd.access.peers import address_of

LOGGER = "vikingd.audit"
MAX_OBJECTS = 5
MAX_CHARACTERS = 190
"""The most characters of a value or an object. So five objects fit into one value of the log."""

_CUT = "\\..."  # no value has this in it, because a backslash is escaped

_log = structlog.stdlib.get_logger(LOGGER)


class Audit:
    """A writer of audit lines.

    A line has the caller, the method, the URIs or ids, the address and the status of a call. It
    never has secrets or texts of contents. Values are escaped, so that no caller can forge a line.
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER)

    @property
    def is_on(self) -> bool:
        """True if the log's level is low enough to show audit lines."""
        return self._logger.isEnabledFor(logging.INFO)

    def write(
        self,
        *,
        who: str,
        user: str,
        tenant: str,
        peer: str,
        method: str,
        objects: Sequence[str],
        code: str,
        revision: int | None = None,
    ) -> None:
        """Write one line.

        Args:
            who: id of the caller's key, or "local"; never its secret.
            user: the caller's user, or "".
            peer: the peer as gRPC names it; the line has its address.
            method: name of the RPC.
            objects: the URIs, keys and tenants of the call; the line has the first five, separated
                by spaces, and the number of the others. Spaces in them are escaped.
            code: name of the gRPC status.
            revision: revision of a write that was done.
        """
        if not self.is_on:
            return
        values: dict[str, str | int] = {
            "who": _clean(who),
            "user": _clean(user),
            "tenant": _clean(tenant),
            "peer": _clean(address_of(peer)),
            "method": _clean(method),
            "objects": " ".join([_clean(one) for one in objects[:MAX_OBJECTS]]),
            "code": _clean(code),
        }
        if len(objects) > MAX_OBJECTS:
            values["more_objects"] = len(objects) - MAX_OBJECTS
        if revision is not None:
            values["revision"] = revision
        _log.info("call", **values)


def _clean(text: str) -> str:
    """Return a text with escaped spaces and backslashes, cut to about MAX_CHARACTERS.

    Unprintable characters are escaped, too. Control characters, line separators and characters that
    change the direction of text are not printable.
    """
    if len(text) <= MAX_CHARACTERS and text.isprintable() and not (" " in text or "\\" in text):
        return text
    parts: list[str] = []
    left = MAX_CHARACTERS
    for character in text:
        part = _escaped(character)
        left -= len(part)
        if left < 0:
            parts.append(_CUT)
            break
        parts.append(part)
    return "".join(parts)


def _escaped(character: str) -> str:
    if character == " ":
        return "\\x20"
    if character == "\\" or not character.isprintable():
        return repr(character)[1:-1]
    return character
