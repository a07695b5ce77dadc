"""The application of the gateway, with its table of routes."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from vikingd.client import AsyncClient
from vikingd.client.credentials import Credentials
from vikingd.client.messages import MessageClient
from vikingd.config import Settings, config_errors
from vikingd.domain.daemon_addresses import Address, parse
from vikingd.gateway import docs, http_address
from vikingd.gateway.browser_sign_in import SigningIn
from vikingd.gateway.callers import Callers
from vikingd.gateway.context_resources import PREFIX, Contexts
from vikingd.gateway.daemon_calls import Calls
from vikingd.gateway.file_uploads import PREFIX as FILES
from vikingd.gateway.file_uploads import Uploads
from vikingd.gateway.http_errors import JSON
from vikingd.gateway.mcp_endpoint import PATH, McpEndpoint
from vikingd.gateway.outer_middleware import OuterMiddleware
from vikingd.gateway.rest import BY_QUERY, Rest
from vikingd.gateway.rpcs import RPCS
from vikingd.gateway.upstream import Upstream

Handler = Callable[[Request], Awaitable[Response]]

PAGE = Path(__file__).parent / "page"
_LOADED = {".js", ".css", ".svg", ".txt"}


@asynccontextmanager
async def application(settings: Settings, listen: Address) -> AsyncIterator[ASGIApp]:
    """Yield the application, which is connected to the daemon.

    Args:
        settings: the settings of the gateway, and of the daemon that it calls.
        listen: the address at which the gateway listens, with its real port.

    Raises:
        ConfigError: the daemon's address, or a file of the credentials for it, cannot be used.
    """
    address = settings.gateway.daemon or str(http_address.plain(map(parse, settings.listen)))
    credentials = Credentials.found(key="", tenant="", trust_network=settings.trust_network)
    with config_errors("gateway.daemon"):
        upstream = Upstream(address, credentials)
        client = AsyncClient(address, **dataclasses.asdict(credentials))
        uploader = MessageClient(address, **dataclasses.asdict(credentials))
    # A certificate of the gateway may count as a key, which its callers do not have.
    needs_key = not listen.is_local or bool(settings.gateway.hosts or credentials.certificate)
    callers = Callers(needs_key=needs_key, cookie=f"vikingd-session-{listen.port}")
    calls = Calls(upstream, callers, settings.limits.max_message_bytes)
    models = McpEndpoint(client, callers, calls, read_only=settings.gateway.read_only)
    uploads = Uploads(calls, uploader)
    router = Router(_routes(upstream, callers, calls, models, uploads), redirect_slashes=False)
    try:
        async with models.running():
            yield OuterMiddleware(router, listen, settings.gateway.hosts, settings.gateway.origins)
    finally:
        uploads.close()
        uploader.close()
        await client.close()
        await upstream.close()


def _routes(
    upstream: Upstream, callers: Callers, calls: Calls, models: McpEndpoint, uploads: Uploads
) -> list[Route]:
    rest, contexts, signing_in = Rest(calls), Contexts(calls), SigningIn(calls, callers)

    async def show_health(_: Request) -> Response:
        if await upstream.is_serving():
            return Response('{"status":"SERVING"}', media_type=JSON)
        return Response('{"status":"NOT_SERVING"}', 503, media_type=JSON)

    routes = [
        *(_route(f"/v1/{name}", GET=rest.get, POST=rest.post) for name in BY_QUERY),
        _route("/v1/backup", POST=rest.backup),
        _route("/v1/openapi.json", GET=docs.openapi),
        _route("/v1/docs", GET=docs.page),
        *(_route(path, GET=docs.file) for path in docs.FILES),
        _route(
            f"{PREFIX}{{path:path}}", GET=contexts.get, PUT=contexts.put, DELETE=contexts.delete
        ),
        _route(f"{FILES}{{path:path}}", PUT=uploads.put),
        _route("/v1/formats", GET=uploads.formats),
        _route("/v1/demo", POST=uploads.demo),
        _route("/session", GET=signing_in.show, POST=signing_in.begin, DELETE=signing_in.end),
        _route("/healthz", GET=show_health),
        *(Route(path, models, methods=["POST"]) for path in (PATH, f"{PATH}/")),
        *(_route(f"/v1/{name}", POST=rest.post) for name in RPCS),
    ]
    # Files without secrets: the length of a compressed answer may tell what is in it.
    page = GZipMiddleware(StaticFiles(directory=PAGE, html=True))
    return routes + [Route(path, page, methods=["GET"]) for path in ("/", *_files_of_the_page())]


def _files_of_the_page() -> list[str]:
    """Return the paths of the browser page's files; any other path does not exist."""
    found = sorted(path for path in PAGE.rglob("*") if path.suffix in _LOADED)
    names = [path.relative_to(PAGE) for path in found]
    return [f"/{name.as_posix()}" for name in names if "node_modules" not in name.parts]


def _route(path: str, **handlers: Handler) -> Route:
    """Return the route of a path; `handlers` has a handler by HTTP method."""

    async def handle(request: Request) -> Response:
        # HEAD is a GET whose body the server leaves out.
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, handle, methods=list(handlers))
