"""Pages are read in a process that can be ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.sources.web_servers import page
from vikingd.sources.page_content import PageContent, Unfit
from vikingd.sources.page_reader import PageReader

# The parser compares each attribute with all others.
ENDLESS = ("<p " + " ".join(f"a{i}=1" for i in range(400_000)) + ">tea</p>").encode()
GOOD = page("Oolong.", "/a").encode()


def test_a_page_that_takes_too_long_costs_a_page() -> None:
    """The next one is read, by another process, and so is the one after a crash."""

    async def read(reader: PageReader, data: bytes) -> PageContent:
        return await reader.read(data, "text/html", "http://example.org/", "")

    async def work() -> None:
        reader = PageReader(seconds=0.5)
        with pytest.raises(Unfit, match=r"takes more than 0\.5 s to read"):
            await read(reader, ENDLESS)
        reader.seconds = 60.0
        assert (await read(reader, GOOD)).links == ["http://example.org/a"]
        assert reader._child is not None
        reader._child.kill()
        with pytest.raises(Unfit, match="ends its parser"):
            await read(reader, GOOD)
        assert b"Oolong." in (await read(reader, GOOD)).data
        await reader.close()
        assert reader._child is None

    asyncio.run(work())


PARENT = """
import asyncio, os
from vikingd.sources.page_reader import PageReader
async def work():
    reader = PageReader()
    await reader.read(b"tea", "text/plain", "http://example.org/", "")
    print(reader._child.pid, flush=True)
    os._exit(1)
asyncio.run(work())
"""


def test_the_process_ends_with_its_parent() -> None:
    """Also if the parent has no time to end it."""
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    child = int(done.stdout)

    def is_gone() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{child}/stat").exists() and (
            Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )

    eventually(is_gone)
