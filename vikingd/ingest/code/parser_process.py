"""The child process that parses source code.

A parser of a language is native code: it may run forever, it holds the interpreter's lock, and
nothing stops it from within. So it has a process of its own. The kernel ends that process when one
request needs more than MAX_SECONDS of processor time, and the file is cut without its syntax.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from vikingd.ingest.child_process import start_child
from vikingd.ingest.code.cells import is_notebook
from vikingd.ingest.code.components import is_component, scripts_are_read
from vikingd.ingest.code.grammars import grammar_of, language_is_there
from vikingd.ingest.file_syntax import Syntax, ending, syntax_of

MAX_SECONDS = 2.0
"""Processor time for one request, so that a busy machine reads the same as an idle one."""

MAX_MEMORY = 1 << 30  # bytes of data

IDLE_SECONDS = 60.0
"""A child that gets no request for so long ends."""

LENGTH = struct.Struct(">I")
"""The form of the length before a message, which is JSON."""

PASSAGES, OUTLINE, OPENING = "passages", "outline", "opening"
"""The kinds of requests."""

Request: TypeAlias = tuple[Any, ...]
"""A kind, the text of a file, its name, and options: see `ParserProcess.ask`."""

Ask: TypeAlias = Callable[..., Any]
"""Returns the reply to a request, whose parts are its arguments: see `ParserProcess.ask`."""

_PATIENCE = 60.0  # seconds for a reply on a machine that gives the child no processor time
_CHUNK = 1 << 16


def is_source(content: str, name: str) -> bool:
    """Return True for a file that has source code of any language."""
    is_marked = is_notebook(name) or is_component(name, content)
    return is_marked or syntax_of(name, content) is Syntax.CODE


def is_parsed(content: str, name: str) -> bool:
    """Return True for a file that has source code of a language whose grammar is installed."""
    if is_notebook(name):
        return True
    if is_component(name, content):
        return scripts_are_read()
    grammar = grammar_of(ending(name))
    return (
        grammar is not None
        and language_is_there(grammar.package)
        and syntax_of(name, content) is Syntax.CODE
    )


class ParserProcess:
    """A child process that starts with the first request; safe for any thread.

    It ends with this process, or after IDLE_SECONDS without a request; the next request starts
    another one.

    Args:
        seconds: processor time for one request.
    """

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._failed: Sequence[Any] = ()  # the last request that exceeded a limit

    def ask(self, kind: str, content: str, name: str, *options: bool) -> Any:
        """Return the reply to a request; None if the parser exceeds a limit or crashes.

        Args:
            kind: PASSAGES, OUTLINE or OPENING.
            content: the file's text.
            name: the file's name.
            options: for PASSAGES the argument `entries` of `passages.split`.
        """
        return self.read([(kind, content, name, *options)])[0]

    def read(self, requests: Sequence[Request]) -> list[Any]:
        """Send several requests to the child in one batch, and return their replies in order.

        If a request exceeds a limit, its reply is None, and the result ends with it: the requests
        after it have no reply.
        """
        replies: list[Any] = []
        with self._lock:
            while len(replies) < len(requests):
                if requests[len(replies)] == self._failed:
                    return [*replies, None]
                try:
                    self._exchange(requests, replies)
                except (TimeoutError, ConnectionError):
                    if not self._end_child():
                        self._failed = requests[len(replies)]
                except BaseException:
                    self._end_child()
                    raise
        return replies

    def close(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._end_child()

    def forget(self) -> None:
        """Drop the child without ending it, in a fork: it belongs to the parent process."""
        self._lock = threading.Lock()
        if self._link is not None:
            self._link.close()
        if self._child is not None:
            self._child.returncode = 0  # not a child of this process
        self._link = self._child = None

    def _exchange(self, requests: Sequence[Request], replies: list[Any]) -> None:
        """Send requests[len(replies):], and append each reply to `replies` when it arrives.

        Raises:
            TimeoutError: no reply comes within _PATIENCE.
            ConnectionError: the child ended.
        """
        link = self._start()
        unsent = memoryview(b"".join(map(_message, requests[len(replies) :])))
        events = select.poll()
        events.register(link, select.POLLIN | select.POLLOUT)
        received = bytearray()
        while len(replies) < len(requests):
            found = events.poll(_PATIENCE * 1000)
            if not found:
                raise TimeoutError
            if unsent and found[0][1] & select.POLLOUT:
                try:
                    unsent = unsent[link.send(unsent[:_CHUNK], socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass  # the buffer has less room than the system said
                except ConnectionError:
                    unsent = unsent[:0]  # what the child replied before its end is still there
                if not unsent:
                    events.modify(link, select.POLLIN)
            if found[0][1] & ~select.POLLOUT:
                part = link.recv(_CHUNK)
                if not part:
                    raise ConnectionResetError
                received += part
                replies += _complete_replies(received)

    def _start(self) -> socket.socket:
        if self._link is None:
            module, seconds = "vikingd.ingest.parser_child", str(self._seconds)
            self._child, self._link = start_child(module, seconds)
        return self._link

    def _end_child(self) -> bool:
        """End the child process, if there is one.

        Return True if it had ended itself before, because it was idle.
        """
        link, child = self._link, self._child
        self._link = self._child = None
        if link is None or child is None:
            return False
        try:
            status = child.wait(0.2)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        link.close()
        return status == 0


def _message(request: Request) -> bytes:
    data = json.dumps(request).encode()
    return LENGTH.pack(len(data)) + data


def _complete_replies(received: bytearray) -> Iterator[Any]:
    """Remove the complete replies from the beginning of `received`, and yield them."""
    while len(received) >= LENGTH.size:
        end = LENGTH.size + LENGTH.unpack_from(received)[0]
        if len(received) < end:
            return
        reply = bytes(received[LENGTH.size : end])
        del received[:end]
        yield json.loads(reply)


class Ahead:
    """Sends several requests to the parser process in one batch, and keeps the replies.

    `ask` then returns a kept reply without a wait.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        different = list(dict.fromkeys(requests))
        replies = parser_process.read(different) if different else []
        self._replies = dict(zip(different, replies, strict=False))

    def ask(self, *request: Any) -> Any:
        """Return the reply to a request, see `ParserProcess.ask`.

        A request that was not in the batch is sent now.
        """
        if request in self._replies:
            return self._replies[request]
        return parser_process.ask(*request)


parser_process = ParserProcess()
"""The child of this process."""

atexit.register(parser_process.close)
os.register_at_fork(after_in_child=parser_process.forget)
