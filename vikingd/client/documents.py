"""A document as a user writes it, and its message for Put."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.field_mask_pb2 import FieldMask

from vikingd.client.argument_checks import checked, described, wrong_type
from vikingd.client.value_conversion import When, moment, struct, timestamp, vector_bytes
from vikingd.domain.contexts import Draft, Entry, Passage
from vikingd.pb import contexts_pb2

if TYPE_CHECKING:
    from vikingd.client.value_conversion import Vector

_WANTED = (
    'give Documents, such as Document("viking://resources/notes/tea.md", "Oolong: 90 degrees.")'
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file or directory of the tree as it is written: `client.put([Document(uri, "text")])`.

    Attributes:
        uri: the URI, such as "viking://resources/notes/tea.md".
        content: the whole text of a file (L2).
        title: the title, which is indexed with every passage; "": none.
        abstract: one or two sentences (L0); "": an extract of the content, or of what is below.
        overview: some paragraphs (L1); "": an extract.
        metadata: a JSON object for `where` filters.
        time: the time of the described event: a datetime, a date, ISO 8601 text, or microseconds
            since 1970; without a zone it is local time. None keeps the stored time; a new context
            gets the current time.
        is_directory: True for a directory, which has no content.
        vector: the embedding of the abstract: floats, an array of numpy, or little-endian float32
            bytes. Without it the daemon embeds the texts.
        passages: the passages of the content; None: the daemon cuts the content.
        update_mask: the names of the fields to write of an existing context, one or several. None
            writes all fields and creates the context if needed.
        expected_revision: write only if the context has this revision; 0: only if it does not
            exist; None: any revision.

    Raises:
        TypeError: an argument has a wrong type, or a name that a Document does not have.
        ValueError: the time or the URI cannot be used.
    """

    uri: str
    content: str = ""
    title: str = field(default="", kw_only=True)
    abstract: str = field(default="", kw_only=True)
    overview: str = field(default="", kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    time: When | None = field(default=None, kw_only=True)
    is_directory: bool = field(default=False, kw_only=True)
    vector: Vector = field(default=b"", kw_only=True)
    passages: Sequence[Passage] | None = field(default=None, kw_only=True)
    update_mask: str | Collection[str] | None = field(default=None, kw_only=True)
    expected_revision: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        moment(self.time)
        vector_bytes(self.vector)
        if not isinstance(self.metadata, Mapping):
            raise wrong_type("metadata", self.metadata, "a dict")
        if self.content and self.uri.endswith("/"):
            raise ValueError(
                f"uri is {self.uri!r}, a directory, and content belongs to a file: name the file, "
                f'such as "{self.uri}tea.md", or let add(text, at="{self.uri}") name it'
            )


if not TYPE_CHECKING:
    Document.__init__ = checked(Document.__init__, "Document")

Given: TypeAlias = Document | Draft | contexts_pb2.ContextInput | Mapping[str, Any]
"""The forms of a document in a call; a dict has the fields of Document."""

DOCUMENTS = (Document, Draft, contexts_pb2.ContextInput)


def document_of(given: Any, name: str) -> Document | Draft | contexts_pb2.ContextInput:
    """Return an argument of a call as a document; a dict of its fields is converted.

    Args:
        given: the document or the dict.
        name: its place in the call, such as "contexts[3]", for errors.

    Raises:
        TypeError: it is no document.
        ValueError: a field of the dict cannot be used.
    """
    if isinstance(given, DOCUMENTS):
        return given
    if isinstance(given, Mapping):
        if "uri" not in given:
            raise TypeError(f"{name} is a dict without 'uri'; {_WANTED}")
        try:
            return Document(**given)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    raise document_expected(name, given)


def document_expected(name: str, given: object) -> TypeError:
    """Return the error for a value that is no document."""
    if isinstance(given, (str, bytes)):
        return TypeError(
            f"{name} is {described(given)}, and a text needs a place in the tree: "
            f'add("the text", at="viking://resources/notes/"), or {_WANTED}'
        )
    return TypeError(f"{name} is {described(given)}; {_WANTED}")


def context_input(draft: Document | Draft | contexts_pb2.ContextInput) -> contexts_pb2.ContextInput:
    """Return a document as a message for Put.

    Raises:
        TypeError: a value of the metadata is not JSON.
        ValueError: no message can hold a value.
    """
    if isinstance(draft, contexts_pb2.ContextInput):
        return draft
    mask = draft.update_mask
    return contexts_pb2.ContextInput(
        uri=draft.uri,
        is_directory=draft.is_directory,
        abstract=draft.abstract,
        overview=draft.overview,
        content=draft.content,
        title=draft.title,
        metadata=struct(draft.metadata) if draft.metadata else None,
        passages=[
            contexts_pb2.Passage(
                section=p.section,
                start=p.start,
                end=p.end,
                vector=p.vector,
                continues=p.continues,
                memory=None if p.entry is None else _memory_state(p.entry),
            )
            for p in draft.passages or ()
        ],
        vector=vector_bytes(draft.vector),
        time=moment(draft.time),
        update_mask=(
            None
            if mask is None
            else FieldMask(paths=[mask] if isinstance(mask, str) else sorted(mask))
        ),
        expected_revision=draft.expected_revision,
    )


def _memory_state(entry: Entry) -> contexts_pb2.MemoryState:
    return contexts_pb2.MemoryState(
        reinforcement=entry.reinforcement,
        access_count=entry.access_count,
        time=None if entry.time is None else timestamp(entry.time),
        create_time=None if entry.created_at is None else timestamp(entry.created_at),
    )
