"""The readers that a writer starts as child processes, and their figures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

import structlog

from vikingd.config import ConfigError, Settings
from vikingd.daemon import reader_child
from vikingd.daemon.restarted_child import RestartedChild
from vikingd.daemon.writer_link import STARTED
from vikingd.domain.daemon_addresses import Address, parse
from vikingd.system import platform
from vikingd.telemetry.process_figures import Families, ProcessFigures, summed, without_gauges

_GRACE = 5.5  # seconds for the end; a reader itself takes five for running calls
_PATIENCE = 1.0  # seconds for the figures of all readers
_MOST_OF_AUTO = 16
"""The most processes with the setting `auto`; see benchmarks/RESULTS.md."""

_log = structlog.stdlib.get_logger("vikingd")


def process_count(settings: Settings) -> int:
    """Return how many processes are to answer, the writer included.

    Raises:
        ConfigError: there cannot be as many as the setting says.
    """
    asked = settings.processes
    if asked == 1:
        return 1
    if all(parse(address).path for address in settings.listen):
        why = "processes share TCP addresses alone: listen on HOST:PORT, too"
    elif settings.store:
        why = "a shared store has nodes: start a daemon for each, see vikingd/store/README.md"
    elif not platform.spreads_connections():
        why = "this system gives all connections of a port to one process"
    elif asked == "auto":
        return min(platform.usable_processors(), _MOST_OF_AUTO)
    else:
        return asked
    if asked == "auto":
        return 1
    raise ConfigError(f"processes: must be 1 here, not {asked}, because {why}")


class ReaderProcesses:
    """The readers of a writer. They end with it, and one that dies is started again.

    The methods `metrics` and `figures` are for any thread but the event loop's.

    Args:
        number: the number of readers.
        settings: the writer's settings.
        accessed: called on the event loop with a tenant and the accesses of its memories by id.
    """

    def __init__(
        self,
        number: int,
        settings: Settings,
        accessed: Callable[[str, Mapping[int, int]], None],
    ) -> None:
        self.count = number
        self._settings = settings
        self._accessed = accessed
        self._readers: list[_Reader] = []
        self._asking = threading.Lock()

    def start(self, bound: Iterable[Address], address: str) -> None:
        """Start the readers.

        Args:
            bound: the addresses on which the writer listens; readers share those of TCP.
            address: the writer's private unix socket.
        """
        settings = self._settings.model_copy(
            update={
                "listen": tuple(str(one) for one in bound if not one.path),
                "writer_listen": "",
                "metrics_listen": "",
                "stop_when_idle": 0.0,
                "processes": 1,
            }
        )
        self._readers = [
            _Reader(f"reader-{number}", settings, address, self._accessed)
            for number in range(1, self.count + 1)
        ]
        for reader in self._readers:
            reader.child.start()

    async def stop(self) -> None:
        """End the readers after the calls that they are answering."""
        await asyncio.gather(*(reader.child.stop() for reader in self._readers))

    def states(self) -> dict[str, bool]:
        """Return for each reader, by its name, True if it serves."""
        return {reader.name: reader.serves for reader in self._readers}

    def figures(self) -> list[ProcessFigures]:
        """Return the figures of the readers that answer within a second."""
        return [figures for figures in self._asked().values() if figures is not None]

    def metrics(self) -> dict[str, Families]:
        """Return the metrics of each reader by its name, and the last ones of those that ended."""
        asked = self._asked()
        found: dict[str, Families] = {}
        for reader in self._readers:
            past, last = reader.known()
            # Counters must not go down when a reader is busy or has ended.
            found[f"{reader.name} before"] = past
            found[reader.name] = without_gauges(last) if asked[reader.name] is None else last
        return found

    async def idle_seconds(self) -> float:
        """Return the seconds since the last call of any reader; 0 if one does not report them."""
        figures = await asyncio.to_thread(self.figures)
        return min(one.idle_seconds for one in figures) if len(figures) == self.count else 0.0

    def _asked(self) -> dict[str, ProcessFigures | None]:
        """Ask all readers for their figures at once; None for those that do not answer in time."""
        with self._asking:
            until = time.monotonic() + _PATIENCE
            numbers = {reader.name: reader.ask() for reader in self._readers}
            return {
                reader.name: reader.answer(numbers[reader.name], until) for reader in self._readers
            }


class _Reader:
    """One reader, in one process after another.

    Attributes:
        serves: True if its process has started to serve, and has not ended.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        address: str,
        accessed: Callable[[str, Mapping[int, int]], None],
    ) -> None:
        self.name = name
        self.child = RestartedChild(
            name, reader_child.serve, (settings, address), self._received, _GRACE, self._ended
        )
        self._accessed = accessed
        self._numbers = count()
        self._asked = -1
        self._changed = threading.Condition()
        self._answered: tuple[int, ProcessFigures | None] = (-1, None)
        self._last: Families = ()
        self._past: Families = ()
        self.serves = False

    def known(self) -> tuple[Families, Families]:
        """Return the metrics of the processes that have ended, and the last ones of this one."""
        with self._changed:
            return self._past, self._last

    def ask(self) -> int | None:
        """Ask for the figures; return the number of the question, None if no process runs.

        A reader that hangs still has its last question, which is the only one, so that no question
        ever waits for room in the pipe.
        """
        with self._changed:
            if self._answered[0] < self._asked:
                return self._asked
            self._asked = number = next(self._numbers)
        if self.child.send(number):
            return number
        self._asked = -1
        return None

    def answer(self, number: int | None, until: float) -> ProcessFigures | None:
        """Wait for the answer to a question; None if the reader has none in time."""
        if number is None:
            return None
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered[0] >= number, max(0.0, until - time.monotonic())
            )
            answered, figures = self._answered
        return figures if answered == number else None

    def _received(self, message: Any, pid: int) -> None:
        if message == STARTED:
            self.serves = True
            _log.info("reader started", name=self.name, pid=pid)
            return
        of, value = message
        if isinstance(of, str):
            self._accessed(of, value)
            return
        with self._changed:
            self._answered = of, value
            if value is not None:
                self._last = value.metrics
            self._changed.notify_all()

    def _ended(self) -> None:
        self.serves = False
        with self._changed:
            gone = {"past": self._past, "last": without_gauges(self._last)}
            self._past, self._last = tuple(summed(gone)), ()
            self._answered = next(self._numbers), None
            self._changed.notify_all()
