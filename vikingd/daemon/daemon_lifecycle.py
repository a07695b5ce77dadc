"""The life of a daemon from its start to its stop: engine, services, health and signals."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from vikingd import __version__
from vikingd.access.authentication import Authenticator
from vikingd.access.keys import KeyStore
from vikingd.answer.search_answer import Models
from vikingd.config import Settings, config_errors
from vikingd.context import tokenizers
from vikingd.daemon import kernel_warm_up
from vikingd.daemon.gateway_process import GatewayProcess, page_hint
from vikingd.daemon.grpc_certificates import GrpcCertificates
from vikingd.daemon.health import SERVICES, Health
from vikingd.daemon.idle_stop import IdleStop
from vikingd.daemon.open_tenants import Collector, Tenants
from vikingd.daemon.passed_on_calls import Readers
from vikingd.daemon.ports import bind, check_address
from vikingd.daemon.reader_processes import process_count
from vikingd.daemon.server_options import server_options
from vikingd.daemon.startup_resources import (
    expose,
    open_keys,
    open_models,
    open_tokenizers,
    open_tracing,
)
from vikingd.daemon.tenant_directories import TENANTS
from vikingd.daemon.writer_link import WriterLink
from vikingd.domain.daemon_addresses import Address, parse
from vikingd.domain.errors import VikingError
from vikingd.domain.rights import DEFAULT_TENANT
from vikingd.engine import Engine, EngineSettings, Shared
from vikingd.lanes.call_pools import Threads
from vikingd.models.extract.extractor import Extractor
from vikingd.pb import (
    access_pb2_grpc,
    admin_pb2_grpc,
    contexts_pb2_grpc,
    memories_pb2_grpc,
    retrieval_pb2_grpc,
)
from vikingd.system import descriptors
from vikingd.system.platform import raise_file_limit
from vikingd.system.private_files import keep_new_files_private, keep_private
from vikingd.system.standard_streams import ends_by_hangup, say
from vikingd.telemetry.metrics import Metrics
from vikingd.telemetry.metrics_endpoint import Endpoint
from vikingd.telemetry.process_figures import ProcessFigures
from vikingd.wire.access_service import AccessService
from vikingd.wire.admin_service import AdminService
from vikingd.wire.admission import Admission
from vikingd.wire.call_interceptor import Boundary
from vikingd.wire.contexts_service import ContextsService
from vikingd.wire.memories_service import MemoriesService
from vikingd.wire.put_preparation import Preparing
from vikingd.wire.relay import PassedOnHealth, Relay
from vikingd.wire.retrieval_service import RetrievalService

if TYPE_CHECKING:
    from vikingd.telemetry.tracing import Tracing

_GRACE = 5.0  # seconds for running calls when the daemon stops
_LAST_RESORT = 9.0  # seconds after which a stop ends the process; the store survives that
_FLUSH = 2.0  # seconds for the export of the last spans; with _GRACE below _LAST_RESORT
_DESCRIPTORS_INTERVAL = 5.0
_USES_INTERVAL = 30.0
_LOADS_AFTER = 1.0  # seconds without a call
_LOADS_AT_LATEST = 60.0  # seconds after the start
_SWITCH_INTERVAL = 0.0005  # seconds; with Python's 5 ms a find waits so long for a busy thread
_GC_THRESHOLDS = (50_000, 20, 100)

_log = structlog.stdlib.get_logger("vikingd")


def run(
    settings: Settings,
    *,
    reembed: bool = False,
    reader: bool = False,
    accept_loss: bool = False,
    accept_older_keys: bool = False,
    gateway: bool = False,
    writer: WriterLink | None = None,
) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; return the exit code of the process.

    With `gateway` a child process serves the address of the gateway. `writer` is given to a reader:
    the connections to the writer that has started it.

    The garbage collector may be disabled before; it is enabled once the server has started. After
    the return, threads of cancelled calls may still run.

    Raises:
        ConfigError: a setting cannot be used.
        VikingError, OSError: the store or an address cannot be used.
    """
    # A truncated file that is mapped ends the process with SIGBUS; this prints a traceback.
    faulthandler.enable()
    keep_new_files_private()
    if not reader:
        for warning in keep_private(settings.path, leave=TENANTS):
            _log.warning("private files", warning=warning)
    files = raise_file_limit()
    processes = 1 if reader else process_count(settings)
    addresses = _addresses(settings, reader)
    tracing = open_tracing() if settings.tracing else None
    metrics = Metrics(tracing.record if tracing else None)
    for address in addresses:
        check_address(address, settings.path)
    tls = settings.tls
    with config_errors("tls"):
        certificates = (
            GrpcCertificates(tls.certificate, tls.key, tls.client_ca)
            if any(a.tls for a in addresses)
            else None
        )
    scrape = expose(metrics, settings)
    http = GatewayProcess(settings) if gateway else None
    _end_at_once_while_loading(is_child=writer is not None)
    models = open_models(settings, metrics)
    open_tokenizers(settings)
    kernel_warm_up.compile_kernels(_log.info)
    kernel_warm_up.load_find()
    kernel_warm_up.load_modules()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    own = settings.writer_listen
    engine_settings = EngineSettings(
        path=settings.path,
        store=settings.store,
        embedding=settings.embedding,
        describer=settings.describer,
        index=settings.index,
        exhaustive_texts=settings.find.exhaustive_texts,
        reembed=reembed,
        accept_loss=accept_loss,
        reader=reader,
        writer_address="" if own.endswith(":0") else own,
    )
    endpoint = None if reader else settings.describer.endpoint(settings.planner)
    shared = Shared(settings.embedding, metrics, settings.store, endpoint)
    if writer is not None:
        shared.send_accesses = writer.send_accesses
    # A writer embeds from its start on. A reader embeds nothing, and has no store without one.
    keys = None if reader else open_keys(settings, shared, accept_older_keys)
    limit = partial(keys.embedding_limit, DEFAULT_TENANT) if keys else None
    engine = Engine(engine_settings, _log.info, shared, limit)
    keys = keys or KeyStore(settings.path, follows=writer is not None)
    gc.freeze()  # loaded modules stay: collections need not look at them
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    parts = _Parts(
        engine, keys, shared, settings, metrics, scrape, tracing, models, certificates, http, writer
    )
    asyncio.run(_serve(parts, addresses, files, processes))
    if engine.is_lost:
        role = "reader" if reader else "daemon"
        print(f"vikingd: the {role} ends: {engine.failure()}", file=sys.stderr, flush=True)
    return int(engine.is_lost)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a daemon that its services share."""

    engine: Engine  # of the default tenant
    keys: KeyStore
    shared: Shared
    settings: Settings
    metrics: Metrics
    scrape: Endpoint | None
    tracing: Tracing | None
    models: Models
    certificates: GrpcCertificates | None
    gateway: GatewayProcess | None
    writer: WriterLink | None


async def _serve(parts: _Parts, addresses: Sequence[Address], files: int, processes: int) -> None:
    """Start the server, wait for a signal, and stop.

    Args:
        files: the limit of open file descriptors.
        processes: how many processes are to answer, this one included.
    """
    engine, keys, path = parts.engine, parts.keys, parts.settings.path
    threads = Threads(engine.settings.embedding.query_threads)
    parts.metrics.follow_queues(threads.queues.figures)
    preparing = Preparing(threads)
    services = _services(parts, threads, preparing, engine)
    tenants = Tenants(
        engine,
        services.handlers,
        parts.shared,
        parts.settings.tenants,
        lambda opened: _services(parts, threads, preparing, opened).handlers,
        keys.embedding_limit,
    )
    settings = parts.settings
    if not engine.settings.reader:
        for name in await asyncio.to_thread(tenants.interrupted):  # before their files are gone
            await asyncio.to_thread(keys.forget_tenant, name)
    access: Any = AccessService(keys, tenants, threads)
    access_pb2_grpc.add_AccessServicer_to_server(access, cast("grpc.aio.Server", services))
    authenticator = Authenticator(
        keys,
        allow_local=settings.allow_local,
        trust_network=settings.trust_network,
        certificates=bool(settings.tls.client_ca),
    )
    admission = Admission(keys, authenticator, tenants)
    relay = None if parts.writer is None else Relay(parts.writer.address, admission)
    boundary = Boundary(admission, parts.metrics, parts.tracing, relay=relay)
    certificates = parts.certificates
    server = grpc.aio.server(
        interceptors=(boundary,),
        options=server_options(
            parts.settings.limits.max_message_bytes,
            descriptors.connections(files, parts.settings.tenants.most_open),
            tls=certificates is not None,
        ),
    )
    services.add_to(server)
    readers = None
    if processes > 1:
        passed_on = Boundary(admission, parts.metrics, parts.tracing, passed_on=True)
        readers = Readers(processes - 1, settings, tenants, passed_on)
        services.add_to(readers.server)
    state = Health(engine, dict if readers is None else readers.processes.states)
    health_pb2_grpc.add_HealthServicer_to_server(
        state.servicer if relay is None else PassedOnHealth(relay), server
    )
    if readers is not None:
        health_pb2_grpc.add_HealthServicer_to_server(state.servicer, readers.server)
        parts.metrics.readers = readers.processes
    reflection.enable_server_reflection(
        (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    for address in addresses:
        check_address(address, path)
    bound = [bind(server, address, path, certificates) for address in addresses]

    stop = asyncio.Event()
    if parts.writer is None:
        _stop_on_signals(stop)
    else:
        # The writer and a manager of services may both send it, so it may come twice.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await state.refresh()
    await tenants.start()
    await server.start()
    watches = [
        asyncio.create_task(state.watch(stop)),
        asyncio.create_task(_watch_descriptors()),
        asyncio.create_task(_write_uses(keys)),
    ]
    if certificates is not None:
        watches.append(asyncio.create_task(certificates.watch()))
    if parts.scrape is not None:
        parts.scrape.healthy = lambda: state.is_serving and not stop.is_set()
    has_no_page = parts.gateway is None and parts.writer is None
    to_the_page = page_hint() if has_no_page else ""  # it imports packages
    if readers is not None:
        await readers.start(bound[: len(settings.listen)])  # not that of the writer alone
    if parts.writer is not None:
        parts.writer.figures = partial(_figures, parts.metrics, tenants, boundary)
        parts.writer.started()
    else:
        for address in bound:
            say(f"vikingd {__version__} serving on {address}")
    if parts.gateway is not None:
        parts.gateway.start(bound)
    if to_the_page:
        _log.info("no browser page", way=to_the_page)
    loading = threading.Thread(target=load_other_kernels, daemon=True)
    watches.append(asyncio.create_task(_start_when_idle(loading, boundary)))
    if settings.stop_when_idle:
        counted = readers.processes if readers is not None else None
        idle = IdleStop(settings.stop_when_idle, bound, boundary, tenants, counted)
        watches.append(asyncio.create_task(idle.watch(stop)))
    await stop.wait()

    _log.info("stopping", grace_s=_GRACE)
    threading.Timer(_LAST_RESORT, _end_now, (int(engine.is_lost),)).start()
    for watch in watches:
        watch.cancel()
    await state.servicer.enter_graceful_shutdown()
    # Beside each other: requests of the gateway are calls that run.
    ending = [part.stop() for part in (parts.gateway, readers) if part is not None]
    if not boundary.refuses_calls:
        await boundary.take_in()
        ending.append(_end_calls(server, boundary))
    await asyncio.gather(*ending)
    if relay is not None:
        await relay.close()
    await parts.models.close()
    threads.shutdown()
    boundary.close()
    if parts.scrape is not None:
        await asyncio.to_thread(parts.scrape.close)  # before the engine, which it reads
    # Before the engines, which wait for their part of it.
    await asyncio.to_thread(parts.shared.stop)
    closing = [tenants.stop(), asyncio.to_thread(engine.close)]
    if loading.is_alive():  # an interrupted load would leave a directory behind
        closing.append(asyncio.to_thread(loading.join))
    if parts.tracing is not None:
        closing.append(asyncio.to_thread(parts.tracing.close, _FLUSH))
    await asyncio.gather(*closing)
    await asyncio.to_thread(keys.close)
    await asyncio.to_thread(parts.shared.close)
    _log.info("stopped")
    if boundary.refuses_calls:
        # gRPC's stop would cancel a call that arrives now. Its client repeats it if the process
        # has ended, but no cancelled call.
        os._exit(0)


def _figures(metrics: Metrics, tenants: Tenants, boundary: Boundary) -> ProcessFigures:
    return ProcessFigures(
        tuple(metrics.own()), metrics.queues(), tenants.query_caches(), boundary.idle_seconds()
    )


async def _end_calls(server: grpc.aio.Server, boundary: Boundary) -> None:
    """Stop the server when the calls in flight have ended, except streams that nobody reads."""
    stopping = asyncio.create_task(server.stop(_GRACE))
    if await boundary.end_streams():
        await server.stop(None)
    await stopping


def _services(parts: _Parts, threads: Threads, preparing: Preparing, engine: Engine) -> Collector:
    """Return the handlers of all services for the engine of one tenant."""
    settings, metrics, collector = parts.settings, parts.metrics, Collector()
    server = cast("grpc.aio.Server", collector)
    extractor = Extractor(parts.models.planner.model)
    # A handler returns its reply as a message or as bytes, see `Boundary`; the stubs know messages.
    services: tuple[tuple[Callable[[Any, grpc.aio.Server], None], object], ...] = (
        (
            retrieval_pb2_grpc.add_RetrievalServicer_to_server,
            RetrievalService(engine, threads, metrics, settings, parts.models),
        ),
        (
            contexts_pb2_grpc.add_ContextsServicer_to_server,
            ContextsService(engine, threads, preparing),
        ),
        (
            memories_pb2_grpc.add_MemoriesServicer_to_server,
            MemoriesService(engine, threads, metrics, settings, extractor),
        ),
        (admin_pb2_grpc.add_AdminServicer_to_server, AdminService(engine, threads, metrics)),
    )
    for add, service in services:
        add(service, server)
    return collector


def load_other_kernels() -> None:
    """Load the kernels that Find does not use, and the default tokenizer."""
    try:
        kernel_warm_up.run_kernels()
    except (OSError, VikingError) as error:  # for example, no disk space for a small index
        _log.warning("kernels are loaded at their first use", reason=str(error))
    tokenizers.open_tokenizer(tokenizers.DEFAULT)  # its vocabulary takes longer than the start


async def _start_when_idle(thread: threading.Thread, boundary: Boundary) -> None:
    """Start a thread after a second without a call, or at _LOADS_AT_LATEST; calls come first."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    while (now := clock()) < begun + _LOADS_AT_LATEST:
        if (left := _LOADS_AFTER - min(boundary.idle_seconds(), now - begun)) <= 0:
            break
        await asyncio.sleep(left)
    thread.start()


async def _watch_descriptors() -> None:
    """Log a warning each time when few file descriptors are left."""
    known = None
    while True:
        shortage = descriptors.shortage()
        if shortage and not known:
            _log.warning("file descriptors", warning=shortage)
        known = shortage
        await asyncio.sleep(_DESCRIPTORS_INTERVAL)


async def _write_uses(keys: KeyStore) -> None:
    """Repeatedly write the times at which keys were last used, until cancelled."""
    while True:
        await asyncio.sleep(_USES_INTERVAL)
        await asyncio.to_thread(keys.write_uses)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)  # the second signal ends the process at once
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    if ends_by_hangup():
        # A shell and the terminal may both send it, so it may come twice.
        loop.add_signal_handler(signal.SIGHUP, stop.set)


def _end_at_once_while_loading(*, is_child: bool) -> None:
    """Let signals end the process at once; used while nothing is served yet.

    A sudden end does not damage the store. A child of a writer leaves all but SIGTERM to it.
    """

    def end(*_: Any) -> None:
        os._exit(0)

    others = () if is_child else (signal.SIGINT, *([signal.SIGHUP] if ends_by_hangup() else ()))
    for number in (signal.SIGTERM, *others):
        signal.signal(number, end)


def _end_now(code: int) -> None:
    _log.warning("stopping takes too long; the process ends now")
    os._exit(code)


def _addresses(settings: Settings, reader: bool) -> list[Address]:
    own = [] if reader or not settings.writer_listen else [settings.writer_listen]
    addresses = [parse(text) for text in (*settings.listen, *own)]
    for address in addresses:
        if not (address.tls or address.is_local):
            _log.warning("plain TCP: the network sees keys and contexts", address=str(address))
    return addresses
