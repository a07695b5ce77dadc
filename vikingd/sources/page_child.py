"""The process that reads pages: it has limits and no network, and ends with its parent.

A request is two lengths in four bytes each, a JSON object, and the body of an HTTP response. A
reply has the same form.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any, BinaryIO

from vikingd.sources.page_content import Unfit, read_content
from vikingd.system.platform import confine

LENGTHS = struct.Struct(">II")
"""The encoding of the two lengths before a request or a reply."""


def packed(value: dict[str, Any], data: bytes) -> bytes:
    """Return a request or a reply as bytes."""
    head = json.dumps(value).encode()
    return LENGTHS.pack(len(head), len(data)) + head + data


def main(memory: int) -> None:
    """Answer requests on standard input until it ends.

    Args:
        memory: bytes of data that this process may have.
    """
    confine(memory)
    requests: SimpleQueue[tuple[dict[str, str], bytes]] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        values, data = requests.get()
        sys.stdout.buffer.write(_reply(values, data))
        sys.stdout.buffer.flush()


def _reply(values: dict[str, str], data: bytes) -> bytes:
    try:
        found = asdict(read_content(data, **values))
    except Unfit as error:
        return packed({"unfit": str(error)}, b"")
    except RecursionError:
        return packed({"unfit": "is nested too deeply"}, b"")
    except MemoryError:
        os._exit(1)  # what is left is not to be trusted
    except Exception as error:  # parsers have errors of all kinds for damaged pages
        reason = f"is damaged: {type(error).__name__}: {error}"[:500]
        return packed({"unfit": reason}, b"")
    content = found.pop("data")
    return packed(found, content)


def _receive(file: BinaryIO, requests: SimpleQueue[tuple[dict[str, str], bytes]]) -> None:
    """Queue requests; end this process with its parent, even in the middle of a page."""
    while len(lengths := file.read(LENGTHS.size)) == LENGTHS.size:
        head, data = map(file.read, LENGTHS.unpack(lengths))
        requests.put((json.loads(head), data))
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
