"""The methods of the service Contexts, and their results.

Each function builds a request. The daemon checks the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vikingd.client.documents import DOCUMENTS, Given, context_input, document_expected, document_of
from vikingd.client.method_declarations import RetryCondition, method, pages
from vikingd.client.value_conversion import Many, flat, many_of, one_of
from vikingd.domain.contexts import ContextType, Relation
from vikingd.domain.pattern_queries import GlobEntry, GrepMatch, NodeKind
from vikingd.domain.store_changes import PutOutcome, PutRefusal
from vikingd.pb import contexts_pb2


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The state of one memory; `time` is the time when it was last said."""

    id: int
    reinforcement: int
    access_count: int
    time: datetime | None
    create_time: datetime | None


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage of a context: code points [start, end) of its content.

    Only a passage of a memory file has `memory`. One that `continues` belongs to the memory of the
    passage before it.
    """

    section: str
    start: int
    end: int
    memory: MemoryState | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """A node of the tree; only `get` returns overview, content, passages, relations and makers.

    Attributes:
        uri: the URI of the context.
        context_type: the type, by the root of the URI.
        is_directory: True for a directory.
        abstract: L0, one or two sentences.
        overview: L1, some paragraphs.
        content: L2, the whole text of a file.
        title: the title as written.
        metadata: the metadata as written; whole numbers are ints.
        passages: the passages of the content, without vectors.
        time: the time of the event that the context describes.
        create_time: the time of the first write.
        update_time: the time of the last write that changed a field.
        reinforcement: the sum of the reinforcement counters of its memories.
        access_count: the sum of the access counters of its memories.
        content_hash: SHA-256 over the written fields; a put with an equal hash changes nothing.
        revision: the revision that last wrote, moved or re-embedded the context.
        relations: the links of the context.
        abstract_by: the maker of the abstract: "hand", "extract" or the name of a model.
        overview_by: the maker of the overview.
    """

    uri: str
    context_type: ContextType
    is_directory: bool
    abstract: str
    overview: str
    content: str
    title: str
    metadata: dict[str, Any]
    passages: tuple[ContextPassage, ...]
    time: datetime | None
    create_time: datetime | None
    update_time: datetime | None
    reinforcement: int
    access_count: int
    content_hash: bytes
    revision: int
    relations: tuple[Relation, ...]
    abstract_by: str
    overview_by: str


@dataclass(frozen=True, slots=True)
class PutResult:
    """The outcome for each context of a put, in order; they are visible from `revision` on.

    With `partial_success`, `refusals` has the reason of each refused context.
    """

    revision: int
    outcomes: tuple[PutOutcome, ...]
    refusals: tuple[PutRefusal, ...]


@dataclass(frozen=True, slots=True)
class AddResult:
    """The outcome of an add, and the URI of the document; it is visible from `revision` on."""

    uri: str
    outcome: PutOutcome
    revision: int


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The number of removed directories and files; they are gone from `revision` on."""

    revision: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The number of moved directories and files; the new URIs hold from `revision` on."""

    revision: int
    moved: int


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The first revision with the new link, or without the removed one."""

    revision: int


# The first attempt changes the revision, so a repetition would not find the expected one.
@method(
    contexts_pb2.PutResponse,
    PutResult,
    retried=RetryCondition(
        "without an expected_revision",
        lambda request: not any(c.HasField("expected_revision") for c in request.contexts),
    ),
)
def put(
    contexts: Given | Iterable[Given],
    *,
    wait_for_vectors: bool = False,
    partial_success: bool = False,
) -> contexts_pb2.PutRequest:
    """Write new or existing contexts, or some of their fields. A call writes all or nothing.

    Args:
        contexts: 1 to 1,000 Documents, or dicts with their fields, each URI once; one may be given
            alone. A text needs a URI, so a str is refused: `add` takes texts. `update_mask` names
            the fields to write, and `expected_revision` is the revision that the context must have.
        wait_for_vectors: wait until the contexts are found by meaning too, not by text alone.
        partial_success: write all contexts that can be written; the result names the others, each
            with the reason.
    """
    one = isinstance(contexts, (str, bytes, Mapping, *DOCUMENTS))
    several: Iterable[Any] = [contexts] if one else contexts  # type: ignore[assignment]
    if not isinstance(several, Iterable):
        raise document_expected("contexts", several)
    return contexts_pb2.PutRequest(
        contexts=[
            context_input(document_of(given, "contexts" if one else f"contexts[{i}]"))
            for i, given in enumerate(several)
        ],
        wait_for_vectors=wait_for_vectors,
        partial_success=partial_success,
    )


@method(
    contexts_pb2.DeleteResponse,
    DeleteResult,
    retried=RetryCondition("with allow_missing", lambda request: bool(request.allow_missing)),
)
def delete(
    *uris: str | Iterable[str], allow_missing: bool = False, expected_revision: int | None = None
) -> contexts_pb2.DeleteRequest:
    """Remove contexts with all below them.

    Args:
        uris: the URIs of the contexts, one by one or as a list.
        allow_missing: a missing URI is no error.
        expected_revision: the revision that a single context must have; None: any revision.
    """
    return contexts_pb2.DeleteRequest(
        uris=flat(uris, str, "uris", 'URIs, such as "viking://resources/notes/tea.md"'),
        allow_missing=allow_missing,
        expected_revision=expected_revision,
    )


# A repetition would be NOT_FOUND.
@method(contexts_pb2.MoveResponse, MoveResult, retried=False)
def move(
    source: str, destination: str, *, expected_revision: int | None = None
) -> contexts_pb2.MoveRequest:
    """Move or rename a context with all below it.

    The root decides the type: a resource that is moved below memories becomes a memory.

    Args:
        source: the URI of the context.
        destination: the new URI.
        expected_revision: the revision that the source must have; None: any revision.
    """
    return contexts_pb2.MoveRequest(
        source_uri=source, destination_uri=destination, expected_revision=expected_revision
    )


@method(contexts_pb2.GetResponse, Context, part="context", retried=True)
def get(uri: str, *, min_revision: int = 0) -> contexts_pb2.GetRequest:
    """Read one whole context, with content, passages and relations."""
    return contexts_pb2.GetRequest(uri=uri, min_revision=min_revision)


@pages(contexts_pb2.Context, Context, "contexts")
def list_(uri: str = "", *, min_revision: int = 0) -> contexts_pb2.ListRequest:
    """List the direct children of a directory: files before directories, each by name."""
    return contexts_pb2.ListRequest(uri=uri, min_revision=min_revision)


@pages(contexts_pb2.Context, Context, "contexts")
def tree(uri: str = "", *, depth: int = 0, min_revision: int = 0) -> contexts_pb2.TreeRequest:
    """List a subtree by URI, the top first; `depth` levels below the top, 0: all."""
    return contexts_pb2.TreeRequest(uri=uri, depth=depth, min_revision=min_revision)


@pages(contexts_pb2.GlobEntry, GlobEntry, "entries")
def glob(
    pattern: str,
    target_uri: str = "",
    *,
    kind: NodeKind | str | None = None,
    page_size: int = 0,
    min_revision: int = 0,
) -> contexts_pb2.GlobRequest:
    """Find contexts by a pattern over their paths, and yield them by URI.

    Args:
        pattern: the pattern for the path below `target_uri`, such as "**/*.md": `*`, `?`, `[a-z]`,
            `[!a-z]`, and `**` for any number of directories.
        target_uri: the directory; "": the whole tree.
        kind: yield this kind of nodes only; None: files and directories.
        page_size: entries that one call asks for; 0: the daemon's default.
        min_revision: answer from this revision or a later one.
    """
    return contexts_pb2.GlobRequest(
        pattern=pattern,
        target_uri=target_uri,
        kind=contexts_pb2.NODE_KIND_UNSPECIFIED if kind is None else one_of(NodeKind, kind, "kind"),
        page_size=page_size,
        min_revision=min_revision,
    )


@pages(contexts_pb2.GrepMatch, GrepMatch, "matches")
def grep(
    pattern: str,
    target_uri: str = "",
    *,
    case_insensitive: bool = False,
    literal: bool = False,
    glob: str = "",
    context_types: Many[ContextType] = (),
    with_abstracts: bool = False,
    page_size: int = 0,
    min_revision: int = 0,
) -> contexts_pb2.GrepRequest:
    """Find the lines that match a regular expression, and yield them by URI and line.

    Args:
        pattern: a regular expression in the syntax of RE2, without lookaround and backreferences.
        target_uri: search this file, or the files below this directory; "": the whole tree.
        case_insensitive: ignore the case of letters.
        literal: the pattern is a text.
        glob: search only files whose path matches, as in `glob`; a pattern without a slash is for
            the name alone, such as "*.md". "": all files.
        context_types: search these types only; empty: all types.
        with_abstracts: search the abstracts of files and directories too.
        page_size: matches that one call asks for; 0: the daemon's default.
        min_revision: answer from this revision or a later one.
    """
    return contexts_pb2.GrepRequest(
        pattern=pattern,
        target_uri=target_uri,
        case_insensitive=case_insensitive,
        literal=literal,
        glob=glob,
        context_types=many_of(ContextType, context_types, "context_types"),
        with_abstracts=with_abstracts,
        page_size=page_size,
        min_revision=min_revision,
    )


@method(contexts_pb2.LinkResponse, LinkResult, retried=True)
def link(uri: str, other: str, reason: str = "") -> contexts_pb2.LinkRequest:
    """Link two contexts; a second link of the same two replaces the reason."""
    return contexts_pb2.LinkRequest(uri=uri, other_uri=other, reason=reason)


# A repetition would be NOT_FOUND.
@method(contexts_pb2.UnlinkResponse, LinkResult, retried=False)
def unlink(uri: str, other: str) -> contexts_pb2.UnlinkRequest:
    """Remove a link."""
    return contexts_pb2.UnlinkRequest(uri=uri, other_uri=other)
