"""The reply to an upload, made of the summary of its import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vikingd.client.importing import ImportSummary
from vikingd.domain import uri as uris
from vikingd.gateway.http_errors import Fault
from vikingd.ingest.file_tree import printable
from vikingd.ingest.selected_files import DRAWING, HEAD_ONLY, SECRETS, LeftOut

_MOST = 100  # remarks


def reply_fields(uri: str, summary: ImportSummary) -> dict[str, Any]:
    """Return the fields of the reply to the upload of a file.

    Args:
        uri: the URI of the file.
        summary: the result of its import.

    Raises:
        Fault: nothing of the file came in; the message has the reasons.
    """
    taken = summary.created + summary.updated + summary.unchanged
    remarks = list(_remarks(uri, summary))
    if len(remarks) > _MOST:
        remarks[_MOST:] = [f"and {len(remarks) - _MOST:,} more"]
    if not taken:
        why = "; ".join(remarks) or "holds no context"
        raise Fault(422, f"{uris.name(uri)}: {why}")
    if taken > 1:
        counts = f"{summary.created:,} created, {summary.updated:,} updated"
        remarks.insert(0, f"its lines are {taken:,} contexts: {counts}")
    status = "created" if summary.created else "updated" if summary.updated else "unchanged"
    return {"uri": uri, "status": status, "remarks": remarks}


def _remarks(uri: str, summary: ImportSummary) -> Iterator[str]:
    """Yield what did not come in, or not as it is. No text has a path of this machine."""
    for unread in summary.unreadable:
        line = unread.path.rpartition("/")[2].removeprefix(printable(Path(uris.name(uri))))
        yield f"line {line[1:]}: {unread.reason}" if line else unread.reason
    for failed in summary.failed:
        yield failed.reason if failed.uri == uri else f"{failed.uri}: {failed.reason}"
    for left_out in summary.left_out:
        yield _reason(left_out)
    for secret in summary.secrets:
        yield f"line {secret.line}: a secret is left out ({secret.kind})"
    for faulty in summary.as_text:
        yield f"front matter: {faulty.reason}"
    for read in summary.encodings:
        yield f"read as {read.encoding} ({read.how})"


def _reason(one: LeftOut) -> str:
    """Return why a file, or the bulk of it, is left out."""
    if one.rule == SECRETS:
        return f"is not stored, since such a file holds secrets ({one.pattern})"
    if one.rule == HEAD_ONLY:
        return f"is large data: its head is stored, and {one.size:,} more bytes are left out"
    if one.rule == DRAWING:
        return "is a drawing without text"
    return f"is left out, since nobody reads such files ({one.rule})"
