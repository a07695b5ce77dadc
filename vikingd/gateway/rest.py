"""The RPCs over HTTP: POST /v1/{rpc} with JSON, and for some RPCs also GET."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vikingd.gateway import json_form
from vikingd.gateway.daemon_calls import Calls
from vikingd.gateway.http_errors import JSON, Fault
from vikingd.gateway.rpcs import RPCS
from vikingd.gateway.url_parameters import Query

BY_QUERY = ("find", "tree")
"""The RPCs that take their fields as parameters of a URL, too."""

ALIASES = {"q": "query", "target": "target_uri"}

_BACKUP = RPCS["backup"]


class Rest:
    """The handlers of the RPCs."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def post(self, request: Request) -> Response:
        """Call an RPC with the fields in the body."""
        rpc = RPCS[_name(request)]
        check_json(request)
        with Query(request) as query:
            timeout = query.timeout()
        reply = await self._calls.send_body(request, rpc, fields_of, timeout)
        return Response(reply.json, media_type=JSON)

    async def get(self, request: Request) -> Response:
        """Call an RPC with the fields in the URL parameters."""
        rpc = RPCS[_name(request)]
        with Query(request) as query:
            timeout = query.timeout()
            fields = query.fields(rpc.descriptor.input_type, ALIASES)
        reply = await self._calls.send(request, rpc, fields, timeout)
        return Response(reply.json, media_type=JSON)

    async def backup(self, request: Request) -> Response:
        """Send the bytes of a backup. If it fails midway, the response is shorter than declared."""
        check_json(request)
        with Query(request) as query:
            timeout = query.timeout(None)
        parts = self._calls.stream_body(request, _BACKUP, fields_of, timeout)
        first = await anext(parts)
        headers = {
            "content-length": str(first.size),
            "content-disposition": f'attachment; filename="vikingd-{first.revision}.backup"',
        }
        return StreamingResponse(
            _bytes(first, parts), headers=headers, media_type="application/octet-stream"
        )


def _name(request: Request) -> str:
    path: str = request.scope["path"]
    return path.rpartition("/")[2]


def check_json(request: Request) -> None:
    """Raise Fault unless the body is declared as JSON.

    A browser lets a page of another origin send some other types without a preflight request.
    """
    kind = media_type(request)
    if kind != JSON:
        raise Fault(415, f"the content-type must be {JSON}, not {kind or 'absent'}")


def media_type(request: Request) -> str:
    """Return the media type of the body, without parameters.

    Raises:
        Fault: the body is compressed, or not UTF-8.
    """
    check_uncompressed(request)
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip(' "')
    if charset not in ("", "utf-8", "utf8"):
        raise Fault(415, f"the charset must be utf-8, not {charset}")
    return kind.strip()


def check_uncompressed(request: Request) -> None:
    """Raise Fault if the body is compressed."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Fault(415, "a body must not be compressed")


def fields_of(body: bytes) -> Any:
    """Parse the fields in a JSON body; an empty body has none."""
    return json_form.read(body) if body.strip() else {}


async def _bytes(first: Any, parts: Any) -> Any:
    async with aclosing(parts):
        yield first.data
        async for part in parts:
            yield part.data
