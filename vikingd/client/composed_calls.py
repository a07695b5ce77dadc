"""The methods of the clients that make several calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vikingd.client import document_writes, outlines
from vikingd.client.context_calls import AddResult, PutResult
from vikingd.client.document_writes import PutSummary
from vikingd.client.method_declarations import composed
from vikingd.client.outlines import MAX_FILES, SymbolsResult

if TYPE_CHECKING:
    from vikingd.client.document_writes import Progress
    from vikingd.client.documents import Given
    from vikingd.client.multi_call_steps import Steps
    from vikingd.client.value_conversion import Vector, When


@composed(AddResult)
def add(
    text: str,
    at: str,
    *,
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
    time: When | None = None,
    wait_for_vectors: bool = False,
) -> Steps[AddResult]:
    """Write one text; the result has its URI.

    Args:
        text: the text.
        at: the URI of the file, or of a directory with a slash at its end. In a directory the
            file is named by the first words of the title or the text, and by a hash of the
            text, so that the same text is written once. An existing file is replaced.
        title: the title; "": none.
        metadata: a JSON object for `where` filters.
        time: the time of the described event; None: now.
        wait_for_vectors: wait until the text is found by meaning too, not by its words alone.

    Raises:
        TypeError: an argument has a wrong type.
        ClientError: the daemon refuses the text.
    """
    return document_writes.add(text, at, title, metadata, time, wait_for_vectors)


@composed(PutSummary)
def put_many(documents: Iterable[Given], *, progress: Progress = False) -> Steps[PutSummary]:
    """Write any number of documents, in batches.

    The daemon writes each batch at once. A document that cannot be sent or is refused is in
    `failed` of the summary, and the others are written. After an error the earlier batches stay;
    a repetition of the call leaves them unchanged. AsyncClient reads `documents` and calls
    `progress` on the event loop.

    Args:
        documents: Documents, or dicts with their fields, each URI once.
        progress: True shows a bar on stderr; a function is called with the number of documents
            just finished.

    Raises:
        TypeError: something is no document.
        ClientError: the daemon cannot be reached, or refuses the calls.
    """
    document_writes.check_documents(documents)
    with document_writes.advancing(progress, documents) as advance:
        return (yield from document_writes.put_many(documents, PutSummary(), advance))


@composed(PutResult)
def update(
    uri: str,
    *,
    content: str | None = None,
    title: str | None = None,
    abstract: str | None = None,
    overview: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    time: When | None = None,
    vector: Vector | None = None,
    expected_revision: int | None = None,
) -> Steps[PutResult]:
    """Change the given fields of a context; the others stay.

    Args:
        uri: the URI of the context.
        content, title, abstract, overview: the new texts; "" removes one.
        metadata: the new metadata, which replaces the old one whole; {} removes it.
        time: the new time of the described event.
        vector: the new embedding of the abstract.
        expected_revision: the revision that the context must have; None: any revision.

    Raises:
        ValueError: no field is given.
        NotFound: there is no such context.
        RevisionDiffers: the context has another revision.
    """
    fields = {
        "content": content,
        "title": title,
        "abstract": abstract,
        "overview": overview,
        "metadata": metadata,
        "time": time,
        "vector": vector,
    }
    return document_writes.update(uri, expected_revision, fields)


@composed(bool)
def exists(uri: str) -> Steps[bool]:
    """Return True if there is a file or directory that the caller may read."""
    return document_writes.exists(uri)


@composed(SymbolsResult)
def symbols(uri: str, *, limit: int = 0, max_files: int = MAX_FILES) -> Steps[SymbolsResult]:
    """List the names in a file or in the files below a directory, with their lines.

    Of source code these are the definitions, of Markdown, reStructuredText and AsciiDoc the
    headings. The client reads the contents and finds the names. For source code it needs the extra
    `code`, which `server` includes.

    Args:
        uri: the URI of the file or the directory.
        limit: the most names; 0: all.
        max_files: the most files of a directory that are read; the result notes the others.

    Raises:
        NotFound: there is no such context.
        ClientError: the grammar of the language is not installed (GRAMMAR_NOT_INSTALLED). In a
            directory with other files the result has a note.
    """
    return outlines.symbols(uri, limit, max_files)
