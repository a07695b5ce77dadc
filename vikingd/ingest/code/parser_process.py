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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, TypeAlias

from vikingd.ingest.child_process import start_child
from vikingd.ingest.code.cells import is_notebook
from vikingd.ingest.code.components import is_component, scripts_are_read
from vikingd.ingest.code.grammars import grammar_of, language_is_there
from vikingd.ingest.file_syntax import Syntax, ending, syntax_of

MAX_SECONDS = 2.0
"""The most processor seconds of a request; unlike wall time they do not depend on other load."""

MAX_MEMORY = 1 << 30  # bytes of data

IDLE_SECONDS = 60.0
"""The seconds without a request after which a child ends."""

LENGTH = struct.Struct(">I")
"""The encoding of the length before a JSON message."""

PASSAGES, OUTLINE, OPENING = "passages", "outline", "opening"
"""The kinds of requests."""

Request: TypeAlias = tuple[Any, ...]
"""A kind, the text of a file, its name, and options: see `ParserProcess.ask`."""

Ask: TypeAlias = Callable[..., Any]
"""A function as `ParserProcess.ask`: takes the parts of a request, and returns the reply."""

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


class Batch:
    """Requests that are sent together, in order, and their replies so far.

    Attributes:
        waiting: the requests whose replies have not arrived.
        replies: the replies that have arrived.
        has_failed: the request after those with a reply exceeded a limit. It ends the batch.
    """

    def __init__(self, requests: Sequence[Request], failed: Request) -> None:
        """Make a batch; `failed` is a request that is known to exceed a limit."""
        self.waiting = deque(takewhile(lambda request: request != failed, requests))
        self.replies: list[Any] = []
        self.has_failed = len(self.waiting) < len(requests)

    def fail(self) -> Request:
        """End the batch with its first request that has no reply, and return that request."""
        failed = self.waiting[0]
        self.waiting.clear()
        self.has_failed = True
        return failed


class ParserProcess:
    """A child process that starts with the first request; safe for any thread.

    It answers the requests of all threads in the order in which they are sent. It ends with this
    process, or after IDLE_SECONDS without a request; the next request starts another one.

    Args:
        seconds: processor time for one request.
    """

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._batches: deque[Batch] = deque()  # those that lack replies
        self._unsent = memoryview(b"")
        self._received = bytearray()
        self._failed: Request = ()  # the last request that exceeded a limit

    def ask(self, kind: str, content: str, name: str, *options: bool) -> Any:
        """Return the reply to a request; None if the parser exceeds a limit or crashes.

        Args:
            kind: PASSAGES, OUTLINE or OPENING.
            content: the file's text.
            name: the file's name.
            options: for PASSAGES the argument `entries` of `passages.split`.
        """
        return self.replies(self.send([(kind, content, name, *options)]))[0]

    def send(self, requests: Sequence[Request]) -> Batch:
        """Send several requests to the child, as far as there is room for them; do not wait."""
        with self._lock:
            batch = Batch(requests, self._failed)
            if batch.waiting:
                self._batches.append(batch)
                if self._link is None:
                    self._start()
                else:
                    self._unsent = memoryview(bytes(self._unsent) + _messages(batch.waiting))
                self._send()
        return batch

    def replies(self, batch: Batch) -> list[Any]:
        """Wait for the replies to a batch, and return them in order.

        If a request exceeds a limit, its reply is None, and the result ends with it: the requests
        after it have no reply.
        """
        with self._lock:
            try:
                while batch.waiting:
                    self._exchange()
            except BaseException:
                self._batches.remove(batch)
                self._end_child()
                raise
        return [*batch.replies, None] if batch.has_failed else batch.replies

    def close(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._end_child()

    def forget(self) -> None:
        """Drop the child without ending it, in a fork: it belongs to the parent process."""
        self._lock = threading.Lock()
        self._batches.clear()
        if self._link is not None:
            self._link.close()
        if self._child is not None:
            self._child.returncode = 0  # not a child of this process
        self._link = self._child = None

    def _exchange(self) -> None:
        """Wait until the child reads or replies, and send or receive once.

        A child that ended is replaced. Unless it was idle, the request in its hands has failed.
        """
        try:
            link = self._link or self._start()
            events = select.poll()
            events.register(link, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            found = events.poll(_PATIENCE * 1000)
            if not found:
                raise TimeoutError
            if found[0][1] & select.POLLOUT:
                self._send()
            if found[0][1] & ~select.POLLOUT:
                self._receive(link)
        except (TimeoutError, ConnectionError):
            if not self._end_child():
                self._failed = self._batches.popleft().fail()

    def _send(self) -> None:
        """Send as much as there is room for."""
        assert self._link is not None
        try:
            while self._unsent:
                sent = self._link.send(self._unsent[:_CHUNK], socket.MSG_DONTWAIT)
                self._unsent = self._unsent[sent:]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._unsent = memoryview(b"")  # what the child replied before its end is still there

    def _receive(self, link: socket.socket) -> None:
        """Receive replies, and append the complete ones to those of their batches."""
        part = link.recv(_CHUNK)
        if not part:
            raise ConnectionResetError
        self._received += part
        for reply in _complete_replies(self._received):
            batch = self._batches[0]
            batch.waiting.popleft()
            batch.replies.append(reply)
            if not batch.waiting:
                self._batches.popleft()

    def _start(self) -> socket.socket:
        """Start a child, which gets all requests that have no reply."""
        module, seconds = "vikingd.ingest.parser_child", str(self._seconds)
        self._child, self._link = start_child(module, seconds)
        self._received.clear()
        self._unsent = memoryview(b"".join(_messages(batch.waiting) for batch in self._batches))
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


def _messages(requests: Iterable[Request]) -> bytes:
    """Return requests as messages to the child: one for adjacent requests about the same file."""
    messages = bytearray()
    for (content, name), same in groupby(requests, itemgetter(1, 2)):
        kinds = [(kind, *options) for kind, _, _, *options in same]
        data = json.dumps((content, name, kinds)).encode()
        messages += LENGTH.pack(len(data)) + data
    return bytes(messages)


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
    """Sends several requests to the parser process in one batch, without a wait for the replies.

    `ask` then waits for all of them once.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = list(dict.fromkeys(requests))
        self._batch = parser_process.send(self._requests) if requests else None
        self._replies: dict[Request, Any] = {}

    def ask(self, *request: Any) -> Any:
        """Return the reply to a request, see `ParserProcess.ask`.

        A request that was not in the batch is sent now.
        """
        if self._batch is not None:
            replies = parser_process.replies(self._batch)
            self._replies = dict(zip(self._requests, replies, strict=False))
            self._batch = None
        if request in self._replies:
            return self._replies[request]
        return parser_process.ask(*request)


parser_process = ParserProcess()
"""The parser process that all code of this process shares."""

atexit.register(parser_process.close)
os.register_at_fork(after_in_child=parser_process.forget)
