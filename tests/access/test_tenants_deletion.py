"""The deletion of tenants: complete, after their calls, and after a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.access.tenants_helpers import put, read, run, running
from vikingd.daemon.tenant_directories import TenantDirectories
from vikingd.domain.errors import (
    NotFound,
    Overloaded,
    VikingError,
)


def test_a_deletion_is_complete(tmp_path: Path) -> None:
    """Nothing of an open or closed tenant is left, and its name can be used again."""

    async def delete(is_open: bool) -> None:
        async with running(tmp_path, idle_seconds=600) as tenants:
            await tenants.create("acme")
            await put(tenants, "acme", "a secret")
            if is_open:
                contexts, size = await tenants.delete("acme")
        if not is_open:
            async with running(tmp_path) as tenants:
                contexts, size = await tenants.delete("acme")
        assert contexts == 3  # the root, the directory and the file
        assert size > 256 << 10  # with the reserve
        assert list((tmp_path / "tenants").iterdir()) == []
        async with running(tmp_path) as tenants:
            with pytest.raises(NotFound):
                await read(tenants, "acme")

    run(delete(True))
    run(delete(False))


def test_a_deletion_waits_for_calls_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New calls find nothing; a call that goes on too long ends the deletion, not the tenant."""
    monkeypatch.setattr("vikingd.daemon.open_tenants._DRAIN", 1.0)

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("acme")
            async with tenants.use("acme"):
                deleting = asyncio.create_task(tenants.delete("acme"))
                await asyncio.sleep(0.2)
                with pytest.raises(NotFound):
                    await read(tenants, "acme")
                with pytest.raises(Overloaded):
                    await deleting
            assert await read(tenants, "acme") is None  # it is there again
            async with tenants.use("acme"):
                deleting = asyncio.create_task(tenants.delete("acme"))
                await asyncio.sleep(0.2)
            await deleting
            assert tenants.names() == ["default"]

    run(test())


DYING = """
import os, signal, sys
from pathlib import Path
from vikingd.daemon import tenant_directories
from vikingd.daemon.tenant_directories import TenantDirectories

def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)

data, step = Path(sys.argv[1]), sys.argv[2]
directories = TenantDirectories(data)
if step == "before":
    end()
if step == "renamed":
    directories._remove = end
left = 3
def audit(event, arguments):
    global left
    if event == "os.remove":
        left -= 1
        if not left:
            end()
sys.addaudithook(audit)
directories.delete("acme")
"""


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("step", ["before", "renamed", "removing"])
def test_a_kill_during_a_deletion_leaves_all_or_nothing(tmp_path: Path, step: str) -> None:
    """After a kill the tenant is whole or gone, and the next start removes what is left of it."""

    async def make() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("acme")
            await put(tenants, "acme", "a secret")

    run(make())
    ended = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), step], check=False)
    assert ended.returncode == -signal.SIGKILL

    async def look() -> None:
        async with running(tmp_path) as tenants:
            if step == "before":
                assert await read(tenants, "acme") == "a secret"
                return
            assert tenants.names() == ["default"]
            assert list((tmp_path / "tenants").iterdir()) == []

    run(look())


def test_leftovers_are_removed_but_no_tenants(tmp_path: Path) -> None:
    """A start removes what was set aside, and nothing else."""
    directories = TenantDirectories(tmp_path)
    for name in ("acme", "beta"):
        directories.create(name)
        (directories.find(name) / "file").write_bytes(b"12345")
    aside = directories.find("acme").rename(tmp_path / "tenants" / ".deleted-acme-00")
    assert directories.names() == ["beta"]
    directories.remove_leftovers()
    assert not aside.exists()
    assert directories.names() == ["beta"]
    with pytest.raises(VikingError):
        directories.find("acme")
