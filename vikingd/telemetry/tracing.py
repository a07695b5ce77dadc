"""OpenTelemetry spans: one for each call, with its stages below.

It is imported only if `tracing` is set, because it needs the extra `otel`. The standard OTEL_*
variables configure the export.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib.metadata import entry_points
from os import environ
from typing import Any

import grpc
from opentelemetry import propagate, trace
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.semconv.schemas import Schemas

from vikingd import __version__
from vikingd.domain.answers import Stage
from vikingd.system.install_command import install_command

Call = Callable[[Any, Any], Awaitable[Any]]

_Code = grpc.StatusCode
_FAULTS = {  # errors of the server, by the semantic conventions
    _Code.UNKNOWN,
    _Code.DEADLINE_EXCEEDED,
    _Code.UNIMPLEMENTED,
    _Code.INTERNAL,
    _Code.UNAVAILABLE,
    _Code.DATA_LOSS,
}


class Tracing:
    """Creates OpenTelemetry spans, and exports them on a thread of its own.

    Raises:
        ValueError: an OTEL_* variable has a wrong value, or names an exporter that is not
            installed.
    """

    def __init__(self) -> None:
        ours = Resource({"service.name": "vikingd", "service.version": __version__})
        named = ours.merge(OTELResourceDetector().detect())  # the environment wins
        self._provider = TracerProvider(
            resource=Resource.create(named.attributes), shutdown_on_exit=False
        )
        for exporter in _exporters():
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        # Later conventions have no rpc.service and no numeric status code.
        self._tracer = self._provider.get_tracer(
            "vikingd", __version__, schema_url=Schemas.V1_37_0.value
        )

    def traced(self, method: str, call: Call) -> Call:
        """Wrap a method (/package.Service/Method): each call is a span of its caller's trace."""
        name = method.removeprefix("/")
        service, _, rpc = name.partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": rpc}

        async def spanned(request: Any, context: Any) -> Any:
            parent = propagate.extract(dict(context.invocation_metadata()))
            with self._tracer.start_as_current_span(
                name,
                parent,
                trace.SpanKind.SERVER,
                attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                code = _Code.OK
                try:
                    return await call(request, context)
                except BaseException:  # aborted with a code, or cancelled without one
                    code = context.code() or _Code.CANCELLED
                    raise
                finally:
                    span.set_attribute("rpc.grpc.status_code", code.value[0])
                    if code in _FAULTS:
                        span.set_status(trace.StatusCode.ERROR, context.details())

        return spanned

    def record(self, stages: Iterable[Stage]) -> None:
        """Add the finished stages of the current call as spans below the call's span."""
        if not trace.get_current_span().is_recording():
            return
        zero = time.time_ns() - time.perf_counter_ns()
        for name, started, ended in stages:
            span = self._tracer.start_span(name, start_time=zero + int(started * 1e9))
            span.end(zero + int(ended * 1e9))

    def close(self, seconds: float) -> None:
        """Export the waiting spans within this time; spans that are left then are lost."""
        # The provider itself would wait for half a minute, so nobody joins this thread.
        flush = threading.Thread(target=self._provider.shutdown, daemon=True)
        flush.start()
        flush.join(seconds)


def _exporters() -> Iterator[SpanExporter]:
    """Yield the exporters that OTEL_TRACES_EXPORTER names; OTLP if it is not set.

    Raises:
        ValueError: an exporter is not installed.
    """
    protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or protocol
    otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for given in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        name = otlp if given.strip() == "otlp" else given.strip()
        found = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not found and name != "none":
            more = f"otlp and console come with {install_command('otel')}"
            raise ValueError(f"no exporter {name} is installed; {more}")
        yield from (exporter.load()() for exporter in found)
