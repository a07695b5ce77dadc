"""Writes by simple arguments: add a text, put many documents, change some fields."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from vikingd.client.argument_checks import described
from vikingd.client.batch_results import BatchResult, Failure
from vikingd.client.client_errors import NotFound
from vikingd.client.context_calls import AddResult, PutResult
from vikingd.client.documents import DOCUMENTS, Document, Given, document_expected, document_of
from vikingd.client.multi_call_steps import Call, Steps
from vikingd.client.value_conversion import When
from vikingd.domain.store_changes import PutOutcome
from vikingd.domain.text import marks, without_invisible

if TYPE_CHECKING:
    from vikingd.pb.contexts_pb2 import ContextInput

Progress: TypeAlias = bool | Callable[[int], None]
"""True: show a bar on stderr. A function: call it with the number of documents just finished."""

_NAME_WORDS = 6
_NAME_LENGTH = 48  # characters of the words in a name
_HASH_LENGTH = 8


@dataclass(slots=True)
class PutSummary:
    """The result of a put_many.

    Attributes:
        created, updated, unchanged: the number of documents with this outcome.
        failed: the documents that were not written, each with the reason.
        revision: the first revision with all changes; 0 if nothing was written.
        seconds: the duration.
    """

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: list[Failure] = field(default_factory=list)
    revision: int = 0
    seconds: float = 0.0

    def count(self, sent: BatchResult) -> None:
        """Add the result of a batch to the numbers."""
        self.failed += sent.failed
        self.revision = max(self.revision, sent.revision)
        for _, outcome in sent.written:
            self.created += outcome == PutOutcome.CREATED
            self.updated += outcome == PutOutcome.UPDATED
            self.unchanged += outcome == PutOutcome.UNCHANGED


def place_of(text: str, at: str, title: str) -> str:
    """Return the URI for a text: `at`, or a name from its first words and its hash below `at`."""
    if not at.endswith("/"):
        return at
    said = without_invisible(title or text[:1000])
    words = re.findall(r"\w+" if said.isascii() else rf"[\w{marks()}]+", said)[:_NAME_WORDS]
    name = "-".join(words).lower()[:_NAME_LENGTH].strip("-_")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{at}{name}-{digest}.md" if name else f"{at}{digest}.md"


def add(
    text: str,
    at: str,
    title: str,
    metadata: Mapping[str, Any] | None,
    when: When | None,
    wait_for_vectors: bool,
) -> Steps[AddResult]:
    """Write one text; see Client.add."""
    uri = place_of(text, at, title)
    document = Document(uri, text, title=title, metadata=metadata or {}, time=when)
    reply = yield Call("put", ([document],), {"wait_for_vectors": wait_for_vectors})
    return AddResult(uri, reply.outcomes[0], reply.revision)


def update(uri: str, expected_revision: int | None, fields: Mapping[str, Any]) -> Steps[PutResult]:
    """Change the fields that are not None; see Client.update."""
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise ValueError(
            f'update() has no field to write; give one, such as update("{uri}", title="Tea"): '
            f"{', '.join(fields)}"
        )
    document = Document(uri, update_mask=list(given), expected_revision=expected_revision, **given)
    reply: PutResult = yield Call("put", ([document],))
    return reply


def exists(uri: str) -> Steps[bool]:
    """Return True if there is a context; see Client.exists."""
    try:
        yield Call("get", (uri,))
    except NotFound:
        return False
    return True


def put_many(
    documents: Iterable[Given], summary: PutSummary, advance: Callable[[int], None]
) -> Steps[PutSummary]:
    """Write documents in batches; see Client.put_many."""
    from vikingd.client.batches import batches, put_in_parts  # they load the checks of imports

    started = time.monotonic()
    for batch in batches(_messages(documents, summary, advance)):
        sent = yield from put_in_parts(batch)
        if sent.error is not None:
            raise sent.error
        summary.count(sent)
        advance(len(sent.written) + len(sent.failed))
    summary.seconds = time.monotonic() - started
    return summary


def _messages(
    documents: Iterable[Given], summary: PutSummary, advance: Callable[[int], None]
) -> Iterator[ContextInput]:
    """Yield the messages of documents.

    One that cannot be sent, or is given twice, is counted as failed.
    """
    from vikingd.client.batches import encoded

    failed = summary.failed
    seen: set[str] = set()
    for i, given in enumerate(documents):
        name = f"documents[{i}]"
        message = None
        try:
            document = document_of(given, name)
        except ValueError as error:
            assert isinstance(given, Mapping)  # the other forms are documents already
            failed.append(Failure(given["uri"], str(error)))
        else:
            if document.uri in seen:
                failed.append(Failure(document.uri, f"{name} has the URI of an earlier one"))
            else:
                message = encoded(document, failed)
        if message is None:
            advance(1)
        else:
            seen.add(message.uri)
            yield message


def check_documents(documents: Any) -> None:
    """Raise an error for a value that is clearly no collection of documents.

    Raises:
        TypeError: it is one document, a text, or no iterable.
    """
    if isinstance(documents, (*DOCUMENTS, Mapping)):
        raise TypeError(
            f"documents is one {type(documents).__name__}; give several, such as "
            "put_many([document]), or put one with put(document)"
        )
    if isinstance(documents, (str, bytes)) or not isinstance(documents, Iterable):
        raise document_expected("documents", documents)


@contextmanager
def advancing(progress: Progress, documents: object) -> Iterator[Callable[[int], None]]:
    """Yield the function to call with the number of documents just finished.

    True for `progress` shows a bar, False shows nothing, and a function is yielded itself.

    Raises:
        TypeError: `progress` is no bool and no function.
    """
    if callable(progress):
        yield progress
    elif progress is False or progress is None:
        yield lambda _: None
    elif progress is True:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = TextColumn("documents"), BarColumn(), MofNCompleteColumn()
        total = len(documents) if isinstance(documents, Sized) else None
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=total)
            yield lambda count: bar.advance(task, count)
    else:
        raise TypeError(
            f"progress is {described(progress)}; give True for a bar on stderr, or a function that "
            "is called with the number of documents just finished"
        )
