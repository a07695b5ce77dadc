"""The open tenants of a process: their stores open at the first call and close when idle."""

from __future__ import annotations

import asyncio
import gc
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import structlog

from vikingd.daemon.node_tenants import NodeTenants
from vikingd.daemon.tenant_directories import TenantDirectories
from vikingd.domain import errors
from vikingd.domain.rights import DEFAULT_TENANT
from vikingd.domain.tenants import TenantSettings, missing
from vikingd.engine import Engine, EngineSettings, EngineStats, Shared
from vikingd.store.shared_store import SharedStore
from vikingd.system.platform import trim
from vikingd.system.private_files import keep_private

Handlers: TypeAlias = dict[str, Any]
"""The handlers of gRPC methods, by the path of the method."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS = 4  # that open and close stores; most of the time they wait for the disk
_SPARE = 25  # of so many places one is kept free
_LOOK = 1.0  # seconds between two looks at the open stores
_COLLECT_EVERY = 200  # closings: a closed engine is in a cycle of some 100 kB
_DRAIN = 5.0  # seconds that a deletion waits for the calls in flight
_HOLD = 10  # times the idle seconds: as long may texts that wait for vectors hold a store open
_MOST_WAITING = 1000  # tenants that wait until another one is closed

_log = structlog.stdlib.get_logger("vikingd")


def _collect() -> None:
    gc.collect()
    trim()


class Collector:
    """Collects handlers of services; it has the methods of a gRPC server that register them.

    Attributes:
        handlers: all handlers by the path of the method.
    """

    def __init__(self) -> None:
        self.handlers: Handlers = {}
        self._generic: list[Any] = []
        self._services: list[tuple[str, Mapping[str, Any]]] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Keep the generic handler of a service for `add_to`."""
        self._generic.append(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Add the handlers of a service; `handlers` has them by the name of the method."""
        self._services.append((service, handlers))
        self.handlers |= {f"/{service}/{name}": one for name, one in handlers.items()}

    def add_to(self, server: Any) -> None:
        """Register all collected handlers at a gRPC server."""
        for generic in self._generic:
            server.add_generic_rpc_handlers(generic)
        for service, handlers in self._services:
            server.add_registered_method_handlers(service, handlers)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's open store with its services."""

    name: str
    engine: Engine
    handlers: Handlers


@dataclass(slots=True, eq=False)
class _Place:
    """A tenant that is open or being opened, with its calls in flight."""

    name: str
    opening: asyncio.Task[None] = field(init=False)
    tenant: Tenant | None = None
    calls: int = 0  # in flight, those that wait for the opening included
    used: float = 0.0  # time of the loop at the end of the last call
    fault: str | None = None  # that the log tells of

    @property
    def is_idle(self) -> bool:
        return self.tenant is not None and not self.calls

    @property
    def has_work(self) -> bool:
        """True while models work on the tenant's texts in the background."""
        return self.tenant is not None and self.tenant.engine.has_work


class Use:
    """An async context manager that opens a tenant and keeps it open during a call.

    Every call uses one, and a generator-based context manager would take three times as long.
    """

    __slots__ = ("_name", "_place", "_tenants")

    def __init__(self, tenants: Tenants, name: str) -> None:
        self._tenants = tenants
        self._name = name
        self._place: _Place | None = None

    async def __aenter__(self) -> Tenant:
        tenants = self._tenants
        if self._name == DEFAULT_TENANT:
            return tenants.default
        place = self._place = tenants._enter(self._name)
        if place.tenant is None:
            try:
                await asyncio.shield(place.opening)
            except BaseException:
                tenants._leave(place)
                raise
        assert place.tenant is not None
        return place.tenant

    async def __aexit__(self, *_: object) -> None:
        if self._place is not None:
            self._tenants._leave(self._place)


class Tenants:
    """All tenants of a data directory; all methods are for the event loop.

    The default tenant is always open. Of the others at most `most_open` are open. To open one more,
    the least recently used one without calls is closed, one with background work only if there is
    no other. If all have calls, the new call waits.

    Args:
        default: the engine of the default tenant.
        handlers: the handlers of the default tenant.
        shared: the parts that the engines of all tenants share.
        serve: makes the services of an engine and returns their handlers.
        embedding_limit: returns the texts that a tenant may embed in a day, on any thread.
    """

    def __init__(
        self,
        default: Engine,
        handlers: Handlers,
        shared: Shared,
        settings: TenantSettings,
        serve: Callable[[Engine], Handlers],
        embedding_limit: Callable[[str], int] | None = None,
    ) -> None:
        self.default = Tenant(DEFAULT_TENANT, default, handlers)
        self._shared = shared
        self._settings = settings
        self._serve = serve
        self._embedding_limit = embedding_limit
        self._directories: TenantDirectories | NodeTenants = (
            TenantDirectories(default.settings.path)
            if shared.database is None
            else NodeTenants(default.settings.path, shared.database, shared.provider)
        )
        self._pool = ThreadPoolExecutor(_THREADS, "tenants")
        self._places: OrderedDict[str, _Place] = OrderedDict()  # the least recently used one first
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._deleting: set[str] = set()
        self._were_open: set[str] = set()  # a loss is accepted at the first opening alone
        self._closed = 0  # closings so far
        self._count = 0  # stores that are open, open now or close now
        self._freed = asyncio.Event()  # a call or a closing ended
        self._is_stopping = False
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Finish interrupted deletions, and begin to close idle tenants from time to time."""
        if not self.default.engine.settings.reader:
            await self._run(self._remove_leftovers)
        self._watch = asyncio.create_task(self._look_after())

    async def stop(self) -> None:
        """Close all tenants except the default one, after their calls in flight."""
        self._is_stopping = True
        if self._watch is not None:
            self._watch.cancel()
        places = list(self._places.values())
        if opening := [place.opening for place in places]:
            await asyncio.wait(opening)
        for place in places:
            if place.tenant is not None and self._places.get(place.name) is place:
                self._retire(place)
        if self._closing:
            await asyncio.wait(self._closing.values())
        self._pool.shutdown(wait=False)

    def use(self, name: str) -> Use:
        """Return a context manager that keeps a tenant open during a call.

        Entering it raises:
            NotFound: there is no tenant with this name.
            InvalidField: the name is not valid.
            StoreDamaged, StoreMismatch, StoreFailed: its store cannot be opened.
            Overloaded: too many calls wait until a tenant can be opened.
            Stopping: the daemon stops.
        """
        return Use(self, name)

    # What there is

    def names(self) -> list[str]:
        """Return the names of all tenants, the default one first; reads the disk."""
        return [DEFAULT_TENANT, *(n for n in self._directories.names() if n != DEFAULT_TENANT)]

    def interrupted(self) -> list[str]:
        """Return the tenants whose deletion a killed process did not finish; `start` does."""
        return self._directories.interrupted()

    def exists(self, name: str) -> bool:
        """Return True if there is a tenant with this name; reads the disk."""
        with suppress(errors.NotFound, errors.InvalidField, errors.StoreMismatch):
            return name == DEFAULT_TENANT or bool(self._directories.find(name))
        return False

    def is_open(self, name: str) -> bool:
        """Return True if the tenant's store is open."""
        place = self._places.get(name)
        return name == DEFAULT_TENANT or (place is not None and place.tenant is not None)

    @property
    def has_work(self) -> bool:
        """True while models work in the background on texts of an open tenant."""
        return self.default.engine.has_work or any(p.has_work for p in self._places.values())

    def query_caches(self) -> dict[str, tuple[int, int]]:
        """Return (hits, misses) of the cache of query vectors of each open tenant."""
        opened = [place.tenant for place in list(self._places.values())]
        return {
            tenant.name: tenant.engine.embedding.query_cache()
            for tenant in (self.default, *opened)
            if tenant is not None
        }

    async def add_accesses(self, name: str, counts: Mapping[int, int]) -> None:
        """Count the accesses of a tenant's memories that another process counted, by their ids."""
        async with self.use(name) as tenant:
            tenant.engine.add_accesses(counts)

    async def stats(self, name: str) -> EngineStats:
        """Open a tenant and return its statistics; errors as in `use`."""
        async with self.use(name) as tenant:
            return await self._run(tenant.engine.stats)

    async def create(self, name: str) -> None:
        """Create an empty tenant.

        Raises:
            AlreadyExists: there is a tenant with this name.
            InvalidField: the name is not valid.
            ReadOnly: this process is a reader.
        """
        self.default.engine.check_writable()
        if name == DEFAULT_TENANT or name in self._deleting:
            raise errors.AlreadyExists(f"the tenant {name}")
        await self._run(self._directories.create, name)
        try:
            async with self.use(name):
                pass
        except Exception:  # not if the caller goes away: the opening goes on then
            await self._run(self._directories.delete, name)
            raise

    async def delete(self, name: str) -> tuple[int, int]:
        """Delete a tenant with all its files; return the numbers of its contexts and bytes.

        New calls get NotFound at once. Calls in flight have five seconds to end.

        Raises:
            NotFound: there is no such tenant.
            InvalidField: the name is not valid, or is that of the default tenant.
            Overloaded: calls are still in flight. Nothing was deleted.
            ReadOnly: this process is a reader.
        """
        self.default.engine.check_writable()
        if name == DEFAULT_TENANT:
            raise errors.InvalidField("name", "the default tenant cannot be deleted")
        await self._run(self._directories.find, name)
        if name in self._deleting:
            raise missing(name)
        self._deleting.add(name)
        # A caller that goes away does not end it half way.
        return await asyncio.shield(asyncio.create_task(self._delete(name)))

    async def _delete(self, name: str) -> tuple[int, int]:
        try:
            try:
                async with asyncio.timeout(_DRAIN):
                    while (place := self._places.get(name)) is not None and not place.is_idle:
                        await self._wait()
            except TimeoutError:
                raise errors.Overloaded(
                    f"calls to the tenant {name} are still in flight: repeat the call", _DRAIN
                ) from None
            if place is not None:
                self._retire(place)
            if (closing := self._closing.get(name)) is not None:
                await asyncio.wait([closing])
            return await self._run(self._directories.delete, name)
        finally:
            self._deleting.discard(name)

    # Opening and closing

    def _enter(self, name: str) -> _Place:
        """Count a call to a tenant and return its place; begin to open a closed tenant."""
        place = self._places.get(name)
        if place is not None and place.tenant is not None and place.tenant.engine.is_lost:
            self._retire(place)
            place = None
        if name in self._deleting:
            raise missing(name)
        if place is None:
            if self._is_stopping:
                raise errors.Stopping("the daemon stops")
            if len(self._places) >= self._settings.most_open + _MOST_WAITING:
                raise errors.Overloaded("too many tenants wait to be opened", _LOOK)
            place = self._places[name] = _Place(name)
            place.opening = asyncio.create_task(self._open(place))
            # Callers that went away do not ask for the error.
            place.opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        else:
            self._places.move_to_end(name)
        place.calls += 1
        return place

    def _leave(self, place: _Place) -> None:
        place.calls -= 1
        place.used = asyncio.get_running_loop().time()
        if not place.calls:
            self._freed.set()

    async def _open(self, place: _Place) -> None:
        name = place.name
        try:
            if (closing := self._closing.get(name)) is not None:
                await asyncio.wait([closing])
            path = await self._run(self._directories.find, name)
            while self._count >= self._settings.most_open:
                victim = self._victim()
                await (self._wait() if victim is None else asyncio.wait([self._retire(victim)]))
            self._count += 1
            try:
                engine = await self._run(self._open_engine, path)
            except BaseException:
                self._count -= 1
                self._freed.set()
                raise
            place.tenant = Tenant(name, engine, self._serve(engine))
            self._shared.metrics.tenant_opened()
            self._close_ahead()
        except BaseException as error:
            if self._places.get(name) is place:
                del self._places[name]
            if not isinstance(error, errors.NotFound | errors.InvalidField):
                _log.warning("a tenant cannot be opened", tenant=name, reason=str(error))
            raise

    def _open_engine(self, path: Path) -> Engine:
        own: EngineSettings = self.default.engine.settings
        settings = replace(
            own,
            path=path,
            tenant=path.name,
            small=True,
            accept_loss=own.accept_loss and path.name not in self._were_open,
        )

        def tell(step: str) -> None:
            _log.debug(step, tenant=path.name)

        if not settings.reader:
            for warning in keep_private(path):
                _log.warning("private files", tenant=path.name, warning=warning)
        limit = self._embedding_limit
        embedding_limit = partial(limit, path.name) if limit else None
        engine = Engine(settings, tell, self._shared, embedding_limit)
        self._were_open.add(path.name)
        return engine

    def _close_ahead(self) -> None:
        """Close idle tenants until some places are free, so that the next opening need not wait."""
        most = self._settings.most_open - self._settings.most_open // _SPARE
        while self._count - len(self._closing) > most:
            victim = self._victim()
            if victim is None or victim.has_work:
                return
            self._retire(victim)

    def _victim(self) -> _Place | None:
        """Return the tenant to close so that another can open; None if all have calls in flight."""
        idle = [place for place in self._places.values() if place.is_idle]
        return next((place for place in idle if not place.has_work), idle[0] if idle else None)

    def _retire(self, place: _Place) -> asyncio.Task[None]:
        """Begin to close a tenant; return the task that closes it.

        A new call to the tenant waits for the end of this task, then opens the tenant again.
        """
        del self._places[place.name]
        task = self._closing[place.name] = asyncio.create_task(self._close(place))
        return task

    async def _close(self, place: _Place) -> None:
        assert place.tenant is not None
        while place.calls:  # of a lost engine, or as the daemon stops
            await self._wait()
        store = place.tenant.engine.store
        is_gone = isinstance(store, SharedStore) and store.is_gone
        try:
            compact = not (
                is_gone or self._is_stopping or place.name in self._deleting
            )  # it takes some time
            await self._run(place.tenant.engine.close, compact=compact)
        except Exception:
            _log.exception("a tenant was not closed", tenant=place.name)
        finally:
            place.tenant = None  # a cycle would keep the index in memory
            self._count -= 1
            del self._closing[place.name]
            self._shared.metrics.tenant_closed()
            self._freed.set()
            self._closed += 1
            if is_gone:
                await self._run(self._remove_leftovers)
            if self._closed % _COLLECT_EVERY == 0:
                await self._run(_collect)

    async def _wait(self) -> None:
        """Wait until a call ends or a tenant is closed."""
        self._freed.clear()
        await self._freed.wait()

    async def _look_after(self) -> None:
        """Repeatedly close tenants that are idle or whose engine is lost, and log faults."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_LOOK, self._settings.idle_seconds / 4))
            try:
                open_now = [place for place in self._places.values() if place.tenant is not None]
                await self._run(self._log_faults, open_now)
                for place in open_now:
                    if self._places.get(place.name) is place and self._must_close(
                        place, loop.time()
                    ):
                        self._retire(place)
            except Exception:
                _log.exception("the look at the tenants failed")

    def _must_close(self, place: _Place, now: float) -> bool:
        """Return True if an open tenant is to be closed: its engine is lost, or it is idle."""
        assert place.tenant is not None
        if place.tenant.engine.is_lost:
            return True
        idle = now - place.used if place.is_idle else 0.0
        seconds = self._settings.idle_seconds
        return idle > seconds and (not place.has_work or idle > _HOLD * seconds)

    @staticmethod
    def _log_faults(places: list[_Place]) -> None:
        """Log each tenant whose fault has changed, such as after damage to a file of its index."""
        for place in places:
            if (tenant := place.tenant) is None:
                continue
            with suppress(errors.VikingError):
                fault = tenant.engine.failure()
                if fault != place.fault:
                    _log.error("tenant", tenant=place.name, fault=fault or "none")
                    place.fault = fault

    def _remove_leftovers(self) -> None:
        try:
            self._directories.remove_leftovers()
        except (OSError, errors.VikingError) as error:
            _log.warning("a deleted tenant was not removed", reason=str(error))

    async def _run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function that waits for the disk on a thread; return its result."""
        return await asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))
