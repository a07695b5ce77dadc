"""The contexts as HTTP resources: GET, PUT and DELETE /v1/contexts/{path}.

The path is a URI without viking://. The ETag of a context is its revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_to_bytes

import grpc
from starlette.requests import Request
from starlette.responses import Response

from vikingd.domain.uri import ROOT
from vikingd.gateway.daemon_calls import Calls
from vikingd.gateway.http_errors import JSON, CallFailed, Fault
from vikingd.gateway.rest import fields_of, media_type
from vikingd.gateway.rpcs import RPCS
from vikingd.gateway.url_parameters import Query
from vikingd.pb.contexts_pb2 import PUT_OUTCOME_CREATED

PREFIX = "/v1/contexts/"
TEXTS = ("text/markdown", "text/plain")

_GET, _PUT, _DELETE = RPCS["get"], RPCS["put"], RPCS["delete"]


class Contexts:
    """The handlers of /v1/contexts."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get(self, request: Request) -> Response:
        """Read a context."""
        with Query(request) as query:
            timeout, revision = query.timeout(), query.one("min_revision")
        fields = {"uri": uri_of(request), "min_revision": revision}
        reply = await self._calls.send(request, _GET, fields, timeout, "context")
        etag = f'"{reply.message.context.revision}"'
        tags = request.headers.get("if-none-match", "").split(",")
        if etag in (tag.strip().removeprefix("W/") for tag in tags):
            return Response(status_code=304, headers={"etag": etag})
        return Response(reply.json, headers={"etag": etag}, media_type=JSON)

    async def put(self, request: Request) -> Response:
        """Write a context, given as JSON or as the text of a file."""
        kind, uri, revision = media_type(request), uri_of(request), _expected(request)
        with Query(request) as query:
            timeout, waits = query.timeout(), query.flag("wait_for_vectors")
        if kind not in (JSON, *TEXTS):
            allowed = " or ".join((JSON, *TEXTS))
            raise Fault(415, f"the content-type must be {allowed}, not {kind or 'absent'}")

        def fields(body: bytes) -> Any:
            context = fields_of(body) if kind == JSON else {"content": _text(body)}
            return {"contexts": [_named(context, uri, revision)], "wait_for_vectors": waits}

        with _as_precondition(revision):
            reply = await self._calls.send_body(request, _PUT, fields, timeout)
        is_new = reply.message.outcomes[0] == PUT_OUTCOME_CREATED
        return Response(reply.json, 201 if is_new else 200, media_type=JSON)

    async def delete(self, request: Request) -> Response:
        """Remove a context with all below it."""
        revision = _expected(request)
        with Query(request) as query:
            timeout, may_miss = query.timeout(), query.flag("allow_missing")
        fields: dict[str, Any] = {"uris": [uri_of(request)], "allow_missing": may_miss}
        if revision is not None:
            fields["expected_revision"] = revision
        with _as_precondition(revision):
            reply = await self._calls.send(request, _DELETE, fields, timeout)
        return Response(reply.json, media_type=JSON)


@contextmanager
def _as_precondition(revision: str | None) -> Iterator[None]:
    """Within the block, turn the error for an unexpected revision into HTTP status 412.

    That status means that a header such as If-Match failed. `revision` is the one that the header
    expects; None: there is no such header.
    """
    try:
        yield
    except CallFailed as error:
        if revision is not None and error.code is grpc.StatusCode.ABORTED:
            error.http = 412
        raise


def uri_of(request: Request, prefix: str = PREFIX) -> str:
    """Return the URI in the path of a request.

    Its escapes are decoded here, because the server does not decode them strictly.
    """
    raw: bytes = request.scope["raw_path"]
    try:
        return ROOT + unquote_to_bytes(raw.removeprefix(prefix.encode())).decode()
    except UnicodeDecodeError:
        raise Fault(400, "is not valid UTF-8", field="path") from None


def _expected(request: Request) -> str | None:
    """Return the revision that the headers expect; "0": the context must not exist; None: any."""
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is not None and none is not None:
        raise Fault(400, "does not go with if-none-match", field="if-match")
    if none is not None:
        if none.strip() != "*":
            raise Fault(400, "must be *, which only a new context has", field="if-none-match")
        return "0"
    if match is None:
        return None
    found = re.fullmatch(r'\s*"([0-9]{1,20})"\s*', match)
    if found is None:
        raise Fault(400, "must be one ETag that GET has returned", field="if-match")
    return found[1]


def _named(context: Any, uri: str, revision: str | None) -> Any:
    """Return the fields of a context, with its URI and its expected revision added.

    Raises:
        Fault: the fields already have a URI, or an expected revision that a header gives, too.
    """
    if not isinstance(context, dict):
        return context  # json_form tells the fault
    given: dict[str, Any] = {"uri": uri}
    if revision is not None:
        given["expectedRevision"] = revision
    for name in ("uri", "expected_revision", "expectedRevision"):
        if name in context and (name == "uri" or revision is not None):
            raise Fault(400, "is told by the path or by a header already", field=name)
    return {**context, **given}


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Fault(400, f"is not valid UTF-8 at byte {error.start}", field="body") from None
