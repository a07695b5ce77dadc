"""The tenants of a data directory, for tests in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from vikingd.daemon.open_tenants import Tenants
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import (
    NotFound,
)
from vikingd.domain.tenants import TenantSettings
from vikingd.engine import Engine, EngineSettings, Shared
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

NONE = EmbedSettings(provider="none")
NOTE = "viking://resources/note.md"


@asynccontextmanager
async def running(
    data: Path,
    most_open: int = 100,
    idle_seconds: float = 600.0,
    *,
    reader: bool = False,
    embedding: EmbedSettings = NONE,
    accept_loss: bool = False,
) -> AsyncIterator[Tenants]:
    """Run the tenants of a data directory."""
    shared = Shared(embedding)
    own = EngineSettings(data, embedding, reader=reader, accept_loss=accept_loss)
    engine = Engine(own, shared=shared)
    settings = TenantSettings(most_open, idle_seconds)
    tenants = Tenants(engine, {}, shared, settings, lambda opened: {"engine": opened})
    await tenants.start()
    try:
        yield tenants
    finally:
        shared.stop()
        await tenants.stop()
        engine.close()
        shared.close()


async def put(tenants: Tenants, name: str, content: str, uri: str = NOTE) -> None:
    """Write a file of a tenant."""
    async with tenants.use(name) as tenant:
        future = tenant.engine.writable_store.put([prepare(Draft(uri, content=content))])
        await asyncio.wrap_future(future)


async def read(tenants: Tenants, name: str, uri: str = NOTE) -> str | None:
    """Return the content of a file of a tenant; None if there is none."""
    async with tenants.use(name) as tenant:
        try:
            return (await asyncio.to_thread(tenant.engine.store.get, uri)).content
        except NotFound:
            return None


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def run(test: Awaitable[None]) -> None:
    """Run a test on an event loop."""

    async def main() -> None:
        await test

    asyncio.run(main())


def opened(tenants: Tenants) -> list[str]:
    """Return the names of the open tenants."""
    return [name for name in tenants.names() if name != "default" and tenants.is_open(name)]
