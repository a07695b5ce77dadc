"""Domain errors; vikingd.wire maps each to one gRPC status."""

from __future__ import annotations

MAX_TEXT = 1024
"""Characters of each text of an error, which may repeat a value of a request."""


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """At most so many characters of a text, with a word on how many there were."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


class VikingError(Exception):
    """Base of every error that a caller is told about.

    Attributes:
        reason: UPPER_SNAKE_CASE, stable, for programs.
        metadata: what the message names, for programs.
    """

    reason = "INTERNAL"

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(shortened(message))
        self.metadata = {name: shortened(value) for name, value in metadata.items()}


class InvalidField(VikingError):
    """A request field has a value that is not allowed; nothing was changed.

    Attributes:
        field: path of the field in the request, such as "contexts[3].uri".
    """

    reason = "INVALID_FIELD"

    def __init__(self, field: str, message: str) -> None:
        self.field = shortened(field)
        self.description = shortened(message)
        super().__init__(f"{self.field}: {self.description}", field=self.field)

    def below(self, prefix: str) -> InvalidField:
        """The same fault in a message that stands at `prefix` of a larger one."""
        return InvalidField(f"{prefix}.{self.field}" if self.field else prefix, self.description)


class NotFound(VikingError):
    """A URI that the request names does not exist."""

    reason = "NOT_FOUND"

    def __init__(self, uri: str, message: str = "") -> None:
        super().__init__(message or f"{uri} does not exist", uri=uri)


class AlreadyExists(VikingError):
    """A URI that must be new stands already."""

    reason = "ALREADY_EXISTS"

    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} exists already", uri=uri)


class RevisionNotReached(VikingError):
    """The minimum revision did not come within the deadline."""

    reason = "REVISION_NOT_REACHED"


class DeadlinePassed(VikingError):
    """The call's deadline passed before the work was done."""

    reason = "DEADLINE_PASSED"


class Overloaded(VikingError):
    """A queue is full; the call was not begun and may be repeated.

    Attributes:
        retry_after: seconds after which a repetition is likely to be taken.
    """

    reason = "OVERLOADED"

    def __init__(self, message: str, retry_after: float, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.retry_after = retry_after


class TooLarge(VikingError):
    """A call asks for more than others can wait for; nothing was changed.

    The message names the size and the limit. Its parts can be asked for.
    """

    reason = "TOO_LARGE"


class RevisionDiffers(VikingError):
    """A context has another revision than the caller expects; nothing was changed."""

    reason = "REVISION_DIFFERS"

    def __init__(self, uri: str, expected: int, found: int) -> None:
        super().__init__(
            f"{uri} has revision {found}, {expected} is expected; read it again and decide anew",
            uri=uri,
            expected_revision=str(expected),
            revision=str(found),
        )


class Stopping(VikingError):
    """The daemon is shutting down and takes no more work; ask again elsewhere or later."""

    reason = "STOPPING"


class EmbedderFailed(VikingError):
    """The embedding provider failed; the message says how."""

    reason = "EMBEDDER_FAILED"


class EmbedderRefused(EmbedderFailed):
    """The embedding provider refuses, by its key or its model: a repetition changes nothing."""

    reason = "EMBEDDER_REFUSED"


class EmbedderTimedOut(EmbedderFailed):
    """The embedding provider did not answer in the time that the call leaves it."""

    reason = "EMBEDDER_TIMED_OUT"


class StoreMismatch(VikingError):
    """The store on disk does not fit the configuration; the message says the way out."""

    reason = "STORE_MISMATCH"


class StoreInUse(VikingError):
    """Another daemon holds the store."""

    reason = "STORE_IN_USE"


class ReadOnly(VikingError):
    """This process only reads the store; the message says where the one is that writes it."""

    reason = "READ_ONLY"


class StoreFailed(VikingError):
    """The disk or the database refused a write; nothing of it was kept."""

    reason = "STORE_FAILED"


class DiskFull(StoreFailed):
    """The disk has no room for the write; nothing of it was kept."""

    reason = "DISK_FULL"


class StoreDamaged(VikingError):
    """The database is damaged, or older than it was; the message says how to restore it."""

    reason = "STORE_DAMAGED"


class Corrupt(VikingError):
    """Index and store disagree or a file is damaged."""

    reason = "CORRUPT"
