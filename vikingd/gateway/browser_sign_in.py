"""The sign-in and sign-out of browsers: POST, GET and DELETE /session."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from vikingd.gateway import json_form
from vikingd.gateway.body_reading import Bodies
from vikingd.gateway.callers import Caller, Callers, value_of
from vikingd.gateway.daemon_calls import Calls, while_connected
from vikingd.gateway.http_errors import JSON, Fault
from vikingd.gateway.rest import check_json

_LARGEST = 4096  # bytes of a body


class SigningIn:
    """The handlers of /session."""

    def __init__(self, calls: Calls, callers: Callers) -> None:
        self._calls = calls
        self._callers = callers
        self._bodies = Bodies(_LARGEST)

    async def begin(self, request: Request) -> Response:
        """Check a key by a call to the daemon, and begin a session with it."""
        check_json(request)
        async with self._bodies.read(request, _nothing) as body:
            caller = _caller(json_form.read(body))
        await while_connected(request, self._calls.check(caller))
        sessions = self._callers.sessions
        sessions.end(self._callers.session(request.headers))
        name = sessions.begin(caller.key, caller.tenant)
        cookie = self._callers.set_cookie(name, secure=_is_secure(request))
        return _json({"signedIn": True, "tenant": caller.tenant}, cookie)

    async def show(self, request: Request) -> Response:
        """Return whether the browser is signed in, and whether the gateway needs a key."""
        caller = self._callers.sessions.caller(self._callers.session(request.headers))
        return _json(
            {
                "signedIn": caller is not None,
                "tenant": caller.tenant if caller else "",
                "keyNeeded": self._callers.needs_key,
            }
        )

    async def end(self, request: Request) -> Response:
        """End the session."""
        self._callers.sessions.end(self._callers.session(request.headers))
        return Response(status_code=204, headers=self._callers.remove_cookie())


async def _nothing() -> None:
    pass


def _caller(given: Any) -> Caller:
    """Return the key and the tenant in the body of a sign-in.

    Raises:
        Fault: the body is no object, has an unknown field, or has no key.
    """
    if not isinstance(given, dict):
        raise Fault(400, "must be an object", field="body")
    for name in given:
        if name not in ("key", "tenant"):
            raise Fault(400, "is not a field; the fields are key, tenant", field=name)
    key = value_of("key", given.get("key", ""))
    if not key:
        raise Fault(400, "is required", field="key")
    return Caller(key, value_of("tenant", given.get("tenant", "")))


def _is_secure(request: Request) -> bool:
    """Return True if the session's cookie may be limited to TLS (attribute Secure).

    It may not on a page over plain HTTP, except on loopback: the browser would drop it.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    return origin.scheme != "http" or origin.hostname in ("127.0.0.1", "::1", "localhost")


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value), headers=headers, media_type=JSON)
