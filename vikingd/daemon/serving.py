"""The running daemon: engine, services and health together, until it is told to stop."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from vikingd import __version__
from vikingd.config import ConfigError, Settings, split_address
from vikingd.context import tokenizers
from vikingd.daemon import warm
from vikingd.domain.errors import VikingError
from vikingd.engine import Engine, EngineSettings
from vikingd.models.intent.planner import Planner
from vikingd.models.rerank.backends import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.pb import (
    admin_pb2,
    admin_pb2_grpc,
    contexts_pb2,
    contexts_pb2_grpc,
    memories_pb2,
    memories_pb2_grpc,
    retrieval_pb2,
    retrieval_pb2_grpc,
)
from vikingd.system import descriptors
from vikingd.system.private_files import keep_new_files_private, keep_private
from vikingd.telemetry.metrics import Metrics
from vikingd.telemetry.scrape import Endpoint
from vikingd.wire.admin_service import Admin
from vikingd.wire.boundary import Boundary
from vikingd.wire.calls import Threads
from vikingd.wire.contexts_service import Contexts
from vikingd.wire.memories_service import Memories
from vikingd.wire.messages.search import Models
from vikingd.wire.observer import Observer
from vikingd.wire.retrieval_service import Retrieval

if TYPE_CHECKING:
    from vikingd.telemetry.tracing import Tracing

SERVICES = tuple(
    file.DESCRIPTOR.services_by_name[name].full_name
    for file, name in (
        (retrieval_pb2, "Retrieval"),
        (contexts_pb2, "Contexts"),
        (memories_pb2, "Memories"),
        (admin_pb2, "Admin"),
    )
)
EMBEDDER = "viking.embedder"
"""Name in the health service under which the embedder's state is found."""

_PORTS = "ports"  # a file of locks in the store's directory
_GRACE = 5.0  # seconds that calls get to end when the daemon stops
_LAST_RESORT = 9.0  # seconds after which it ends whatever still runs; the store bears that
_FLUSH = 2.0  # seconds that a collector gets to take the last spans; with _GRACE before the end
_HEALTH_INTERVAL = 0.5
_DESCRIPTORS_INTERVAL = 5.0
# Of one connection. Clients connect again by themselves.
_STREAMS = 1000  # calls at once
_IDLE_MS = 15 * 60_000
_AGE_MS = 6 * 3_600_000
_AGE_GRACE_MS = 60_000
_SWITCH_INTERVAL = 0.0005  # seconds; at Python's 5 ms a busy thread makes a find wait for that long
_GC_THRESHOLDS = (50_000, 20, 100)

_log = structlog.stdlib.get_logger("vikingd")


def run(
    settings: Settings, *, reembed: bool = False, reader: bool = False, accept_loss: bool = False
) -> int:
    """Serves until SIGTERM or Ctrl-C; the process's exit code.

    Threads may still run, for callers that are gone. Garbage is collected from when it serves on.

    Raises:
        ConfigError: the configuration can't be served.
        VikingError, OSError: the store, an address or the like can't.
    """
    # A page of a file that was truncated ends the process: with a traceback, not in silence.
    faulthandler.enable()
    keep_new_files_private()
    if not reader:
        for warning in keep_private(settings.path):
            _log.warning("private files", warning=warning)
    files = descriptors.raise_limit()
    addresses = _addresses(settings, reader)
    metrics = Metrics()
    tracing = _trace() if settings.tracing else None
    for address in addresses:
        _check_port(address, settings.path)
    endpoint = _expose(metrics, settings.metrics_listen)
    _stop_at_once_while_loading()
    models = _models(settings, metrics)
    _open_tokenizers(settings)
    warm.compile_kernels(_log.info)
    with ThreadPoolExecutor(1) as beside:  # the engine checks its files meanwhile
        kernels = beside.submit(warm.load_find)
        engine = Engine(
            _engine_settings(settings, reembed, reader, accept_loss), _log.info, metrics
        )
        kernels.result()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.freeze()  # what is loaded stays: collections need not look at it again
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    asyncio.run(_serve(engine, settings, addresses, metrics, endpoint, tracing, models, files))
    if engine.is_lost:
        who = "reader" if reader else "daemon"
        print(f"vikingd: the {who} ends: {engine.failure()}", file=sys.stderr, flush=True)
    return int(engine.is_lost)


async def _serve(
    engine: Engine,
    settings: Settings,
    addresses: Sequence[str],
    metrics: Metrics,
    endpoint: Endpoint | None,
    tracing: Tracing | None,
    models: Models,
    files: int,
) -> None:
    threads = Threads(engine.settings.embedding.query_threads)
    observer = Observer(metrics, tracing)
    metrics.follow_queues(threads.queues.figures)
    boundary = Boundary(metrics, tracing)
    server = grpc.aio.server(
        interceptors=(boundary,),
        options=(
            ("grpc.max_receive_message_length", settings.limits.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 1),  # writer and readers of a store; see _check_port
            ("grpc.max_allowed_incoming_connections", descriptors.connections(files)),
            ("grpc.max_concurrent_streams", _STREAMS),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.max_connection_age_ms", _AGE_MS),
            ("grpc.max_connection_age_grace_ms", _AGE_GRACE_MS),
            ("grpc.http2.max_ping_strikes", 2),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ),
    )
    retrieval_pb2_grpc.add_RetrievalServicer_to_server(
        Retrieval(engine, threads, observer, settings, models), server
    )
    contexts_pb2_grpc.add_ContextsServicer_to_server(Contexts(engine, threads), server)
    memories_pb2_grpc.add_MemoriesServicer_to_server(
        Memories(engine, threads, observer, settings), server
    )
    admin_pb2_grpc.add_AdminServicer_to_server(Admin(engine, threads, metrics), server)
    state = _Health(engine)
    health_pb2_grpc.add_HealthServicer_to_server(state.servicer, server)
    reflection.enable_server_reflection(
        (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    for address in addresses:
        _check_port(address, settings.path)
    bound = [_bind(server, address, settings.path) for address in addresses]

    stop = asyncio.Event()
    _stop_on_signals(stop)
    await state.refresh()
    await server.start()
    watches = [asyncio.create_task(state.watch(stop)), asyncio.create_task(_watch_descriptors())]
    for address in bound:
        print(f"vikingd {__version__} serving on {address}", flush=True)
    # Neither the first retrieval nor the first write need load its kernels, nor the first find wait
    # for that.
    loading = threading.Thread(target=_load_the_rest, daemon=True)
    loading.start()
    await stop.wait()

    _log.info("stopping", grace_s=_GRACE)
    threading.Timer(_LAST_RESORT, _give_up, (int(engine.is_lost),)).start()
    for watch in watches:
        watch.cancel()
    await state.servicer.enter_graceful_shutdown()
    await boundary.take_in()
    await server.stop(_GRACE)
    await models.close()
    threads.shutdown()
    boundary.close()
    if endpoint is not None:
        await asyncio.to_thread(endpoint.close)  # it asks the engine
    # It leaves a directory behind where it is not let finish.
    closing = [asyncio.to_thread(engine.close), asyncio.to_thread(loading.join)]
    if tracing is not None:
        closing.append(asyncio.to_thread(tracing.close, _FLUSH))
    await asyncio.gather(*closing)
    _log.info("stopped")


def _load_the_rest() -> None:
    try:
        warm.take_through()
    except (OSError, VikingError) as error:  # there is no room for a small index, say
        _log.warning("kernels are loaded when they are first needed", reason=str(error))


class _Health:
    """Keeps the health service true, and logs each change."""

    def __init__(self, engine: Engine) -> None:
        self.servicer = health.aio.HealthServicer()
        self._engine = engine
        self._known: dict[str, str | None] = {"": None, EMBEDDER: None}

    async def refresh(self) -> None:
        faults = {"": self._engine.failure(), EMBEDDER: self._engine.embedder_state()}
        for name, fault in faults.items():
            if fault != self._known[name]:
                level = logging.INFO if not fault else logging.WARNING if name else logging.ERROR
                _log.log(level, "health", service=name or "vikingd", fault=fault or "none")
            state = (
                health_pb2.HealthCheckResponse.NOT_SERVING
                if fault
                else health_pb2.HealthCheckResponse.SERVING
            )
            for service in (name,) if name else ("", *SERVICES):
                await self.servicer.set(service, state)
        self._known = faults

    async def watch(self, stop: asyncio.Event) -> None:
        """Goes on for ever; a process that `is_lost` is stopped."""
        while True:
            await asyncio.sleep(_HEALTH_INTERVAL)
            try:
                await self.refresh()
            except Exception:
                _log.exception("health is not known")
            if self._engine.is_lost:
                stop.set()


async def _watch_descriptors() -> None:
    """Warn when few file descriptors are left, once each time they run short."""
    known = None
    while True:
        shortage = descriptors.shortage()
        if shortage and not known:
            _log.warning("file descriptors", warning=shortage)
        known = shortage
        await asyncio.sleep(_DESCRIPTORS_INTERVAL)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)  # told twice: at once
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)


def _stop_at_once_while_loading() -> None:
    """Nothing is served yet, and the store bears being left at any moment."""

    def end(*_: Any) -> None:
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _give_up(code: int) -> None:
    _log.warning("stopping takes too long, ending now")
    os._exit(code)


def _trace() -> Tracing:
    """What makes the spans; its packages are loaded here and nowhere else."""
    try:
        from vikingd.telemetry.tracing import Tracing
    except ImportError as error:
        raise ConfigError(
            f"tracing: {error.name} is not installed; install it with: pip install 'vikingd[otel]'"
        ) from None
    try:
        return Tracing()
    except ValueError as error:
        raise ConfigError(f"tracing: {error} (from OTEL_* in the environment)") from None


def _models(settings: Settings, metrics: Metrics) -> Models:
    """The planner and the rerankers, none of which is asked yet."""
    planner = settings.planner

    def planned(outcome: str, seconds: float) -> None:
        metrics.model_called("planner", planner.model, outcome, seconds)

    def reranked(name: str, outcome: str, seconds: float) -> None:
        metrics.model_called("reranker", name, outcome, seconds)

    try:
        return Models(Planner(planner, planned), Rerankers(settings.rerank.backends, reranked))
    except RerankFailed as error:
        raise ConfigError(f"rerank: {error}") from None


def _open_tokenizers(settings: Settings) -> None:
    """Opens those of the configuration; a request opens none of them."""
    try:
        tokenizers.configure(settings.context.tokenizers)
    except ValueError as error:
        raise ConfigError(f"context.tokenizers.{error}") from None


def _expose(metrics: Metrics, address: str) -> Endpoint | None:
    """Serves the metrics, unless the address is ""."""
    if not address:
        return None
    host, port = split_address(address)
    try:
        endpoint = metrics.listen(host.strip("[]"), port)
    except OSError as error:
        raise OSError(
            f"cannot serve metrics on {address}: {os.strerror(error.errno or 0)}"
        ) from None
    _log.info("serving metrics", url=f"http://{host}:{endpoint.port}/metrics")
    return endpoint


def _addresses(settings: Settings, reader: bool) -> list[str]:
    own = [] if reader or not settings.writer_listen else [settings.writer_listen]
    return [settings.listen, *own]


def _bind(server: grpc.aio.Server, address: str, store: Path) -> str:
    """Listens on an address; returns it with the port that was taken."""
    host, port = split_address(address)
    if port:
        _hold_port(store, port)
    try:
        taken = server.add_insecure_port(address)
    except RuntimeError:
        raise OSError(f"cannot listen on {address}") from None
    if not port:
        _hold_port(store, taken)
    return f"{host}:{taken}"


def _check_port(address: str, store: Path) -> None:
    """Fails when a port is taken, unless by those only who serve the same store.

    The kernel lets any processes of one user share a port when all of them ask for it
    (SO_REUSEPORT), and then deals connections out to all. So each who listens for a store holds a
    lock on the byte of its file `ports` that has the port's number.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC binds
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            if not _is_held(store, port):
                raise OSError(f"cannot listen on {address}: {error.strerror}") from None


def _hold_port(store: Path, port: int) -> None:
    """Tells others that this process listens on a port, until it ends.

    As it would with the first file that is closed, none is.
    """
    ports = os.open(store / _PORTS, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(ports, fcntl.LOCK_SH, 1, port)


def _is_held(store: Path, port: int) -> bool:
    try:
        with (store / _PORTS).open("r+b") as ports:
            fcntl.lockf(ports, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _engine_settings(
    settings: Settings, reembed: bool, reader: bool, accept_loss: bool
) -> EngineSettings:
    return EngineSettings(
        path=settings.path,
        embedding=settings.embedding,
        index=settings.index,
        exhaustive_texts=settings.find.exhaustive_texts,
        reembed=reembed,
        accept_loss=accept_loss,
        reader=reader,
        writer_address="" if settings.writer_listen.endswith(":0") else settings.writer_listen,
    )
