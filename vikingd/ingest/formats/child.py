"""The process that parses files: it has limits and no network, and ends with its parent.

A request is a line of JSON, with the file's descriptor beside it; a reply is the length of a JSON
object in four bytes, and the object.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import threading
from queue import SimpleQueue
from typing import Any

from vikingd.ingest.formats.document import LENGTH, Failed
from vikingd.ingest.formats.table import parser_of
from vikingd.system.platform import confine

MAX_REQUEST = 4096
NO_MEMORY = 3
"""The exit status after a file that needed more memory than allowed."""


def main(handle: int, memory: int) -> None:
    """Answer requests until the parent closes its end.

    Args:
        handle: the descriptor of a Unix socket.
        memory: bytes of data that this process may have.
    """
    link = socket.socket(fileno=handle)
    confine(memory)
    requests: SimpleQueue[tuple[str, str, int]] = SimpleQueue()
    threading.Thread(target=_receive, args=(link, requests), daemon=True).start()
    while True:
        format_, encoding, descriptor = requests.get()
        reply, is_whole = _answer(format_, encoding, descriptor)
        data = json.dumps(reply).encode()
        link.sendall(LENGTH.pack(len(data)) + data)
        if not is_whole:
            os._exit(NO_MEMORY)  # what a parser leaves after this is not to be trusted
        del reply, data
        gc.collect()


def _receive(link: socket.socket, requests: SimpleQueue[tuple[str, str, int]]) -> None:
    """Queue requests; end this process with its parent, even in the middle of a file."""
    while True:
        with contextlib.suppress(OSError):
            data, descriptors, _, _ = socket.recv_fds(link, MAX_REQUEST, 1)
            if data:
                request = json.loads(data)
                requests.put((request["format"], request["encoding"], descriptors[0]))
                continue
        os._exit(0)


def _answer(format_: str, encoding: str, descriptor: int) -> tuple[dict[str, Any], bool]:
    """Return the reply for a file, and False if the memory was not enough."""
    try:
        with open(descriptor, "rb") as file:
            file.seek(0)
            document = parser_of(format_, encoding)(file)
    except Failed as error:
        return {"failed": str(error)}, True
    except MemoryError:
        return {"memory": True}, False
    except RecursionError:
        return {"failed": "is nested too deeply"}, True
    except Exception as error:  # Parsers have errors of all kinds for damaged files.
        return {"failed": f"is damaged: {type(error).__name__}: {error}"[:500]}, True
    return {
        "text": document.text,
        "title": document.title,
        "metadata": document.metadata,
        "time": document.time,
        "lost": document.lost,
        "around": document.around,
        "encoding": document.encoding,
        "how": document.how,
    }, True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
