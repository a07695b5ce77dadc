"""The results of Put in batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from vikingd.client.client_errors import ClientError


@dataclass(frozen=True, slots=True)
class Failure:
    """A context that failed, and the reason."""

    uri: str
    reason: str


@dataclass(slots=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        written: (URI, outcome) of each written context; the outcome is a number of PutOutcome.
        revision: the first revision with all of them.
        failed: the contexts that were not written.
        error: the first failure that is not due to a context, such as that of the connection.
    """

    written: list[tuple[str, int]] = field(default_factory=list)
    revision: int = 0
    failed: list[Failure] = field(default_factory=list)
    error: ClientError | None = None
