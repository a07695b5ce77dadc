"""Conversion of PDF, DOCX and other documents to Markdown, in a child process for many files."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO

from vikingd.ingest.child_process import start_child
from vikingd.ingest.formats.document import LENGTH, Document, Failed
from vikingd.ingest.limits import MAX_CONTENT_BYTES

_MAX_REPLY = 6 * MAX_CONTENT_BYTES + (1 << 20)  # JSON takes at most six bytes for one
_CHUNK = 1 << 16
_LOOK = 0.1  # seconds between two looks at the cancellation


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the child process.

    Attributes:
        seconds: time for one file.
        memory: bytes of data.
        cancelled: another thread sets it to end the reading of a file.
    """

    seconds: float = 60.0
    memory: int = 1 << 30
    cancelled: threading.Event = field(default_factory=threading.Event)


class Documents:
    """Reads documents in a child process, which starts with the first of them.

    A child that crashed, took too long or needed too much memory is replaced for the next file.
    Use it as a context manager: at its end the child has ended. A child ends with its parent too.

    Args:
        limits: limits of the child.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._child: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None

    def __enter__(self) -> Documents:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the child now, so that the first file need not wait for it."""
        with contextlib.suppress(OSError):  # the first file will report it
            self._start()

    def close(self) -> None:
        """End the child, if there is one."""
        link, child = self._link, self._child
        self._link = self._child = None
        if child is not None:
            child.kill()
            child.wait()
        if link is not None:
            link.close()

    def read(self, file: BinaryIO, format_: str, encoding: str = "") -> Document:
        """Read a file from its beginning.

        Args:
            file: an open file.
            format_: one of FORMATS.
            encoding: the label of the encoding of a page that states none and is no UTF-8.

        Raises:
            Failed: the file cannot be read, or exceeds a limit; the message is the reason.
            InterruptedError: the reading is cancelled.
        """
        try:
            link = self._start()
            request = json.dumps({"format": format_, "encoding": encoding}).encode()
            socket.send_fds(link, [request], [file.fileno()])
            reply = self._receive(link)
        except TimeoutError:
            self.close()
            raise Failed(f"takes more than {self._limits.seconds:g} seconds to read") from None
        except ConnectionError:
            raise Failed(self._fault()) from None
        except BaseException:
            self.close()
            raise
        if "memory" in reply:
            self.close()
            raise Failed(self._too_large())
        if "failed" in reply:
            raise Failed(reply["failed"])
        return Document(**reply)

    def _start(self) -> socket.socket:
        """Return the socket of the child, which is started if it does not run."""
        if self._link is None:
            module, memory = "vikingd.ingest.formats.child", str(self._limits.memory)
            self._child, self._link = start_child(module, memory)
        return self._link

    def _receive(self, link: socket.socket) -> dict[str, Any]:
        """Return the reply of the child.

        Raises:
            TimeoutError: it takes too long.
            ConnectionError: the child ended.
            InterruptedError: the reading is cancelled.
        """
        deadline = time.monotonic() + self._limits.seconds
        events = select.poll()  # `select.select` takes no descriptor above 1,023
        events.register(link, select.POLLIN)
        data = bytearray()
        size = LENGTH.size
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self._limits.cancelled.is_set():
                raise InterruptedError("the reading is cancelled")
            if not events.poll(min(left, _LOOK) * 1000):
                continue
            part = link.recv(_CHUNK)
            if not part:
                raise ConnectionResetError
            data += part
            if size == LENGTH.size and len(data) >= size:
                size += LENGTH.unpack(data[:size])[0]
                if size > _MAX_REPLY:
                    raise ConnectionResetError
        reply: dict[str, Any] = json.loads(data[LENGTH.size :])
        return reply

    def _fault(self) -> str:
        """Close the child, which has ended, and return the reason why it ended."""
        child = self._child
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.2)
        status = child.returncode if child is not None else None
        self.close()
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return f"ends its parser ({name}): it is damaged, or it {self._too_large()}"
        return f"ends its parser (status {status})"

    def _too_large(self) -> str:
        return f"needs more than {self._limits.memory >> 20:,} MiB of memory to read"
