"""The process that parses files: it has limits and no network, and ends with its parent.

A request is a line of JSON, with the file's descriptor beside it; a reply is the length of a JSON
object in four bytes, and the object.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import platform
import resource
import socket
import sys
import threading
from queue import SimpleQueue
from typing import Any

from vikingd.ingest.formats.document import LENGTH, Failed
from vikingd.ingest.formats.table import parser_of

MAX_REQUEST = 4096
NO_MEMORY = 3
"""The exit status after a file that needed more memory than allowed."""

# Of prctl(2), seccomp(2) and the kernel's filters.
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO_EACCES = 0x7FFF0000, 0x00050000 | 13
_CALL_AT, _MACHINE_AT = 0, 4
# The kernel's number of a machine, and of socket, socketpair, execve and execveat on it.
_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 59, 322)),
    "aarch64": (0xC00000B7, (198, 199, 221, 281)),
}


class _Filter(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.POINTER(_Filter))]


def main(handle: int, memory: int) -> None:
    """Answer requests until the parent closes its end.

    Args:
        handle: the descriptor of a Unix socket.
        memory: bytes of data that this process may have.
    """
    link = socket.socket(fileno=handle)
    _confine(memory)
    requests: SimpleQueue[tuple[str, int]] = SimpleQueue()
    threading.Thread(target=_receive, args=(link, requests), daemon=True).start()
    while True:
        format_, descriptor = requests.get()
        reply, is_whole = _answer(format_, descriptor)
        data = json.dumps(reply).encode()
        link.sendall(LENGTH.pack(len(data)) + data)
        if not is_whole:
            os._exit(NO_MEMORY)  # what a parser leaves after this is not to be trusted
        del reply, data
        gc.collect()


def _receive(link: socket.socket, requests: SimpleQueue[tuple[str, int]]) -> None:
    """Queue requests; end this process with its parent, even in the middle of a file."""
    while True:
        with contextlib.suppress(OSError):
            data, descriptors, _, _ = socket.recv_fds(link, MAX_REQUEST, 1)
            if data:
                requests.put((json.loads(data)["format"], descriptors[0]))
                continue
        os._exit(0)


def _answer(format_: str, descriptor: int) -> tuple[dict[str, Any], bool]:
    """Return the reply for a file, and False if the memory was not enough."""
    try:
        with open(descriptor, "rb") as file:
            file.seek(0)
            document = parser_of(format_)(file)
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
    }, True


def _confine(memory: int) -> None:
    """Limit the memory, and forbid written files, sockets and programs."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _forbid_sockets_and_programs()


def _forbid_sockets_and_programs() -> None:
    """Let the kernel refuse new sockets and programs, also to native code, with EACCES."""
    known = _CALLS.get(platform.machine())
    if sys.platform != "linux" or known is None:
        return
    machine, calls = known
    rules = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _ERRNO_EACCES),  # calls of another machine, such as those of 32 bits
        (_LOAD, 0, 0, _CALL_AT),
        *((_EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO_EACCES),
    ]
    filters = (_Filter * len(rules))(*(_Filter(*rule) for rule in rules))
    program = _Program(len(rules), filters)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
