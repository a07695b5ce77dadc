"""The contexts of a Put request, read one by one, so that a wrong one affects no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vikingd.domain.contexts import MAX_COUNTER, Draft, Entry, Passage, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.ingest import draft_preparation
from vikingd.ingest.masks import fields_of
from vikingd.pb import contexts_pb2
from vikingd.wire.messages.decode import (
    check_any,
    expected_revision,
    given,
    json_object,
    microseconds,
    unit_vector,
)

_LINE, _CELL = 64, 4  # characters of prose that take as long as a line, and as a cell of a table


def put_size(request: contexts_pb2.PutRequest) -> int:
    """Estimate the work to prepare a Put, in characters of a text with few lines.

    A text of many short lines counts for more, because a parser takes far longer for it.
    """
    return sum(
        _text_size(context.content) + context.metadata.ByteSize() + len(context.passages)
        for context in request.contexts
    )


def _text_size(text: str) -> int:
    lines = text.count("\n") + text.count("\r") + 1
    cells = lines * text.count("|")  # at most: a row has all columns of its table, however short
    return len(text) + _LINE * lines + _CELL * cells


def check_vectors_given(contexts: Sequence[object]) -> None:
    """Raise InvalidField if a text has no vector, for a Put that waits for vectors.

    Called only when there is no embedder to make them.
    """
    whole = [context for context in contexts if isinstance(context, Prepared)]
    if any(text.text and not text.vector for context in whole for text in context.texts):
        raise InvalidField("wait_for_vectors", "there is no embedder to make the missing vectors")


class PutReader:
    """Reads the drafts of a batch; each is checked when `draft` is called for it.

    Args:
        request: the batch.
        dimension: the dimension of the store's vectors; None: that of the first vector in the
            batch. With `partial_success` it is that of each context's first vector, because a
            refused context must not decide for others.

    Raises:
        InvalidField: the batch is empty.
    """

    def __init__(self, request: contexts_pb2.PutRequest, dimension: int | None) -> None:
        check_any(request.contexts, "contexts")
        self._contexts = request.contexts
        self._is_partial = request.partial_success
        self._of_store = self._dimension = dimension
        self._seen: dict[str, int] = {}

    def draft(self, i: int) -> Draft:
        """Return the checked draft of context number `i`.

        Raises:
            InvalidField: a field of the context is invalid; the error names it.
        """
        if self._is_partial:
            self._dimension = self._of_store
        context = self._contexts[i]
        try:
            draft = _draft(context, self._unit)
        except InvalidField:
            self._seen.setdefault(context.uri, i)
            raise
        if (first := self._seen.setdefault(draft.uri, i)) != i:
            raise InvalidField("uri", f"{draft.uri} is contexts[{first}] already")
        return draft

    def _unit(self, raw: bytes, field: str) -> bytes:
        """Return a vector scaled to unit length, as bytes.

        The first vector sets the dimension of the others, if the store has none yet.
        """
        if not raw:
            return b""
        vector = unit_vector(raw, self._dimension, field)
        self._dimension = len(vector)
        return vector.astype("<f4", copy=False).tobytes()


def _draft(context: contexts_pb2.ContextInput, unit: Callable[[bytes, str], bytes]) -> Draft:
    draft = Draft(
        uri=context.uri,
        is_directory=context.is_directory,
        abstract=context.abstract,
        overview=context.overview,
        content=context.content,
        title=context.title,
        metadata=given(context, "metadata", json_object) or {},
        passages=[
            Passage(
                p.section,
                p.start,
                p.end,
                unit(p.vector, f"passages[{i}].vector"),
                _entry(p.memory, f"passages[{i}].memory") if p.HasField("memory") else None,
                p.continues,
            )
            for i, p in enumerate(context.passages)
        ]
        or None,
        vector=unit(context.vector, "vector"),
        time=given(context, "time", microseconds),
        update_mask=given(context, "update_mask", lambda mask, name: fields_of(mask.paths, name)),
        expected_revision=expected_revision(context),
    )
    return draft_preparation.check(draft)


def _entry(state: contexts_pb2.MemoryState, field: str) -> Entry:
    """Convert the state of a memory that a writer sets; the store will assign its id."""
    for name in ("reinforcement", "access_count"):
        if (value := getattr(state, name)) > MAX_COUNTER:
            raise InvalidField(f"{field}.{name}", f"is {value:,}, at most {MAX_COUNTER:,}")
    return Entry(
        0,
        state.reinforcement,
        state.access_count,
        given(state, "time", microseconds, f"{field}."),
        given(state, "create_time", microseconds, f"{field}."),
    )
