"""Failures explained to a model: the fault and the remedy."""

from __future__ import annotations

import re
from collections.abc import Container

from vikingd.client import AsyncClient, ClientError, NotFound
from vikingd.client import client_errors as errors
from vikingd.client.unreachable_daemon import unreachable
from vikingd.domain import uri as uris

_OF_THE_STORE = "Ask the user to look at the daemon's log."

_ADVICE: dict[type[ClientError], str] = {
    errors.AlreadyExists: "Choose another uri, or change what is there.",
    errors.PermissionDenied: "Use a place that this key may write, or ask the user for the right.",
    errors.Overloaded: "The daemon is busy.",
    errors.TooLarge: "Do it in smaller parts.",
    errors.RevisionNotReached: "Call again in a second.",
    errors.HistoryLost: "Recent changes were lost. Read again, and repeat missing writes.",
    errors.StoreAway: "The database does not answer. Call again in some seconds.",
    errors.Stopping: "The daemon is about to stop or to restart. Call again in some seconds.",
    errors.EmbedderFailed: "Call again later; grep and glob work without the embedder.",
    errors.ReadOnly: "Only reading tools work here.",
    errors.DiskFull: "Ask the user to free disk space.",
    errors.StoreFailed: _OF_THE_STORE,
    errors.StoreDamaged: _OF_THE_STORE,
    errors.StoreMismatch: _OF_THE_STORE,
    errors.StoreInUse: _OF_THE_STORE,
    errors.Corrupt: _OF_THE_STORE,
    errors.Unauthenticated: (
        "For the user: set VIKINGD_KEY_FILE to the file of a valid key for this MCP server, or "
        "over HTTP send the key in the header Authorization: Bearer KEY."
    ),
    errors.NotFetched: "Ask the user to look at the address of the source.",
    errors.Internal: "This is a bug. Other arguments or another tool may work.",
}
"""The remedy to add to an error whose message explains only the fault."""


async def explained(error: ClientError, client: AsyncClient, arguments: Container[str]) -> str:
    """Return one to three sentences on an error of a call.

    Args:
        error: the error.
        client: the client of the call.
        arguments: the names of the arguments of the tool.
    """
    if isinstance(error, NotFound):
        return await _not_found(error, client, arguments)
    if isinstance(error, errors.InvalidField):
        faults = (
            f"{_argument(one.field, arguments)}: {one.description}"
            for one in error.field_violations
        )
        return _sentence("; ".join(faults) or error.message)
    if isinstance(error, errors.Unreachable):
        reason, hint = unreachable(error.message, client.address)
        fault = f"No daemon answers at {client.address} ({reason})"
        return _joined(fault, f"For the user: {hint}.")
    if isinstance(error, errors.TimedOut | errors.DeadlinePassed):
        waited = "in time" if client.timeout is None else f"within {client.timeout:g} seconds"
        return (
            f"The daemon gave no answer {waited}. Ask for less (a directory, fewer results), or "
            "call again later; a write may have been done, so look before you repeat it."
        )
    if isinstance(error, errors.QuotaExceeded):
        waiting = _waiting(error) or "Waiting does not help: tell the user."
        return _joined(error.message, waiting)
    advice = next((_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE), "")
    return _joined(error.message, advice, _waiting(error))


async def _not_found(error: NotFound, client: AsyncClient, arguments: Container[str]) -> str:
    """Return a text that names the missing URI and the nearest directory above it that exists."""
    uri = error.metadata.get("uri", "")
    if not uri.startswith(uris.ROOT):
        advice = "Take the ids from recall." if "ids" in arguments else ""
        return _joined(error.message, advice)
    for above in reversed(uris.ancestors(uri)):
        try:
            is_directory = (await client.get(above)).is_directory
        except NotFound:
            continue
        except ClientError:
            break
        nearest = f"The nearest directory is {above}: list it." if is_directory else ""
        return _joined(f"{uri} does not exist", nearest or f"{above} is a file.")
    return _joined(f"{uri} does not exist", "Take list, find or glob to see what is there.")


def _argument(field: str, arguments: Container[str]) -> str:
    """Return the name of the tool's argument for a field of a request: uri for contexts[0].uri."""
    names: list[str] = re.findall(r"[a-z_]+", field)
    for name in reversed(names):
        for known in (name, name.removesuffix("s")):
            if known in arguments:
                return known
    return names[-1] if names else field


def _waiting(error: ClientError) -> str:
    if error.retry_after is None:
        return ""
    return f"Call again in {max(error.retry_after, 0.1):.1f} seconds."


def _joined(*parts: str) -> str:
    return " ".join(_sentence(part) for part in parts if part)


def _sentence(text: str) -> str:
    """Return a text with a full stop, and a capital letter unless it begins with a name."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
