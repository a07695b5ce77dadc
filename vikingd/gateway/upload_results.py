"""The reply to an upload, made of the summary of the import that read the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vikingd.client.import_summary import ImportSummary
from vikingd.domain import uri as uris
from vikingd.gateway.http_errors import Fault
from vikingd.ingest.import_remarks import LeftOut
from vikingd.ingest.selected_files import DRAWING, HEAD_ONLY, PAGE_FRAME, SECRETS

_MOST = 100  # remarks


def reply_fields(uri: str, summary: ImportSummary) -> dict[str, Any]:
    """Return the fields of the reply to the upload of a file.

    Args:
        uri: the URI of the file.
        summary: the result of its import.

    Raises:
        Fault: nothing of the file was stored; the message has the reasons.
    """
    remarks = list(_remarks(summary))
    if len(remarks) > _MOST:
        remarks[_MOST:] = [f"and {len(remarks) - _MOST:,} more"]
    if not summary.created + summary.updated + summary.unchanged:
        why = "; ".join(remarks) or "holds no context"
        raise Fault(422, f"{uris.name(uri)}: {why}")
    status = "created" if summary.created else "updated" if summary.updated else "unchanged"
    return {"uri": uri, "status": status, "remarks": remarks}


def _remarks(summary: ImportSummary) -> Iterator[str]:
    """Yield remarks on parts that were not stored or were changed; none has a local path."""
    for unread in summary.unreadable:
        yield unread.reason
    for failed in summary.failed:
        yield failed.reason
    for left_out in summary.left_out:
        yield _reason(left_out)
    for secret in summary.secrets:
        yield f"line {secret.line}: a secret is left out ({secret.kind})"
    for faulty in summary.as_text:
        yield f"front matter: {faulty.reason}"
    for read in summary.encodings:
        yield f"read as {read.encoding} ({read.how})"
    for long in summary.many_passages:
        yield f"is cut into {long.passages:,} passages"


def _reason(one: LeftOut) -> str:
    """Return the reason why a file, or most of it, was left out."""
    if one.rule == SECRETS:
        return f"is not stored, since such a file holds secrets ({one.pattern})"
    if one.rule == HEAD_ONLY:
        return f"is large data: its head is stored, and {one.size:,} more bytes are left out"
    if one.rule == PAGE_FRAME:
        return f"{one.size:,} bytes around the main part of the page are left out"
    if one.rule == DRAWING:
        return "is a drawing without text"
    return f"is left out, since nobody reads such files ({one.rule})"
