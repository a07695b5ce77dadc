"""The requests of the service Contexts: one function for each RPC. The daemon checks the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vikingd.client.choices import Many, flat, many_of, one_of
from vikingd.client.documents import DOCUMENTS, Given, context_input, document_expected, document_of
from vikingd.domain.contexts import ContextType
from vikingd.domain.patterns import NodeKind
from vikingd.pb import contexts_pb2


def kinds_of(context_types: Many[ContextType]) -> list[contexts_pb2.ContextType.ValueType]:
    """Return types of contexts as a request has them."""
    return [
        contexts_pb2.ContextType.ValueType(kind)
        for kind in many_of(ContextType, context_types, "context_types")
    ]


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


def move(
    source: str, destination: str, *, expected_revision: int | None = None
) -> contexts_pb2.MoveRequest:
    """Move or rename a context with all below it.

    Args:
        source: the URI of the context.
        destination: the new URI.
        expected_revision: the revision that the source must have; None: any revision.
    """
    return contexts_pb2.MoveRequest(
        source_uri=source, destination_uri=destination, expected_revision=expected_revision
    )


def get(uri: str, *, min_revision: int = 0) -> contexts_pb2.GetRequest:
    """Read one whole context, with content, passages and relations."""
    return contexts_pb2.GetRequest(uri=uri, min_revision=min_revision)


def list_(uri: str = "", *, min_revision: int = 0) -> contexts_pb2.ListRequest:
    """List the direct children of a directory: files before directories, each by name."""
    return contexts_pb2.ListRequest(uri=uri, min_revision=min_revision)


def tree(uri: str = "", *, depth: int = 0, min_revision: int = 0) -> contexts_pb2.TreeRequest:
    """List a subtree by URI, the top first; `depth` levels below the top, 0: all."""
    return contexts_pb2.TreeRequest(uri=uri, depth=depth, min_revision=min_revision)


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
        kind=contexts_pb2.NodeKind.ValueType(0 if kind is None else one_of(NodeKind, kind, "kind")),
        page_size=page_size,
        min_revision=min_revision,
    )


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
        context_types=kinds_of(context_types),
        with_abstracts=with_abstracts,
        page_size=page_size,
        min_revision=min_revision,
    )


def link(uri: str, other: str, reason: str = "") -> contexts_pb2.LinkRequest:
    """Link two contexts; a second link of the same two replaces the reason."""
    return contexts_pb2.LinkRequest(uri=uri, other_uri=other, reason=reason)


def unlink(uri: str, other: str) -> contexts_pb2.UnlinkRequest:
    """Remove a link."""
    return contexts_pb2.UnlinkRequest(uri=uri, other_uri=other)
