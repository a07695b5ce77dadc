"""Domain errors; `vikingd.wire` maps each to one gRPC status."""

from __future__ import annotations

MAX_TEXT = 1024
"""Maximum characters of each text of an error; a text may quote a value of a request."""


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """Return a text; a text longer than `most` characters is cut, with its length appended."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


class VikingError(Exception):
    """Base of every error that a caller sees.

    Attributes:
        reason: UPPER_SNAKE_CASE, stable, for programs.
        metadata: the values in the message, for programs.
    """

    reason = "INTERNAL"

    def __init_subclass__(cls, reason: str = "") -> None:
        if reason:  # without one, that of the base holds
            cls.reason = reason

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(shortened(message))
        self.metadata = {name: shortened(value) for name, value in metadata.items()}


class InvalidField(VikingError, reason="INVALID_FIELD"):
    """A request field has a value that is not allowed. Nothing was changed.

    Attributes:
        field: path of the field in the request, such as "contexts[3].uri".
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = shortened(field)
        self.description = shortened(message)
        super().__init__(f"{self.field}: {self.description}", field=self.field)

    def below(self, prefix: str) -> InvalidField:
        """Return the error with its field prefixed by the path of the enclosing message."""
        return InvalidField(f"{prefix}.{self.field}" if self.field else prefix, self.description)


class NotFound(VikingError, reason="NOT_FOUND"):
    """A URI that the request names does not exist."""

    def __init__(self, uri: str, message: str = "") -> None:
        super().__init__(message or f"{uri} does not exist", uri=uri)


class NotReadable(NotFound):
    """The caller may not read the URI. To the caller it looks like the error for a missing URI."""


class AlreadyExists(VikingError, reason="ALREADY_EXISTS"):
    """A URI that must be new exists already."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} exists already", uri=uri)


class Unauthenticated(VikingError, reason="UNAUTHENTICATED"):
    """The call has no valid key. The message does not tell which keys exist.

    If the metadata names a key, the call had its right secret, but the key is expired, revoked, or
    of another tenant.
    """


class PermissionDenied(VikingError, reason="PERMISSION_DENIED"):
    """The key lacks the right for this call; the error depends on the request, never on data."""


class QuotaExceeded(VikingError, reason="QUOTA_EXCEEDED"):
    """A limit of a key or a tenant is reached. Nothing was changed.

    Attributes:
        retry_after: seconds after which the call is likely to be accepted; None: waiting does not
            help.
    """

    def __init__(self, message: str, retry_after: float | None, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after = retry_after


class RevisionNotReached(VikingError, reason="REVISION_NOT_REACHED"):
    """The index did not reach the minimum revision of the request within its deadline."""


class HistoryLost(VikingError, reason="HISTORY_LOST"):
    """The store was set back: it lacks a revision that the caller's session has seen.

    Args:
        seen: the missing revision.
        newest: the newest revision of the store.
        point: the new point for the session, as in the metadata `vikingd-point`; see
            `vikingd.wire.sessions`.
    """

    def __init__(self, seen: int, newest: int, point: str) -> None:
        super().__init__(
            f"the store went back: revision {seen}, which this caller has seen, is lost, and the "
            f"newest revision is {newest}; read again, and repeat the writes that are missing",
            revision=str(seen),
            newest=str(newest),
            point=point,
        )


class DeadlinePassed(VikingError, reason="DEADLINE_PASSED"):
    """The call's deadline passed before the work was done."""


class Overloaded(VikingError, reason="OVERLOADED"):
    """A queue is full. The call was not started and may be repeated.

    Attributes:
        retry_after: seconds after which a retry is likely to be accepted.
    """

    def __init__(self, message: str, retry_after: float, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after = retry_after


class TooLarge(VikingError, reason="TOO_LARGE"):
    """A call asks for more work than one call may do. Nothing was changed.

    The message names the size and the limit. The caller can split the call.
    """


class RevisionDiffers(VikingError, reason="REVISION_DIFFERS"):
    """A context does not have the revision that the caller expects. Nothing was changed."""

    def __init__(self, uri: str, expected: int, found: int) -> None:
        super().__init__(
            f"{uri} has revision {found}, {expected} is expected; read it again and decide again",
            uri=uri,
            expected_revision=str(expected),
            revision=str(found),
        )


class Stopping(VikingError, reason="STOPPING"):
    """The daemon is shutting down and accepts no more work; retry elsewhere or later."""


class EmbedderFailed(VikingError, reason="EMBEDDER_FAILED"):
    """The embedding provider failed; the message says how.

    Args:
        brief: the message without the provider's own words.
        said: the provider's words. They may quote the texts of the call, so only its caller and the
            operator may see them.
    """

    def __init__(self, brief: str, said: str = "", **metadata: str) -> None:
        super().__init__(f"{brief}: {said}" if said else brief, **metadata)
        self.brief = brief


class EmbedderRefused(EmbedderFailed, reason="EMBEDDER_REFUSED"):
    """The embedding provider refuses the key or the model; a retry does not help."""


class EmbedderTimedOut(EmbedderFailed, reason="EMBEDDER_TIMED_OUT"):
    """The embedding provider did not answer within the deadline of the call."""


class StoreMismatch(VikingError, reason="STORE_MISMATCH"):
    """The store on disk does not fit the configuration; the message names the remedy."""


class StoreInUse(VikingError, reason="STORE_IN_USE"):
    """Another process has the store open."""


class ReadOnly(VikingError, reason="READ_ONLY"):
    """This process only reads the store; the message names the address of the writer."""


class StoreFailed(VikingError, reason="STORE_FAILED"):
    """The disk or the database refused a write. Nothing was written."""


class StoreAway(VikingError, reason="STORE_AWAY"):
    """A node cannot use the database that the nodes share now; the call may be repeated.

    The database cannot be reached, the outcome of a commit is unknown, or the node builds its index
    again because an older copy has replaced the database.

    Attributes:
        retry_after: seconds after which the call may be repeated.
    """

    def __init__(self, message: str, retry_after: float = 1.0, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after = retry_after


class DiskFull(StoreFailed, reason="DISK_FULL"):
    """The disk has no space for a write. Nothing was written."""


class StoreDamaged(VikingError, reason="STORE_DAMAGED"):
    """The database is damaged, or older than before; the message says how to restore it."""


class Corrupt(VikingError, reason="CORRUPT"):
    """Index and store disagree, or a file is damaged."""
