"""GET /healthz: whether the daemon serves, and no more."""

from __future__ import annotations

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from starlette.requests import Request
from starlette.responses import Response

from vikingd.gateway.errors import JSON, CallFailed
from vikingd.gateway.upstream import Upstream

_CHECK = "/grpc.health.v1.Health/Check"
_TIMEOUT = 5.0  # seconds


class Health:
    """The handler of /healthz."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def show(self, _: Request) -> Response:
        """Return 200 if the daemon serves, else 503."""
        request = HealthCheckRequest().SerializeToString()
        try:
            reply = await self._upstream.call(_CHECK, request, (), _TIMEOUT)
        except CallFailed:
            return _response(serves=False)
        status = HealthCheckResponse.FromString(reply).status
        return _response(serves=status == HealthCheckResponse.SERVING)


def _response(*, serves: bool) -> Response:
    if serves:
        return Response('{"status":"SERVING"}', media_type=JSON)
    return Response('{"status":"NOT_SERVING"}', 503, media_type=JSON)
