"""The commits of all nodes, as the database tells of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg.rows import TupleRow

from vikingd.store.postgres.committing import CHANNEL
from vikingd.store.postgres.connection import connect
from vikingd.store.postgres.faults import without_password

_POLL = 1.0  # seconds; a lost notification is made up for after so long
_PAUSE = 0.5  # seconds between two attempts to connect

_log = logging.getLogger(__name__)


class Listener:
    """Calls `on_change` after each commit of a tenant by any node, and once a second.

    Args:
        url: of the database.
        tenant: the name of the tenant.
        on_change: called by a thread of its own; an error of it is repeated at the next poll.
    """

    def __init__(self, url: str, tenant: str, on_change: Callable[[], None]) -> None:
        self._url = url
        self._tenant = tenant
        self._on_change = on_change
        self._stopped = threading.Event()
        self._fault = ""
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop to listen, and wait for the end of a call of `on_change`."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with connect(self._url) as db:
                    db.execute(f"LISTEN {CHANNEL}")
                    self._tell("")
                    self._follow(db)
            except psycopg.Error as error:
                self._tell(without_password(" ".join(str(error).split())))
                self._stopped.wait(_PAUSE)

    def _tell(self, fault: str) -> None:
        if fault and not self._fault:
            _log.warning("the database cannot be reached: %s", fault)
        elif self._fault and not fault:
            _log.warning("the database can be reached again")
        self._fault = fault

    def _follow(self, db: psycopg.Connection[TupleRow]) -> None:
        asked = -_POLL
        while not self._stopped.is_set():
            if time.monotonic() - asked >= _POLL:
                db.execute("SELECT 1")  # a broken connection shows itself
                asked = time.monotonic()
                self._call()
            for note in db.notifies(timeout=0.2, stop_after=1):
                if note.payload.split(" ")[0] == self._tenant:
                    asked = time.monotonic()
                    self._call()

    def _call(self) -> None:
        try:
            self._on_change()
        except Exception as error:
            _log.warning("a commit could not be followed, it is tried again: %s", error)
