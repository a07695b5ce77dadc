"""A record of the modules that a process imports after its first thread has started.

Python imports this module at its start, where PYTHONPATH names this directory. Each line of the
file $TEST_IMPORTS has the time, the thread and the name of a module, and the importers of vikingd.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from typing import Any


class Recorder:
    """A finder that finds nothing, and writes each name that it is asked for."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._started = False
        self._start = threading.Thread.start
        recorder = self

        def start(thread: threading.Thread) -> None:
            recorder._started = True
            recorder._start(thread)

        threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def find_spec(self, name: str, *_: Any) -> None:
        """Write a line, if a thread has started."""
        if self._started:
            frames = traceback.extract_stack(limit=60)
            ours = [f"{f.filename}:{f.lineno}" for f in frames if "/vikingd/" in f.filename]
            thread = threading.current_thread().name.replace(" ", "_")
            line = f"{time.time()} {thread} {name} {' < '.join(reversed(ours[-3:]))}\n"
            os.write(self._file, line.encode())


sys.meta_path.insert(0, Recorder(os.environ["TEST_IMPORTS"]))
