"""The outermost middleware of the gateway: it checks Host and Origin, and sends errors as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vikingd.domain.daemon_addresses import Address
from vikingd.gateway.http_errors import Fault, HttpError

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_CORS = {
    "access-control-allow-headers": "authorization, content-type, if-match, if-none-match, "
    "mcp-protocol-version, vikingd-tenant",
    "access-control-allow-methods": "DELETE, GET, POST, PUT",
    "access-control-max-age": "600",
}
_EXPOSED = "etag, retry-after"

_log = structlog.stdlib.get_logger("vikingd.gateway")


class OuterMiddleware:
    """The middleware around the whole application.

    A foreign Host is refused, which stops DNS rebinding. A foreign Origin is refused, so that other
    web sites cannot send requests in the name of a user.

    Args:
        app: the application that requests are passed on to.
        listen: the address of the gateway.
        hosts: further host names of the gateway.
        origins: other origins whose pages may send requests.
    """

    def __init__(
        self, app: ASGIApp, listen: Address, hosts: Iterable[str], origins: Iterable[str]
    ) -> None:
        self._app = app
        self._is_everywhere = listen.ip is not None and listen.ip.is_unspecified
        self._hosts = frozenset((listen.host, *hosts))
        self._origins = frozenset(origins)
        self._has_tls = listen.tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False
        cors: dict[str, str] = {}

        async def sent(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                _add(MutableHeaders(scope=message), cors)
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            cors = self._check_origin(headers)
            if cors and scope["method"] == "OPTIONS":
                await Response(status_code=204, headers={**cors, **_CORS})(scope, receive, sent)
                return
            scope["app"] = self  # then the router raises HTTPException
            await self._app(scope, receive, sent)
        except ClientDisconnect:
            pass
        except Exception as error:
            failure = _failure(error)
            _tell(scope, failure, error)
            if began:
                raise  # the server ends the connection
            await failure.response()(scope, receive, sent)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        name = _name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (name in self._hosts or self._is_own(name)):
            raise Fault(421, "the name in `host` is not one of this gateway: see gateway.hosts")

    def _is_own(self, name: str) -> bool:
        """Return True for a loopback name or address.

        If the gateway listens on all addresses, any IP address counts, too: DNS rebinding needs a
        name.
        """
        address = Address(name.strip("[]"))
        # Only names can be rebound.
        return address.is_local or (self._is_everywhere and address.ip is not None)

    def _check_origin(self, headers: Headers) -> dict[str, str]:
        """Return the response headers that let the page of another allowed origin read the reply.

        They are {} for all other callers.

        Raises:
            Fault: the page of this origin may not send requests.
        """
        origin = headers.get("origin")
        if origin is None:
            if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
                return {}
            if headers.get("sec-fetch-mode") == "navigate":
                return {}
            raise Fault(403, "a page of another origin may not call this gateway")
        if origin.lower() in self._origins:
            return {
                "access-control-allow-origin": origin,
                "access-control-expose-headers": _EXPOSED,
                "vary": "origin",
            }
        scheme, _, host = origin.lower().partition("://")
        if scheme not in (("https",) if self._has_tls else ("http", "https")) or (
            host != headers["host"].lower()
        ):
            raise Fault(403, "a page of another origin may not call: see gateway.origins")
        return {}


def _failure(error: Exception) -> HttpError:
    """Return the error to send to the caller; internal details are left out."""
    if isinstance(error, HttpError):
        return error
    if not isinstance(error, HTTPException):
        return Fault(500, "internal error, see the log of the gateway")
    if error.status_code == 405 and error.headers:  # a 405 of the static files has no headers
        return Fault(405, "the path does not take this method", headers=dict(error.headers))
    return Fault(404, "there is no such path: see /v1/openapi.json")


def _tell(scope: Scope, failure: HttpError, error: Exception) -> None:
    """Log a failure without the URL parameters and headers of the request: they may have keys."""
    about = {"method": scope["method"], "path": scope["path"], "status": failure.http}
    if failure.http == 500 and not isinstance(error, HttpError):
        _log.error("request failed", **about, exc_info=error)
    elif failure.http >= 500:
        _log.warning("request failed", **about, reason=str(failure))
    elif failure.http in (401, 403, 421):
        client = (scope.get("client") or ("",))[0]
        _log.info("request refused", **about, client=client, reason=str(failure))


def _name(host: str) -> str | None:
    """Return the host name in a Host header, without its port; None if it is malformed."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", host.lower())
    return found[1] if found else None


def _add(headers: MutableHeaders, more: dict[str, str]) -> None:
    headers.update({**_HEADERS, **more})
    if "cache-control" not in headers:
        headers["cache-control"] = "no-store"
    if more:
        headers["cross-origin-resource-policy"] = "cross-origin"
