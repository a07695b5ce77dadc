"""Domain errors; `vikingd.wire` maps each to one gRPC status."""

from __future__ import annotations

MAX_TEXT = 1024
"""Maximum characters of each text of an error; a text may quote a value of a request."""


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """Return a text, cut to `most` characters with its original length appended."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


class VikingError(Exception):
    """Base of every error that a caller sees.

    Attributes:
        reason: UPPER_SNAKE_CASE, stable, for programs.
        metadata: the values in the message, for programs.
    """

    reason = "INTERNAL"

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(shortened(message))
        self.metadata = {name: shortened(value) for name, value in metadata.items()}


class InvalidField(VikingError):
    """A request field has a value that is not allowed. Nothing was changed.

    Attributes:
        field: path of the field in the request, such as "contexts[3].uri".
    """

    reason = "INVALID_FIELD"

    def __init__(self, field: str, message: str) -> None:
        self.field = shortened(field)
        self.description = shortened(message)
        super().__init__(f"{self.field}: {self.description}", field=self.field)

    def below(self, prefix: str) -> InvalidField:
        """Return the error with its field prefixed by the path of the enclosing message."""
        return InvalidField(f"{prefix}.{self.field}" if self.field else prefix, self.description)


class NotFound(VikingError):
    """A URI that the request names does not exist."""

    reason = "NOT_FOUND"

    def __init__(self, uri: str, message: str = "") -> None:
        super().__init__(message or f"{uri} does not exist", uri=uri)


class AlreadyExists(VikingError):
    """A URI that must be new exists already."""

    reason = "ALREADY_EXISTS"

    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} exists already", uri=uri)


class RevisionNotReached(VikingError):
    """The minimum revision was not reached within the deadline."""

    reason = "REVISION_NOT_REACHED"


class DeadlinePassed(VikingError):
    """The call's deadline passed before the work was done."""

    reason = "DEADLINE_PASSED"


class Overloaded(VikingError):
    """A queue is full. The call was not started and may be repeated.

    Attributes:
        retry_after: seconds after which a retry is likely to be accepted.
    """

    reason = "OVERLOADED"

    def __init__(self, message: str, retry_after: float, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after = retry_after


class TooLarge(VikingError):
    """A call asks for more work than one call may. Nothing was changed.

    The message names the size and the limit. The caller can split the call.
    """

    reason = "TOO_LARGE"


class RevisionDiffers(VikingError):
    """A context has another revision than the caller expects. Nothing was changed."""

    reason = "REVISION_DIFFERS"

    def __init__(self, uri: str, expected: int, found: int) -> None:
        super().__init__(
            f"{uri} has revision {found}, {expected} is expected; read it again and decide again",
            uri=uri,
            expected_revision=str(expected),
            revision=str(found),
        )


class Stopping(VikingError):
    """The daemon is shutting down and accepts no more work; retry elsewhere or later."""

    reason = "STOPPING"


class EmbedderFailed(VikingError):
    """The embedding provider failed; the message says how."""

    reason = "EMBEDDER_FAILED"


class EmbedderRefused(EmbedderFailed):
    """The embedding provider refuses the key or the model; a retry does not help."""

    reason = "EMBEDDER_REFUSED"


class EmbedderTimedOut(EmbedderFailed):
    """The embedding provider did not answer within the deadline of the call."""

    reason = "EMBEDDER_TIMED_OUT"


class StoreMismatch(VikingError):
    """The store on disk does not fit the configuration; the message names the remedy."""

    reason = "STORE_MISMATCH"


class StoreInUse(VikingError):
    """Another daemon holds the store."""

    reason = "STORE_IN_USE"


class ReadOnly(VikingError):
    """This process only reads the store; the message names the address of the writer."""

    reason = "READ_ONLY"


class StoreFailed(VikingError):
    """The disk or the database refused a write. Nothing of it was kept."""

    reason = "STORE_FAILED"


class DiskFull(StoreFailed):
    """The disk has no space for the write. Nothing of it was kept."""

    reason = "DISK_FULL"


class StoreDamaged(VikingError):
    """The database is damaged, or older than before; the message says how to restore it."""

    reason = "STORE_DAMAGED"


class Corrupt(VikingError):
    """Index and store disagree, or a file is damaged."""

    reason = "CORRUPT"
