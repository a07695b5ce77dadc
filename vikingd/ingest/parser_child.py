"""The process that parses source code within limits; see parser_process."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

from vikingd.ingest.abstracts import read_opening
from vikingd.ingest.code.outline import read_outline
from vikingd.ingest.code.parser_process import (
    IDLE_SECONDS,
    LENGTH,
    MAX_MEMORY,
    OPENING,
    OUTLINE,
    PASSAGES,
)
from vikingd.ingest.passages import read_passages
from vikingd.system.platform import confine

_NO_MEMORY = 3  # the exit status


def main(handle: int, seconds: float) -> None:
    """Answer requests until the parent closes its end, or sends none for IDLE_SECONDS.

    Args:
        handle: the descriptor of a Unix socket.
        seconds: processor time for one request.
    """
    link = socket.socket(fileno=handle)
    confine(MAX_MEMORY)
    link.settimeout(IDLE_SECONDS)
    while True:
        content, name, kinds = json.loads(_message(link))
        for kind, *options in kinds:
            # The signal's default action ends this process, even in the middle of native code.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                reply = json.dumps(_READINGS[kind](content, name, *options)).encode()
            except (MemoryError, RecursionError):
                os._exit(_NO_MEMORY)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(link, LENGTH.pack(len(reply)) + reply)


def _message(link: socket.socket) -> bytes:
    """Return the next message from the parent; end this process if there is none."""
    try:
        (size,) = LENGTH.unpack(_bytes(link, LENGTH.size))
        return _bytes(link, size)
    except (TimeoutError, ConnectionError):
        os._exit(0)


def _send(link: socket.socket, reply: bytes) -> None:
    """Send a reply; end this process if the parent takes none of it for IDLE_SECONDS."""
    try:
        link.sendall(reply)
    except (TimeoutError, ConnectionError):
        os._exit(0)  # the parent sends requests without a reply again


def _bytes(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return bytes(data)


def _passages(content: str, name: str, entries: bool) -> list[tuple[str, int, int, bool]]:
    found = read_passages(content, name, entries=entries, by_syntax=True)
    return [(one.section, one.start, one.end, one.continues) for one in found]


_READINGS: dict[str, Any] = {
    PASSAGES: _passages,
    OUTLINE: read_outline,
    OPENING: read_opening,
}

if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
