"""A hint for searches without a result: how to import files into an empty store."""

from __future__ import annotations

from vikingd.client import ClientError, NodeKind
from vikingd.ctl.command_session import Session
from vikingd.domain import uri as uris


def tell_if_empty(session: Session, target: str) -> None:
    """Print how to import files, if no file is below the target that the key may read."""
    place = target or uris.ROOT
    try:
        is_empty = next(session.client.glob("**", place, kind=NodeKind.FILE), None) is None
    except ClientError:  # the search itself was answered; its reply stands
        return
    if is_empty:
        session.note(
            f"no file is stored below {place}: `vikingctl import ./docs viking://resources/docs` "
            "brings in a folder"
        )
