"""The requests and replies of Glob and Grep, to and from the domain."""

from __future__ import annotations

import base64
import re

from vikingd.browse.line_search import GrepPage
from vikingd.browse.path_search import GlobPage
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.pattern_queries import START, GlobQuery, GrepQuery, NodeKind, Position
from vikingd.pb import contexts_pb2
from vikingd.wire.messages import decode
from vikingd.wire.messages.common_messages import fields_of

_POSITION = re.compile(r"([023]):(0|[1-9]\d{0,9}):(viking://.*)", re.DOTALL)


def glob_query(request: contexts_pb2.GlobRequest) -> GlobQuery:
    """Convert a Glob request."""
    _check_given(request.pattern, "pattern")
    target = decode.target_uri(request.target_uri, "target_uri")
    limit, after = decode.page(request.page_size, request.page_token, target)
    kind = request.kind and decode.member(request.kind, NodeKind.FILE, "kind", "a kind of nodes")
    return GlobQuery(request.pattern, target, kind or None, after.partition(":")[2], limit)


def glob_response(page: GlobPage) -> contexts_pb2.GlobResponse:
    """Convert a page of a Glob to a message."""
    return contexts_pb2.GlobResponse(
        entries=[contexts_pb2.GlobEntry(**fields_of(entry)) for entry in page.entries],
        next_page_token=_token(f"f:{page.last}") if page.last else "",
    )


def grep_query(request: contexts_pb2.GrepRequest) -> GrepQuery:
    """Convert a Grep request."""
    _check_given(request.pattern, "pattern")
    target = decode.target_uri(request.target_uri, "target_uri")
    decode.check_most(request.page_size, decode.MAX_PAGE, "page_size")
    return GrepQuery(
        pattern=request.pattern,
        target_uri=target,
        case_insensitive=request.case_insensitive,
        literal=request.literal,
        glob=request.glob,
        context_types=decode.context_types(request.context_types),
        with_abstracts=request.with_abstracts,
        after=_position(request.page_token, target) if request.page_token else START,
        limit=request.page_size or decode.DEFAULT_PAGE,
    )


def grep_response(page: GrepPage) -> contexts_pb2.GrepResponse:
    """Convert a page of a Grep to a message."""
    last = page.last
    return contexts_pb2.GrepResponse(
        matches=[contexts_pb2.GrepMatch(**fields_of(match)) for match in page.matches],
        next_page_token=_token(f"{last.level}:{last.line}:{last.uri}") if last else "",
        searched_files=page.files,
        searched_bytes=page.bytes,
        revision=page.revision,
    )


def _check_given(pattern: str, field: str) -> None:
    if not pattern:
        raise InvalidField(field, "is empty; a pattern is needed")


def _token(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode()


def _position(token: str, target: str) -> Position:
    try:
        found = _POSITION.fullmatch(base64.urlsafe_b64decode(token).decode())
    except ValueError:  # of base64 and of UTF-8
        found = None
    if found is None or not uris.is_within(found[3], target):
        raise InvalidField("page_token", "is not one that an earlier page of this search gave")
    return Position(found[3], int(found[1]), int(found[2]))
